"""Changes as a frame: the chosen columns and the weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.engine.changes.staged import StagedFiles
from neve.engine.errors import translated
from neve.engine.netting import netted
from neve.model.changes import WEIGHT, ChangePlan, Column, Lineage, MeasuredChanges
from neve.sql.changes import nothing_sql, sides_sql, weighted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

# Up to so much one task is quicker than a shuffle between several.
_FEW_BYTES, _FEW_FILES = 32 * 1024 * 1024, 16


def read_staged(staged: StagedFiles, changes: MeasuredChanges) -> DataFrame:
    """The fast road: only files that differ, netted unless rows only came or only went."""
    reads, columns = changes.reads, changes.plan.columns
    with translated():
        sides = [
            staged.read(whole, picked).selectExpr(*weighted(columns, weight))
            for weight, whole, picked in ((1, reads.plus, reads.picked_plus), (-1, reads.minus, reads.picked_minus))
            if whole or picked
        ]
        rows = sides[0] if len(sides) == 1 else sides[0].unionAll(sides[1])
        if changes.estimate.bytes <= _FEW_BYTES and changes.estimate.files <= _FEW_FILES:
            rows = rows.coalesce(1)
        return rows if len(sides) == 1 else _netted(rows, columns)


def _netted(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Equal rows add up; those that come to nothing go. A query may show in which order a map has its entries."""
    return netted(rows, [column.name for column in columns], WEIGHT, in_order=True)


def read_compared(spark: SparkSession, plan: ChangePlan, lineage: Lineage) -> DataFrame:
    """The general road: both snapshots whole, by time travel."""

    def side(snapshot: int) -> tuple[int, Sequence[Column]]:
        return snapshot, lineage.schemas[lineage.steps[snapshot].schema_id]

    if plan.until is None:
        return read_nothing(spark, plan)
    old = None if plan.since is None else side(plan.since)
    with translated():
        rows = spark.sql(sides_sql(plan.table, plan.columns, old=old, new=side(plan.until)))
        return rows if old is None else _netted(rows, plan.columns)


def read_nothing(spark: SparkSession, plan: ChangePlan) -> DataFrame:
    """No rows, in the shape that changes would have; no job."""
    with translated():
        return spark.sql(nothing_sql(plan.columns))
