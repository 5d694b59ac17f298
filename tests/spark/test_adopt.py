"""A Parquet folder as a table: the rows that another reader finds there, and files that nothing ever touches."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import functions as f
from tests.spark.bags import bag, digests

from neve.errors import AlreadyExists, JobFailed, NeveError, Refused, StalePlan
from neve.lake import Lake, LakeTable
from neve.model.names import TableName
from neve.model.results import Receipt
from neve.services import adopt as service

UTC = dt.UTC
WHEN = dt.datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
NAIVE = WHEN.replace(tzinfo=None)
POINT = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])

# Name → type, then values. NULLs, duplicates, edges, and text that needs care.
EVERY_TYPE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False, None, True]),
    "tiny": (pa.int8(), [1, -128, None, 1]),
    "int": (pa.int32(), [2**31 - 1, -(2**31), None, 2**31 - 1]),
    "long": (pa.int64(), [2**63 - 1, -(2**63), None, 2**63 - 1]),
    "single": (pa.float32(), [1.5, -0.0, None, 1.5]),
    "double": (pa.float64(), [1e308, float("nan"), None, 1e308]),
    "small": (pa.decimal128(5, 2), [Decimal("123.45"), Decimal("-0.01"), None, Decimal("123.45")]),
    "large": (pa.decimal128(38, 10), [Decimal("1.0000000001"), Decimal(-(10**27)), None, Decimal("1.0000000001")]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1, 1, 1)]),
    "at": (pa.timestamp("us", "UTC"), [WHEN, dt.datetime(1900, 1, 1, tzinfo=UTC), None, WHEN]),
    "local": (pa.timestamp("us"), [NAIVE, dt.datetime(1969, 12, 31, 23, 59, 59), None, NAIVE]),  # noqa: DTZ001
    "text": (pa.string(), ["é\n\"',\\ 雪", "", None, "é\n\"',\\ 雪"]),
    "category": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None, "a"]),
    "raw": (pa.binary(), [b"\x00\xff", b"", None, b"\x00\xff"]),
    "fixed": (pa.binary(3), [b"abc", b"\x00\x00\x00", None, b"abc"]),
    "ident": (pa.uuid(), [uuid.UUID(int=1).bytes, uuid.UUID(int=2**128 - 1).bytes, None, uuid.UUID(int=1).bytes]),
    "list": (pa.list_(pa.int64()), [[1, None, 3], [], None, [1, None, 3]]),
    "map": (pa.map_(pa.string(), pa.float64()), [[("a", 1.5), ("b", None)], [], None, [("a", 1.5), ("b", None)]]),
    "point": (POINT, [{"x": 1, "tags": ["a", None]}, {"x": None, "tags": None}, None, {"x": 1, "tags": ["a", None]}]),
    "points": (pa.list_(POINT), [[{"x": 1, "tags": []}, None], [], None, [{"x": 1, "tags": []}, None]]),
}
NUMBERED = {name: pa.array(values, kind) for name, (kind, values) in EVERY_TYPE.items()}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data é"
    folder.mkdir()
    return folder


@pytest.fixture
def adopt(spark_lake: Lake, namespace: str, data: Path) -> Callable[..., LakeTable]:
    """Adopts the folder; a dry run before it must give the same numbers, and the files must stay as they are."""

    def adopt(name: str = "t") -> LakeTable:
        before = digests(data)
        dry = spark_lake.tables.adopt(data, f"{namespace}.{name}", dry_run=True)
        receipt = spark_lake.tables.adopt(data, f"{namespace}.{name}")
        assert receipt.details == dry.details
        assert digests(data) == before
        return spark_lake.table(f"{namespace}.{name}")

    return adopt


@pytest.fixture
def read(spark_lake: Lake) -> Callable[..., pa.Table]:
    def read(table: LakeTable, rest: str = "") -> pa.Table:
        return spark_lake.sql(f"SELECT * FROM {table.name.sql} {rest}").toArrow()

    return read


def write(path: Path, columns: dict[str, Any] | pa.Table, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False, "compression": "zstd"},
        {"data_page_version": "2.0", "row_group_size": 2, "compression": "gzip"},
        {"use_deprecated_int96_timestamps": True, "use_compliant_nested_type": False, "write_statistics": False},
    ],
    ids=["default", "plain", "pages v2", "legacy"],
)
def test_every_type_reads_as_another_reader_reads_it(
    data: Path, adopt: Callable[..., LakeTable], read: Callable[..., pa.Table], options: dict[str, Any]
) -> None:
    columns = {**NUMBERED}
    if "use_deprecated_int96_timestamps" in options:
        del columns["local"]  # INT96 cannot say that it has no zone
    write(data / "a.parquet", columns, **options)
    write(data / "b.parquet", {name: array[1:2] for name, array in columns.items()}, **options)
    expected = ds.dataset(data, format="parquet").to_table()
    assert sum(bag(expected).values()) == 5
    if expected.schema.field("at").type.tz is None:  # pyarrow knows no zone in INT96; everybody else takes it for UTC
        expected = expected.set_column(
            expected.column_names.index("at"), "at", pc.cast(expected.column("at"), pa.timestamp("us", "UTC"))
        )
    assert bag(read(adopt())) == bag(expected)


def test_filters_find_the_same_rows_by_every_column(
    data: Path, adopt: Callable[..., LakeTable], spark_lake: Lake
) -> None:
    """Bounds that Iceberg took from the footers must never hide a row."""
    names = ("flag", "tiny", "int", "long", "single", "small", "large", "day", "at", "text", "category", "raw")
    for index in range(4):
        write(data / f"{index}.parquet", {name: NUMBERED[name][index : index + 1] for name in names})
    frame = spark_lake.spark.table(adopt().name.sql)
    for name in names:
        value = EVERY_TYPE[name][1][0]
        literal = f.expr(f"date'{value}'") if name == "day" else f.lit(value)
        assert (name, frame.where(f.col(name) == literal).count()) == (name, 2)
    assert frame.where("text IS NULL").count() == 1


def test_files_of_different_shape_make_one_table(
    data: Path, adopt: Callable[..., LakeTable], read: Callable[..., pa.Table]
) -> None:
    write(data / "1.parquet", {"a": pa.array([1, None], pa.int32()), "s": [{"x": 1}, None]})
    write(data / "2.parquet", {"b": ["x"], "a": pa.array([2**40]), "f": pa.array([0.5], pa.float32())})
    write(data / "3.parquet", {"f": [1e300], "d": pa.array([Decimal("1.50")], pa.decimal128(5, 2))})
    write(data / "4.parquet", {"d": pa.array([Decimal("12345678.25")], pa.decimal128(20, 2)), "s": [{"y": "z"}]})
    pieces = [pq.read_table(file) for file in sorted(data.iterdir())]
    struct = pa.struct([("x", pa.int64()), ("y", pa.string())])
    pieces = [_with_struct(piece, struct) for piece in pieces]
    table = adopt()
    assert bag(read(table)) == bag(pa.concat_tables(pieces, promote_options="permissive"))
    assert [f"{column.name} {column.type}" for column in table.show().columns] == [
        "a bigint",
        "s struct<x:bigint,y:string>",
        "b string",
        "f double",
        "d decimal(20,2)",
    ]


def _with_struct(table: pa.Table, kind: pa.StructType) -> pa.Table:
    if "s" not in table.column_names:
        return table
    rows = [
        None if row is None else {field.name: row.get(field.name) for field in kind}
        for row in table.column("s").to_pylist()
    ]
    return table.set_column(table.column_names.index("s"), "s", pa.array(rows, kind))


PARTITIONS: list[tuple[str, dict[str, Any]]] = [
    ("region=eu/day=2024-02-29/n=1", {"region": "eu", "day": dt.date(2024, 2, 29), "n": 1}),
    ("region=e%2Fu é=%25:/day=2024-03-01/n=-2", {"region": "e/u é=%:", "day": dt.date(2024, 3, 1), "n": -2}),
    (
        "region=__HIVE_DEFAULT_PARTITION__/day=__HIVE_DEFAULT_PARTITION__/n=__HIVE_DEFAULT_PARTITION__",
        {"region": None, "day": None, "n": None},
    ),
]


@pytest.mark.parametrize("inside", [False, True], ids=["only in the path", "inside the files too"])
def test_partitions_come_from_the_path(
    data: Path, adopt: Callable[..., LakeTable], read: Callable[..., pa.Table], inside: bool
) -> None:
    kinds = {"region": pa.string(), "day": pa.date32(), "n": pa.int32()}
    rows = []
    for index, (folder, values) in enumerate(PARTITIONS):
        held = pa.table({"id": [index, index, None]})
        whole = held
        for name, kind in kinds.items():
            whole = whole.append_column(name, pa.array([values[name]] * 3, kind))
        write(data / folder / "part 0.parquet", whole if inside else held)
        rows.append(whole)
    (data / "_SUCCESS").touch()
    table = adopt()
    expected = pa.concat_tables(rows)
    assert bag(read(table)) == bag(expected)
    assert table.show().partition_by == ["region", "day", "n"]
    assert sorted(row.rows for row in table.partitions()) == [3, 3, 3]
    assert read(table, "WHERE region = 'e/u é=%:' AND day = date'2024-03-01' AND n = -2").num_rows == 3
    assert read(table, "WHERE region IS NULL AND day IS NULL AND n IS NULL").num_rows == 3


def test_a_folder_that_spark_wrote(
    data: Path, adopt: Callable[..., LakeTable], read: Callable[..., pa.Table], spark_lake: Lake
) -> None:
    """Spark's own way: partition columns out of the files, INT96 times, checksums; DuckDB is the other reader."""
    frame = spark_lake.sql(
        "SELECT id, timestamp'2024-01-01 00:00:00.123456Z' + make_interval(0,0,0,0,0,0,id) AS at, array(id, NULL) AS a,"
        " CASE WHEN id % 5 = 0 THEN NULL ELSE concat('k ', id % 3, '/é:') END AS k FROM range(50)"
    )
    frame.write.partitionBy("k").parquet(str(data / "out"))
    (data / "out").rename(data.with_name("moved"))
    data.rmdir()
    data.with_name("moved").rename(data)
    with duckdb.connect() as duck:
        expected = duck.sql(
            f"SELECT id, \"at\", a, k FROM read_parquet('{data}/**/*.parquet', hive_partitioning=true)"
        ).to_arrow_table()
    expected = expected.set_column(1, "at", pc.cast(expected.column("at"), pa.timestamp("us", "UTC")))
    assert bag(read(adopt())) == bag(expected)


