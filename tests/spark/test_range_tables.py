"""Key-range tables with rows: where these lie, what is read for a key, and how ranges are divided beside writers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from neve.engine import staging
from neve.engine.rewrites import Rewrite, matching_files
from neve.errors import NeveError, StalePlan
from neve.lake import Lake, LakeTable
from neve.model.range_rows import RangeRow
from neve.plan.ranges import Keys, PlacedFile, SplitPoint, need_keys, place_files
from neve.services import ingest
from neve.services.ranges.reading import Asked
from neve.services.ranges.splitting import commit_cut
from neve.services.status import table_jobs

pytestmark = pytest.mark.usefixtures("quick")
Row = tuple[str, int, int | None]
KEYS = ["a", "b'c", "f", "g\\h", "é", "m", "z", "\U00010000"]


def made(seed: int, size: int) -> list[Row]:
    chance = random.Random(seed)
    return [(chance.choice(KEYS), chance.randrange(4), chance.choice([None, 1, 2])) for _ in range(size)]


def order(row: Row) -> tuple[bytes, int, bool, int]:
    return row[0].encode(), row[1], row[2] is not None, row[2] or 0


@pytest.fixture
def table(spark_lake: Lake, namespace: str) -> LakeTable:
    name = f"{namespace}.t"
    schema = "k string not null, n int not null, v int"
    spark_lake.tables.create(name, schema, row_keys=["k, n"], sort_keys=["v"], split_points="f\nm\nz\n")
    return spark_lake.table(name)


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Any]:
    """Loads rows as a file of a date."""

    def loaded(table: LakeTable, day: int, rows: Sequence[tuple[Any, Any, Any]]) -> Any:
        path = tmp_path / f"{table.name.name}_{day}.jsonl"
        path.write_text("".join(f"{json.dumps({'k': k, 'n': n, 'v': v})}\n" for k, n, v in rows))
        return table.ingest(str(path), date=f"2024-01-{day:02}")

    return loaded


@pytest.fixture
def held(spark_lake: Lake) -> Callable[[LakeTable], list[Row]]:
    def rows(table: LakeTable) -> list[Row]:
        found = spark_lake.sql(f"SELECT k, n, v FROM {table.name.sql}").collect()
        return sorted(((row[0], row[1], row[2]) for row in found), key=order)

    return rows


def placed(lake: Lake, table: LakeTable) -> list[PlacedFile]:
    files = lake._context.catalog.table_files(table.name)
    return place_files(files, need_keys(files.facts))


def files_of(lake: Lake, table: LakeTable) -> Iterator[tuple[int | None, list[Row]]]:
    """The rows of each file as they lie there, with the range that its folder names."""
    for file in placed(lake, table):
        columns = pq.read_table(file.file.path.removeprefix("file:"), columns=["k", "n", "v"]).to_pydict()
        yield file.range, list(zip(columns["k"], columns["n"], columns["v"], strict=True))


def check_layout(lake: Lake, table: LakeTable) -> None:
    """Every file's rows are in order, and in the range that it is of."""
    ranges = need_keys(lake._context.catalog.facts(table.name)).tree.ranges
    for range_id, rows in files_of(lake, table):
        assert range_id is not None
        assert rows == sorted(rows, key=order)
        assert all(
            ranges[range_id].holds(0, row[0], row[0]) and ranges[range_id].holds(1, row[1], row[1]) for row in rows
        )


def said(asked: Asked, _: Keys) -> Asked:
    return asked


def states(lake: Lake, table: LakeTable) -> list[str]:
    return sorted(file.state for file in placed(lake, table))


def by_range(table: LakeTable) -> dict[int | None, RangeRow]:
    return {row.range: row for row in table.ranges()}


