"""How plain files are written, so that any tool reads them and Spark reads back what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.errors import Unsupported
from neve.model.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARQUET_CONF = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default, INT96, is deprecated
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
# RFC 4180: quotes are doubled, spaces are kept. NULL is nothing between two commas, an empty string is "".
CSV = {
    "header": "true",
    "escape": '"',
    "nullValue": "",
    "emptyValue": '""',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def flat(frame: DataFrame) -> DataFrame:
    """The frame with columns that CSV has a form for; binary ones become hexadecimal text.

    Raises:
        Unsupported: a column has none.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, VariantType

    columns = []
    for field in frame.schema.fields:
        column = f.col(quote(field.name))
        if isinstance(field.dataType, ArrayType | MapType | StructType | VariantType):
            raise Unsupported(
                f"column {field.name} is {field.dataType.simpleString()}, and CSV has no form for it",
                hint="export as parquet, or keep what you need of it in a column of its own",
            )
        is_binary = isinstance(field.dataType, BinaryType)
        columns.append(f.lower(f.hex(column)).alias(field.name) if is_binary else column)
    return frame.select(*columns)