def test_it_is_one_commit_into_a_table_like_any_other(
    data: Path, adopt: Callable[..., LakeTable], spark_lake: Lake
) -> None:
    files = [write(data / f"k={k}" / "x.parquet", {"id": [k] * 10}) for k in (1, 2)]
    table = adopt()
    details, (snapshot,) = table.show(), table.history()
    (adopted,) = (run for run in spark_lake.runs.list(table=str(table.name)) if run.kind == "adopt")
    assert (adopted.state, adopted.snapshot_after, adopted.undo) == (
        "succeeded",
        snapshot.snapshot,
        f"neve table delete {table.name}",
    )
    assert snapshot.run_id == adopted.run_id
    assert (snapshot.rows, snapshot.files_added, snapshot.rows_added) == (20, 2, 20)
    assert details.format_version == 3
    assert Path(details.location).parent == spark_lake.root / "warehouse"
    assert details.properties["neve.adopted-from"] == str(data)
    assert details.properties["write.delete.mode"] == "merge-on-read"
    assert sorted(row.path for row in table.files()) == sorted(map(str, files))
    assert str(table.name) in {row.table_name for row in spark_lake._context.store.registry.list()}


def test_pyiceberg_reads_it_too(data: Path, adopt: Callable[..., LakeTable], spark_lake: Lake) -> None:
    """By the name mapping, since the files number no columns."""
    write(data / "k=a" / "1.parquet", {"id": [1, 2], "p": [{"x": 1}, None], "l": [["a"], []]})
    write(data / "k=b" / "2.parquet", {"l": [["b", None]], "id": [3]})
    table = adopt()
    opened = StaticTable.from_metadata(spark_lake._context.catalog.metadata_location(table.name))
    expected = ds.dataset(data, partitioning="hive", schema=_schema(data)).to_table()
    assert bag(opened.scan().to_arrow()) == bag(expected)


