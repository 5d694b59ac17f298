"""An ingest on Spark: raw rows cleaned, staged on a branch, counted, and kept or refused before anyone sees them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.engine.loose import write_loose
from neve.engine.reading import (
    SourceColumns,
    csv_options,
    exactly,
    file_by_file,
    groups,
    model_type,
    read_rows,
    source_columns,
)
from neve.engine.rejects import NOWHERE, REJECTED, broken, by_rule, carrier_of, pack, unpack
from neve.engine.staging import Branch, load_iceberg
from neve.model.dataset import CORRUPT, SourceFormat, is_own_name
from neve.model.ingest import INGEST_DATE, SOURCE_FILE, SUMMARY, IngestPlan, SourceFile
from neve.model.layout import SortField
from neve.model.names import TableName, quote
from neve.model.ranges import RANGE
from neve.model.types import Field, Primitive, Type
from neve.sql.dates import delete_dates, select_dates

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

    from neve.sql.cleaning import Cleaning, Validation

MALFORMED = "malformed"
_NUMBERS = ("int", "long", "double")
"""As Spark infers them, each with room for those before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What came through and what did not."""

    rows_read: int
    rows_rejected: int
    rejected_by_rule: Mapping[str, int]
    rows_by_date: Mapping[date, int]
    measured: Mapping[str, object]
    columns_not_loaded: tuple[str, ...]
    rejected: DataFrame | frozenset[str]
    """The rejected rows, where the pass that wrote the others kept them too; else the paths of their files."""
    rejected_by_date: Mapping[date, int] = field(default_factory=dict)
    """Known when the rejected rows have been kept, as is `rejected_by_rule`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """How rows go into the ranges of a key-range table."""

    range: str
    """An expression of the range that a row belongs to."""
    ranges: int
    order: tuple[SortField, ...]
    keeps_ranges: bool
    """Whether rows in this order are in the order of their ranges too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One ingest as the engine needs it."""

    files: Mapping[SourceFile, date]
    source: SourceFormat
    json_types: Mapping[str, Type]
    """What each column of JSON lines is read as."""
    reshaped: Mapping[str, str]
    """Expressions that bring nested columns of typed files into the form that the table has."""
    cleaning: Cleaning
    columns: tuple[str, ...]
    validations: tuple[Validation, ...]
    placing: Placing | None = None
    """For a key-range table, where each row belongs."""

    @property
    def rules(self) -> tuple[str, ...]:
        """All that a row can break."""
        return (*self.cleaning.rules, MALFORMED)


def infer_columns(spark: SparkSession, files: Collection[SourceFile], source: SourceFormat) -> list[Field]:
    """The files' columns and their types, for the first ingest into a table that has none.

    Files of another format, header or delimiter are asked by themselves; where they disagree, the wider type counts.
    """
    found: dict[str, Field] = {}
    with translated():
        for members in groups(files, source).values():
            for column in _inferred(spark, members, source):
                known = found.setdefault(column.name.casefold(), column)
                found[column.name.casefold()] = replace(known, type=_wider(known.type, column.type))
    return list(found.values())


def _inferred(spark: SparkSession, files: Sequence[SourceFile], source: SourceFormat) -> Iterator[Field]:
    reader = spark.read.format(files[0].format).option("mergeSchema", "true")
    if files[0].format == "csv":
        reader = reader.options(inferSchema=True, **csv_options(files[0].path, source))
    for column in reader.load(exactly(file.path for file in files)).schema.fields:
        yield Field(column.name, model_type(column.dataType))


def _wider(one: Type, other: Type) -> Type:
    """A type for the values of both: of numbers the larger, else text; nested ones are left to the load to compare."""
    if one == other or not (isinstance(one, Primitive) and isinstance(other, Primitive)):
        return one
    if one.name in _NUMBERS and other.name in _NUMBERS:
        return max(one, other, key=lambda kind: _NUMBERS.index(kind.name))
    return Primitive("string")


def columns_of(spark: SparkSession, files: Collection[SourceFile], source: SourceFormat) -> SourceColumns:
    """The columns that the files have, all together."""
    with translated():
        return source_columns(spark, files, source)


@dataclass(frozen=True, slots=True)
class Screened:
    """The rows that cleaning accepts, and what it counts of the others once the rows have been written."""

    accepted: DataFrame
    seen: Observation
    work: Work

    @property
    def rows(self) -> int:
        """How many were accepted."""
        figures = self.seen.get
        return int(figures["rows"] - figures["rejected"])

    def tally(self, *, rows_by_date: Mapping[date, int], measured: Mapping[str, object]) -> Tally:
        figures = self.seen.get
        return Tally(
            rows_read=figures["rows"],
            rows_rejected=figures["rejected"],
            rejected_by_rule=broken(self.work.rules, figures),
            rows_by_date=rows_by_date,
            measured=measured,
            columns_not_loaded=self.work.cleaning.unused,
            rejected=frozenset(json.loads(figures["files"])),
        )


