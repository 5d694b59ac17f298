"""The class-data archive: Java's loaded classes saved once, so that Spark starts faster ever after."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from neve.config import load_settings
from neve.model.results import CheckRow
from neve.model.units import format_bytes
from neve.services.context import Context
from neve.services.lakes import prepare_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What most commands do, so that their classes are in the archive.
_WORK = (
    "CREATE TABLE lake.default.t (id BIGINT, day DATE, v DOUBLE) USING iceberg PARTITIONED BY (months(day))",
    "INSERT INTO lake.default.t SELECT id, date'2024-01-01', id * 0.5 FROM range(100)",
    "MERGE INTO lake.default.t t USING (SELECT id, date'2024-01-02' AS day, 1.0 AS v FROM range(50, 150)) s "
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM lake.default.t WHERE id < 10",
)


def build_class_archive(context: Context) -> Iterator[CheckRow]:
    """Builds the archive in a scratch lake; only for the default kind of lake, whose jars it must match."""
    from neve.engine.session import Session

    with tempfile.TemporaryDirectory(prefix="neve-warm-up-") as folder:
        loaded = load_settings(Path(folder), flags={}, env={})
        prepare_lake(loaded)
        scratch = Session(loaded, env=context.env, tell=context.tell)
        if scratch.archive() != context.session.archive():
            yield CheckRow(check="class archive", state="ok", detail="not used with these jars")
            return
        context.tell("saving Java's loaded classes, once…")
        archive = scratch.build_archive(_work)
    yield CheckRow(check="class archive", state="repaired", detail=f"built, {format_bytes(archive.stat().st_size)}")


def _work(spark: SparkSession) -> None:
    for statement in _WORK:
        spark.sql(statement)
    rows = spark.sql("SELECT day, count(*), sum(v) FROM lake.default.t GROUP BY day ORDER BY day")
    list(rows.toLocalIterator())
    spark.sql("SELECT * FROM lake.default.t.files").collect()
