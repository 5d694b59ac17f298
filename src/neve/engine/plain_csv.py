"""Rows of csv files in which nothing is quoted: Spark's Python workers cut them, on the machine where the files lie."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from neve.engine.arrow import map_arrow
from neve.engine.tracking import report_file
from neve.files.plain_rows import CutWork, PlainForm, cut_shares
from neve.model.dataset import CORRUPT, SourceFormat
from neve.model.ingest import INGEST_DATE, SOURCE_FILE, SOURCE_LINE, SourceFile
from neve.plan.masters import in_one_process
from neve.plan.shares import in_shares

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FILE = "_neve_file"
_WORTH = 16 * 1024 * 1024
"""Bytes of files together, below which workers take longer to begin."""
_TASK_BYTES = 128 * 1024 * 1024


def files_to_cut(spark: SparkSession, files: Collection[SourceFile]) -> list[SourceFile]:
    """Those of the files whose rows are best cut by workers, which must be where the files lie."""
    if not in_one_process(str(spark.sparkContext.master)):
        return []
    found = [file for file in files if file.plain and file.path.startswith("/")]
    return found if sum(file.bytes for file in found) >= _WORTH else []


def cut_files(spark: SparkSession, dates: Mapping[SourceFile, date], source: SourceFormat) -> DataFrame:
    """Rows of text, with their line, their file and its date; of files of one header, in the order of their dates."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    files = sorted(dates, key=lambda file: dates[file])
    first, has_header = files[0], source.header is not False
    names = first.header or ()
    columns = dict.fromkeys((*names, CORRUPT), StringType()) | {SOURCE_LINE: LongType(), _FILE: IntegerType()}
    work = CutWork(
        shares=in_shares(
            [(number, file.path, file.bytes) for number, file in enumerate(files)],
            [file.bytes for file in files],
            _tasks(sum(file.bytes for file in files), spark.sparkContext.defaultParallelism),
        ),
        form=PlainForm(
            columns=len(names),
            delimiter=source.delimiter_of(first.path),
            header=has_header,
            null_value=source.null_value,
        ),
        names=list(columns),
        report=report_file(),
    )
    shares = spark.range(0, len(work.shares), 1, len(work.shares))
    rows = map_arrow(
        shares, partial(cut_shares, work=work), StructType([StructField(*column) for column in columns.items()])
    )
    known = {
        SOURCE_LINE: f.col(SOURCE_LINE) + f.lit(2 if has_header else 1),
        SOURCE_FILE: _numbered([file.path for file in files], "string"),
        INGEST_DATE: _numbered([dates[file].isoformat() for file in files], "date"),
    }
    return rows.withColumns(known).drop(_FILE)


def _tasks(size: int, cores: int) -> int:
    """As many for each core, and few: each task has a worker to set up, whatever the number of its files."""
    return cores * -(-size // (cores * _TASK_BYTES))


def _numbered(values: Sequence[str], kind: str) -> Column:
    """The value of a row's file: one constant holds those of all files, however many."""
    from pyspark.sql import functions as f

    return f.get(f.from_json(f.lit(json.dumps(values)), f"array<{kind}>"), f.col(_FILE))
