"""What becomes of a key-range table's rows when they are compacted, and already when they are read.

Filters drop rows, aggregations make one row of those that have the same keys. Both are properties of the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neve.errors import InvalidInput, nearest
from neve.model.layout import split_list
from neve.model.types import Field, MapOf, Primitive, Type

FILTERS = "ranges.filters"
AGGREGATIONS = "ranges.aggregations"
MERGED = "__merged"
"""`t__merged` in a query through Névé: the rows of `t` as its filters and aggregations make them."""

AGE_OFF = "ageoff"
OPERATIONS = ("sum", "min", "max", "map_sum", "map_min", "map_max")
_CALL = re.compile(r"(?P<function>\w+)\s*\(\s*(?P<arguments>.*?)\s*\)\Z", re.DOTALL)
_NUMBERS = ("int", "long", "float", "double")
_TIMES = ("date", "timestamp", "timestamptz")


@dataclass(frozen=True, slots=True)
class AgeOff:
    """Rows whose time in this column is longer ago than so many days are gone, and those without one."""

    column: str
    days: int


@dataclass(frozen=True, slots=True)
class Aggregation:
    operation: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    age_offs: tuple[AgeOff, ...] = ()
    aggregations: tuple[Aggregation, ...] = ()

    @property
    def columns(self) -> frozenset[str]:
        return frozenset([*(item.column for item in self.age_offs), *(item.column for item in self.aggregations)])


def merging_of(properties: Mapping[str, str]) -> Merging | None:
    """None for a table whose rows stay as they are.

    >>> merging_of({FILTERS: "ageOff(ts, 14)", AGGREGATIONS: "sum(a), max(b)"}).columns == {"ts", "a", "b"}
    True
    """
    filters, aggregations = properties.get(FILTERS, ""), properties.get(AGGREGATIONS, "")
    found = Merging(
        age_offs=tuple(map(_age_off, split_list(filters))),
        aggregations=tuple(map(_aggregation, split_list(aggregations))),
    )
    return found if found.columns else None


def check_merging(merging: Merging, columns: Sequence[Field], keys: Sequence[str]) -> None:
    """Refuses what could not be computed for each row, or would leave a value to chance.

    `columns` are those that users see, `keys` the row keys and sort keys.
    """
    known = {column.name: column for column in columns}
    for name in sorted(merging.columns):
        if name not in known:
            raise InvalidInput(f"no column {name}", hint=nearest(name, known))
    for item in merging.age_offs:
        if _word(known[item.column].type) not in _TIMES:
            raise InvalidInput(f"ageOff needs a date or a timestamp, and {item.column} is a {known[item.column].type}")
    if merging.aggregations:
        _check_aggregations(merging.aggregations, known, keys)


def _check_aggregations(aggregations: Sequence[Aggregation], known: Mapping[str, Field], keys: Sequence[str]) -> None:
    given = [item.column for item in aggregations]
    values = [name for name in known if name not in keys]
    if wrong := sorted({*given} ^ {*values}) or sorted({name for name in given if given.count(name) > 1}):
        raise InvalidInput(
            f"{AGGREGATIONS}: {wrong[0]} needs just one aggregation" if wrong[0] in values else f"{wrong[0]} is a key",
            hint=f"there is one for each of {', '.join(values)}",
        )
    for item in aggregations:
        column = known[item.column]
        if column.required:
            raise InvalidInput(f"{item.column} is NOT NULL, which an aggregate may be", hint="make the column optional")
        if not _fits(item.operation, column.type):
            raise InvalidInput(f"{item.operation} does not go with {item.column}, which is a {column.type}")


def _fits(operation: str, kind: Type) -> bool:
    if operation.startswith("map_"):
        return isinstance(kind, MapOf) and _is_number(kind.value)
    return isinstance(kind, Primitive) and (operation != "sum" or _is_number(kind))


def _is_number(kind: Type) -> bool:
    return _word(kind) in _NUMBERS or _word(kind).startswith("decimal")


def _word(kind: Type) -> str:
    return kind.name if isinstance(kind, Primitive) else ""


def _age_off(text: str) -> AgeOff:
    call = _CALL.match(text)
    words = split_list(call["arguments"]) if call and call["function"].lower() == AGE_OFF else []
    if len(words) != 2 or not words[1].isdecimal():
        raise InvalidInput(f"{FILTERS}: {text!r} is no filter", hint="write ageOff(column, days)")
    return AgeOff(words[0].strip("`"), int(words[1]))


def _aggregation(text: str) -> Aggregation:
    call = _CALL.match(text)
    operation = call["function"].lower() if call else text
    if call is None or operation not in OPERATIONS:
        known = f"there are: {', '.join(OPERATIONS)}"
        raise InvalidInput(f"{AGGREGATIONS}: {text!r} is no aggregation", hint=nearest(operation, OPERATIONS) or known)
    return Aggregation(operation, call["arguments"].strip("`"))