def _schema(data: Path) -> pa.Schema:
    first = pq.read_schema(data / "k=a" / "1.parquet")
    return first.append(pa.field("k", pa.string()))


def test_files_that_number_their_columns_as_the_table_does(
    data: Path, adopt: Callable[..., LakeTable], read: Callable[..., pa.Table]
) -> None:
    def numbered(field: pa.Field, number: int) -> pa.Field:
        return field.with_metadata({"PARQUET:field_id": str(number)})

    inner = [numbered(pa.field("x", pa.int64()), 4), numbered(pa.field("y", pa.string()), 5)]
    schema = pa.schema(
        [
            numbered(pa.field("a", pa.int64()), 1),
            numbered(pa.field("s", pa.struct(inner)), 2),
            numbered(pa.field("l", pa.list_(numbered(pa.field("element", pa.int64()), 6))), 3),
        ]
    )
    rows = [{"a": 1, "s": {"x": 2, "y": "z"}, "l": [3, None]}, {"a": None, "s": None, "l": None}]
    write(data / "1.parquet", pa.Table.from_pylist(rows, schema=schema))
    write(data / "2.parquet", pa.Table.from_pylist(rows))
    expected = pa.Table.from_pylist(rows * 2)
    assert bag(read(adopt())) == bag(expected)


