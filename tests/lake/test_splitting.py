"""Repartitioning in this process: every row once, in the folder of its values, as it was; and no Spark."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neve.engine import parquet_tasks, splitting
from neve.errors import CheckFailed
from neve.parquet import Repartitioner
from neve.plan.folders import partition_of

SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("k", pa.string()), ("j", pa.int32()), ("day", pa.date32()), ("d", pa.decimal128(9, 2)),
        ("flag", pa.bool_()), ("v", pa.float64()), ("at", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)  # fmt: skip


def row(random: Random, number: int) -> dict[str, Any]:
    choose = random.choice
    return {
        "id": number,
        "k": choose([None, "", "x/y", "a b", "ü=1", 'q"\\', "a\nb"]),
        "j": choose([None, 1, -2]),
        "day": choose([None, date(1600, 1, 1), date(2024, 2, 29)]),
        "d": choose([None, Decimal("1.50"), Decimal("-0.01")]),
        "flag": choose([None, True, False]),
        "v": choose([None, float("nan"), -0.0, 0.0, 1.5]),
        "at": choose([None, datetime(2024, 1, 1, tzinfo=UTC)]),
        "tags": choose([None, [], ["a", None]]),
    }


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    """A time zone may be written in two ways."""
    plain = [{**row, "at": row["at"] and row["at"].isoformat()} for row in rows]
    return Counter(repr(sorted(row.items(), key=lambda item: item[0])) for row in plain)


def read(folder: Path) -> list[dict[str, Any]]:
    found = []
    for file in sorted(folder.rglob("*.parquet")):
        found += pq.read_table(file, partitioning=None).to_pylist()
    return found


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("Spark is wanted")

    monkeypatch.setattr("neve.services.directories.Workplace.spark", property(fail))


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("keys", [["k"], ["j", "k"], ["day"], ["d", "flag"], ["flag", "j", "day"], ["j"], []])
@pytest.mark.slow
def test_every_row_once_where_it_belongs(tmp_path: Path, keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads and batches, files of other shapes, all kinds of keys; in the order of the sources."""
    monkeypatch.setattr("neve.plan.directories._LEAST_FILE", 100)
    monkeypatch.setattr(splitting, "_ROWS", 7)
    random = Random(",".join(keys))
    rows = [row(random, number) for number in range(120)]
    rows[90:] = [{**each, "j": None} for each in rows[90:]]  # the last file lacks the column
    (tmp_path / "old").mkdir()
    for number in range(4):
        table = pa.Table.from_pylist(rows[number * 30 : number * 30 + 30], schema=SCHEMA)
        if number == 1:
            table = table.set_column(1, "k", table["k"].dictionary_encode())
        if number == 2:
            table = table.set_column(2, "j", table["j"].cast(pa.int16()))
        if number == 3:
            table = table.drop_columns(["j"])
        pq.write_table(table, tmp_path / f"old/{number}.parquet")
    work = Repartitioner(tmp_path / "old", tmp_path / "new", keys, batch_size=5)
    estimate, dry = work.estimate_size(), work.repartition(dry_run=True)
    assert not (tmp_path / "new").exists()
    stats = work.repartition()
    assert (stats["records_read"], stats["records_written"], stats["validated"]) == (120, 120, True)
    assert {dry["partitions_created"], estimate["num_partitions"]} == {stats["partitions_created"]}
    assert (dry["records_written"], estimate["total_rows"]) == (120, 120)
    assert bag(read(tmp_path / "new")) == bag(rows)
    for file in (tmp_path / "new").rglob("*.parquet"):
        place = dict(partition_of(str(file.relative_to(tmp_path / "new"))))
        held = pq.read_table(file, partitioning=None).to_pylist()
        for each in held:
            texts = {key: str(each[key]) for key in keys} | {"flag": str(each["flag"]).lower()}
            assert place == {key: None if each[key] in (None, "") else texts[key] for key in keys}
        ids = [each["id"] for each in held]
        assert ids == sorted(ids) or "k" in keys  # NULL and "" share a folder
        assert (
            max(pq.read_metadata(file).row_group(n).num_rows for n in range(pq.read_metadata(file).num_row_groups)) <= 5
        )