def test_rows_lie_sorted_in_their_ranges_and_a_read_opens_only_those(
    spark_lake: Lake, table: LakeTable, load: Callable[..., Any], held: Callable[[LakeTable], list[Row]]
) -> None:
    first, second = made(1, 40), made(2, 30)
    receipt = load(table, 1, [*first, (None, 1, 1), (None, 2, 2), ("a", None, 3)])
    assert (receipt.rows_ingested, receipt.rejected_by_rule) == (40, {"not_null:k": 2, "not_null:n": 1})
    load(table, 2, second)
    rows = sorted([*first, *second], key=order)
    assert held(table) == rows
    check_layout(spark_lake, table)
    leaves = [row for row in table.ranges() if row.leaf]
    for leaf in leaves:
        low, high = (None if end is None else str(end).encode() for end in (leaf.low[0], leaf.high[0]))
        inside = [row for row in rows if (low or b"") <= row[0].encode() and (high is None or row[0].encode() < high)]
        assert (leaf.rows, leaf.rows_approximate, leaf.files) == (len(inside), len(inside), 2)
    counted = table.range_files()
    assert (counted.files, counted.least, counted.p99, counted.rows_in_leaves_percent) == (8, 2, 2, 100.0)

    def answer(frame: Any) -> list[Row]:
        assert frame.columns == ["k", "n", "v"]
        return [tuple(row) for row in frame.collect()]

    for key in KEYS:
        assert answer(table.get(key)) == [row for row in rows if row[0] == key]
    assert answer(table.get(["a", 2], "é")) == [row for row in rows if row[:2] == ("a", 2) or row[0] == "é"]
    spark = spark_lake.spark
    asks: list[tuple[str | None, str, bool, bool]] = [
        ("b", "g", True, False),
        ("f", "m", False, True),
        (None, "f", True, False),
    ]
    for least, most, with_low, with_high in asks:
        found = [
            row
            for row in rows
            if (least is None or row[0] > least or (with_low and row[0] == least))
            and (row[0].encode() < most.encode() or (with_high and row[0] == most))
        ]
        assert answer(table.range(least, most, with_low=with_low, with_high=with_high)) == found
        asked = Asked(between=[(least, most)], with_low=with_low, with_high=with_high)
        plan = table.explain_read(partial(said, asked))
        above = "true" if least is None else f"k {'>=' if with_low else '>'} '{least}'"
        planned = matching_files(spark, table.name, f"{above} AND k {'<=' if with_high else '<'} '{most}'")
        assert (plan.files, plan.files_total) == (len(planned), 8)
        assert plan.files <= 4
    one = leaves[1].range
    mine = {file.file.path for file in placed(spark_lake, table) if file.range == one}
    assert matching_files(spark, table.name, f"_neve_range = {one}") == mine
    assert len(mine) == 2


def test_rows_that_others_write_are_found_told_of_and_moved(
    spark_lake: Lake, table: LakeTable, load: Callable[..., Any], held: Callable[[LakeTable], list[Row]]
) -> None:
    rows = made(3, 20)
    load(table, 1, rows)
    wrong = by_range(table)[3]
    assert wrong.high == ["f", None]
    files = table.range_files().files
    with pytest.raises(NeveError):
        spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES ('a', 9, 1)", write=True)
    spark_lake.sql(f"INSERT INTO {table.name.sql} (k, n, v) VALUES ('a', 9, 1), ('z', 9, 1)", write=True)
    spark_lake.sql(
        f"INSERT INTO {table.name.sql} (k, n, v, _neve_range) VALUES ('z', 8, 1, 3), ('z', 7, 1, 99)", write=True
    )
    rows = sorted([*rows, ("a", 9, 1), ("z", 9, 1), ("z", 8, 1), ("z", 7, 1)], key=order)
    assert [tuple(row) for row in table.get("z").collect()] == [row for row in rows if row[0] == "z"]
    told = by_range(table)
    assert (told[None].rows, told[None].files_out_of_place) == (3, 2)
    assert (told[3].files_out_of_place, table.range_files().files_in_leaves) == (1, files + 1)
    facts = spark_lake._context.catalog.facts(table.name)
    jobs = table_jobs(spark_lake._context, facts, spark_lake._context.catalog.layout(facts))
    assert [(job.action, job.due, job.reason.code) for job in jobs][:2] == [
        ("compact", True, "out_of_range"),
        ("split", False, "small_ranges"),
    ]
    ids = f"SELECT k, n, v, _row_id FROM {table.name.sql} ORDER BY ALL"
    before = spark_lake.sql(ids).collect()
    receipt = table.compact()
    assert (receipt.compacted, receipt.rows_deleted, {group.mechanic for group in receipt.groups}) == (
        True,
        0,
        {"spark"},
    )
    assert spark_lake.sql(ids).collect() == before
    assert table.history()[0].operation == "replace"
    assert set(states(spark_lake, table)) == {"in_place"}
    assert held(table) == rows
    check_layout(spark_lake, table)
    assert not table.compact().compacted
    forced = table.compact(force=True)
    assert (forced.compacted, forced.files_after) == (True, len({file.range for file in placed(spark_lake, table)}))
    assert held(table) == rows
    check_layout(spark_lake, table)