class TestAfterwards:
    """Whatever is done to the table, the folder is as it was."""

    @pytest.fixture
    def table(self, data: Path, adopt: Callable[..., LakeTable]) -> LakeTable:
        for k in (1, 2, 3):
            write(data / f"k={k}" / "x.parquet", {"id": list(range(10)), "name": [f"{k}-{i}" for i in range(10)]})
        return adopt()

    @pytest.fixture(autouse=True)
    def unchanged(self, table: LakeTable, data: Path) -> Any:
        before = digests(data)
        yield
        assert digests(data) == before

    def test_rows_can_be_changed(
        self, table: LakeTable, spark_lake: Lake, read: Callable[..., pa.Table], data: Path
    ) -> None:
        name = table.name.sql
        for statement in (
            f"DELETE FROM {name} WHERE id = 3 OR k = 2",
            f"UPDATE {name} SET name = 'changed', k = 9 WHERE id = 4",
            f"INSERT INTO {name} (id, name, k) VALUES (100, 'new', 1), (NULL, NULL, NULL)",
        ):
            spark_lake.sql(statement, write=True)
        expected = [
            {"id": row["id"], "name": "changed" if row["id"] == 4 else row["name"], "k": 9 if row["id"] == 4 else k}
            for k in (1, 3)
            for row in pq.read_table(data / f"k={k}" / "x.parquet").to_pylist()
            if row["id"] != 3
        ]
        expected += [{"id": 100, "name": "new", "k": 1}, {"id": None, "name": None, "k": None}]
        assert bag(read(table)) == bag(pa.Table.from_pylist(expected))

    def test_it_can_be_emptied_and_rolled_back(self, table: LakeTable, read: Callable[..., pa.Table]) -> None:
        full = bag(read(table))
        first = table.show().current_snapshot
        assert first is not None
        table.reinitialise()
        assert read(table).num_rows == 0
        table.rollback(first)
        assert bag(read(table)) == full

    def test_it_can_be_compacted(self, table: LakeTable, spark_lake: Lake, read: Callable[..., pa.Table]) -> None:
        full = bag(read(table))
        spark_lake.spark.sql(
            f"CALL lake.system.rewrite_data_files(table => 'lake.{table.name}', options => map('rewrite-all', 'true'))"
        ).collect()
        assert bag(read(table)) == full
        assert all(row.path.startswith(table.show().location) for row in table.files())

    def test_iceberg_itself_deletes_none_of_its_files(self, table: LakeTable, spark_lake: Lake) -> None:
        """Expiry after the rows are gone, and a purging drop, are the two ways in which Iceberg removes data files."""
        table.reinitialise()
        for statement in (
            f"CALL lake.system.expire_snapshots(table => 'lake.{table.name}', retain_last => 1,"
            " older_than => timestamp'2999-01-01')",
            f"DROP TABLE {table.name.sql} PURGE",
        ):
            with pytest.raises(Exception, match="GC is disabled"):
                spark_lake.spark.sql(statement).collect()

    def test_columns_can_be_renamed_dropped_and_added(
        self, table: LakeTable, read: Callable[..., pa.Table], spark_lake: Lake
    ) -> None:
        """The files know the old names only; a new column of such a name would show the old one's values."""
        from neve.services.specs import alterations_from_words

        names = sorted(read(table).column("name").to_pylist())
        table.alter(alterations_from_words(rename={"name": "label"}))
        assert sorted(read(table).column("label").to_pylist()) == names
        with pytest.raises(Refused, match="name"):
            table.alter(alterations_from_words(add=["name string"]))
        table.alter(alterations_from_words(rename={"label": "name"}))
        assert sorted(read(table).column("name").to_pylist()) == names
        table.alter(alterations_from_words(drop=["name"]))
        for change in (alterations_from_words(add=["name string"]), alterations_from_words(rename={"id": "label"})):
            with pytest.raises(Refused):
                table.alter(change)
        table.alter(alterations_from_words(add=["other string"]))
        found = read(table)
        assert (found.column_names, found.column("other").null_count) == (["id", "k", "other"], 30)

    def test_it_can_be_deleted_and_brought_back(
        self, table: LakeTable, spark_lake: Lake, read: Callable[..., pa.Table]
    ) -> None:
        full = bag(read(table))
        table.drop()
        spark_lake.tables.undelete(str(table.name))
        assert bag(read(table)) == full

    @pytest.mark.parametrize("options", [{"force": True}, {"keep_data": True}])
    def test_it_can_be_deleted_for_ever_and_adopted_again(
        self, table: LakeTable, spark_lake: Lake, read: Callable[..., pa.Table], data: Path, options: dict[str, bool]
    ) -> None:
        full, location = bag(read(table)), Path(table.show().location)
        table.drop(**options)
        assert location.exists() == ("keep_data" in options)
        spark_lake.tables.adopt(data, str(table.name))
        assert bag(read(table)) == full


