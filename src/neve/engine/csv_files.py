"""Rows as CSV, by RFC 4180: written by Spark's tasks, a file each, in the order of the rows.

NULL is nothing between two commas, and an empty text is a pair of quotes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neve.engine.errors import translated

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_OPTIONS = {
    "header": "false",
    "quote": '"',
    "escape": '"',
    "emptyValue": '""',
    "nullValue": "",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "compression": "none",
}
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


def write_csv(frame: DataFrame, folder: Path) -> int:
    """Writes the rows into files of a folder, without a header; how many there were."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    with translated():
        names = [f"c{index}" for index in range(len(frame.columns))]
        plain = frame.toDF(*names)
        kinds = [field.dataType for field in frame.schema.fields]
        counted = Observation()
        texts = [_text(f.col(name), kind).alias(name) for name, kind in zip(names, kinds, strict=True)]
        found = plain.select(*texts).observe(counted, f.count(f.lit(1)).alias("rows"))
        found.write.mode("overwrite").options(**_OPTIONS).csv(folder.as_uri())
        return int(counted.get["rows"])


def _text(column: Column, kind: DataType) -> Column:
    """A value as the service answers it."""
    from pyspark.sql import functions as f
    from pyspark.sql import types

    match kind:
        case types.StringType():
            return column
        case types.TimestampType():
            return f.date_format(column, f"{_TIME}'+00:00'")
        case types.TimestampNTZType():
            return f.date_format(column, _TIME)
        case types.BinaryType():
            return f.lower(f.hex(column))
        case types.ArrayType() | types.MapType() | types.StructType() | types.VariantType():
            return f.to_json(column)
        case _:
            return column.cast("string")
