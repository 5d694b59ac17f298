"""The one SELECT that cleans rows.

In: a relation `source` with the raw columns, and `_source_file`, `_source_line`, `_ingest_date`, `_neve_corrupt` (the
text of a line that is no row; all raw columns are NULL then) beside them. Out: the cleaned columns, those four,
`_neve_rejected` (names of the rules that the row broke; NULL when it is accepted) and `_neve_raw` (the raw row as JSON,
for rejected rows only). No row is dropped.

Each column goes source | expression → transforms → type → default. An expression reads the cleaned value of a column
that has none itself, and any other column as the source has it; `source.x` is always the raw one. It is Spark SQL in
ANSI mode: a division by zero in it fails the query, as it would anywhere else in the lake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from sqlglot import exp

from neve.errors import ColumnNotFound, InvalidSchema, nearest
from neve.model.dataset import CORRUPT, PASSED_THROUGH, Dataset
from neve.model.layout import SortField, parse_sort_field
from neve.model.types import Field
from neve.sql.cleaning.columns import CleanColumn, RawColumns, build_columns, stored_raw
from neve.sql.cleaning.expressions import SOURCE
from neve.sql.cleaning.filters import condition
from neve.sql.cleaning.words import Sql, call, cast, name, render, text, when

REJECTED = "_neve_rejected"
RAW = "_neve_raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """How rows of one source become rows of the dataset."""

    select: str
    columns: tuple[Field, ...]
    rules: tuple[str, ...]
    """Every name that `_neve_rejected` can hold, in the order in which it holds them."""
    order_by: tuple[SortField, ...]
    unused: tuple[str, ...]
    """Columns of the source that nothing reads."""
    missing: tuple[str, ...]
    """Columns that the source lacks: NULL or the default in every row."""
    needed: tuple[str, ...]
    """Columns of the source without which it would be refused."""


def build_cleaning(config: Dataset | None, source_columns: Sequence[str | Field]) -> Cleaning:
    """Plans the cleaning of a source; without a config, its columns pass as they are.

    A Field stands for a raw column of a known type; a bare name for one that is read as text, whatever its type.

    Raises:
        ColumnNotFound: the source, or the cleaned row, lacks a column that the config names.
        InvalidName: the source has two columns of one name, or one that Névé keeps for itself.
        InvalidInput: a type, value or expression of the config that cannot be used.
    """
    dataset = config or Dataset(name="as_is")
    raw = RawColumns(source_columns)
    columns = build_columns(dataset, raw)
    rules = dict(_rules(dataset, columns))
    fields = tuple(column.field for column in columns)
    return Cleaning(
        select=render(_select(columns, rules, raw)),
        columns=fields,
        rules=tuple(rules),
        order_by=tuple(_order(item, fields, where=f"order_by[{i}]") for i, item in enumerate(dataset.order_by)),
        unused=raw.unused,
        missing=raw.missed,
        needed=raw.needed,
    )


def find_field(wanted: str, fields: Sequence[Field], *, where: str) -> Field:
    """The cleaned column of a name, its case aside."""
    for field in fields:
        if field.name.casefold() == wanted.casefold():
            return field
    known = [field.name for field in fields]
    raise ColumnNotFound(
        f"{where}: there is no cleaned column {wanted!r}",
        hint=nearest(wanted, known) or f"there are {', '.join(known)}",
    )


def _rules(dataset: Dataset, columns: Sequence[CleanColumn]) -> Iterator[tuple[str, Sql]]:
    """Each rule's name with what is true of a row that breaks it."""
    for column in columns:
        rule = f"cast:{column.field.name}"
        if (broken := column.broken_cast) is not None:
            yield rule, broken
    for column in columns:
        rule = f"not_null:{column.field.name}"
        if column.field.required and column.default is None:
            yield rule, column.value.is_(exp.null())
    yield from _filters(dataset, columns)


