"""Fitting files to a table: which columns are cleaned how, and what happens when the two do not agree."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from neve.engine.ingest import Placing, Work, columns_of, infer_columns
from neve.errors import InvalidInput, Refused, Unsupported
from neve.model.commands import neve
from neve.model.dataset import Dataset, DatasetColumn
from neve.model.facts import TableFacts
from neve.model.ingest import INGEST_DATE, FileFormat, SourceFile, is_hidden, rejected_name
from neve.model.layout import SortField, Transform
from neve.model.merging import AGGREGATIONS
from neve.model.names import TableName, quote
from neve.model.specs import AddColumn, DropColumn, TableSpec
from neve.model.types import Field, Primitive, Type, spelled
from neve.plan.ingest import check_fits
from neve.plan.nested import as_text, check_parsed, extend
from neve.plan.ranges import Keys, keys_of
from neve.services.changes import create_table
from neve.services.context import Context
from neve.services.file_columns import refuse_incomplete
from neve.services.specs import INGEST_COLUMN
from neve.sql.cleaning import build_cleaning, build_validations
from neve.sql.columns import parse_columns
from neve.sql.nested import reshape
from neve.sql.ranges import locate

_REJECTED_COLUMNS = (
    "run_id string not null, ingest_date date, source_file string, source_line bigint, rules array<string>, raw string"
)


@dataclass(frozen=True, slots=True)
class Fit:
    """How files go into a table, and the columns and the fields of nested columns that the table lacks for it."""

    work: Work
    missing: tuple[Field, ...]
    inside: tuple[AddColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nesting:
    """Nested columns of the files, by their names there: as they are, and as the table is to have them."""

    found: Mapping[str, Type]
    wanted: Mapping[str, Type]
    inside: tuple[AddColumn, ...] = ()


def fit(
    context: Context,
    name: TableName,
    known: Sequence[Field],
    files: Mapping[SourceFile, date],
    dataset: Dataset | None,
    *,
    evolve: bool,
    keys: Keys | None = None,
    order: tuple[SortField, ...] = (),
) -> Fit:
    """Raises what keeps the files from a table that has the known columns; one that has none takes what they have."""
    spark = context.session.spark
    own = [column for column in known if not is_hidden(column.name)]
    source = (dataset or Dataset(name="as_is")).source
    columns_found = columns_of(spark, files, source)
    present = columns_found.present
    found = {column: kind for column, kind in present.items() if kind is not None}
    config, nesting = dataset, _Nesting(found=found, wanted={})
    if config is None or not config.columns:
        columns = own or _inferred(context, files, source)
        nesting = _nest(columns, present, {file.format for file in files})
        config = _derived(config, columns, present, nesting)
    if keys is not None:
        config = _keyed(config, keys)
    exact = _exact(config, columns_found.typed)
    cleaning = build_cleaning(config, [_raw_column(column, nesting, exact) for column in present])
    refuse_incomplete(context.catalog.files, files, _declared(cleaning.needed, dataset, own))
    missing = _missing(name, known, cleaning.columns, nesting, first=not own, evolve=evolve)
    text = Primitive("string")
    work = Work(
        files=files,
        source=source,
        json_types={c: nesting.wanted.get(c) or (as_text(k) if k else text) for c, k in present.items()},
        reshaped=_reshaped(nesting, files),
        cleaning=cleaning,
        columns=tuple(column.name for column in cleaning.columns),
        validations=build_validations(config, cleaning.columns),
        placing=None if keys is None else _placing(keys, order),
    )
    return Fit(work, missing, nesting.inside)


@contextmanager
def fit_columns(
    context: Context, name: TableName, files: Mapping[SourceFile, date], dataset: Dataset | None, *, evolve: bool
) -> Iterator[Work]:
    """The work of an ingest, with the table ready to take it; columns added for it go again when it fails.

    They stay where somebody else has written to the table since, or is about to: their values may be in them.
    """
    facts = context.catalog.facts(name)
    keys, order = keys_of(facts), tuple(facts.sort_by)
    fitted = fit(context, name, facts.columns, files, dataset, evolve=evolve, keys=keys, order=order)
    added = [*(AddColumn("", column) for column in fitted.missing), *fitted.inside]
    if added and facts.properties.get(AGGREGATIONS):
        raise Refused(
            f"{name} has no column {', '.join(map(_path, added))}, and no aggregation for it",
            hint=f"unset {AGGREGATIONS}, add the column, and set it again",
        )
    if not any(column.name == INGEST_DATE for column in facts.columns):
        added.append(AddColumn("", INGEST_COLUMN))
    if added:
        context.catalog.alter(name, added)
    try:
        yield fitted.work
    except BaseException:
        if added and _is_untouched(facts, context.catalog.facts(name)):
            context.catalog.alter(name, [DropColumn(_path(change)) for change in added])
        raise


def _is_untouched(before: TableFacts, now: TableFacts) -> bool:
    """Whether nothing was published since, nor lies on a branch."""
    return (before.current_snapshot_id, before.references) == (now.current_snapshot_id, now.references)


def make_rejected_table(context: Context, name: TableName) -> TableName:
    """The table beside a table that keeps its rejected rows."""
    rejected = rejected_name(name)
    if not context.catalog.exists(rejected):
        spec = TableSpec(
            name=rejected, columns=parse_columns(_REJECTED_COLUMNS), comment=f"rows that {name} did not take, and why"
        )
        create_table(context, spec, if_not_exists=True)
    return rejected


def _nest(columns: Sequence[Field], present: Mapping[str, Type | None], formats: set[FileFormat]) -> _Nesting:
    """What becomes of nested columns: those of the files go into those of the table, which may get new fields.

    Raises:
        InvalidSchema: a column is nested on one side only, or otherwise.
        Unsupported: JSON cannot bring values of a type inside a nested column exactly, or formats are mixed.
    """
    parsed = "json" in formats
    known = {column.name.casefold(): column for column in columns}
    wanted: dict[str, Type] = {}
    inside: list[AddColumn] = []
    for name, kind in present.items():
        held = known.get(name.casefold())
        if kind is None and (held is None or isinstance(held.type, Primitive)):
            continue
        if held is None:
            wanted[name] = kind or Primitive("string")
        else:
            wanted[name], new = extend(held.type, kind or Primitive("string"), held.name, parsed=parsed)
            inside += new
        if parsed:
            check_parsed(name, wanted[name])
    if wanted and len(formats) > 1:
        raise Unsupported(
            f"{', '.join(wanted)} is nested, and the files are of several formats", hint="load each alone"
        )
    found = {name: kind for name, kind in present.items() if kind is not None}
    return _Nesting(found=found, wanted=wanted, inside=tuple(inside))


def _exact(config: Dataset, typed: Mapping[str, Primitive]) -> Mapping[str, Primitive]:
    """Columns of typed files that need not go through text: whatever reads them says its own type."""
    untyped = {(column.source or column.name).casefold() for column in config.columns if column.type is None}
    return {name: kind for name, kind in typed.items() if name.casefold() not in untyped}


def _raw_column(name: str, nesting: _Nesting, exact: Mapping[str, Primitive]) -> str | Field:
    kind = nesting.wanted.get(name) or exact.get(name)
    return name if kind is None else Field(name, kind)


def _reshaped(nesting: _Nesting, files: Collection[SourceFile]) -> dict[str, str]:
    """JSON is read as the table has it; of other files the table's form is made."""
    if any(file.format == "json" for file in files):
        return {}
    made = {
        name: reshape(quote(name), nesting.found[name], kind)
        for name, kind in nesting.wanted.items()
        if name in nesting.found
    }
    return {name: sql for name, sql in made.items() if sql != quote(name)}


