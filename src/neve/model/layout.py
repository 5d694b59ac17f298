"""How a table's rows are laid out: partition fields and sort fields, between text and Iceberg's words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from neve.errors import InvalidSchema, nearest
from neve.model.names import quote, shown

_UNITS = {"years": "year", "months": "month", "days": "day", "hours": "hour", "date": "day", "date_hour": "hour"}
_PLAIN = ("year", "month", "day", "hour", "identity", "void")
_SIZED = ("bucket", "truncate")
_SIZE = re.compile(r"[0-9]{1,10}\Z")
_MAX_SIZE = 2**31 - 1
_CALL = re.compile(r"(?P<function>\w+)\s*\(\s*(?P<arguments>.*?)\s*\)\Z", re.DOTALL)
_COLUMN = re.compile(r"(?:`[^`]+`|[^\s`(),]+)\Z")
_SORT = re.compile(
    r"(?P<term>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\Z", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Transform:
    """A column, or a function of one, by Iceberg's name: `identity`, `day`, `bucket[16]`."""

    column: str
    function: str = "identity"

    def __str__(self) -> str:
        column = ".".join(map(shown, self.column.split(".")))
        if self.function == "identity":
            return column
        name, _, size = self.function.rstrip("]").partition("[")
        return f"{name}({size}, {column})" if size else f"{name}({column})"

    @property
    def field_name(self) -> str:
        """The name of the partition field, as Spark would name it.

        >>> Transform("ts", "day").field_name, Transform("id", "bucket[4]").field_name
        ('ts_day', 'id_bucket_4')
        """
        base = self.column.replace(".", "_")
        if self.function == "identity":
            return self.column
        name, _, size = self.function.rstrip("]").partition("[")
        suffix = {"truncate": "trunc"}.get(name, name)
        return f"{base}_{suffix}_{size}" if name == "bucket" else f"{base}_{suffix}"

    @property
    def sql(self) -> str:
        """The transform as Spark SQL."""
        column = ".".join(map(quote, self.column.split(".")))
        name, _, size = self.function.rstrip("]").partition("[")
        if name == "identity":
            return column
        return f"{name}({size}, {column})" if size else f"{name}s({column})"


@dataclass(frozen=True, slots=True)
class SortField:
    term: Transform
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        return f"{self.term} {'desc' if self.descending else 'asc'} nulls {'first' if self.nulls_first else 'last'}"


def split_list(text: str) -> list[str]:
    """The items of a comma-separated list; commas inside brackets and quotes do not count.

    >>> split_list("bucket(4, id), m map<int,int> comment 'a, b'")
    ['bucket(4, id)', "m map<int,int> comment 'a, b'"]
    """
    items, depth, quoted, start, escaped = [], 0, "", 0, False
    for position, character in enumerate(text):
        if quoted:
            quoted = "" if character == quoted and not escaped else quoted
            escaped = character == "\\" and quoted in ("'", '"') and not escaped
        elif character in "`'\"":
            quoted = character
        elif character == "," and depth == 0:
            items.append(text[start:position].strip())
            start = position + 1
        else:
            depth += (character in "(<") - (character in ")>")
    items.append(text[start:].strip())
    return [item for item in items if item]


def parse_transform(text: str) -> Transform:
    """`day(ts)`, `bucket(16, id)`, `truncate(4, name)` or a bare column.

    >>> parse_transform("days(ts)"), parse_transform("bucket(id, 8)").function
    (Transform(column='ts', function='day'), 'bucket[8]')
    """
    text = text.strip()
    call = _CALL.match(text)
    if call is None:
        return Transform(_column(text))
    function = call["function"].lower()
    function = _UNITS.get(function, function)
    arguments = split_list(call["arguments"])
    if function in _PLAIN and len(arguments) == 1:
        return Transform(_column(arguments[0]), function)
    if function in _SIZED and len(arguments) == 2:
        size, column = arguments if _SIZE.match(arguments[0]) else reversed(arguments)
        if _SIZE.match(size) and 0 < int(size) <= _MAX_SIZE:
            return Transform(_column(column), f"{function}[{int(size)}]")
    known = (*_PLAIN, *_SIZED)
    hint = None if function in known else nearest(function, known)
    raise InvalidSchema(
        f"cannot partition or sort by {text!r}",
        hint=hint or "write a column, or year|month|day|hour(column), bucket(n, column), truncate(n, column)",
    )


def parse_sort_field(text: str) -> SortField:
    """`column`, `column desc`, `bucket(4, id) asc nulls last`; NULLs come first ascending, last descending.

    >>> str(parse_sort_field("id desc"))
    'id desc nulls last'
    """
    match = _SORT.match(text.strip())
    if match is None:
        raise InvalidSchema(f"cannot sort by {text!r}", hint="write a column, then asc or desc")
    descending = (match["direction"] or "asc").lower() == "desc"
    nulls = (match["nulls"] or ("last" if descending else "first")).lower()
    return SortField(parse_transform(match["term"]), descending, nulls == "first")


def _column(text: str) -> str:
    if _COLUMN.match(text) is None:
        raise InvalidSchema(f"not a column: {text!r}", hint="put backticks around a name that is not one word")
    return text.strip("`")