def _filters(dataset: Dataset, columns: Sequence[CleanColumn]) -> Iterator[tuple[str, Sql]]:
    taken: set[str] = set()
    for index, entry in enumerate(dataset.filters):
        where = f"filters[{index}]"
        field = find_field(entry.column, [column.field for column in columns], where=where)
        column = next(column for column in columns if column.field is field)
        passed = condition(entry, column.value, field.type, where=f"{where} {field.name}")
        rule = _unlike(f"filter:{entry.model_copy(update={'column': field.name}).title}", taken)
        yield rule, exp.not_(exp.paren(passed) if entry.allow_null else call("COALESCE", passed, exp.false()))


def _unlike(rule: str, taken: set[str]) -> str:
    """A long list is cut in a rule's name; two that then look the same are numbered."""
    chosen = rule if rule not in taken else next(r for n in count(2) if (r := f"{rule} ({n})") not in taken)
    taken.add(chosen)
    return chosen


def _select(columns: Sequence[CleanColumn], rules: Mapping[str, Sql], raw: RawColumns) -> exp.Select:
    """Step by step, so that nothing is computed twice: inputs, casts, the same for expressions, rules, names.

    The raw row as a whole is put together for rejected rows only.
    """
    passed = [name(column) for column in (*PASSED_THROUGH, CORRUPT)]
    kept = [_as(name(column), stored_raw(column)) for column in raw.names]
    row = call("NAMED_STRUCT", *(word for column in raw.names for word in (text(column), name(stored_raw(column)))))
    plain = [column for column in columns if not column.computed]
    computed = [column for column in columns if column.computed]
    steps = [
        ("inputs", exp.select(*kept, *passed, *_inputs(plain)).from_(exp.to_table(SOURCE))),
        *_step("tried", _attempts(plain)),
        *_step("typed", _casts(plain)),
        *_step("computed", _inputs(computed)),
        *_step("computed_tried", _attempts(computed)),
        *_step("computed_typed", _casts(computed)),
        *_step("judged", [_as(_rejected(rules), REJECTED)]),
    ]
    for (_, step), (before, _) in zip(steps[1:], steps, strict=False):
        step.from_(exp.to_table(before), copy=False)
    rejected = exp.not_(name(REJECTED).is_(exp.null()))
    keep_nulls = call("MAP", text("ignoreNullFields"), text("false"))
    last = exp.select(
        *(_as(column.value, column.field.name) for column in columns),
        *(one.copy() for one in passed),
        name(REJECTED),
        _as(when(rejected, call("TO_JSON", row, keep_nulls)), RAW),
    ).from_(exp.to_table(steps[-1][0]))
    for alias, step in steps:
        last = last.with_(alias, as_=step, copy=False)
    return last


def _inputs(columns: Sequence[CleanColumn]) -> list[Sql]:
    return [_as(column.input, column.stored_input) for column in columns]


def _attempts(columns: Sequence[CleanColumn]) -> list[Sql]:
    return [_as(column.attempt, column.stored_attempt) for column in columns if column.attempt is not None]


def _casts(columns: Sequence[CleanColumn]) -> list[Sql]:
    return [_as(column.cast, column.stored_cast) for column in columns if column.cast is not None]


def _step(alias: str, added: Sequence[Sql]) -> list[tuple[str, exp.Select]]:
    """All columns of the step before, and these; no step when there is nothing to add."""
    return [(alias, exp.select(exp.Star(), *added))] if added else []


def _rejected(rules: Mapping[str, Sql]) -> Sql:
    """Most rows break none, so first that is asked."""
    if not rules:
        return cast(exp.null(), "array<string>")
    names = call("ARRAY", *(when(broken.copy(), text(rule), text("")) for rule, broken in rules.items()))
    return when(exp.or_(*rules.values()), call("ARRAY_REMOVE", names, text("")))


def _as(value: Sql, alias: str) -> Sql:
    return exp.alias_(value, alias, quoted=True)


def _order(item: str, fields: Sequence[Field], *, where: str) -> SortField:
    parsed = parse_sort_field(item)
    if parsed.term.function != "identity":
        raise InvalidSchema(f"{where}: rows are ordered by columns, not by {parsed.term}")
    column = find_field(parsed.term.column, fields, where=where).name
    return replace(parsed, term=replace(parsed.term, column=column))
