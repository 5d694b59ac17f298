"""Names of namespaces, tables and columns: how they are read, checked, shown and kept apart.

A part may hold any printable text except what would make it ambiguous (`.`), a path (`/`, `\\`) or a quote of itself
(a backtick). Parts are kept exactly as written: nothing is folded, replaced or cut, so two names never meet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from neve.errors import InvalidInput, InvalidName

CATALOG = "lake"
DEFAULT_NAMESPACE: tuple[str, ...] = ("default",)
MAX_BYTES = 255
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PART = re.compile(r"`([^`]*)`|([^.`]+)")
_FORBIDDEN = set("./\\`")
_ASIDE = "_neve_aside_"

Namespace = tuple[str, ...]


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; a part may stand in backticks.

    >>> split_name("a.`b c`.t")
    ('a', 'b c', 't')
    """
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise InvalidName(f"not a name: {text!r}", hint="a name looks like `table` or `namespace.table`")
        parts.append(match[1] if match[1] is not None else match[2])
        position = match.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise InvalidName(f"not a name: {text!r}", hint="put `.` between parts, and backticks around a whole part")
        position += 1


def check_part(part: str, *, what: str) -> str:
    """The part itself, or the reason why it cannot be a name."""
    if not part.strip() or part != part.strip():
        raise InvalidName(f"a {what} name cannot be empty, or begin or end with a space: {part!r}")
    if bad := sorted(_FORBIDDEN & set(part)):
        way = "; a table goes by its name or its YAML file, not by its folder" if what == "table" and "/" in bad else ""
        raise InvalidName(f"{what} name {part!r} holds {' '.join(bad)}", hint=f"use letters, digits, _ or -{way}")
    if not part.isprintable():
        raise InvalidName(f"{what} name {part!r} holds characters that cannot be printed")
    if len(part.encode()) > MAX_BYTES:
        raise InvalidName(f"a {what} name has at most {MAX_BYTES} bytes; this one has {len(part.encode())}")
    return part


def check_text(text: str, *, what: str) -> str:
    """The text itself, unless it holds halves of characters: what a command line makes of bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{what} is not text: {text!r}") from exc
    return text


def quote(part: str) -> str:
    """The part as a Spark SQL identifier, always quoted.

    >>> quote("order")
    '`order`'
    """
    return "`" + part.replace("`", "``") + "`"


def shown(part: str) -> str:
    """The part as a person would type it: quoted only when it must be."""
    return part if _PLAIN.match(part) else quote(part)


def parse_namespace(text: str) -> Namespace:
    """A namespace, nested by dots. The catalog's own name may stand in front and is dropped.

    >>> parse_namespace("lake.raw.eu")
    ('raw', 'eu')
    """
    parts = split_name(text)
    namespace = parts[1:] if parts[0] == CATALOG and len(parts) > 1 else parts
    if namespace[0] == CATALOG:
        raise InvalidName(f"`{CATALOG}` is the catalog's own name and cannot be a namespace")
    for part in namespace:
        check_part(part, what="namespace")
    if len(".".join(namespace).encode()) > MAX_BYTES:
        raise InvalidName(f"a namespace has at most {MAX_BYTES} bytes in all")
    return namespace


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's full name inside the catalog.

    >>> str(TableName.parse("lake.default.sales")), TableName.parse("a.b.t").namespace
    ('default.sales', ('a', 'b'))
    """

    namespace: Namespace
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        parts = split_name(text)
        if parts[0] == CATALOG and len(parts) > 1:
            parts = parts[1:]
        namespace = parse_namespace(".".join(map(quote, parts[:-1]))) if len(parts) > 1 else DEFAULT_NAMESPACE
        return cls(namespace, check_part(parts[-1], what="table"))

    def __str__(self) -> str:
        return ".".join(map(shown, (*self.namespace, self.name)))

    @property
    def identifier(self) -> tuple[str, ...]:
        return (*self.namespace, self.name)

    @property
    def short(self) -> str:
        """The name as people say it: without the namespace when that is the default one."""
        return shown(self.name) if self.namespace == DEFAULT_NAMESPACE else str(self)

    @property
    def sql(self) -> str:
        """The name as Spark SQL, from the catalog down, every part quoted."""
        return ".".join(map(quote, (CATALOG, *self.namespace, self.name)))


def aside_name(name: TableName, run_id: str) -> TableName:
    """The hidden name under which a run rebuilds a table."""
    return TableName(name.namespace, f"{_ASIDE}{run_id}")


def is_aside(name: TableName) -> bool:
    return name.name.startswith(_ASIDE)
