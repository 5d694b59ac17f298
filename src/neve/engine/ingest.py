"""An ingest on Spark: raw rows cleaned, staged on a branch, counted, and kept or refused before anyone sees them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from neve.engine.errors import translated
from neve.engine.reading import SOURCE_FILE, SOURCE_LINE, file_by_file, model_type, read_rows, source_columns
from neve.engine.staging import Branch
from neve.model.dataset import CORRUPT, SourceFormat, is_own_name
from neve.model.ingest import INGEST_DATE, SUMMARY, IngestPlan, SourceFile
from neve.model.layout import SortField
from neve.model.names import TableName, quote
from neve.model.ranges import RANGE
from neve.model.types import Field, Type
from neve.sql.dates import count_dates, delete_dates, select_dates

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

    from neve.sql.cleaning import Cleaning, Validation

MALFORMED = "malformed"
_REJECTED, _RAW = "_neve_rejected", "_neve_raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What came through and what did not."""

    rows_read: int
    rows_rejected: int
    rejected_by_rule: Mapping[str, int]
    rows_by_date: Mapping[date, int]
    measured: Mapping[str, object]
    columns_not_loaded: tuple[str, ...]
    unclean: frozenset[str]
    """The paths of the files that rejected rows are in."""


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
    placing: str | None = None
    """For a key-range table, an expression of the range that a row belongs to."""


def infer_columns(spark: SparkSession, files: Sequence[SourceFile], source: SourceFormat) -> list[Field]:
    """The files' columns and their types, for the first ingest into a table that has none."""
    with translated():
        paths = [file.path for file in files]
        reader = spark.read.format(files[0].format).option("mergeSchema", "true")
        if files[0].format == "csv":
            reader = reader.options(header=source.header is not False, inferSchema=True, sep=source.delimiter or ",")
        return [Field(field.name, model_type(field.dataType)) for field in reader.load(paths).schema.fields]


def columns_of(spark: SparkSession, files: Collection[SourceFile], source: SourceFormat) -> Mapping[str, Type | None]:
    """The columns that the files have, all together, with the types of those that are nested."""
    with translated():
        return source_columns(spark, files, source)


@dataclass(frozen=True, slots=True)
class Screened:
    """The rows that cleaning accepts, and what it counts of the others once the rows have been written."""

    accepted: DataFrame
    seen: Observation
    work: Work

    def tally(self, *, rows_by_date: Mapping[date, int], measured: Mapping[str, object]) -> Tally:
        figures = self.seen.get
        rules = [*self.work.cleaning.rules, MALFORMED]
        by_rule = {rule: figures[f"rule_{index}"] for index, rule in enumerate(rules)}
        return Tally(
            rows_read=figures["rows"],
            rows_rejected=figures["rejected"],
            rejected_by_rule={rule: count for rule, count in by_rule.items() if count},
            rows_by_date=rows_by_date,
            measured=measured,
            columns_not_loaded=self.work.cleaning.unused,
            unclean=frozenset(json.loads(figures["files"])),
        )


def screen(spark: SparkSession, work: Work) -> Screened:
    """Cleans the files' rows; one pass, when the accepted ones are written."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    rejected = f.col(_REJECTED)
    rules = [f.count_if(f.array_contains(rejected, rule)) for rule in (*work.cleaning.rules, MALFORMED)]
    counted = _cleaned(spark, _raw_rows(spark, work), work.cleaning).observe(
        seen,
        f.count(f.lit(1)).alias("rows"),
        f.count(rejected).alias("rejected"),
        _files_where(rejected.isNotNull()).alias("files"),
        *(count.alias(f"rule_{index}") for index, count in enumerate(rules)),
    )
    return Screened(counted.where(rejected.isNull()), seen, work)


def _files_where(condition: Column) -> Column:
    """The files of rows, as one text: there are few, where rows may be many."""
    from pyspark.sql import functions as f

    return f.to_json(f.collect_set(f.when(condition, f.col(SOURCE_FILE))))


def stage(spark: SparkSession, branch: Branch, work: Work, plan: IngestPlan, *, summary: Mapping[str, str]) -> Tally:
    """Writes the accepted rows to the branch, after taking out the rows that they replace."""
    with translated():
        screened = screen(spark, work)
        replaced = [item.delivery.date for item in plan.having("replace")]
        if replaced:
            spark.sql(delete_dates(branch.sql, replaced))
        _append(screened.accepted, branch, work, plan, summary)
        dates = [item.delivery.date for item in plan.work]
        return screened.tally(
            rows_by_date=_count_dates(spark, branch, dates), measured=_measure(spark, branch, dates, work.validations)
        )


def write_rejected(
    spark: SparkSession, table: TableName, work: Work, tally: Tally, *, run_id: str, summary: Mapping[str, str]
) -> None:
    """Keeps every rejected row with its run, file, line, broken rules and raw text; clean files are not read again."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    with translated(), file_by_file(spark):
        unclean = {file: day for file, day in work.files.items() if file.path in tally.unclean}
        raw = _raw_rows(spark, replace(work, files=unclean), with_lines=True)
        # Counting parts judging from filtering, which would else judge each row once for every rule it could break.
        judged = _cleaned(spark, raw, work.cleaning).observe(Observation(), f.count(f.lit(1)).alias("rows"))
        kept = judged.where(f.col(_REJECTED).isNotNull()).select(
            f.lit(run_id).alias("run_id"),
            f.col(INGEST_DATE).alias("ingest_date"),
            f.col(SOURCE_FILE).alias("source_file"),
            f.col(SOURCE_LINE).alias("source_line"),
            f.col(_REJECTED).alias("rules"),
            f.coalesce(CORRUPT, f.col(_RAW).cast("string")).alias("raw"),
        )
        writer = kept.coalesce(spark.sparkContext.defaultParallelism).writeTo(table.sql)
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        writer.append()


