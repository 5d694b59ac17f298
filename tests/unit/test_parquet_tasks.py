"""What Spark's workers do with batches of rows, without Spark: files by group, size and row group, counted right."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.engine.parquet_tasks import GROUP, HASH, Sink, merge_files, write_batches
from neve.errors import Unsupported

UTC_TIME, BERLIN = pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")
WRITERS: dict[str, tuple[list[pa.DataType], list[Any]]] = {
    "zones": ([UTC_TIME, BERLIN, pa.timestamp("us", "+02:00")], [datetime(2024, 1, 1, tzinfo=UTC), None]),
    "texts": ([pa.string(), pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ["ü", None]),
    "bytes": ([pa.binary(), pa.binary_view(), pa.large_binary()], [b"x", None]),
    "lists": ([pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 1)], [[1], [2]]),
    "days": ([pa.date32(), pa.date64()], [date(2024, 2, 29), None]),
    "lengths": ([pa.int64(), pa.duration("us")], [7, None]),
    "deep": (
        [
            pa.struct([("a", pa.list_(pa.string())), ("b", pa.map_(pa.string(), UTC_TIME))]),
            pa.struct([("a", pa.large_list(pa.large_string())), ("b", pa.map_(pa.string_view(), BERLIN))]),
        ],
        [{"a": ["x", None], "b": [("k", datetime(2024, 1, 1, tzinfo=UTC))]}, None],
    ),
}


def sink(folder: Path, **options: int) -> Sink:
    return Sink(folder=str(folder), run_id="R", compression="zstd", **options)


def batches(groups: list[list[str]]) -> list[pa.RecordBatch]:
    found, number = [], 0
    for names in groups:
        numbers = list(range(number, number + len(names)))
        number += len(names)
        hashes = pa.array([2**62] * len(names), pa.int64())
        columns = {"id": pa.array(numbers, pa.int64()), GROUP: pa.array(names, pa.string()), HASH: hashes}
        found.append(pa.record_batch(columns))
    return found


def test_a_dictionary_for_what_repeats(tmp_path: Path) -> None:
    """And for nothing else; also below lists, structs and maps."""
    rows = 20_000
    random = Random(1)
    table = pa.record_batch(
        {
            "few": pa.array([number % 7 for number in range(rows)], pa.int64()),
            "many": pa.array(memoryview(random.randbytes(8 * rows)).cast("q"), pa.int64()),
            "words": pa.array([["a", None], []] * (rows // 2), pa.list_(pa.string())),
            "pair": pa.array([{"x": 1.5, "y": {"z": "b"}}] * rows),
            "map": pa.array([[("k", 1)]] * rows, pa.map_(pa.string(), pa.int64())),
            GROUP: pa.array(["g"] * rows, pa.string()),
        }
    )
    ((written,),) = [report.to_pylist() for report in write_batches(iter([table]), sink(tmp_path))]
    group = pq.read_metadata(written["address"]).row_group(0)
    encoded = {
        column.path_in_schema: "RLE_DICTIONARY" in column.encodings
        for column in (group.column(place) for place in range(group.num_columns))
    }
    assert encoded.pop("many") is False
    assert len(encoded) == 6
    assert all(encoded.values()), encoded
    assert pq.read_table(written["address"]).to_pylist() == table.drop_columns([GROUP]).to_pylist()


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "c", "[null]"]), max_size=8), max_size=5),
    st.integers(1, 5),
    st.integers(2, 4),
)
def test_rows_of_groups_that_come_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[str]], rows: int, most: int
) -> None:
    """Every row once, in a file of its group and in its order; no more files than needed when all can be open."""
    folder = tmp_path_factory.mktemp("out")
    order = [name for names in groups for name in names]
    (report,) = write_batches(iter(batches(groups)), sink(folder, row_group_rows=rows, open_groups=most))
    written = report.to_pylist()
    found: dict[str, list[int]] = {}
    for file in written:
        numbers = pq.read_table(file["address"])["id"].to_pylist()
        assert len(numbers) == file["rows"]
        assert file["digest"] == (2**62 * file["rows"] + 2**63) % 2**64 - 2**63
        found.setdefault(file[GROUP], []).extend(numbers)
    assert found == {name: [n for n, other in enumerate(order) if other == name] for name in set(order)}
    if len(set(order)) <= most:
        assert len(written) == len(set(order))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "[null]"]), max_size=8), max_size=5), st.integers(1, 5))
def test_rows_lie_in_files_of_their_group(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[str]], rows: int
) -> None:
    folder = tmp_path_factory.mktemp("out")
    order = sorted(name for names in groups for name in names)
    cut = iter(order)
    sorted_groups = [[next(cut) for _ in names] for names in groups]
    (report,) = write_batches(iter(batches(sorted_groups)), sink(folder, row_group_rows=rows))
    written = report.to_pylist()
    assert sum(file["rows"] for file in written) == len(order)
    assert [file[GROUP] for file in written] == sorted(set(order))  # one file each, for groups come together
    ids = []
    for file in written:
        table = pq.read_table(file["address"])
        assert table.column_names == ["id"]
        assert (table.num_rows, Path(file["address"]).stat().st_size) == (file["rows"], file["bytes"])
        assert {order[number] for number in table["id"].to_pylist()} == {file[GROUP]}
        metadata = pq.read_metadata(file["address"])
        assert all(metadata.row_group(n).num_rows <= rows for n in range(metadata.num_row_groups))
        assert metadata.metadata[b"neve.run"] == b"R"
        assert file["digest"] == (2**62 * file["rows"] + 2**63) % 2**64 - 2**63
        ids += table["id"].to_pylist()
    assert sorted(ids) == list(range(len(order)))
    assert all(path.suffix == ".staged" for path in folder.iterdir())


def test_a_new_file_begins_at_a_size(tmp_path: Path) -> None:
    random = Random(1)
    texts = [[random.randbytes(16).hex() for _ in range(1000)] for _ in range(20)]
    many = [pa.record_batch({"text": text, GROUP: ["g"] * 1000}) for text in texts]
    (report,) = write_batches(iter(many), sink(tmp_path, row_group_rows=1000, file_bytes=30_000))
    sizes = report.column("bytes").to_pylist()
    assert len(sizes) > 2
    assert all(size >= 30_000 for size in sizes[:-1])
    assert sum(report.column(2).to_pylist()) == 20_000


def test_merging_widens_and_keeps_the_order(tmp_path: Path) -> None:
    tables = [
        pa.table({"id": pa.array([3, 1], pa.int32())}),
        pa.table({"id": pa.array([2**40], pa.int64()), "s": pa.array(["x"]).dictionary_encode()}),
        pa.table({"id": pa.array([], pa.int32())}),
    ]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    jobs = [[0, 1, 2], [2]]
    reports = merged_jobs(tmp_path, [[(f"{tmp_path}/{number}.parquet", {}) for number in job] for job in jobs])
    assert [(row[GROUP], row["rows"]) for row in reports] == [("0", 3), ("1", 0)]
    merged = pq.read_table(reports[0]["address"]).to_pylist()
    assert [(row["id"], row["s"]) for row in merged] == [(3, None), (1, None), (2**40, "x")]
    assert pq.read_table(reports[1]["address"]).num_rows == 0


def test_columns_that_only_the_folder_tells(tmp_path: Path) -> None:
    """Beside files that hold them inside, they are written as their folder tells; NULL would be another row."""
    told = {"t": "eu", "n": "-7", "d": "2024-02-29", "x": "1.50", "b": "true", "none": None}
    held = {
        "t": pa.array(["eu"]),
        "n": pa.array([-7], pa.int32()),
        "d": pa.array([date(2024, 2, 29)]),
        "x": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        "b": pa.array([True]),
        "none": pa.array([None], pa.string()),
    }
    pq.write_table(pa.table({"id": [1]}), tmp_path / "hive.parquet")
    pq.write_table(pa.table({"id": [2], **held}), tmp_path / "own.parquet")
    files = [(f"{tmp_path}/hive.parquet", told), (f"{tmp_path}/own.parquet", {})]
    (report,) = merged_jobs(tmp_path, [files])
    one, other = pq.read_table(report["address"], partitioning=None).to_pylist()
    assert one == {**other, "id": 1}
    (report,) = merged_jobs(tmp_path, [files[:1]])
    assert pq.read_schema(report["address"]).names == ["id"]


def test_int96_is_an_instant_in_microseconds(tmp_path: Path) -> None:
    """At any depth, beside files that hold instants as such, and beyond what nanoseconds reach."""
    moments = [datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), datetime(1500, 1, 1, tzinfo=UTC), None]
    at = pa.array(moments, pa.timestamp("us", "UTC"))
    deep = pa.array([{"at": moment, "all": [moment]} for moment in moments])
    table = pa.table(
        {"at": at, "deep": deep, "map": pa.array([[(1, m)] for m in moments], pa.map_(pa.int32(), at.type))}
    )
    old = table.cast(pa.schema([("at", pa.timestamp("us")), table.field("deep"), table.field("map")]))
    pq.write_table(old, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(table, tmp_path / "new.parquet")
    (report,) = merged_jobs(tmp_path, [[(f"{tmp_path}/{name}.parquet", {}) for name in ("old", "new")]])
    merged = pq.read_table(report["address"])
    assert merged.schema.types == table.schema.types
    assert merged.to_pylist() == 2 * table.to_pylist()
    physical = pq.ParquetFile(report["address"]).schema
    assert {physical.column(place).physical_type for place in range(len(physical))} == {"INT32", "INT64"}


@pytest.mark.parametrize("name", list(WRITERS))
def test_one_type_whatever_it_came_as(tmp_path: Path, name: str) -> None:
    """Columns that the planner takes for the same, as pyarrow, pandas and polars may write and read them."""
    kinds, values = WRITERS[name]
    for number, kind in enumerate(kinds):
        pq.write_table(pa.table({"c": pa.array(values, kind)}), tmp_path / f"{number}.parquet")
    paths = [f"{tmp_path}/{number}.parquet" for number in range(len(kinds))]
    (report,) = merged_jobs(tmp_path, [[(path, {}) for path in paths]])
    merged = pq.read_table(report["address"])
    assert merged["c"].to_pylist() == len(kinds) * pa.array(values, kinds[0]).to_pylist()
    assert merged.schema.field("c").type == kinds[0]


def test_what_does_not_fit_together_is_refused_by_name(tmp_path: Path) -> None:
    for number, kind in enumerate((pa.int64(), pa.string())):
        pq.write_table(pa.table({"c": pa.array([None], kind)}), tmp_path / f"{number}.parquet")
    with pytest.raises(Unsupported, match=r"cannot be put together.*c.*int64.*string"):
        merged_jobs(tmp_path, [[(f"{tmp_path}/{number}.parquet", {}) for number in range(2)]])


def merged_jobs(folder: Path, jobs: list[list[tuple[str, dict[str, str | None]]]]) -> list[dict[str, Any]]:
    texts = [json.dumps({"group": str(number), "files": files}) for number, files in enumerate(jobs)]
    answers = merge_files(iter([pa.record_batch({"job": texts})]), sink(folder))
    return [row for batch in answers for row in batch.to_pylist()]