def _path(change: AddColumn) -> str:
    return f"{change.path}.{change.column.name}".lstrip(".")


def _derived(
    config: Dataset | None, columns: Sequence[Field], present: Mapping[str, Type | None], nesting: _Nesting
) -> Dataset:
    """Without columns in a cleaning file, the table's own columns and types decide; new ones are text or nested.

    A nested column that the files lack is left out of the load, and so is NULL, unless missing columns are refused.
    """
    by_name = {name.casefold(): name for name in present}
    refused = config is not None and config.missing_columns == "error"
    chosen = [
        DatasetColumn(name=column.name, type=str(column.type) if isinstance(column.type, Primitive) else None)
        for column in columns
        if refused or isinstance(column.type, Primitive) or column.name.casefold() in by_name
    ]
    new = [name for folded, name in by_name.items() if folded not in {c.name.casefold() for c in columns}]
    chosen += [
        DatasetColumn(name=name, type=None if name in nesting.wanted else "string")
        for name in new
        if name != INGEST_DATE
    ]
    base = config or Dataset(name="as_is", missing_columns="null")
    return base.model_copy(update={"columns": tuple(chosen)})


def _declared(needed: Sequence[str], dataset: Dataset | None, own: Sequence[Field]) -> list[str]:
    """Of the columns that files need, those of a cleaning file or of the table: a new one may be in some alone."""
    if dataset is not None and dataset.columns:
        return list(needed)
    held = {column.name.casefold() for column in own}
    return [name for name in needed if name.casefold() in held]


