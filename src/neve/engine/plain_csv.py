"""Rows of csv files in which nothing is quoted: Spark reads the files whole, and its Python workers cut them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from neve.engine.arrow import map_arrow
from neve.files.plain_rows import PlainForm, cut_rows
from neve.model.dataset import CORRUPT, SourceFormat
from neve.model.ingest import INGEST_DATE, SOURCE_FILE, SOURCE_LINE, SourceFile
from neve.plan.masters import in_one_process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WORTH, _LARGEST = 16 * 1024 * 1024, 32 * 1024 * 1024
"""Bytes: of files together, below which workers take longer to begin; of one, as a task holds it in memory."""


def files_to_cut(spark: SparkSession, files: Collection[SourceFile]) -> list[SourceFile]:
    """Those of the files whose rows are best cut by Python, which executors elsewhere may not have."""
    if not in_one_process(str(spark.sparkContext.master)):
        return []
    found = [file for file in files if file.plain and file.bytes <= _LARGEST]
    return found if sum(file.bytes for file in found) >= _WORTH else []


def cut_files(whole: DataFrame, header: Sequence[str], source: SourceFormat, delimiter: str) -> DataFrame:
    """Rows of text from rows of a file's content, its path and its date; with their lines."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

    has_header = source.header is not False
    form = PlainForm(columns=len(header), delimiter=delimiter, header=has_header, null_value=source.null_value)
    kinds = {SOURCE_LINE: LongType(), SOURCE_FILE: StringType(), INGEST_DATE: DateType()}
    columns = {**dict.fromkeys((*header, CORRUPT), StringType()), **kinds}
    returns = StructType([StructField(name, kind) for name, kind in columns.items()])
    rows = map_arrow(whole, partial(_cut, form=form, names=returns.names), returns)
    return rows.withColumn(SOURCE_LINE, f.col(SOURCE_LINE) + f.lit(2 if has_header else 1))


def _cut(batches: Iterator[Any], form: PlainForm, names: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        for content, path, day in zip(*batch.columns, strict=True):
            for arrays in cut_rows(content.as_buffer(), form):
                rows = len(arrays[0])
                yield pa.RecordBatch.from_arrays([*arrays, pa.repeat(path, rows), pa.repeat(day, rows)], names)