@dataclass(frozen=True, slots=True)
class Packed:
    """The rejected rows, kept by the pass that wrote the accepted `rows`; None when there are none."""

    rejected: DataFrame | None
    number: int
    rows: int
    work: Work

    def tally(self, *, rows_by_date: Mapping[date, int], measured: Mapping[str, object]) -> Tally:
        found = self.rejected
        return Tally(
            rows_read=self.rows + self.number,
            rows_rejected=self.number,
            rejected_by_rule={},
            rows_by_date=rows_by_date,
            measured=measured,
            columns_not_loaded=self.work.cleaning.unused,
            rejected=frozenset() if found is None else found,
        )


def screen(spark: SparkSession, work: Work) -> Screened:
    """Cleans the files' rows; one pass, when the accepted ones are written."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    rejected = f.col(REJECTED)
    counted = cleaned(spark, raw_rows(spark, work), work.cleaning).observe(
        seen,
        f.count(f.lit(1)).alias("rows"),
        f.count(rejected).alias("rejected"),
        _files_where(rejected.isNotNull()).alias("files"),
        *by_rule(work.rules, rejected),
    )
    return Screened(counted.where(rejected.isNull()), seen, work)


def _files_where(condition: Column) -> Column:
    """The files of rows, as one text: there are few, where rows may be many."""
    from pyspark.sql import functions as f

    return f.to_json(f.collect_set(f.when(condition, f.col(SOURCE_FILE))))


def stage(
    spark: SparkSession,
    branch: Branch,
    work: Work,
    plan: IngestPlan,
    *,
    summary: Mapping[str, str],
    loose: list[str],
) -> Tally:
    """Writes the accepted rows to the branch, after taking out the rows that they replace.

    Files that were written and that the branch does not name are added to `loose`: they are the caller's to remove.
    """
    with translated():
        replaced = [item.delivery.date for item in plan.having("replace")]
        if replaced:
            spark.sql(delete_dates(branch.sql, replaced))
        dates = [item.delivery.date for item in plan.work]
        marked = {**summary, SUMMARY: json.dumps({str(i.delivery.date): i.delivery.content_hash for i in plan.work})}
        table = load_iceberg(spark, branch.table)
        carrier = _carrier(table, work)
        passed: Screened | Packed
        if carrier is None:
            passed = screen(spark, work)
            _append(passed.accepted, branch, work, marked)
        else:
            files = _write_all(spark, table, work, carrier)
            loose += [file.location() for file in files]
            accepted, rejected = _parted(table, files)
            _append_files(table, branch, accepted, marked)
            loose[:] = [file.location() for file in rejected]
            passed = Packed(
                rejected=unpack(_read_loose(spark, rejected), carrier) if rejected else None,
                number=sum(file.recordCount() for file in rejected),
                rows=sum(file.recordCount() for file in accepted),
                work=work,
            )
        counts = {dates[0]: passed.rows} if len(dates) == 1 else _count_added(spark, branch, dates)
        return passed.tally(rows_by_date=counts, measured=_measure(spark, branch, dates, work.validations))


def packed_rows(spark: SparkSession, work: Work, carrier: str) -> DataFrame:
    """Every row cleaned and judged, to be written under `file_by_file`."""
    judged = cleaned(spark, raw_rows(spark, work, with_lines=True), work.cleaning)
    return pack(judged, work.columns, carrier, work.files)


def _carrier(table: Any, work: Work) -> str | None:
    """The column that rejected rows can travel in, where their day has files of its own and nothing needs a value."""
    if work.placing is not None or _day_of_partition(table) is None:
        return None
    fields = table.schema().columns()
    if any(fields.get(index).isRequired() for index in range(fields.size())):
        return None
    return carrier_of(work.cleaning.columns, work.files, work.rules)


def _day_of_partition(table: Any) -> tuple[int, int] | None:
    """The place in the table's partitions of one that its days alone decide, and its value for `NOWHERE`."""
    source = table.schema().findField(INGEST_DATE)
    fields = table.spec().fields()
    days = (NOWHERE - date(1970, 1, 1)).days
    values = {"year": NOWHERE.year - 1970, "month": (NOWHERE.year - 1970) * 12, "day": days, "identity": days}
    for index in range(fields.size()):
        transform = fields.get(index).transform().toString()
        if fields.get(index).sourceId() == source.fieldId() and transform in values:
            return index, values[transform]
    return None


def _write_all(spark: SparkSession, table: Any, work: Work, carrier: str) -> list[Any]:
    """Files of all rows, accepted and rejected; each task writes its own: no shuffle, as in `_append`."""
    with file_by_file(spark):
        rows = _in_order(packed_rows(spark, work, carrier), work)
        return write_loose(spark, table, rows, {"fanout-enabled": "true", "distribution-mode": "none"})


