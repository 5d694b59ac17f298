"""What `adopt` decides before it changes anything: all of it without a JVM, on real files."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.cli.app import run
from neve.errors import AlreadyExists, InvalidName, InvalidSchema, NeveError, NotFound, Refused, Unsupported
from neve.lake import Lake
from neve.model.names import TableName
from neve.model.results import Receipt
from neve.model.runs import Run, new_run_id
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct
from neve.plan.adopt import Doubt, Footer, check_held, merge_columns, plan_adoption
from neve.plan.folders import infer_type, overlap, parse_value

Write = Callable[..., Path]
LONG, INT, STRING = Primitive("long"), Primitive("int"), Primitive("string")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def write(data: Path) -> Write:
    """Writes a Parquet file below the folder."""

    def write(path: str, columns: dict[str, Any] | pa.Table, **options: Any) -> Path:
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, data / path, **options)
        return data / path

    return write


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One lake for all dry runs: none of them changes it."""
    with Lake.create(tmp_path_factory.mktemp("untouched") / "lake") as opened:
        yield opened


@pytest.fixture
def look(untouched: Lake, data: Path) -> Callable[[], Receipt]:
    """A dry run on the folder; it must start no Spark and leave no trace, whether it is content or refuses."""

    def look() -> Receipt:
        try:
            return untouched.tables.adopt(data, "t", dry_run=True)
        finally:
            assert "session" not in vars(untouched._context)
            assert untouched.tables.list() == []
            assert untouched.runs.list() == []
            assert list((untouched.root / "warehouse").iterdir()) == []

    return look


def refusal(look: Callable[[], Receipt], kind: type[NeveError], *words: str) -> None:
    """The error is of this kind and names all of these."""
    with pytest.raises(kind) as caught:
        look()
    assert type(caught.value) is kind
    for word in words:
        assert word in caught.value.message