class TestSharedFiles:
    @pytest.mark.parametrize("which", [".", "k=1", ".."])
    def test_are_refused(self, data: Path, adopt: Callable[..., LakeTable], spark_lake: Lake, which: str) -> None:
        write(data / "k=1" / "x.parquet", {"id": [1]})
        table = adopt()
        for dry_run in (True, False):
            with pytest.raises(AlreadyExists, match=str(table.name)):
                spark_lake.tables.adopt(data / which, f"{table.name}_again", dry_run=dry_run)

    def test_of_two_at_once_no_two_stay(
        self, data: Path, spark_lake: Lake, namespace: str, read: Callable[..., pa.Table]
    ) -> None:
        """Both have looked before either commits: the later one sees the earlier, and goes."""
        write(data / "x.parquet", {"id": [1, 2]})
        context = spark_lake._context
        late = service.read_adoption(context, str(data), TableName.parse(f"{namespace}.late"))
        spark_lake.tables.adopt(data, f"{namespace}.early")
        folders = set((spark_lake.root / "warehouse").iterdir())
        with pytest.raises(AlreadyExists, match="early"):
            service._create(context, late, f"{context.loaded.warehouse_location}/late-{uuid.uuid4().hex}", run_id="r")
        assert not context.catalog.exists(late.spec.name)
        assert set((spark_lake.root / "warehouse").iterdir()) == folders
        assert read(spark_lake.table(f"{namespace}.early")).num_rows == 2