def _parted(table: Any, files: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Files of accepted rows, and those of rejected ones."""
    place, nowhere = _day_of_partition(table) or (0, 0)
    parted: tuple[list[Any], list[Any]] = ([], [])
    for file in files:
        parted[file.partition().get(place) == nowhere].append(file)
    return parted


def _append_files(table: Any, branch: Branch, files: Sequence[Any], summary: Mapping[str, str]) -> None:
    append = table.newAppend()
    for file in files:
        append.appendFile(file)
    for key, value in summary.items():
        append.set(key, value)
    append.toBranch(branch.name).commit()


def _read_loose(spark: SparkSession, files: Sequence[Any]) -> DataFrame:
    return spark.read.format(files[0].format().toString().lower()).load(exactly(file.location() for file in files))


def raw_rows(spark: SparkSession, work: Work, *, with_lines: bool = False) -> DataFrame:
    """The rows as the files have them."""
    from pyspark.sql import functions as f

    rows = read_rows(spark, work.files, work.source, json_types=work.json_types, with_lines=with_lines)
    return rows.withColumns({name: f.expr(sql) for name, sql in work.reshaped.items()}) if work.reshaped else rows


def cleaned(spark: SparkSession, raw: DataFrame, cleaning: Cleaning) -> DataFrame:
    """Every row, judged; of a line that is no row, what could be read of it is left out."""
    from pyspark.sql import functions as f

    whole = f.col(CORRUPT).isNull()
    columns = [f.when(whole, f.col(quote(name))).alias(name) for name in raw.columns if not is_own_name(name)]
    own = [quote(name) for name in raw.columns if is_own_name(name)]
    raw.select(*columns, *own).createOrReplaceTempView("source")
    judged = f.when(whole, f.col(REJECTED)).otherwise(f.array(f.lit(MALFORMED)))
    return spark.sql(cleaning.select).withColumn(REJECTED, judged)


def _append(rows: DataFrame, branch: Branch, work: Work, summary: Mapping[str, str]) -> None:
    """Each task writes its own files: no shuffle, which for daily files costs more than it saves.

    Rows of a key-range table are brought together by range, and sorted as the table says.
    """
    chosen = _in_order(rows.select(*(quote(name) for name in (*work.columns, INGEST_DATE))), work)
    if work.placing is None:
        writer = chosen.writeTo(branch.sql).option("fanout-enabled", "true").option("distribution-mode", "none")
    else:
        table = load_iceberg(rows.sparkSession, branch.table)
        writer = _placed(chosen, work.placing).writeTo(branch.sql).option("fanout-enabled", "false")
        writer = writer.option("use-table-distribution-and-ordering", "false")
        writer = writer.option("output-sort-order-id", str(table.sortOrder().orderId()))
    for key, value in summary.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    writer.append()


def _placed(rows: DataFrame, placing: Placing) -> DataFrame:
    """Rows with their range, each task's in order; the rows of a range go to one task where all tasks have some.

    Iceberg would have them sorted by range first: then Spark compares whole rows, as their first eight bytes, which it
    compares beforehand, are the same range. And of a single range, one task would do all the work.
    """
    from pyspark.sql import functions as f

    conf = rows.sparkSession.conf.get("spark.sql.shuffle.partitions")
    placed = rows.withColumn(RANGE, f.expr(placing.range))
    if placing.ranges >= rows.sparkSession.sparkContext.defaultParallelism:
        placed = placed.repartitionById(min(placing.ranges, int(conf or 1)), f.col(RANGE))
    order = [sorted_by(item) for item in placing.order]
    return placed.sortWithinPartitions(*order) if placing.keeps_ranges else placed.sortWithinPartitions(RANGE, *order)


def _in_order(rows: DataFrame, work: Work) -> DataFrame:
    order = work.cleaning.order_by
    return rows.sortWithinPartitions(*map(sorted_by, order)) if order else rows


def sorted_by(item: SortField) -> Column:
    from pyspark.sql import functions as f

    column = f.col(quote(item.term.column))
    if item.descending:
        return column.desc_nulls_first() if item.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if item.nulls_first else column.asc_nulls_last()


def _count_added(spark: SparkSession, branch: Branch, dates: Sequence[date]) -> dict[date, int]:
    """Rows of each date in the branch's last append, whatever else the table holds of it."""
    append = load_iceberg(spark, branch.table).snapshot(branch.name)
    reader = spark.read.format("iceberg")
    if append.parentId() is None:
        reader = reader.option("snapshot-id", append.snapshotId())
    else:
        reader = reader.option("start-snapshot-id", append.parentId()).option("end-snapshot-id", append.snapshotId())
    return dict.fromkeys(dates, 0) | _by_date(reader.load(branch.table.sql))


def count_all_dates(spark: SparkSession, table: TableName) -> dict[date | None, int]:
    """Rows per ingest date."""
    with translated():
        return _by_date(spark.table(table.sql))


def _by_date(rows: DataFrame) -> dict[Any, int]:
    return {row[0]: row[1] for row in rows.groupBy(INGEST_DATE).count().collect()}


def _measure(
    spark: SparkSession, branch: Branch, dates: Sequence[date], validations: Sequence[Validation]
) -> Mapping[str, object]:
    """All validations in one pass over the staged rows."""
    if not validations:
        return {}
    sql = select_dates(branch.sql, dates, [check.sql for check in validations])
    return spark.sql(sql).collect()[0].asDict()
