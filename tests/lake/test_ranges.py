"""Key ranges without Spark: making them, looking at them, taking them along, and dividing them among rivals."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.lake.lakes import V2, Cli, append_files
from tests.lake.serving import serving

from neve.catalog.rows import CatalogRows
from neve.errors import CommitConflict, ConfigError, InvalidInput, InvalidSchema, StalePlan
from neve.http import create_app
from neve.lake import Lake, LakeTable
from neve.model.names import TableName
from neve.model.runs import Run, new_run_id
from neve.plan.ranges import SplitPoint
from neve.services.ranges import splitting
from neve.services.ranges.splitting import commit_cut
from neve.services.repair import settle_dead_runs
from neve.services.worker.metrics import metrics_text

SCHEMA = "k string not null, n int not null, v int"
POINTS = "f\nm\ns\n"


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    lake.tables.create("t", SCHEMA, row_keys=["k, n"], sort_keys=["v"], split_points=POINTS)
    return lake.table("t")


def bounds(table: LakeTable) -> list[tuple[int | None, object, object]]:
    return [(row.range, row.low[0], row.high[0]) for row in table.ranges() if row.leaf]


class Rivals:
    """Changes the table just before each of our commits reaches the catalog, as long as there are deeds left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *deeds: Callable[[], object]) -> None:
        self.left, self.busy = list(deeds), False
        real = CatalogRows.replace

        def replace(rows: CatalogRows, name: TableName, *, expected: str, location: str) -> bool:
            if self.left and not self.busy:
                self.busy = True
                self.left.pop(0)()
                self.busy = False
            return real(rows, name, expected=expected, location=location)

        monkeypatch.setattr(CatalogRows, "replace", replace)


def test_a_table_is_made_in_ranges(table: LakeTable, cli: Cli) -> None:
    details = table.show()
    assert (details.row_keys, details.sort_keys, details.ranges) == (["k", "n"], ["v"], 4)
    assert details.partition_by == ["_neve_range"]
    assert details.sort_by == [f"{key} asc nulls first" for key in ("k", "n", "v")]
    assert [(low, high) for _, low, high in sorted(bounds(table), key=lambda row: str(row[1] or ""))] == [
        (None, "f"),
        ("f", "m"),
        ("m", "s"),
        ("s", None),
    ]
    rows = table.ranges()
    assert [row.range for row in rows] == list(range(7))
    assert sum(row.files + row.rows for row in rows) == 0
    assert json.loads(cli("table", "partitions", "t", "-o", "json").out) == [
        row.model_dump(mode="json") for row in rows
    ]
    counted = json.loads(cli("table", "files", "t", "--by-range", "-o", "json").out)
    assert (counted["ranges"], counted["files"], counted["rows_in_leaves_percent"]) == (4, 0, 100.0)


def test_case_7_ranges_come_back_from_an_export(lake: Lake, table: LakeTable, cli: Cli) -> None:
    low = next(row.range for row in table.ranges() if row.high[0] == "f" and row.leaf)
    assert low is not None
    commit_cut(lake._context, table.name, low, SplitPoint(1, 7))
    before = cli("table", "export-partitions", "t").out
    (lake.root / "ranges.jsonl").write_text(before)
    assert cli("table", "reinitialise", "t", "--delete-partitions", "--yes").code == 0
    assert table.show().ranges == 1
    said = cli("table", "reinitialise", "t", "--partitions", "ranges.jsonl", "--yes", "-o", "json")
    assert json.loads(said.out)["details"]["ranges"] == 5
    assert cli("table", "export-partitions", "t").out == before
    said = cli("table", "export-splits", "t")
    assert (said.code, said.out) == (2, "")
    assert "more than the first key" in said.err


def test_what_cannot_be_ranges_changes_nothing(lake: Lake, table: LakeTable, cli: Cli) -> None:
    (lake.root / "bad").write_text('{"range": 1}\n')
    before = table.show()
    assert cli("table", "reinitialise", "t", "--partitions", "bad", "--yes").code == 2
    (lake.root / "points").write_text("a\n")
    assert cli("table", "reinitialise", "t", "--partitions", "bad", "--split-points", "points", "--yes").code == 2
    lake.tables.create("plain", "k int")
    for words in (["export-splits"], ["export-partitions"], ["split"], ["get", "--key", "1"], ["files", "--by-range"]):
        said = cli("table", words[0], "plain", *words[1:])
        assert (said.code, "has no row keys" in said.err) == (2, True)
    assert table.show() == before


