"""Rejected rows beside the table that did not take them: counted by rule and date, and kept as they were."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from neve.engine.errors import translated
from neve.engine.ingest import Tally, Work, cleaned, raw_rows
from neve.engine.reading import file_by_file
from neve.engine.rejects import REJECTED, broken, by_rule, raw_text
from neve.engine.staging import Branch
from neve.model.ingest import INGEST_DATE, SOURCE_FILE, SOURCE_LINE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def count_rules(work: Work, tally: Tally) -> Mapping[str, int]:
    """How many rows broke each rule, where they have not been kept yet."""
    if isinstance(tally.rejected, frozenset):
        return tally.rejected_by_rule
    from pyspark.sql import functions as f

    with translated():
        return broken(work.rules, tally.rejected.agg(*by_rule(work.rules, f.col("rules"))).collect()[0].asDict())


def write_rejected(
    spark: SparkSession, branch: Branch, work: Work, tally: Tally, *, run_id: str, summary: Mapping[str, str]
) -> Tally:
    """Keeps every rejected row with its run, file, line, broken rules and raw text; the tally with their numbers.

    Clean files are not read again.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    with translated(), file_by_file(spark):
        found = _reread(spark, work, tally.rejected) if isinstance(tally.rejected, frozenset) else tally.rejected
        seen = Observation()
        counted = found.observe(seen, *by_rule(work.rules, f.col("rules")))
        kept = counted.select(f.lit(run_id).alias("run_id"), "*")
        writer = kept.coalesce(spark.sparkContext.defaultParallelism).writeTo(branch.sql)
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        writer.append()
        by_date = _count_rejected(spark, branch, work, tally, run_id)
        return replace(tally, rejected_by_rule=broken(work.rules, seen.get), rejected_by_date=by_date)


def _count_rejected(spark: SparkSession, branch: Branch, work: Work, tally: Tally, run_id: str) -> dict[date, int]:
    from pyspark.sql import functions as f

    if len(days := set(work.files.values())) == 1:
        return {days.pop(): tally.rows_rejected}
    own = spark.table(branch.sql).where(f.col("run_id") == run_id)
    return {row[0]: row[1] for row in own.groupBy("ingest_date").count().collect()}


def _reread(spark: SparkSession, work: Work, paths: Collection[str]) -> DataFrame:
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    unclean = {file: day for file, day in work.files.items() if file.path in paths}
    raw = raw_rows(spark, replace(work, files=unclean), with_lines=True)
    # Counting parts judging from filtering, which would else judge each row once for every rule it could break.
    judged = cleaned(spark, raw, work.cleaning).observe(Observation(), f.count(f.lit(1)).alias("rows"))
    return judged.where(f.col(REJECTED).isNotNull()).select(
        f.col(INGEST_DATE).alias("ingest_date"),
        f.col(SOURCE_FILE).alias("source_file"),
        f.col(SOURCE_LINE).alias("source_line"),
        f.col(REJECTED).alias("rules"),
        raw_text().alias("raw"),
    )