class TestADryRun:
    def test_gives_the_numbers_of_the_footers(self, write: Write, look: Callable[[], Receipt], data: Path) -> None:
        first = write("a.parquet", {"id": [1, 2], "name": ["x", None]})
        second = write("b.parquet", {"id": pa.array([3], pa.int32()), "extra": [True]})
        receipt = look()
        assert receipt.dry_run
        assert receipt.run_id is None
        assert receipt.details == {
            "from": str(data),
            "files": 2,
            "rows": 3,
            "bytes": first.stat().st_size + second.stat().st_size,
            "columns": ["id bigint", "name string", "extra boolean"],
            "partition_by": [],
        }

    def test_takes_partitions_from_the_path(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("day=2024-02-29/n=1/s=a%2Fb/x.parquet", {"id": [1]})
        write("day=2024-03-01/n=3000000000/s=__HIVE_DEFAULT_PARTITION__/y.parquet", {"id": [2]})
        details = look().details
        assert details["columns"] == ["id bigint", "day date", "n bigint", "s string"]
        assert details["partition_by"] == ["day", "n", "s"]

    def test_passes_over_what_readers_pass_over(self, write: Write, look: Callable[[], Receipt], data: Path) -> None:
        write("a.parquet", {"id": [1]})
        for name in ("_SUCCESS", ".a.parquet.crc", "_metadata"):
            (data / name).write_bytes(b"not parquet")
        write("_temporary/0/b.parquet", {"other": ["x"]})
        assert look().details["rows"] == 1

    def test_counts_files_without_rows_apart(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("a.parquet", {"id": [1]})
        write("b.parquet", {"id": pa.array([], pa.int64()), "late": pa.array([], pa.string())})
        details = look().details
        assert (details["files"], details["empty_files"]) == (1, 1)
        assert details["columns"] == ["id bigint", "late string"]

    def test_is_the_same_by_command_line(
        self, write: Write, look: Callable[[], Receipt], untouched: Lake, data: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write("k=1/a.parquet", {"id": [1]})
        assert run(["table", "adopt", str(data), "t", "--dry-run", "-o", "json", "--lake", str(untouched.root)]) == 0
        assert json.loads(capsys.readouterr().out) == look().model_dump(mode="json")

    def test_refuses_a_name_that_is_taken(self, write: Write, lake: Lake, data: Path) -> None:
        write("a.parquet", {"id": [1]})
        lake.tables.create("t", "id bigint")
        with pytest.raises(AlreadyExists):
            lake.tables.adopt(data, "t", dry_run=True)


class TestAFolderThatDisagrees:
    """The statistics decide where they can; else the column is read. Both must find the same."""

    @pytest.fixture(params=["statistics", "no statistics", "small row groups"])
    def options(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        options: dict[str, dict[str, Any]] = {
            "statistics": {},
            "no statistics": {"write_statistics": False},
            "small row groups": {"row_group_size": 1},
        }
        return options[request.param]

    @pytest.mark.parametrize(
        ("folder", "good", "bad"),
        [
            ("k=7", [7, 7, 7], [7, 7, 8]),
            ("k=007", [7, 7], [7, None]),
            ("k=eu", ["eu", "eu"], ["eu", "EU"]),
            ("k=", ["", ""], ["", " "]),
            ("k=2024-02-29", [date(2024, 2, 29)], [date(2024, 2, 28)]),
            ("k=1.5", [Decimal("1.50")] * 2, [Decimal("1.50"), Decimal("1.51")]),
            ("k=true", [True, True], [True, False]),
            ("k=a%20b%3D%C3%A9", ["a b=é"], ["a%20b%3D%C3%A9"]),
            ("k=" + "x" * 200, ["x" * 200] * 2, ["x" * 200, "x" * 199 + "y"]),
        ],
    )
    def test_is_refused_with_both_values(  # noqa: PLR0917
        self,
        write: Write,
        look: Callable[[], Receipt],
        options: dict[str, Any],
        folder: str,
        good: list[object],
        bad: list[object],
    ) -> None:
        write(f"{folder}/good.parquet", {"k": good, "v": list(range(len(good)))}, **options)
        assert look().details["rows"] == len(good)
        write(f"{folder}/bad.parquet", {"k": bad, "v": list(range(len(bad)))}, **options)
        refusal(look, Refused, "bad.parquet", "the folder says k = ", "inside there is")

    def test_names_the_value_of_the_path_and_the_one_inside(
        self, write: Write, look: Callable[[], Receipt], options: dict[str, Any]
    ) -> None:
        write("month=2/a.parquet", {"month": [2, 3, 2]}, **options)
        refusal(look, Refused, "month=2/a.parquet: the folder says month = 2, but inside there is 3")

    def test_may_be_null(self, write: Write, look: Callable[[], Receipt], options: dict[str, Any]) -> None:
        null = "k=__HIVE_DEFAULT_PARTITION__"
        write(f"{null}/good.parquet", {"k": pa.array([None, None], pa.int64())}, **options)
        assert look().details["columns"] == ["k bigint"]
        write(f"{null}/bad.parquet", {"k": pa.array([None, 1], pa.int64())}, **options)
        refusal(look, Refused, "bad.parquet: the folder says k = NULL, but inside there is 1")

    def test_by_type_alone_is_refused(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("k=seven/a.parquet", {"k": [7]})
        refusal(look, Refused, "k=seven/a.parquet", "'seven'", "bigint")

    def test_is_found_in_a_categorical_column(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("k=a/x.parquet", {"k": pa.array(["a", "b"]).dictionary_encode()}, write_statistics=False)
        refusal(look, Refused, "inside there is 'b'")


class TestRefused:
    def test_a_missing_folder(self, untouched: Lake, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="nowhere"):
            untouched.tables.adopt(tmp_path / "nowhere", "t", dry_run=True)

    def test_a_file(self, untouched: Lake, write: Write) -> None:
        with pytest.raises(NotFound):
            untouched.tables.adopt(write("a.parquet", {"id": [1]}), "t", dry_run=True)

    def test_an_empty_folder(self, look: Callable[[], Receipt], data: Path) -> None:
        (data / "_SUCCESS").touch()
        refusal(look, Refused, "no files to adopt", str(data))

    @pytest.mark.parametrize("content", [b"", b"id,name\n1,x\n", b"PAR1" + b"\0" * 100 + b"PAR1"])
    def test_a_file_that_is_not_parquet(
        self, write: Write, look: Callable[[], Receipt], data: Path, content: bytes
    ) -> None:
        write("a.parquet", {"id": [1]})
        (data / "b.csv").write_bytes(content)
        refusal(look, Refused, "b.csv")

    def test_a_file_cut_short(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("a.parquet", {"id": [1]})
        cut = write("b.parquet", {"id": [1]})
        cut.write_bytes(cut.read_bytes()[:-20])
        refusal(look, Refused, "b.parquet")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (pa.array([1]), pa.array(["x"])),
            (pa.array([1]), pa.array([1.5])),
            (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), pa.array([Decimal("1.500")], pa.decimal128(9, 3))),
            (pa.array([0], pa.timestamp("us")), pa.array([date(2024, 1, 1)])),
            (pa.array([0], pa.timestamp("us")), pa.array([0], pa.timestamp("us", "UTC"))),
            (pa.array(["x"]), pa.array([b"x"])),
            (pa.array([{"f": 1}]), pa.array([{"f": "x"}])),
            (pa.array([[1]]), pa.array([["x"]])),
            (pa.array([[1]]), pa.array([1])),
        ],
    )
    def test_types_that_conflict(
        self, write: Write, look: Callable[[], Receipt], one: pa.Array, other: pa.Array
    ) -> None:
        write("a.parquet", {"id": [1]})
        write("b.parquet", {"c": one})
        write("c.parquet", {"c": other})
        refusal(look, InvalidSchema, "column c", "b.parquet", "c.parquet")

    @pytest.mark.parametrize(
        "array",
        [
            pa.array([1], pa.uint8()),
            pa.array([1], pa.uint16()),
            pa.array([1], pa.uint32()),
            pa.array([1], pa.uint64()),
            pa.array([0], pa.timestamp("ms")),
            pa.array([0], pa.timestamp("ns")),
            pa.array([0], pa.time32("ms")),
            pa.array([0], pa.time64("us")),
            pa.nulls(1),
            pa.array([1.5], pa.float16()),
            pa.array([1], pa.decimal256(50, 2)),
            pa.array([[{"x": 1}]], pa.list_(pa.struct([("x", pa.uint32())]))),
        ],
        ids=lambda array: str(array.type),
    )
    def test_types_that_spark_would_read_wrongly(
        self, write: Write, look: Callable[[], Receipt], array: pa.Array
    ) -> None:
        write("a.parquet", {"good": [1], "odd": array})
        refusal(look, Unsupported, "a.parquet", "column odd")

    def test_a_packing_that_spark_cannot_undo(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("a.parquet", {"id": [1]}, compression="brotli")
        refusal(look, Unsupported, "a.parquet", "BROTLI")

    @pytest.mark.parametrize("name", ["a.b", "a`b", " a", "a\nb"])
    def test_column_names_that_cannot_be_said(self, write: Write, look: Callable[[], Receipt], name: str) -> None:
        write("a.parquet", {name: [1]})
        refusal(look, InvalidName, repr(name))

    def test_column_names_that_meet(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("K=1/a.parquet", {"k": [1]})
        refusal(look, InvalidSchema, "k is there twice")

    def test_a_metadata_column(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("a.parquet", {"_row_id": [1]})
        refusal(look, InvalidSchema, "_row_id")

    def test_files_at_different_depths(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("a.parquet", {"id": [1]})
        write("k=1/b.parquet", {"id": [1]})
        refusal(look, Refused, "a.parquet", "k=1/b.parquet")

    def test_keys_in_another_order(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("a=1/b=1/x.parquet", {"id": [1]})
        write("b=1/a=1/y.parquet", {"id": [1]})
        refusal(look, Refused, "a, b", "b, a")

    def test_folders_that_are_not_partitions(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("2024/01/x.parquet", {"id": [1]})
        refusal(look, Refused, "2024/01/x.parquet", "'2024'")

    def test_a_key_twice(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("k=1/k=2/x.parquet", {"id": [1]})
        refusal(look, Refused, "k=1/k=2/x.parquet")

    def test_an_encoding_of_no_text(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("k=%FF/x.parquet", {"id": [1]})
        refusal(look, Refused, "'%FF'")

    def test_folders_named_for_a_type_that_text_cannot_give(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("k=0.1/x.parquet", {"k": [0.1]})
        refusal(look, InvalidSchema, "named for k", "double")

    def test_a_link_to_a_folder(self, write: Write, look: Callable[[], Receipt], data: Path) -> None:
        write("k=1/x.parquet", {"id": [1]})
        (data / "k=2").symlink_to(data / "k=1")
        refusal(look, Refused, "k=2 is a link")

    def test_a_file_name_that_hadoop_cannot_open(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("10:30.parquet", {"id": [1]})
        refusal(look, Refused, "10:30.parquet")

    def test_a_file_name_that_is_no_text(self, write: Write, look: Callable[[], Receipt], data: Path) -> None:
        source = write("a.parquet", {"id": [1]})
        source.rename(data / os.fsdecode(b"\xff.parquet"))
        refusal(look, Refused, str(data))

    def test_the_warehouse_of_the_lake(self, untouched: Lake) -> None:
        for folder in (untouched.root / "warehouse", untouched.root):
            with pytest.raises(Refused, match="warehouse"):
                untouched.tables.adopt(folder, "t", dry_run=True)

    def test_a_folder_on_the_other_side(self, untouched: Lake) -> None:
        with pytest.raises(Unsupported, match="s3://bucket/data"):
            untouched.tables.adopt("s3://bucket/data/", "t", dry_run=True)

    def test_a_folder_of_a_table_that_was_registered(self, lake: Lake, write: Write, data: Path) -> None:
        """A table may lie anywhere; its files are its own wherever that is."""
        with Lake.create(data / "other") as other:
            other.tables.create("t", "id bigint")
            metadata = next((data / "other" / "warehouse").glob("*/metadata/*.json"))
        lake.tables.register("mine", str(metadata))
        write("deep/a.parquet", {"id": [1]})
        with pytest.raises(AlreadyExists, match=r"default\.mine"):
            lake.tables.adopt(data, "t", dry_run=True)


def test_what_a_killed_adoption_left_is_cleared_by_the_next_run(lake: Lake) -> None:
    """Until its one commit there is no table, only a folder that belongs to none."""
    with subprocess.Popen(["true"]) as dead:
        pass
    folder = lake.root / "warehouse" / f"default_t-{uuid.uuid4().hex}"
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "m0.avro").touch()
    now = datetime.now(UTC)
    killed = Run(
        run_id=new_run_id(now, os.urandom),
        kind="adopt",
        table_name="t",
        plan={"from": "/data", "location": str(folder)},
        started_at=now,
        host=socket.gethostname(),
        pid=dead.pid,
    )
    lake._context.store.runs.start(killed)
    lake.tables.create("other", "id bigint")
    assert not folder.exists()
    assert lake.runs.show(killed.run_id).state == "failed"


class TestNumberedColumns:
    """A file that carries field ids is read by them; any that differ from the table's would change columns silently."""

    @staticmethod
    def numbered(**ids: int | None) -> pa.Table:
        fields = [
            pa.field(name, pa.int64(), metadata=None if number is None else {"PARQUET:field_id": str(number)})
            for name, number in ids.items()
        ]
        return pa.table([pa.array([1])] * len(fields), schema=pa.schema(fields))

    def test_that_fit_are_taken(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("a.parquet", self.numbered(a=1, b=2))
        write("b.parquet", {"a": [1], "c": [2]})
        write("c.parquet", self.numbered(b=2))
        assert look().details["columns"] == ["a bigint", "b bigint", "c bigint"]

    def test_that_differ_are_refused(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("a.parquet", self.numbered(a=2, b=1))
        refusal(look, Refused, "a.parquet", "a has field id 2")

    def test_that_are_missing_are_refused(self, write: Write, look: Callable[[], Receipt]) -> None:
        write("a.parquet", self.numbered(a=1, b=None))
        refusal(look, Refused, "a.parquet", "b has field id none")

    def test_below_a_column_count_too(self, write: Write, look: Callable[[], Receipt]) -> None:
        def table(number: int) -> pa.Table:
            element = pa.field("element", pa.int64(), metadata={"PARQUET:field_id": str(number)})
            field = pa.field("a", pa.list_(element), metadata={"PARQUET:field_id": "1"})
            return pa.table([pa.array([[1]], field.type)], schema=pa.schema([field]))

        write("a.parquet", table(2))
        assert look().details["rows"] == 1
        write("a.parquet", table(3))
        refusal(look, Refused, "a.element has field id 3")


def footer(path: str, **columns: Any) -> Footer:
    return Footer(
        path=path,
        bytes=1,
        rows=1,
        columns=tuple(Field(name, kind) for name, kind in columns.items()),
        ids={},
        constants={},
        vectorised=True,
    )


def test_columns_are_merged_at_every_depth() -> None:
    one = footer("1", s=Struct((Field("x", INT), Field("y", ListOf(Primitive("float"))))), m=MapOf(STRING, INT))
    two = footer("2", n=LONG, s=Struct((Field("z", STRING), Field("x", LONG))), m=MapOf(STRING, LONG))
    three = footer("3", s=Struct((Field("y", ListOf(Primitive("double"))),)))
    assert merge_columns([one, two, three]) == (
        Field("s", Struct((Field("x", LONG), Field("y", ListOf(Primitive("double"))), Field("z", STRING)))),
        Field("m", MapOf(STRING, LONG)),
        Field("n", LONG),
    )


def test_a_clash_names_the_first_file_that_does_not_fit() -> None:
    """Not the widened type, which no file holds under that name, but a file and what it says."""
    files = [footer("1", a=INT), footer("2", a=LONG), footer("3", a=STRING)]
    with pytest.raises(InvalidSchema, match="column a is int in 1 and string in 3"):
        merge_columns(files)


TYPES = st.sampled_from([Primitive(n) for n in ("int", "long", "float", "double", "decimal(5, 2)", "decimal(9, 2)")])


@given(st.lists(TYPES, min_size=1, max_size=5), st.randoms())
def test_the_order_of_files_does_not_change_a_merged_type(types: list[Primitive], random: Any) -> None:
    def merged(kinds: list[Primitive]) -> object:
        try:
            return merge_columns([footer(str(index), a=kind) for index, kind in enumerate(kinds)])
        except InvalidSchema:
            return "refused"

    shuffled = random.sample(types, len(types))
    assert merged(types) == merged(shuffled)


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_of_a_path_come_back_exactly(number: int) -> None:
    kind = infer_type([str(number)])
    assert kind == ("int" if -(2**31) <= number < 2**31 else "long")
    assert parse_value(str(number), kind) == number


@pytest.mark.parametrize(
    "texts",
    [["\uff11"], ["+1"], ["1_000"], ["1.0"], [""], ["2024-2-1"], ["2023-02-29"], ["1", "2024-01-01"], [str(2**63)]],
)
def test_what_only_looks_like_a_number_or_a_date_stays_text(texts: list[str]) -> None:
    assert infer_type(texts) == "string"


@pytest.mark.parametrize("text", ["1.505", "NaN", "12345.00", "x", "Infinity", ""])
def test_decimals_that_do_not_fit_are_no_values(text: str) -> None:
    assert parse_value(text, "decimal(5, 2)") is None


def test_a_plan_reads_only_what_statistics_leave_open() -> None:
    plain = footer("k=1/plain", k=INT)
    proven = Footer(
        path="k=2/proven", bytes=1, rows=1, columns=plain.columns, ids={}, constants={"k": 2}, vectorised=True
    )
    outside = footer("k=3/outside", v=STRING)
    plan = plan_adoption(TableName.parse("t"), "/d", [plain, proven, outside])
    assert plan.doubts == (Doubt(path="k=1/plain", column="k", value=1),)
    assert [file.partition for file in plan.files] == [("1",), ("2",), ("3",)]
    check_held(plan.doubts[0], [1, 1])
    assert json.loads(plan.properties["schema.name-mapping.default"]) == [
        {"field-id": 1, "names": ["k"]},
        {"field-id": 2, "names": ["v"]},
    ]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [("/a", "/a", True), ("/a/", "/a", True), ("/a", "/a/b", True), ("/a/b", "/a", True), ("/a", "/ab", False)],
)
def test_folders_overlap_by_whole_names(one: str, other: str, shared: bool) -> None:
    assert overlap(one, other) is shared