@pytest.mark.parametrize(
    "words",
    [
        ["--partition-by", "v"],
        ["--sort-by", "v"],
        ["--optional", "k"],
        ["--rename", "_neve_range=r"],
        ["--drop", "_neve_range"],
        ["--drop", "n"],
    ],
)
def test_what_ranges_rest_on_is_not_altered(table: LakeTable, cli: Cli, words: list[str]) -> None:
    before = table.show()
    said = cli("table", "alter", "t", *words)
    assert (said.code, table.show()) == (InvalidSchema.exit_code, before)


def test_metrics_tell_of_ranges(lake: Lake, table: LakeTable) -> None:
    text = metrics_text(lake._context, lake._context.clock())
    found = [line for line in text.splitlines() if line.startswith("neve_range")]
    values = {"neve_ranges": 7, "neve_range_leaves": 4, "neve_range_files_mean": 0, "neve_range_rows": 0}
    assert found == [f'{name}{{table="{table.name}"}} {value}' for name, value in values.items()]


def test_a_renamed_key_stays_a_key(table: LakeTable, cli: Cli) -> None:
    assert cli("table", "alter", "t", "--rename", "k=key", "--rename", "v=value").code == 0
    details = table.show()
    assert (details.row_keys, details.sort_keys) == (["key", "n"], ["value"])
    assert table.export_splits() == POINTS


def test_a_threshold_is_checked_when_it_is_set(table: LakeTable, cli: Cli) -> None:
    assert cli("table", "set", "t", "ranges.split-threshold=1").code == 2
    assert cli("table", "set", "t", "ranges.split-threshold=20").code == 0
    assert cli("table", "unset", "t", "ranges.split-threshold").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "t", "ranges.split-treshold=20"], "ranges.split-threshold"),
        (["set", "t", "ranges.filters=ageOff(v, 3)"], "date or a timestamp"),
        (["set", "t", "ranges.aggregations=sum(k)"], "is a key"),
        (["set", "t", "write.metadata.metrics.column.k=counts"], "stays full"),
        (["unset", "t", "write.metadata.metrics.column.n"], "stays full"),
        (["set", "plain", "ranges.split-threshold=20"], "with row keys"),
        (["alter", "sums", "--drop", "v"], "would not fit v"),
        (["alter", "sums", "--rename", "v=w"], "would not fit v"),
        (["alter", "sums", "--add", "w int"], "would not fit w"),
    ],
)
def test_properties_of_ranges_are_honoured_or_refused(
    lake: Lake, table: LakeTable, cli: Cli, words: list[str], said: str
) -> None:
    lake.tables.create("plain", "k int")
    lake.tables.create("sums", SCHEMA, row_keys=["k, n"], properties={"ranges.aggregations": "sum(v)"})
    before = table.show()
    answer = cli("table", *words)
    assert (answer.code, said in answer.err, table.show()) == (2, True, before)


def test_a_table_file_says_its_keys(lake: Lake) -> None:
    (lake.root / "points.txt").write_text("Zg==\n")
    file = lake.root / "t.yaml"
    file.write_text(
        "name: t\nrow_keys: [k]\nsort_keys: [v]\nsplit_points: points.txt\nsplit_points_base64: true\n"
        "columns: [{name: k, type: string, required: true}, {name: v, type: int}]\n"
    )
    lake.tables.create(str(file))
    table = lake.table("t")
    assert (table.show().row_keys, table.show().sort_keys, table.export_splits()) == (["k"], ["v"], "f\n")
    file.write_text(file.read_text().replace("split_points: points.txt\n", "").replace("name: t\n", "name: u\n"))
    with pytest.raises(ConfigError, match="split_points_base64"):
        lake.tables.create(str(file))


def test_periods_keep_rows_as_they_are(lake: Lake, cli: Cli) -> None:
    schema = f"{SCHEMA}, _ingest_date date"
    lake.tables.create("sums", schema, row_keys=["k, n"], properties={"ranges.aggregations": "sum(v)"})
    said = cli("compact", "sums", "--period", "2024-01", "--yes")
    assert (said.code, "merges rows" in said.err) == (2, True)


def test_case_14_a_commit_that_always_loses_waits_ever_longer_and_gives_up(
    lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    deeds = [lambda number=number: table.set({f"rival.{number}": "was here"}) for number in range(10)]
    rivals = Rivals(monkeypatch, *deeds)
    waits: list[float] = []
    before = bounds(table)
    with pytest.raises(CommitConflict, match="10 times"):
        commit_cut(lake._context, table.name, 3, SplitPoint(0, "b"), chance=lambda: 0.5, sleep=waits.append)
    assert [round(wait, 1) for wait in waits] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0]
    assert (rivals.left, bounds(table)) == ([], before)
    assert {f"rival.{number}" for number in range(10)} <= {row.key for row in table.properties()}