def test_case_9_a_full_range_is_divided_at_its_median(
    spark_lake: Lake, namespace: str, held: Callable[[LakeTable], list[Row]]
) -> None:
    name = f"{namespace}.full"
    schema = "k string not null, n int not null, v int"
    spark_lake.tables.create(
        name, schema, row_keys=["k, n"], sort_keys=["v"], properties={"ranges.split-threshold": "20"}
    )
    table = spark_lake.table(name)

    def insert(rows: str) -> None:
        spark_lake.sql(f"INSERT INTO {name} (k, n, v) {rows}", write=True)
        table.compact()

    insert("SELECT 'same', 1, 1 FROM range(19)")
    assert table.split().reason.code == "nothing_to_do"  # type: ignore[union-attr]
    insert("SELECT 'same', 1, 1")
    assert (by_range(table)[0].unsplittable, by_range(table)[0].will_be_split) == (True, False)
    receipt = table.split()
    assert (receipt.run_id, receipt.ranges[0].reason.code, receipt.ranges[0].parts) == (None, "unsplittable", None)
    insert("SELECT 'same', CAST(id AS INT), 2 FROM range(40)")
    worker = spark_lake.worker(tables=[name])
    table.offline()
    assert worker.tick() == []
    table.online()
    assert sorted((done.action, done.state) for done in worker.tick()) == [
        ("compact", "succeeded"),
        ("split", "succeeded"),
    ]
    (low, high) = [row for row in table.ranges() if row.leaf]
    assert (by_range(table)[0].split_key, by_range(table)[0].split_at) == ("n", high.low[1])
    assert (low.rows + high.rows, low.rows >= 20, high.rows >= 20) == (60, True, True)
    assert set(states(spark_lake, table)) == {"in_place"}
    check_layout(spark_lake, table)
    assert len(held(table)) == 60
    before = len(by_range(table))
    assert table.split(high.range, at="zz", dry_run=True).ranges[0].split_at == "zz"
    assert len(by_range(table)) == before