@pytest.mark.usefixtures("no_spark")
def test_files_of_a_size_and_row_groups_of_a_length(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    table = pa.table({"k": [1] * 60_000, "text": [f"{number:032x}" * 8 for number in range(60_000)]})
    pq.write_table(table, tmp_path / "many/x.parquet")
    work = Repartitioner(tmp_path / "many", tmp_path / "new", ["k"], compression="uncompressed", batch_size=2000)
    work.repartition(target_file_size_mb=4)
    files = sorted((tmp_path / "new").rglob("*.parquet"))
    assert len(files) >= 3
    assert all(file.stat().st_size < 6 * 2**20 for file in files)
    assert pq.read_metadata(files[0]).row_group(0).num_rows <= 2000


@pytest.mark.usefixtures("no_spark")
def test_old_timestamps_are_instants(tmp_path: Path) -> None:
    """INT96 has no unit and no zone: pyarrow's nanoseconds would end in 2262, and Spark refuses to read them."""
    table = pa.table({"k": ["a"], "at": pa.array([datetime(9999, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))})
    (tmp_path / "old").mkdir()
    pq.write_table(table, tmp_path / "old/x.parquet", use_deprecated_int96_timestamps=True)
    Repartitioner(tmp_path / "old", tmp_path / "new", ["k"]).repartition()
    (file,) = (tmp_path / "new").rglob("*.parquet")
    assert pq.read_schema(file).field("at").type == pa.timestamp("us", tz="UTC")
    assert pq.read_table(file, partitioning=None).to_pylist() == table.to_pylist()


@pytest.mark.usefixtures("no_spark")
def test_files_of_several_writers(tmp_path: Path) -> None:
    """Time zones and texts come in several ways: one column all the same."""
    (tmp_path / "old").mkdir()
    for number, (text, zone) in enumerate(
        [(pa.string(), "UTC"), (pa.large_string(), "+00:00"), (pa.string_view(), "Etc/UTC")]
    ):
        at = pa.array([datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", zone))
        table = pa.table({"k": pa.array(["a"], text), "at": at, "id": [number]})
        pq.write_table(table, tmp_path / f"old/{number}.parquet")
    Repartitioner(tmp_path / "old", tmp_path / "new", ["k"]).repartition()
    assert bag(read(tmp_path / "new")) == bag(read(tmp_path / "old"))


@pytest.mark.usefixtures("no_spark")
def test_wrong_rows_are_found_before_anything_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: another value, a row more, a row less, rows of another partition."""
    table = pa.table({"k": ["a", "b", "a"], "v": [1.0, float("nan"), -0.0]})
    (tmp_path / "old").mkdir()
    pq.write_table(table, tmp_path / "old/x.parquet")
    real = parquet_tasks.write_parts
    wrong = {
        "value": lambda found: found.set_column(1, "v", pa.array([1.0, 0.0])),
        "more": lambda found: pa.concat_tables([found, found.slice(0, 1)]),
        "less": lambda found: found.slice(0, 1),
    }
    for tamper in wrong.values():

        def write(batches: Any, sink: Any, tamper: Any = tamper) -> Any:
            files = real(batches, sink)
            address = next(file.address for file in files if json.loads(file.group) == ["a"])
            pq.write_table(tamper(pq.read_table(address)), address)
            return files

        monkeypatch.setattr(splitting, "write_parts", write)
        with pytest.raises(CheckFailed):
            Repartitioner(tmp_path / "old", tmp_path / "new", ["k"]).repartition()
        assert not list((tmp_path / "new").rglob("*.parquet"))
    monkeypatch.setattr(splitting, "write_parts", real)
    assert Repartitioner(tmp_path / "old", tmp_path / "new", ["k"]).repartition()["records_written"] == 3


@pytest.mark.usefixtures("no_spark")
def test_texts_that_repeat_stay_dictionaries_and_nobody_sees_it(tmp_path: Path) -> None:
    """A file's dictionary holds its own values only, and readers are told of plain text."""
    count = 6000
    table = pa.table(
        {
            "k": [f"k{number % 3}" for number in range(count)],
            "day": [None if number % 7 == 0 else f"day {number % 3}" for number in range(count)],
            "name": [f"a name of its own {number}" for number in range(count)],
            "cat": pa.array([f"c{number % 5}" for number in range(count)]).dictionary_encode(),
        }
    )
    (tmp_path / "old").mkdir()
    for number in range(3):
        pq.write_table(table.slice(number * 2000, 2000), tmp_path / f"old/{number}.parquet")
    Repartitioner(tmp_path / "old", tmp_path / "new", ["k"]).repartition()
    plain = pa.schema([(name, pa.string()) for name in table.schema.names])
    for file in (tmp_path / "new").rglob("*.parquet"):
        assert pq.read_schema(file).remove_metadata() == plain
        days = pq.read_table(file, partitioning=None, read_dictionary=["day"])["day"].combine_chunks().dictionary
        assert days.to_pylist() == [f"day {file.parent.name[-1]}"]
    found = sorted(read(tmp_path / "new"), key=lambda row: int(row["name"].split()[-1]))
    assert found == table.to_pylist()
    pattern = f"{tmp_path}/new/**/*.parquet"
    by_duckdb = (
        duckdb.connect().execute(f"SELECT * FROM read_parquet('{pattern}', hive_partitioning = false)").fetchall()
    )
    by_polars = pl.read_parquet(pattern, hive_partitioning=False)
    assert dict(by_polars.schema) == dict.fromkeys(table.schema.names, pl.String())
    assert set(by_duckdb) == set(by_polars.rows()) == {tuple(row.values()) for row in found}
    assert len(by_duckdb) == len(by_polars) == count


def test_more_partitions_than_files_can_be_open_are_left_to_spark(
    tmp_path: Path, no_spark: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a look at some files did not show it; nothing is left of what was begun."""
    (tmp_path / "old").mkdir()
    for number in range(70):
        rows = [number if number % 3 else 0] * 5
        pq.write_table(pa.table({"k": rows, "v": range(5)}), tmp_path / f"old/{number:03}.parquet")
    monkeypatch.setattr("neve.services.repartition.parts.MOST_OPEN", 40)
    staged: list[list[Path]] = []
    real = splitting.split_files

    def watch(*arguments: Any, **options: Any) -> Any:
        try:
            return real(*arguments, **options)
        finally:
            staged.append(list(Path(arguments[3].folder).iterdir()))

    monkeypatch.setattr(splitting, "split_files", watch)
    with pytest.raises(AssertionError, match="Spark is wanted"):
        Repartitioner(tmp_path / "old", tmp_path / "new", ["k"]).repartition()
    assert staged == [[]]
    monkeypatch.setattr("neve.services.repartition.parts.MOST_OPEN", 64)
    assert Repartitioner(tmp_path / "old", tmp_path / "new", ["k"]).repartition()["partitions_created"] == 47


@pytest.mark.usefixtures("no_spark")
@pytest.mark.slow
def test_files_of_one_partition_are_copied_byte_for_byte(tmp_path: Path) -> None:
    """Those whose rows belong together by their statistics, if row groups are large and as they were asked for."""
    random = Random(1)
    rows = 80_000

    def table(day: str | None, place: list[str]) -> pa.Table:
        noise = pa.array(memoryview(random.randbytes(16 * rows)).cast("q"), pa.int64())
        return pa.table(
            {
                "day": pa.array([day] * rows, pa.string()),
                "place": pa.array((place * rows)[:rows]),
                "v": noise.slice(0, rows),
                "w": noise.slice(rows),
            }
        )

    held = {
        "day=1/place=x/a": table("1", ["x"]),
        "day=1/place=y/b": table("1", ["y"]),
        "day=2/place=x/c": table("2", ["x"]),
        "day=__HIVE_DEFAULT_PARTITION__/place=x/d": table(None, ["x"]),
    }
    for name, content in held.items():
        (tmp_path / "old" / name).parent.mkdir(parents=True)
        pq.write_table(content, tmp_path / f"old/{name}.parquet", compression="zstd")
    chunk = next(iter(held)) + ".parquet"
    source = pq.read_metadata(tmp_path / "old" / chunk).row_group(0).column(2)
    start, size = source.data_page_offset, source.total_compressed_size
    packed = (tmp_path / "old" / chunk).read_bytes()[start : start + size]

    stats = Repartitioner(tmp_path / "old", tmp_path / "days", ["day"]).repartition()
    assert (stats["files_written"], stats["partitions_created"], stats["records_written"]) == (3, 3, 4 * rows)
    (first,) = (tmp_path / "days/day=1").iterdir()
    assert packed in first.read_bytes()
    assert pq.read_table(first, partitioning=None).equals(
        pa.concat_tables([held["day=1/place=x/a"], held["day=1/place=y/b"]])
    )
    assert (tmp_path / "days/day=__HIVE_DEFAULT_PARTITION__").is_dir()

    stats = Repartitioner(tmp_path / "days", tmp_path / "flat", []).repartition()
    (flat,) = (tmp_path / "flat").iterdir()
    assert packed in flat.read_bytes()
    assert stats["records_written"] == pq.read_metadata(flat).num_rows == 4 * rows

    for codec, most in (("zstd", 50_000), ("snappy", 1_000_000)):  # what is asked for is not what is there
        target = tmp_path / codec
        stats = Repartitioner(tmp_path / "old", target, ["place"], compression=codec, batch_size=most).repartition()
        for file in target.rglob("*.parquet"):
            group = pq.read_metadata(file).row_group(0)
            assert (group.num_rows <= most, group.column(0).compression) == (True, codec.upper())
            assert packed not in file.read_bytes()
        assert stats["records_written"] == 4 * rows
