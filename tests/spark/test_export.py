"""Rows out of a table: other readers find the same bag of them, and a folder is complete or not there."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from tests.spark.bags import bag, digests

from neve.catalog.files import Files
from neve.errors import (
    ColumnNotFound,
    InvalidInput,
    InvalidQuery,
    JobFailed,
    NeveError,
    NotEmpty,
    Refused,
    SnapshotNotFound,
    StorageError,
    Unsupported,
)
from neve.lake import Lake, LakeTable
from neve.services.export import upload

UTC = dt.UTC
WHEN = dt.datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
NASTY = [
    *("plain", "", None, 'say "hi"', "a,b", "two\nlines", "car\r\nriage"),
    *(" spaces ", "\\", '\\"', "''", "é 雪 😀", "#x", '"'),
]


def filled(values: list[Any], kind: pa.DataType) -> pa.Array:
    """As many values as there are texts, over and over."""
    return pa.array([values[index % len(values)] for index in range(len(NASTY))], kind)


FLAT = pa.table(
    {
        "n": pa.array(range(len(NASTY)), pa.int64()),
        "text": pa.array(NASTY),
        "flag": filled([True, False, None], pa.bool_()),
        "small": filled([Decimal("1.50"), Decimal("0.00"), None, Decimal("-99999999.99")], pa.decimal128(10, 2)),
        "large": filled(
            [Decimal("0E-18"), Decimal("12345678901234567890.123456789012345678"), None], pa.decimal128(38, 18)
        ),
        "double": filled([1e308, -0.1, None, 5e-324, 1 / 3, 1e21, 0.0], pa.float64()),
        "day": filled([dt.date(1, 1, 1), dt.date(1582, 10, 10), None, dt.date(9999, 12, 31)], pa.date32()),
        "at": filled([WHEN, dt.datetime(1899, 12, 31, 23, 0, 0, 1, UTC), None], pa.timestamp("us", "UTC")),
        "local": filled([WHEN.replace(tzinfo=None), None], pa.timestamp("us")),
        "raw": filled([b"\x00\xff\x10", b"", None], pa.binary()),
    }
)
POINT = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
NESTED = {
    "list": pa.array([[1, None, 3], []] * 7, pa.list_(pa.int64())),
    "map": pa.array([[("a", 1.5), ("b", None)], None] * 7, pa.map_(pa.string(), pa.float64())),
    "point": pa.array([{"x": 1, "tags": ["a", None]}, None] * 7, POINT),
}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out" / "exported é"


@pytest.fixture
def holding(spark_lake: Lake, namespace: str, tmp_path: Path) -> Callable[..., LakeTable]:
    """A table that holds exactly these rows, each twice: they lie in a file that pyarrow wrote."""

    def holding(rows: pa.Table, name: str = "t") -> LakeTable:
        folder = tmp_path / f"source-{name}"
        folder.mkdir()
        for copy in range(2):
            pq.write_table(rows, folder / f"{copy}.parquet")
        spark_lake.tables.adopt(folder, f"{namespace}.{name}")
        return spark_lake.table(f"{namespace}.{name}")

    return holding


def twice(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows, rows])


def parts(folder: Path, kind: str) -> list[str]:
    return sorted(map(str, folder.glob(f"part-*.{kind}")))


def test_parquet_holds_every_type_for_pyarrow_and_duckdb(holding: Callable[..., LakeTable], target: Path) -> None:
    rows = FLAT
    for name, array in NESTED.items():
        rows = rows.append_column(name, array)
    receipt = holding(rows).export(target)
    expected = bag(twice(rows))
    assert bag(pq.read_table(target)) == expected
    assert {str(field.type) for field in pq.read_schema(parts(target, "parquet")[0]) if field.name == "at"} == {
        "timestamp[us, tz=UTC]"
    }
    with duckdb.connect() as duck:
        duck.sql("SET TimeZone = 'UTC'")
        found = duck.sql(f"SELECT * FROM read_parquet('{target}/*.parquet')").to_arrow_table()
    assert bag(found) == expected
    assert receipt.details["rows"] == 2 * rows.num_rows
    assert receipt.details["files"] == len(parts(target, "parquet"))
    assert receipt.details["bytes"] == sum(Path(file).stat().st_size for file in parts(target, "parquet"))


def test_csv_comes_back_value_by_value(holding: Callable[..., LakeTable], target: Path) -> None:
    """NULL and the empty string apart, times to the microsecond, text as it was; to pyarrow and to DuckDB."""
    receipt = holding(FLAT).export(target, format="csv")
    assert receipt.details["rows"] == 2 * FLAT.num_rows
    hexed = pa.array([None if raw is None else raw.hex() for raw in FLAT.column("raw").to_pylist()])
    expected = bag(twice(FLAT.set_column(FLAT.column_names.index("raw"), "raw", hexed)))
    kinds = {field.name: field.type for field in FLAT.schema} | {"raw": pa.string()}
    read = [
        pyarrow.csv.read_csv(
            file,
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=kinds, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
            ),
        )
        for file in parts(target, "csv")
    ]
    assert bag(pa.concat_tables(read)) == expected
    names = {
        "n": "BIGINT", "text": "VARCHAR", "flag": "BOOLEAN", "small": "DECIMAL(10,2)", "large": "DECIMAL(38,18)",
        "double": "DOUBLE", "day": "DATE", "at": "TIMESTAMPTZ", "local": "TIMESTAMP", "raw": "VARCHAR",
    }  # fmt: skip
    with duckdb.connect() as duck:
        duck.sql("SET TimeZone = 'UTC'")
        found = duck.sql(
            f"SELECT * FROM read_csv('{target}/*.csv', header=true, columns={names!r}, auto_detect=false, quote='\"',"
            " escape='\"', nullstr='', allow_quoted_nulls=false, new_line='\\n')"
        ).to_arrow_table()
    assert bag(found) == expected


def test_a_single_column_with_null_is_refused_as_csv(holding: Callable[..., LakeTable], target: Path) -> None:
    """NULL alone is an empty line, and Spark leaves that out: rows would be lost without a word."""
    table = holding(pa.table({"text": pa.array(["a", None, "", None])}))
    with pytest.raises(Unsupported, match="text is the only column"):
        table.export(target, format="csv")
    assert list(target.parent.iterdir()) == []
    assert table.export(target, format="csv", where="text IS NOT NULL").details["rows"] == 4
    lines = [line for file in parts(target, "csv") for line in Path(file).read_text().splitlines()[1:]]
    assert sorted(lines) == ['""', '""', "a", "a"]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_no_rows_leave_the_columns(holding: Callable[..., LakeTable], target: Path, kind: str) -> None:
    receipt = holding(FLAT).export(target, format=kind, where="n < 0")
    assert receipt.details["rows"] == 0
    if kind == "csv":
        (file,) = parts(target, "csv")
        assert Path(file).read_text() == ",".join(FLAT.column_names) + "\n"
    else:
        found = pq.read_table(target)
        assert (found.num_rows, found.column_names) == (0, FLAT.column_names)


def test_a_table_that_was_never_written_to(make_table: Callable[..., LakeTable], target: Path) -> None:
    make_table(schema="id bigint, at timestamp").export(target)
    assert str(pq.read_table(target).schema.field("at").type) == "timestamp[us, tz=UTC]"


class TestWhere:
    @pytest.fixture
    def table(self, make_table: Callable[..., LakeTable]) -> LakeTable:
        return make_table(rows="(1, 'a'), (2, NULL), (3, 'c'), (3, 'c')")

    @pytest.mark.parametrize(
        ("where", "ids"),
        [
            ("id > 2", [3, 3]),
            ("name IS NULL", [2]),
            ("name = 'x;y' OR id = 1 -- no more", [1]),
            ("id IN (SELECT max(id) FROM t)", [3, 3]),
            ("cast(NULL AS boolean)", []),
        ],
    )
    def test_keeps_the_rows_for_which_it_holds(
        self, table: LakeTable, target: Path, where: str, ids: list[int]
    ) -> None:
        assert table.export(target, where=where).details["rows"] == len(ids)
        assert sorted(pq.read_table(target).column("id").to_pylist()) == ids

    @pytest.mark.parametrize(
        ("where", "error"),
        [
            ("", InvalidQuery),
            ("id", InvalidQuery),
            ("id > 1; DROP TABLE t", InvalidQuery),
            ("true) UNION SELECT * FROM t WHERE (true", InvalidQuery),
            ("(DELETE FROM t)", InvalidQuery),
            ("EXISTS (INSERT INTO t VALUES (9, 'x'))", InvalidQuery),
            ("sum(id) > 1", InvalidQuery),
            ("nmae = 'a'", ColumnNotFound),
            ("id = 1 ORDER BY id", InvalidQuery),
        ],
    )
    def test_anything_else_is_refused_and_leaves_nothing(
        self, table: LakeTable, target: Path, spark_lake: Lake, where: str, error: type[NeveError]
    ) -> None:
        runs = len(spark_lake.runs.list(limit=10_000))
        with pytest.raises(error):
            table.export(target, where=where)
        assert not target.parent.exists()
        assert len(spark_lake.runs.list(limit=10_000)) == runs
        assert table.status().rows == 4


def test_an_earlier_state(make_table: Callable[..., LakeTable], spark_lake: Lake, target: Path) -> None:
    table = make_table(rows="(1, 'a')")
    table.tag("v1")
    snapshot = table.show().current_snapshot
    spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES (2, 'b')", write=True)
    for index, moment in enumerate(("v1", str(snapshot))):
        receipt = table.export(target / str(index), as_of=moment)
        assert (receipt.details["rows"], receipt.details["snapshot"]) == (1, snapshot)
        assert pq.read_table(target / str(index)).column("id").to_pylist() == [1]
    with pytest.raises(SnapshotNotFound):
        table.export(target / "2", as_of="v2")


def test_deleted_rows_and_added_columns_show_as_in_the_table(
    make_table: Callable[..., LakeTable], spark_lake: Lake, target: Path
) -> None:
    from neve.services.specs import alterations_from_words

    table = make_table(rows="(1, 'a'), (2, 'b'), (3, 'c')")
    spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE id = 2", write=True)
    table.alter(alterations_from_words(add=["late int"]))
    table.export(target)
    assert bag(pq.read_table(target)) == bag(pa.table({"id": [1, 3], "name": ["a", "c"], "late": [None, None]}))


class TestRefused:
    @pytest.fixture
    def table(self, make_table: Callable[..., LakeTable]) -> LakeTable:
        return make_table(rows="(1, 'a')")

    def test_a_folder_that_holds_something(self, table: LakeTable, target: Path) -> None:
        target.mkdir(parents=True)
        (target / ".hidden").touch()
        with pytest.raises(NotEmpty, match="hidden"):
            table.export(target)
        assert list(target.iterdir()) == [target / ".hidden"]

    def test_a_file(self, table: LakeTable, target: Path) -> None:
        target.parent.mkdir()
        target.touch()
        with pytest.raises(NotEmpty, match="is a file"):
            table.export(target)

    def test_the_warehouse(self, table: LakeTable, spark_lake: Lake) -> None:
        for folder in (table.show().location + "/data", str(spark_lake.root)):
            with pytest.raises(Refused, match="warehouse"):
                table.export(folder)

    def test_another_format(self, table: LakeTable, target: Path) -> None:
        with pytest.raises(InvalidInput, match="parket"):
            table.export(target, format="parket")

    @pytest.mark.parametrize("kind", ["array<int>", "map<string,int>", "struct<x:int>"])
    def test_a_nested_column_in_csv(self, make_table: Callable[..., LakeTable], target: Path, kind: str) -> None:
        table = make_table("nested", f"id int, deep {kind}")
        with pytest.raises(Unsupported, match="column deep"):
            table.export(target, format="csv")
        assert not target.parent.exists()


def test_an_empty_folder_is_filled(make_table: Callable[..., LakeTable], target: Path) -> None:
    target.mkdir(parents=True)
    make_table(rows="(1, 'a')").export(str(target) + "/")
    assert sorted(file.name.split("-")[0] for file in target.iterdir()) == ["_SUCCESS", "part"]


def test_an_export_that_fails_leaves_nothing(
    make_table: Callable[..., LakeTable], spark_lake: Lake, target: Path
) -> None:
    table = make_table(rows="(1, 'a'), (2, 'b')")
    with pytest.raises(JobFailed):
        table.export(target, where="1 / (id - 2) < 0")
    assert list(target.parent.iterdir()) == []
    (run,) = (run for run in spark_lake.runs.list(table=str(table.name)) if run.kind == "export")
    assert run.state == "failed"


def test_only_an_earlier_export_is_overwritten(
    make_table: Callable[..., LakeTable], spark_lake: Lake, target: Path
) -> None:
    table = make_table(rows="(1, 'a')")
    table.export(target)
    spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES (2, 'b')", write=True)
    table.export(target, overwrite=True)
    assert sorted(pq.read_table(target).column("id").to_pylist()) == [1, 2]
    assert list(target.parent.iterdir()) == [target]
    before = digests(target)
    with pytest.raises(JobFailed):
        table.export(target, where="1 / (id - 2) < 0", overwrite=True)
    assert digests(target) == before
    (target / "mine.txt").touch()
    with pytest.raises(NotEmpty, match=r"mine\.txt"):
        table.export(target, overwrite=True)
    (target / "mine.txt").unlink()
    (target / "_SUCCESS").unlink()
    with pytest.raises(NotEmpty):
        table.export(target, overwrite=True)


def test_a_run_is_recorded(make_table: Callable[..., LakeTable], spark_lake: Lake, target: Path) -> None:
    table = make_table(rows="(1, 'a')")
    receipt = table.export(target, where="id = 1")
    assert receipt.run_id is not None
    run = spark_lake.runs.show(receipt.run_id)
    assert (run.kind, run.state, run.result) == ("export", "succeeded", receipt.details)
    assert receipt.details["folder"] == str(target)


@pytest.mark.faults
def test_a_killed_export_leaves_nothing_that_looks_complete(
    tmp_path: Path, make_table: Callable[..., LakeTable], spark_lake: Lake, target: Path
) -> None:
    """Killed while it writes; the next run clears up what it left. A command line does the work."""
    table = make_table(rows="(1, 'a'), (2, 'b')")
    slow = "id > 0 AND java_method('java.lang.Thread', 'sleep', cast(60000 AS bigint)) IS NULL"
    command = [sys.executable, "-m", "neve", "table", "export", str(table.name), str(target), "--where", slow]
    with subprocess.Popen(
        [*command, "--lake", str(spark_lake.root)], start_new_session=True, stderr=subprocess.PIPE
    ) as process:
        deadline = time.monotonic() + 120
        while not list(target.parent.glob(".neve-*/_temporary/*/*/*")):
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    assert not target.exists()
    (left,) = target.parent.iterdir()
    (killed,) = (run for run in spark_lake.runs.list(table=str(table.name)) if run.kind == "export")
    assert (killed.state, left.name) == ("running", f".neve-{killed.run_id}")
    table.export(target)
    assert pq.read_table(target).num_rows == 2
    assert list(target.parent.iterdir()) == [target]
    assert spark_lake.runs.show(killed.run_id).state == "failed"


class TestUpload:
    """To S3 there is no rename: the marker goes last, and a failure takes its files away again."""

    @pytest.fixture
    def bucket(self, tmp_path: Path) -> Path:
        (tmp_path / "s3" / "bucket").mkdir(parents=True)
        return tmp_path / "s3" / "bucket"

    @pytest.fixture
    def files(self, bucket: Path) -> Files:
        """A pyarrow filesystem in the place of S3's; what is asked of it is the same."""
        files = Files()
        vars(files)["_s3"] = SubTreeFileSystem(str(bucket.parent), LocalFileSystem())
        return files

    @pytest.fixture
    def staging(self, tmp_path: Path) -> Path:
        folder = tmp_path / "staging"
        folder.mkdir()
        for name in ("_SUCCESS", "part-1.parquet", "part-0.parquet"):
            (folder / name).write_text(name)
        return folder

    def test_copies_everything_and_the_marker_last(self, files: Files, bucket: Path, staging: Path) -> None:
        (bucket / "out").mkdir()
        upload(files, staging, "s3://bucket/out", overwrite=False)
        assert digests(bucket / "out") == digests(staging)
        times = {file.name: file.stat().st_mtime_ns for file in (bucket / "out").iterdir()}
        assert max(times, key=lambda name: times[name]) == "_SUCCESS"

    def test_replaces_what_an_earlier_export_left(self, files: Files, bucket: Path, staging: Path) -> None:
        (bucket / "out").mkdir()
        for name in ("_SUCCESS", "part-9.parquet"):
            (bucket / "out" / name).touch()
        upload(files, staging, "s3://bucket/out", overwrite=True)
        assert digests(bucket / "out") == digests(staging)

    def test_that_fails_takes_its_files_away(self, files: Files, bucket: Path, staging: Path) -> None:
        (bucket / "out" / "part-1.parquet").mkdir(parents=True)
        with pytest.raises(StorageError, match="s3://bucket/out"):
            upload(files, staging, "s3://bucket/out", overwrite=False)
        assert digests(bucket / "out") == {}