def test_case_14_a_range_that_a_rival_divided_is_not_tried_again(
    lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    Rivals(monkeypatch, lambda: commit_cut(lake._context, table.name, 3, SplitPoint(0, "c")))
    waits: list[float] = []
    with pytest.raises(StalePlan, match="divided meanwhile"):
        commit_cut(lake._context, table.name, 3, SplitPoint(0, "b"), sleep=waits.append)
    assert len(waits) == 1
    assert table.export_splits() == "c\n" + POINTS


def test_rivals_that_divide_different_ranges_both_win(
    lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    Rivals(monkeypatch, lambda: commit_cut(lake._context, table.name, 4, SplitPoint(0, "h")))
    cut = commit_cut(lake._context, table.name, 3, SplitPoint(0, "b"), sleep=lambda _: None)
    assert table.export_splits() == "b\nf\nh\nm\ns\n"
    assert len({row.range for row in table.ranges()}) == 11
    assert {cut.low, cut.high} == {9, 10}


@pytest.mark.parametrize("made", [True, False])
def test_a_process_that_died_while_it_divided_a_range_is_settled_by_the_tree(
    lake: Lake, table: LakeTable, made: bool
) -> None:
    started = datetime(2020, 1, 1, tzinfo=UTC)
    run = Run(
        run_id=new_run_id(started, bytes),
        kind="split",
        table_name="t",
        plan={"ranges": [3]},
        started_at=started,
        host=socket.gethostname(),
        pid=os.getpid(),
    )
    lake._context.store.runs.start(run)
    if made:
        commit_cut(lake._context, table.name, 3, SplitPoint(0, "b"))
    settle_dead_runs(lake._context)
    assert lake.runs.show(run.run_id).state == ("succeeded" if made else "failed")


def test_case_11_an_offline_table_is_not_divided(lake: Lake, table: LakeTable) -> None:
    def planned() -> dict[str, str]:
        return {row.action: row.reason.code for row in lake.schedule()}

    assert planned() == {"compact": "few_small_files", "split": "small_ranges"}
    table.offline()
    assert planned() == {"compact": "offline", "split": "offline"}


def test_a_range_that_cannot_be_divided_is_looked_at_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files do not say that all its keys are equal; only its rows do. Another look would need Spark again."""
    looks: list[str] = []

    def no_point(*_: object) -> None:
        looks.append("looked")

    monkeypatch.setattr(splitting, "_median", no_point)
    lake.tables.create("t", SCHEMA, row_keys=["k"], properties={**V2, "ranges.split-threshold": "20"})
    at = lake._context.clock()
    worker = lake.worker()
    for turn, expected in enumerate((1, 1, 2, 2)):
        if turn % 2 == 0:
            append_files(lake, "t", [{"_neve_range": 0}], rows=20)
        monkeypatch.setattr(lake._context, "clock", lambda turn=turn: at + timedelta(minutes=turn))
        worker.tick()
        assert len(looks) == expected, turn


def test_files_without_a_range_that_nobody_asked_for_are_left(lake: Lake, cli: Cli) -> None:
    """All of them may have come from somebody who knows of no ranges."""
    lake.tables.create("t", SCHEMA, row_keys=["k"], properties=V2)
    append_files(lake, "t", [{"_neve_range": None}, {"_neve_range": 99}])
    said = json.loads(cli("compact", "t", "--partition", "_neve_range=7", "--dry-run", "-o", "json").out)
    assert (said["compacted"], said["reason"]["code"]) == (False, "filtered")
    assert sum(left["files"] for left in said["left"]) == 2
    said = json.loads(cli("compact", "t", "--partition", "_neve_range=99", "--dry-run", "-o", "json").out)
    assert ([group["files"] for group in said["groups"]], [left["files"] for left in said["left"]]) == ([1], [1])


def test_an_empty_table_is_not_emptied(table: LakeTable, cli: Cli) -> None:
    for words in (["--yes"], ["--dry-run"]):
        said = cli("table", "reinitialise", "t", *words)
        assert (said.code, "nothing to do" in said.out, "Would" in said.out) == (0, True, False)
    assert cli("table", "reinitialise", "t", "--delete-partitions", "--dry-run").out.startswith("Would")


def test_an_empty_table_has_nothing_to_divide_or_to_read(table: LakeTable, cli: Cli) -> None:
    said = json.loads(cli("table", "split", "t", "-o", "json").out)
    assert (said["reason"]["code"], said["ranges"]) == ("nothing_to_do", [])
    said = json.loads(cli("table", "get", "t", "--key", "a", "--range", "b,1", "c,2", "--explain", "-o", "json").out)
    assert said["regions"] == ["['a', 'a'] and [, )", "['b', 'c') and [1, 2)"]
    assert (said["files"], said["ranges"]) == (0, [])
    said = json.loads(cli("table", "get", "t", "--range", "b", "", "--range", "", "c,2", "--explain", "-o", "json").out)
    assert said["regions"] == ["['b', ) and [, )", "[, 'c') and [, 2)"]


def test_a_service_explains_and_divides_with_the_words_of_the_command_line(
    lake: Lake, table: LakeTable, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as client:
        there = ["--server", f"http://127.0.0.1:{client.port}", "-o", "json"]
        words = ["table", "get", "t", "--key", "a", "--range", "b,1", "c,2", "--include-high", "--explain"]
        asked = {"keys": ["a"], "ranges": [["b,1", ["c", 2]]], "include_high": True}
        near = cli(*words, "-o", "json").out
        assert cli(*words, *there).out == near
        assert client.post("/api/v1/tables/t/get/explain", asked).json == json.loads(near)
        wrong: list[tuple[dict[str, object], str]] = [
            ({}, "which keys?"),
            ({"keys": [["a", 1, 2]]}, "3 values"),
            ({"keys": ["a"], "exclude_low": True}, "exclude_low and include_high are for ranges"),
            ({"keys": [True]}, "keys"),
            ({"keys": [["a", 1.5]]}, "keys"),
        ]
        for body, told in wrong:
            found = client.post("/api/v1/tables/t/get/explain", body)
            assert (found.status, told in found.text) == (422, True), found.text
        words = ["table", "split", "t", "--range", "3", "--at", "b"]
        dry = [json.loads(cli(*words, "--dry-run", *end).out) for end in (["-o", "json"], there)]
        for said in dry:
            said.pop("duration_ms")
        assert dry[0] == dry[1]
        assert json.loads(cli("table", "split", "t", *there).out)["reason"]["code"] == "nothing_to_do"
        assert client.post("/api/v1/tables/t/split", {"ranges": 3}).status == 422
    assert table.export_splits() == POINTS


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--key", "a,x"],
        ["--key", "a,1,2"],
        ["--key", "a,"],
        ["--range", "a", "b,x"],
        ["--range", "a"],
        ["--range", "5"],
        ["--range=5"],
        ["--range", "a", "--include-high"],
        ["--range", "--limit=3", "a"],
        ["--range", "a", "-o", "json"],
        ["--range=a", "b"],
        ["--key", "a", "--include-high"],
    ],
)
def test_keys_that_cannot_be_are_refused(table: LakeTable, cli: Cli, words: list[str]) -> None:
    assert cli("table", "get", "t", "--explain", *words).code == InvalidInput.exit_code


def test_base64_without_split_points_is_refused_by_name(lake: Lake, table: LakeTable, cli: Cli) -> None:
    (lake.root / "u.yaml").write_text("name: u\ncolumns: {k: string not null}\nrow_keys: [k]\n")
    for words in (
        ["create", "u", "--schema", "k string not null", "--row-keys", "k", "--base64"],
        ["create", "u.yaml", "--base64"],
        ["reinitialise", "t", "--base64", "--yes"],
        ["reinitialise", "t", "--base64", "--delete-partitions", "--yes"],
    ):
        assert cli("table", *words).code == 2, words
    assert "--base64 says how split points are written" in cli("table", "reinitialise", "t", "--base64", "--yes").err
    assert [row.table for row in lake.tables.list()] == ["default.t"]


def test_an_option_is_no_end_of_a_range(table: LakeTable, cli: Cli) -> None:
    said = cli("table", "get", "t", "--range", "a", "--explain")
    assert (said.code, "--explain is an option" in said.err, "--range LOW HIGH" in said.err) == (2, True, True)
    assert cli("table", "get", "t", "--range", "-a", "--b", "--explain").code == 0


def test_the_range_to_divide_is_a_leaf(table: LakeTable, cli: Cli) -> None:
    for words in (["--range", "0"], ["--range", "99"], ["--at", "b"], ["--range", "3", "--at", "z"]):
        assert cli("table", "split", "t", *words).code == InvalidInput.exit_code
    said = json.loads(cli("table", "split", "t", "--range", "3", "--at", "b", "--dry-run", "-o", "json").out)
    assert said["ranges"][0]["split_at"] == "b"
    assert table.export_splits() == POINTS
