"""Fitting files to a table: which columns are cleaned how, and what happens when the two do not agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from neve.engine.ingest import Work, infer_columns, source_columns
from neve.errors import Refused
from neve.model.commands import neve
from neve.model.dataset import Dataset, DatasetColumn
from neve.model.ingest import INGEST_DATE, SourceFile, rejected_name
from neve.model.names import TableName
from neve.model.specs import AddColumn, DropColumn, TableSpec
from neve.model.types import Field, Primitive
from neve.plan.ingest import check_fits, refuse_nested
from neve.services.changes import create_table
from neve.services.context import Context
from neve.services.specs import INGEST_COLUMN
from neve.sql.cleaning import build_cleaning, build_validations
from neve.sql.columns import parse_columns, parse_type

_REJECTED_COLUMNS = (
    "run_id string not null, ingest_date date, source_file string, source_line bigint, rules array<string>, raw string"
)


@dataclass(frozen=True, slots=True)
class Fit:
    """How files go into a table, and the columns that the table lacks for it."""

    work: Work
    missing: tuple[Field, ...]


def fit(
    context: Context,
    name: TableName,
    known: Sequence[Field],
    files: Mapping[SourceFile, date],
    dataset: Dataset | None,
    *,
    evolve: bool,
) -> Fit:
    """Raises what keeps the files from a table that has the known columns; one that has none takes what they have."""
    spark = context.session.spark
    own = [column for column in known if column.name != INGEST_DATE]
    source = (dataset or Dataset(name="as_is")).source
    present = source_columns(spark, files, source)
    config = dataset
    if config is None or not config.columns:
        config = _derived(config, own or _inferred(context, files, source), present)
    cleaning = build_cleaning(config, present)
    missing = _missing(name, known, cleaning.columns, first=not own, evolve=evolve)
    work = Work(
        files=files,
        source=source,
        cleaning=cleaning,
        columns=tuple(column.name for column in cleaning.columns),
        validations=build_validations(config, cleaning.columns),
    )
    return Fit(work, missing)


@contextmanager
def fit_columns(
    context: Context, name: TableName, files: Mapping[SourceFile, date], dataset: Dataset | None, *, evolve: bool
) -> Iterator[Work]:
    """The work of an ingest, with the table ready to take it; columns added for it go again when it fails."""
    facts = context.catalog.facts(name)
    fitted = fit(context, name, facts.columns, files, dataset, evolve=evolve)
    added = [*fitted.missing]
    if not any(column.name == INGEST_DATE for column in facts.columns):
        added.append(INGEST_COLUMN)
    if added:
        context.catalog.alter(name, [AddColumn("", column) for column in added])
    try:
        yield fitted.work
    except BaseException:
        if added:
            context.catalog.alter(name, [DropColumn(column.name) for column in added])
        raise


def make_rejected_table(context: Context, name: TableName) -> TableName:
    """The table beside a table that keeps its rejected rows."""
    rejected = rejected_name(name)
    if not context.catalog.exists(rejected):
        spec = TableSpec(
            name=rejected, columns=parse_columns(_REJECTED_COLUMNS), comment=f"rows that {name} did not take, and why"
        )
        create_table(context, spec, if_not_exists=True)
    return rejected


def _derived(config: Dataset | None, columns: Sequence[Field], present: Sequence[str]) -> Dataset:
    """Without columns in a cleaning file, the table's own columns and types decide; new ones are text."""
    refuse_nested(columns)
    by_name = {name.casefold(): name for name in present}
    chosen = [
        DatasetColumn(name=column.name, type=str(column.type) if isinstance(column.type, Primitive) else None)
        for column in columns
    ]
    new = [name for folded, name in by_name.items() if folded not in {c.name.casefold() for c in columns}]
    chosen += [DatasetColumn(name=name, type="string") for name in new if name != INGEST_DATE]
    base = config or Dataset(name="as_is", missing_columns="null")
    return base.model_copy(update={"columns": tuple(chosen)})


def _inferred(context: Context, files: Mapping[SourceFile, date], source: object) -> list[Field]:
    found = infer_columns(context.session.spark, list(files), source)  # type: ignore[arg-type]
    return [Field(name, parse_type(kind)) for name, kind in found if not name.startswith("_")]


def _missing(
    name: TableName, known: Sequence[Field], columns: Sequence[Field], *, first: bool, evolve: bool
) -> tuple[Field, ...]:
    """The columns that the table lacks, where it may get them.

    Raises:
        Refused: it may not.
        InvalidSchema: a column would not keep its values in the one that the table has.
    """
    by_name = {column.name.casefold(): column for column in known}
    missing = [column for column in columns if column.name.casefold() not in by_name]
    if missing and not first and not evolve:
        words = [word for column in missing for word in ("--add", f"{column.name} {column.type}")]
        raise Refused(
            f"{name} has no column {', '.join(column.name for column in missing)}, which the files have",
            hint=f"add it: {neve('table', 'alter', name.short, *words)}; or set schema: evolve",
        )
    for column in columns:
        held = by_name.get(column.name.casefold())
        if held is not None:
            check_fits(name, column, held)
    return tuple(Field(column.name, column.type, False, column.comment) for column in missing)