class TestAFailedCommit:
    """A plan that no longer holds when it is carried out."""

    def attempt(self, lake: Lake, name: str, data: Path, change: Callable[[], object], error: type[NeveError]) -> None:
        context = lake._context
        plan = service.read_adoption(context, str(data), TableName.parse(name))
        change()
        folders = set((lake.root / "warehouse").iterdir())
        with pytest.raises(error):
            service._create(context, plan, f"{context.loaded.warehouse_location}/x-{uuid.uuid4().hex}", run_id="r")
        assert set((lake.root / "warehouse").iterdir()) == folders

    def test_leaves_nothing_when_a_file_is_gone(self, data: Path, spark_lake: Lake, namespace: str) -> None:
        write(data / "a.parquet", {"id": [1]})
        file = write(data / "b.parquet", {"id": [1]})
        self.attempt(spark_lake, f"{namespace}.t", data, file.unlink, JobFailed)
        assert not spark_lake._context.catalog.exists(TableName.parse(f"{namespace}.t"))

    def test_leaves_nothing_when_a_file_has_changed(self, data: Path, spark_lake: Lake, namespace: str) -> None:
        file = write(data / "b.parquet", {"id": [1]})
        self.attempt(spark_lake, f"{namespace}.t", data, lambda: write(file, {"id": [1, 2]}), StalePlan)
        assert not spark_lake._context.catalog.exists(TableName.parse(f"{namespace}.t"))

    def test_leaves_the_table_of_a_rival(self, data: Path, spark_lake: Lake, namespace: str) -> None:
        write(data / "b.parquet", {"id": [1]})
        name = f"{namespace}.t"

        def rival() -> Receipt:
            return spark_lake.tables.create(name, "theirs string")

        self.attempt(spark_lake, name, data, rival, AlreadyExists)
        assert [column.name for column in spark_lake.table(name).show().columns] == ["theirs"]


def test_names_that_need_quoting(data: Path, spark_lake: Lake, namespace: str, read: Callable[..., pa.Table]) -> None:
    write(data / "my key=a b" / "x.parquet", {"select": [1], "é ☃": ["x"], "a-b": [True]})
    name = f"{namespace}.`sub ns`.`order by; drop`"
    spark_lake.tables.adopt(data, name)
    expected = pa.table({"select": [1], "é ☃": ["x"], "a-b": [True], "my key": ["a b"]})
    assert bag(read(spark_lake.table(name))) == bag(expected)


def test_a_folder_of_files_without_rows_is_a_table_without_rows(
    data: Path, adopt: Callable[..., LakeTable], read: Callable[..., pa.Table]
) -> None:
    write(data / "x.parquet", {"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    table = adopt()
    found = read(table)
    assert (found.num_rows, found.column_names, table.files()) == (0, ["id", "name"], [])


def test_many_files_in_one_commit(data: Path, adopt: Callable[..., LakeTable], spark_lake: Lake) -> None:
    for index in range(100):
        write(data / f"k={index % 7}" / f"{index}.parquet", {"id": [index] * 2})
    table = adopt()
    assert table.status().rows == 200
    total = spark_lake.sql(f"SELECT sum(id) AS total, sum(k) AS keys FROM {table.name.sql}").collect()[0]
    assert (total.total, total["keys"]) == (sum(range(100)) * 2, sum(index % 7 for index in range(100)) * 2)
    assert json.loads(table.show().properties["schema.name-mapping.default"])[0] == {"field-id": 1, "names": ["id"]}
