"""Rows that go through Python as batches of Arrow, in Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from neve.model.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def map_arrow(frame: DataFrame, function: Callable[[Iterator[Any]], Iterator[Any]], returns: DataType) -> DataFrame:
    """`DataFrame.mapInArrow`, which asks for pandas without using it. `function` is one of a module, or part of one."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    udf = UserDefinedFunction(function, returnType=returns, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = udf(*(frame[quote(name)] for name in frame.columns))
    java: Any = frame
    return ClassicFrame(java._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
