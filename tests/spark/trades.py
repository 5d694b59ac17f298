"""A folder of trades as document 002 has them, and how other readers see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from neve.plan.folders import folder_of

Row = dict[str, Any]


def write(folder: Path, rows: Sequence[Row], keys: Sequence[str] = (), *, name: str = "a", **options: Any) -> None:
    """Rows into one file per partition, with the partition columns inside."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        place = folder_of({key: None if row[key] is None else str(row[key]) for key in keys})
        groups.setdefault(place, []).append(row)
    schema = options.pop("schema", None) or pa.Table.from_pylist(list(rows)).schema
    for place, members in groups.items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(members, schema=schema), folder / place / f"{name}.parquet", **options)


def read(folder: Path, pattern: str = "**/*.parquet") -> list[Row]:
    """What somebody sees who knows nothing of Névé: every file that the pattern finds, without hive columns."""
    found: list[Row] = []
    for file in sorted(folder.glob(pattern)):
        found += pq.read_table(file, partitioning=None).to_pylist()
    return found


def read_with_duckdb(folder: Path) -> list[Row]:
    sql = f"SELECT * FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = false, union_by_name = true)"
    with duckdb.connect() as connection:
        relation = connection.sql(sql)
        assert relation is not None
        found: list[Row] = relation.to_arrow_table().to_pylist()
    return found


def bag(rows: Sequence[Row]) -> Counter[str]:
    return Counter(repr(sorted((name, _plain(value)) for name, value in row.items())) for row in rows)


def _plain(value: Any) -> Any:
    """A time zone may be written in two ways."""
    return value.isoformat() if isinstance(value, datetime) else value


def files(folder: Path) -> dict[str, int]:
    """The data files and when each was written."""
    return {str(file.relative_to(folder)): file.stat().st_ino for file in sorted(folder.rglob("*.parquet"))}


KEYS = ("product_id", "date")


def trades() -> list[Row]:
    rows = [
        ("BTC-USD", "2025-11-25", "1", 1.0, 100.0),
        ("BTC-USD", "2025-11-26", "12345", 2.0, 300.0),
        ("BTC-USD", "2025-11-26", "3", 3.0, None),
        ("ETH-USD", "2025-11-26", "4", 4.0, 250.0),
    ]
    names = ("product_id", "date", "trade_id", "price", "spread_bps")
    return [{**dict(zip(names, row, strict=True)), "size": 1.0} for row in rows]