def _raw_rows(spark: SparkSession, work: Work, *, with_lines: bool = False) -> DataFrame:
    from pyspark.sql import functions as f

    rows = read_rows(spark, work.files, work.source, json_types=work.json_types, with_lines=with_lines)
    return rows.withColumns({name: f.expr(sql) for name, sql in work.reshaped.items()}) if work.reshaped else rows


def _cleaned(spark: SparkSession, raw: DataFrame, cleaning: Cleaning) -> DataFrame:
    """Every row, judged; of a line that is no row, what could be read of it is left out."""
    from pyspark.sql import functions as f

    whole = f.col(CORRUPT).isNull()
    columns = [f.when(whole, f.col(quote(name))).alias(name) for name in raw.columns if not is_own_name(name)]
    own = [quote(name) for name in raw.columns if is_own_name(name)]
    raw.select(*columns, *own).createOrReplaceTempView("source")
    judged = f.when(whole, f.col(_REJECTED)).otherwise(f.array(f.lit(MALFORMED)))
    return spark.sql(cleaning.select).withColumn(_REJECTED, judged)


def _append(rows: DataFrame, branch: Branch, work: Work, plan: IngestPlan, summary: Mapping[str, str]) -> None:
    """Each task writes its own files: no shuffle, which for daily files costs more than it saves.

    Rows of a key-range table are brought together by range, and sorted as the table says.
    """
    from pyspark.sql import functions as f

    hashes = {item.delivery.date.isoformat(): item.delivery.content_hash for item in plan.work}
    chosen = rows.select(*(quote(name) for name in (*work.columns, INGEST_DATE)))
    if work.cleaning.order_by:
        chosen = chosen.sortWithinPartitions(*map(sorted_by, work.cleaning.order_by))
    if work.placing is None:
        writer = chosen.writeTo(branch.sql).option("fanout-enabled", "true").option("distribution-mode", "none")
    else:
        writer = chosen.withColumn(RANGE, f.expr(work.placing)).writeTo(branch.sql).option("distribution-mode", "hash")
    for key, value in {**summary, SUMMARY: json.dumps(hashes)}.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    writer.append()


def sorted_by(item: SortField) -> Column:
    from pyspark.sql import functions as f

    column = f.col(quote(item.term.column))
    if item.descending:
        return column.desc_nulls_first() if item.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if item.nulls_first else column.asc_nulls_last()


def _count_dates(spark: SparkSession, branch: Branch, dates: Sequence[date]) -> dict[date, int]:
    rows = spark.sql(count_dates(branch.sql, dates)).collect()
    return dict.fromkeys(dates, 0) | {row[0]: row[1] for row in rows}


def count_all_dates(spark: SparkSession, table: TableName) -> dict[date | None, int]:
    """Rows per ingest date."""
    with translated():
        return {row[0]: row[1] for row in spark.table(table.sql).groupBy(INGEST_DATE).count().collect()}


def _measure(
    spark: SparkSession, branch: Branch, dates: Sequence[date], validations: Sequence[Validation]
) -> Mapping[str, object]:
    """All validations in one pass over the staged rows."""
    if not validations:
        return {}
    sql = select_dates(branch.sql, dates, [check.sql for check in validations])
    return spark.sql(sql).collect()[0].asDict()
