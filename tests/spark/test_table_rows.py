"""delete, update, upsert and dedupe on Iceberg tables: as on folders, one commit each, and the way back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.spark.test_parquet_model import SCHEMA, Game, play

from neve.lake import Lake, LakeTable

pytestmark = pytest.mark.spark

MakeTable = Callable[..., LakeTable]
RowsOf = Callable[..., list[tuple[object, ...]]]
Cli = Callable[..., tuple[int, str, str]]


class TableAsCrud:
    """A table with the words of `ParquetCRUD`; every change is also counted dry, and is one commit."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table
        self.before: int | None = None

    def _do(self, change: Callable[..., Any]) -> dict[str, Any]:
        snapshots = len(self.table.history())
        dry, real = change(dry_run=True), change(dry_run=False)
        figures = [name for name in type(real).model_fields if name.startswith("rows_")]
        assert {name: getattr(dry, name) for name in figures} == {name: getattr(real, name) for name in figures}
        assert len(self.table.history()) == snapshots + (real.run_id is not None)
        self.before = real.snapshot_before
        return real.model_dump()  # type: ignore[no-any-return]

    def delete(self, sql: str, partition_filter: dict[str, object] | None) -> dict[str, Any]:
        return self._do(lambda dry_run: self.table.delete(sql, partition_filter=partition_filter, dry_run=dry_run))

    def update(self, sql: str, values: dict[str, object], partition_filter: dict[str, object] | None) -> dict[str, Any]:
        return self._do(
            lambda dry_run: self.table.update(values, sql, partition_filter=partition_filter, dry_run=dry_run)
        )

    def upsert(self, new: Any, keys: list[str], _: list[str], update_cols: list[str] | None) -> dict[str, Any]:
        return self._do(lambda dry_run: self.table.upsert(new, keys, update_cols=update_cols, dry_run=dry_run))

    def deduplicate(self, keys: list[str], keep: str, order_by: list[str]) -> dict[str, Any]:
        return self._do(lambda dry_run: self.table.dedupe(keys, keep, order_by, dry_run=dry_run))

    def restore(self) -> None:
        assert self.before is not None
        self.table.rollback(self.before)


class TableGame(Game):
    def __init__(self, random: Random, lake: Lake, name: str) -> None:
        super().__init__(random)
        self.lake = lake
        lake.tables.create(name, "id bigint, k string, j int, v double, s string", partition_by=self.keys)
        self.table = lake.table(name)
        if random.random() < 0.3:
            self.table.set({f"write.{verb}.mode": "copy-on-write" for verb in ("delete", "update", "merge")})
        schema = lake.spark.table(self.table.name.sql).schema

        def fill(rows: list[dict[str, Any]], _: int) -> None:
            lake.spark.createDataFrame(rows, schema).writeTo(self.table.name.sql).append()

        self.start(fill)
        self.crud = TableAsCrud(self.table)

    def check(self) -> None:
        rows = self.lake.spark.table(self.table.name.sql).collect()
        assert Counter(repr(row.asDict()) for row in rows) == Counter(
            repr({name: row[name] for name in SCHEMA.names}) for row in self.rows
        )


@pytest.mark.parametrize("seed", range(5))
def test_like_a_list_in_memory(spark_lake: Lake, namespace: str, seed: int) -> None:
    """Every verb on random tables and partitionings, merge-on-read and copy-on-write."""
    play(TableGame(Random(seed), spark_lake, f"{namespace}.t"), 3)
