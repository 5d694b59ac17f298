"""Tables that Névé made, read by others: PyIceberg through the catalog, DuckDB and pyarrow from the files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from neve.engine.statements import stream
from neve.lake import Lake, LakeTable

SCHEMA = (
    "id bigint not null, region string, day date, at timestamp, wall timestamp_ntz, price decimal(18,4), ok boolean, "
    "ratio double, raw binary, place struct<city: string, geo: struct<lat: double, lon: double>>, tags array<string>, "
    "counts map<string, int>, history array<struct<at: date, qty: decimal(9,2)>>"
)
ROWS = """
SELECT id,
       IF(id % 7 = 0, NULL, element_at(array('north', 'söuth', 'a/b c'), CAST(id % 3 AS INT) + 1)),
       date_add(DATE'2023-12-30', CAST(id % 40 AS INT)),
       timestamp_micros(id * 86400123456),
       timestamp_ntz'1969-12-31 23:59:59.999999',
       CAST(id AS DECIMAL(18, 4)) / 3,
       id % 2 = 0,
       IF(id % 11 = 0, double('NaN'), id / 7D),
       unhex(lpad(hex(id), 4, '0')),
       IF(id % 5 = 0, NULL, named_struct(
         'city', concat('c', id), 'geo', IF(id % 3 = 0, NULL, named_struct('lat', id / 2D, 'lon', -id / 2D)))),
       IF(id % 4 = 0, array(), array(concat('t', id), NULL)),
       map('a', CAST(id AS INT), 'b', NULL),
       array(named_struct('at', DATE'2024-02-29', 'qty', CAST(1.25 AS DECIMAL(9, 2))))
FROM range(0, 200, 1, 3)
"""


def plain(value: Any) -> Any:
    """A value that compares, hashes and prints alike whichever library made it."""
    match value:
        case float():
            return "NaN" if value != value else value  # noqa: PLR0124 - that is what NaN is
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case Decimal():
            return str(value)
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
        case date():
            return value.isoformat()
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case tuple() if hasattr(value, "asDict"):
            return plain(value.asDict())
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(plain(row), sort_keys=True) for row in rows)


def as_spark_reads(table: LakeTable) -> Counter[str]:
    rows = stream(table.query(f"SELECT * FROM {table.name.sql}"))
    return bag([dict(zip(rows.columns, row, strict=True)) for row in rows.stream])


def pairs_as_map(row: dict[str, Any]) -> dict[str, Any]:
    """Arrow gives a map as pairs."""
    return {key: dict(value) if key == "counts" and value is not None else value for key, value in row.items()}


def as_pyiceberg_reads(lake: Lake, table: LakeTable) -> Counter[str]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake.root}/catalog.db", warehouse=str(lake.root / "warehouse"))
    try:
        return bag(
            [pairs_as_map(row) for row in catalog.load_table(table.name.identifier).scan().to_arrow().to_pylist()]
        )
    finally:
        catalog.engine.dispose()


def local(path: str) -> str:
    return path.removeprefix("file:")


def files_of(table: LakeTable, content: str) -> list[str]:
    return [local(row.path) for row in table.files() if row.content == content]


def as_duckdb_reads(table: LakeTable) -> Counter[str]:
    """The data files, less the positions that the delete files name."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        data = connection.read_parquet(
            files_of(table, "data"), filename=True, file_row_number=True, hive_partitioning=False
        )
        connection.register("data", data)
        deletes = files_of(table, "position_deletes")
        if deletes:
            connection.register("gone", connection.read_parquet(deletes))
            data = connection.sql(
                "SELECT d.* FROM data d ANTI JOIN gone g "
                "ON replace(g.file_path, 'file:', '') = d.filename AND g.pos = d.file_row_number"
            )
        columns = [column for column in data.columns if column not in ("filename", "file_row_number")]
        rows = data.project(", ".join(f'"{column}"' for column in columns)).to_arrow_table().to_pylist()
    return bag([pairs_as_map(row) for row in rows])


def as_pyarrow_reads(table: LakeTable) -> Counter[str]:
    rows = [row for path in files_of(table, "data") for row in pq.ParquetFile(path).read().to_pylist()]
    return bag([pairs_as_map(row) for row in rows])


@pytest.fixture
def make(spark_lake: Lake, namespace: str) -> Callable[[str], LakeTable]:
    def make(version: str) -> LakeTable:
        name = f"{namespace}.v{version}"
        spark_lake.tables.create(
            name,
            SCHEMA,
            partition_by=["region", "month(day)", "bucket(3, id)"],
            sort_by=["at desc"],
            properties={"format-version": version},
        )
        table = spark_lake.table(name)
        spark_lake.sql(f"INSERT INTO {table.name.sql} {ROWS}", write=True)
        return table

    return make


def test_a_plain_table_reads_the_same_everywhere(spark_lake: Lake, make: Callable[[str], LakeTable]) -> None:
    table = make("3")
    spark = as_spark_reads(table)
    assert spark.total() == 200
    assert as_pyiceberg_reads(spark_lake, table) == spark
    assert as_duckdb_reads(table) == spark
    assert as_pyarrow_reads(table) == spark


def test_a_table_with_deletes_reads_the_same_everywhere(spark_lake: Lake, make: Callable[[str], LakeTable]) -> None:
    """Format 2, merge-on-read: deletes and updates are position delete files."""
    table = make("2")
    spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE id % 9 = 1", write=True)
    spark_lake.sql(f"UPDATE {table.name.sql} SET price = -1, tags = NULL WHERE id % 10 = 5", write=True)
    details = table.show()
    assert (details.format_version, details.delete_files > 0) == (2, True)
    spark = as_spark_reads(table)
    assert spark.total() == 200 - len(range(1, 200, 9)) == details.rows
    assert as_pyiceberg_reads(spark_lake, table) == spark
    assert as_duckdb_reads(table) == spark


def test_metadata_made_without_spark_reads_the_same(spark_lake: Lake, make: Callable[[str], LakeTable]) -> None:
    """After a schema change, PyIceberg reads old and new files as Spark does."""
    from neve.services.specs import alterations_from_words

    table = make("3")
    table.alter(alterations_from_words(rename={"region": "area"}, drop=["wall"], add=["place.zip string", "extra int"]))
    history = (
        "array(named_struct('at', DATE'2024-01-01', 'qty', 1.0BD))"  # PyIceberg 0.12 reads NULL here as an empty list
    )
    values = f"1000, 'new', 5, {history}"
    spark_lake.sql(f"INSERT INTO {table.name.sql} (id, area, extra, history) SELECT {values}", write=True)
    spark = as_spark_reads(table)
    assert spark.total() == 201
    assert as_pyiceberg_reads(spark_lake, table) == spark
