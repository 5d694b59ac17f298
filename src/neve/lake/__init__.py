"""The public Python door: `Lake()` finds the lake, `lake.table("sales")` is a table; Spark starts when it must."""

from __future__ import annotations

from neve.lake.dynamic import DynamicTable, DynamicTables
from neve.lake.lake import Lake
from neve.lake.namespaces import Namespaces
from neve.lake.runs import Runs
from neve.lake.table import LakeTable
from neve.lake.tables import Tables

__all__ = ["DynamicTable", "DynamicTables", "Lake", "LakeTable", "Namespaces", "Runs", "Tables"]
