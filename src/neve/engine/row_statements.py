"""A statement that changes rows, in two steps: analysed, so that it can be looked at, and then run as it was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from neve.engine.classes import scala_seq, static
from neve.engine.errors import translated
from neve.engine.statements import Parameters, acts_inside
from neve.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KINDS = ("InsertIntoStatement", "DeleteFromTable", "UpdateTable", "MergeIntoTable")
_NAMED_LATER = "UnresolvedIdentifier"


def analysed(spark: SparkSession, text: str, parameters: Parameters) -> Any:
    """Spark's plan of a statement, with all names looked up. Nothing is run.

    Raises:
        Refused: Spark's parser takes it for something else, or a table's name is computed.
    """
    with translated():
        parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        kind = parsed.getClass().getSimpleName()
        if kind not in _KINDS or _NAMED_LATER in parsed.toString() or acts_inside(spark, parsed):
            raise Refused(
                "this does not change rows of one table that is named",
                hint="INSERT INTO, UPDATE, DELETE FROM and MERGE INTO are taken",
            )
        java: Any = spark._jvm
        skip = java.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
        execution = spark._jsparkSession.sessionState().executePlan(_bound(spark, parsed, parameters), skip)
        execution.assertAnalyzed()
        return execution.analyzed()


def run_analysed(spark: SparkSession, plan: Any) -> None:
    """The change has been committed when this returns."""
    with translated():
        static(spark._jvm, "org.apache.spark.sql.classic.Dataset", "ofRows")(spark._jsparkSession, plan)


def _bound(spark: SparkSession, plan: Any, parameters: Parameters) -> Any:
    """The plan with values for its `?` or `:name`."""
    if not parameters:
        return plan
    java: Any = spark._jvm
    analysis = java.org.apache.spark.sql.catalyst.analysis
    if isinstance(parameters, Mapping):
        names = scala_seq(java, list(parameters))
        return analysis.NameParameterizedQuery(plan, names, _literals(spark, list(parameters.values())))
    return analysis.PosParameterizedQuery(plan, _literals(spark, parameters))


def _literals(spark: SparkSession, values: Sequence[Any]) -> Any:
    from pyspark.sql import functions as f

    session: Any = spark._jsparkSession
    return scala_seq(spark._jvm, [session.expression(f.lit(value)._jc) for value in values])
