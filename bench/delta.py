"""Delta Lake's OPTIMIZE over given Parquet files, in a Spark session of its own: a child of bench/compaction.py.

    python bench/delta.py FILES TURNS QUERY DRIVER_MEMORY

FILES is a JSON list of paths. They become a Delta table as they are (hard links, CONVERT TO DELTA), OPTIMIZE runs with
its default options, and a table converted anew is the start of every turn. The last line printed is JSON: seconds of
the best turn, files and bytes afterwards, and seconds of QUERY (over `t`) after it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"
WARM_UPS = 3


def main() -> None:
    listed, turns, query, memory = sys.argv[1:]
    paths = [Path(path) for path in json.loads(Path(listed).read_text())]
    with tempfile.TemporaryDirectory(prefix="neve-delta-", dir=paths[0].parent) as scratch:
        spark = _session(memory, Path(scratch))
        for number in range(WARM_UPS):
            _optimize(spark, Path(scratch) / f"warm-{number}", paths[:6])
        runs = [_optimize(spark, Path(scratch) / f"turn-{number}", paths) for number in range(int(turns))]
        best, table = min(runs)
        spark.read.format("delta").load(table).createOrReplaceTempView("t")
        asked = min(_seconds(lambda: spark.sql(query).collect()) for _ in range(3))
        detail = spark.sql(f"DESCRIBE DETAIL delta.`{table}`").first()
        spark.stop()
    assert detail is not None
    print(json.dumps({"seconds": best, "files": detail["numFiles"], "bytes": detail["sizeInBytes"], "query": asked}))


def _session(memory: str, scratch: Path) -> SparkSession:
    conf = {
        "spark.master": "local[*]",
        "spark.driver.memory": memory,
        "spark.jars.packages": PACKAGE,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.parquet.compression.codec": "zstd",
    }
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _optimize(spark: SparkSession, folder: Path, paths: list[Path]) -> tuple[float, str]:
    """How long OPTIMIZE takes on a new table of these files, and the table."""
    folder.mkdir()
    for number, path in enumerate(paths):
        os.link(path, folder / f"{number:05}.parquet")
    spark.sql(f"CONVERT TO DELTA parquet.`{folder}`")
    return _seconds(lambda: spark.sql(f"OPTIMIZE delta.`{folder}`").collect()), str(folder)


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