def _keyed(config: Dataset, keys: Keys) -> Dataset:
    """Rows without a row key are rejected, and rows lie in the order of the keys.

    Raises:
        InvalidInput: the cleaning file wants them in another order, or leaves a key out.
    """
    if config.order_by:
        raise InvalidInput("rows of a key-range table lie in the order of its keys", hint="leave order_by out")
    wanted = {key.casefold() for key in keys.row_keys}
    if lacking := wanted - {column.name.casefold() for column in config.columns}:
        raise InvalidInput(f"{', '.join(sorted(lacking))} is a row key, and the cleaning file has no such column")
    columns = [
        column.model_copy(update={"allow_null": False}) if column.name.casefold() in wanted else column
        for column in config.columns
    ]
    return config.model_copy(update={"columns": tuple(columns)})


def _placing(keys: Keys, order: tuple[SortField, ...]) -> Placing:
    leaves = keys.tree.leaves
    first_key_only = all(bound is None for leaf in leaves for bound in (*leaf.low[1:], *leaf.high[1:]))
    by_first_key = bool(order) and order[0].term == Transform(keys.row_keys[0]) and not order[0].descending
    return Placing(
        range=locate(keys.tree, keys.row_keys),
        ranges=len(leaves),
        order=order,
        keeps_ranges=first_key_only and by_first_key,
    )


def _inferred(context: Context, files: Mapping[SourceFile, date], source: object) -> list[Field]:
    found = infer_columns(context.session.spark, files, source)  # type: ignore[arg-type]
    return [column for column in found if not column.name.startswith("_")]


def _missing(
    name: TableName,
    known: Sequence[Field],
    columns: Sequence[Field],
    nesting: _Nesting,
    *,
    first: bool,
    evolve: bool,
) -> tuple[Field, ...]:
    """The columns that the table lacks, where it may get them.

    Raises:
        Refused: it may not.
        InvalidSchema: a column would not keep its values in the one that the table has.
    """
    by_name = {column.name.casefold(): column for column in known}
    missing = [column for column in columns if column.name.casefold() not in by_name]
    lacking = [*(AddColumn("", column) for column in missing), *nesting.inside]
    if lacking and not first and not evolve:
        words = [word for change in lacking for word in ("--add", f"{_path(change)} {spelled(change.column.type)}")]
        raise Refused(
            f"{name} has no column {', '.join(map(_path, lacking))}, which the files have",
            hint=f"add it: {neve('table', 'alter', name.short, *words)}; or set schema: evolve",
        )
    for column in columns:
        held = by_name.get(column.name.casefold())
        if held is not None and isinstance(column.type, Primitive):
            check_fits(name, column, held)
    return tuple(Field(column.name, column.type, False, column.comment) for column in missing)