def test_ranges_divided_during_a_load_lose_nothing(
    spark_lake: Lake,
    table: LakeTable,
    load: Callable[..., Any],
    held: Callable[[LakeTable], list[Row]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = made(5, 30), made(6, 30)
    load(table, 1, first)

    def cut() -> None:
        commit_cut(spark_lake._context, table.name, 5, SplitPoint(0, "n"))

    deeds: list[Callable[[], object]] = [lambda: table.split(3), cut]

    def publish(*args: Any, **how: Any) -> int:
        if deeds:
            deeds.pop(0)()
        return staging.publish(*args, **how)

    monkeypatch.setattr(ingest, "publish", publish)
    receipt = load(table, 2, second)
    assert (deeds, receipt.rows_ingested) == ([], 30)
    rows = sorted([*first, *second], key=order)
    assert held(table) == rows
    assert {"of_parent", "in_place"} == set(states(spark_lake, table))
    assert by_range(table)[5].rows > 0
    assert not by_range(table)[5].leaf
    assert [tuple(row) for row in table.range("f", "z").collect()] == [
        row for row in rows if b"f" <= row[0].encode() < b"z"
    ]
    with pytest.raises(StalePlan):
        cut()

    commits, seen = Rewrite.commit, list[int]()

    def commit(rewrite: Rewrite, *args: Any, **how: Any) -> int:
        """Writers are first: one deletes a row of a file that is being moved, and one adds a row."""
        if not seen:
            seen.append(1)
            spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE k = 'm' AND n = 1", write=True)
            spark_lake.sql(f"INSERT INTO {table.name.sql} (k, n, v) VALUES ('late', 1, 1)", write=True)
        return commits(rewrite, *args, **how)

    monkeypatch.setattr(Rewrite, "commit", commit)
    assert any(row[:2] == ("m", 1) for row in rows)
    done = table.compact()
    rows = sorted([*(row for row in rows if row[:2] != ("m", 1)), ("late", 1, 1)], key=order)
    assert (held(table), done.conflicts >= 1) == (rows, True)
    monkeypatch.undo()
    table.compact()
    assert (held(table), set(states(spark_lake, table))) == (rows, {"in_place"})
    check_layout(spark_lake, table)


def test_split_points_are_estimated_from_files(
    spark_lake: Lake, tmp_path: Path, cli: Callable[..., tuple[int, str, str]]
) -> None:
    (tmp_path / "sample.csv").write_text("\n".join(["key,x", *(f"{number},1" for number in range(100)), ",2"]) + "\n")
    code, out, _ = cli("table", "estimate-splits", str(tmp_path), "--key", "key", "--type", "int", "--leaves", "4")
    assert (code, out) == (0, "25\n50\n75\n")


def test_case_17_rows_of_a_key_become_one_at_once_and_in_the_files_later(
    spark_lake: Lake, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{namespace}.counts"
    schema = "k string not null, n int, last int, m map<string,int>"
    aggregations = {"ranges.aggregations": "sum(n), max(last), map_sum(m)"}
    spark_lake.tables.create(name, schema, row_keys=["k"], split_points="b\n", properties=aggregations)
    table = spark_lake.table(name)

    def insert(*rows: str) -> None:
        spark_lake.sql(f"INSERT INTO {name} (k, n, last, m) VALUES {', '.join(rows)}", write=True)

    def answers() -> list[list[tuple[Any, ...]]]:
        view = spark_lake.sql(f"SELECT k, n, last, m FROM {name}__merged ORDER BY k").collect()
        return [[tuple(row) for row in rows] for rows in (view, table.range().collect())]

    insert("('a', 1, 10, map('x', 1))", "('a', 1, 12, map('x', 2, 'y', 3))", "('b', 2, 20, NULL)")
    insert("('a', 0, 0, NULL)")
    merged = [("a", 2, 12, {"x": 3, "y": 3}), ("b", 2, 20, None)]
    assert answers() == [merged, merged]
    commits = Rewrite.commit

    deeds: list[Callable[[], object]] = [
        lambda: spark_lake.sql(f"DELETE FROM {name} WHERE last = 10", write=True),
        lambda: insert("('a', 100, 99, map('y', 1))"),
    ]

    def commit(rewrite: Rewrite, *args: Any, **how: Any) -> int:
        """Writers are first: one takes a row that is being merged, and one adds a row."""
        if deeds:
            deeds.pop(0)()
        return commits(rewrite, *args, **how)

    monkeypatch.setattr(Rewrite, "commit", commit)
    done = table.compact()
    assert (done.compacted, done.conflicts, deeds) == (True, 1, [])
    merged[0] = ("a", 101, 99, {"x": 2, "y": 4})
    assert answers() == [merged, merged]
    assert (table.show().rows, table.history()[0].operation) == (3, "overwrite")
    table.compact(force=True)
    table.compact(force=True)
    raw = spark_lake.sql(f"SELECT k, n, last, m FROM {name} ORDER BY k").collect()
    assert [[tuple(row) for row in raw], *answers()] == [merged] * 3


def test_case_18_old_rows_are_gone_at_once_and_from_the_files_later(spark_lake: Lake, namespace: str) -> None:
    name = f"{namespace}.aging"
    spark_lake.tables.create(name, "k int not null, at timestamp", row_keys=["k"], split_points="2\n")
    table = spark_lake.table(name)
    spark_lake.sql(
        f"INSERT INTO {name} SELECT k, if(days IS NULL, NULL, now() - make_dt_interval(days)), if(k < 2, 1, 2) "
        "FROM VALUES (1, 13), (2, 15), (3, NULL), (4, 0) AS t(k, days)",
        write=True,
    )
    assert [row[0] for row in table.range().collect()] == [1, 2, 3, 4]
    assert not table.compact().compacted
    table.set({"ranges.filters": "ageOff(at, 14)"})
    assert [row[0] for row in table.range().collect()] == [1, 4]
    facts = spark_lake._context.catalog.facts(table.name)
    job = table_jobs(spark_lake._context, facts, spark_lake._context.catalog.layout(facts))[0]
    assert (job.due, job.reason.code) == (True, "aged_off")
    done = table.compact()
    assert (done.files_compacted, done.rows_deleted, done.reason.code) == (1, 2, "aged_off")  # type: ignore[union-attr]
    assert [row[0] for row in spark_lake.sql(f"SELECT k FROM {name} ORDER BY k").collect()] == [1, 4]
    assert not table.compact().compacted
