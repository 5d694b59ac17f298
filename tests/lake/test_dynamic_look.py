"""Dynamic tables as they are looked at, checked and remembered: all of it without a JVM."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.contract.records import make_run
from tests.lake.dynamic import commit_refresh, declare, fill, frontier_now, settle
from tests.lake.lakes import Cli, append, check_healthy, current, database_rows, facts, make

from neve.errors import InvalidInput, NotFound, Refused, RunNotFound
from neve.lake import Lake
from neve.model.history import Dependency, RefreshRecord
from neve.model.names import TableName
from neve.model.refresh import Frontier
from neve.plan.holds import hold_name
from neve.services.dynamic.deciding import frontier_of
from neve.services.ledger import branch_of

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
DEAD = 2**22 + 1  # beyond Linux's greatest process id


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now


@pytest.fixture
def clock(lake: Lake) -> Clock:
    lake._context.clock = Clock()
    return lake._context.clock


@pytest.fixture
def diamond(lake: Lake, clock: Clock) -> Iterator[Lake]:
    """orders → details, metrics → top; everything settled."""
    make(lake, "orders", rows=2)
    declare(lake, "details", "SELECT id, v FROM orders", "orders")
    declare(lake, "metrics", "SELECT id, max(v) AS v FROM orders GROUP BY id", "orders", lag="DOWNSTREAM")
    declare(
        lake, "top", "SELECT d.id, m.v FROM details d JOIN metrics m ON d.id = m.id", "details", "metrics", lag="1h"
    )
    for name in ("details", "metrics", "top"):
        fill(lake, name)
    yield lake
    assert "session" not in lake._context.__dict__, "no Spark"


def told(lake: Lake) -> dict[str, dict[str, object]]:
    return {TableName.parse(row.table).name: row.model_dump() for row in lake.dynamic.list()}


def tags(lake: Lake, name: str) -> dict[str, int]:
    return {row.name: row.snapshot for row in lake.table(name).references() if row.kind == "tag"}


def test_a_round_with_nothing_new(diamond: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    diamond.dynamic.refresh()
    reads: list[str] = []
    catalog = diamond._context.catalog
    load = catalog._backend.load

    def counted(name: TableName) -> object:
        reads.append(str(name))
        return load(name)

    monkeypatch.setattr(catalog._backend, "load", counted)
    before = {name: facts(diamond, name).metadata_location for name in ("orders", "details", "top")}
    reads.clear()
    done = diamond.dynamic.refresh()
    assert [(row.table, row.refresh, row.run_id) for row in done] == [
        (f"default.{name}", "NO_DATA", None) for name in ("details", "metrics", "top")
    ]
    assert sorted(reads) == ["default.details", "default.metrics", "default.orders", "default.top"], (
        "each looked at once"
    )
    assert before == {name: facts(diamond, name).metadata_location for name in before}, "and none written to"
    assert [(row.name, row.refresh_action, row.data_timestamp) for row in diamond.dynamic.history()] == [
        (f"default.{name}", "NO_DATA", done[0].data_timestamp) for name in ("top", "metrics", "details")
    ]


def test_one_name_is_no_list_of_letters(diamond: Lake) -> None:
    assert [row.table for row in diamond.dynamic.refresh("details")] == ["default.details"]
    assert [row.table for row in diamond.dynamic.round("+top", dry_run=True).receipts][-1] == "default.top"


PHASES = ("queued_time_ms", "compilation_time_ms", "execution_time_ms")
UNKNOWN_APART = (*PHASES, "last_completed_dependency")


def latest(lake: Lake, name: str) -> RefreshRecord:
    return lake.dynamic.history(name)[0]


def after(lake: Lake, name: str) -> Dependency:
    """What a table that reads `name` has to say of it."""
    return Dependency(qualified_name=f"default.{name}", data_timestamp=latest(lake, name).data_timestamp)


def test_history_tells_what_a_refresh_came_after(diamond: Lake, clock: Clock) -> None:
    diamond.dynamic.refresh(["top"])
    assert latest(diamond, "top").last_completed_dependency is None, "its parents were never refreshed"
    diamond.dynamic.refresh()
    for name in ("details", "metrics"):
        assert latest(diamond, name).last_completed_dependency is None, "it reads a plain table only"
    assert latest(diamond, "top").last_completed_dependency == after(diamond, "metrics"), "the last in its round"
    for parent in ("details", "metrics", "details"):
        clock.now += timedelta(hours=1)
        diamond.dynamic.refresh([parent])
        diamond.dynamic.refresh(["top"])
        assert latest(diamond, "top").last_completed_dependency == after(diamond, parent), "the last before its round"
        assert latest(diamond, "top").data_timestamp != latest(diamond, parent).data_timestamp


def test_history_tells_where_the_time_of_a_refresh_went(diamond: Lake, cli: Cli) -> None:
    append(diamond, "orders", [{"id": 3, "v": "x"}])
    for name in ("details", "metrics", "top"):
        settle(diamond, name)
    began = time.monotonic()
    done = {TableName.parse(row.table).name: row for row in diamond.dynamic.refresh()}
    most = (time.monotonic() - began) * 1000
    rows = {row["name"]: row for row in json.loads(cli("dynamic", "history", "-o", "json").out)}
    for name in ("details", "metrics", "top"):
        row = rows[f"default.{name}"]
        assert row["refresh_action"] == "NO_DATA"
        assert 0 <= min(row[phase] for phase in PHASES) <= sum(row[phase] for phase in PHASES) <= most + len(PHASES)
        assert row["compilation_time_ms"] + row["execution_time_ms"] == done[name].duration_ms
        assert (row["rows_copied"], row["files_added"], row["files_deleted"]) == (0, 0, 0)
    waited = {name: rows[f"default.{name}"]["queued_time_ms"] for name in done}
    assert waited["metrics"] >= waited["details"], "both could begin at once, and details did"
    assert waited["metrics"] - waited["details"] >= done["details"].duration_ms - 2


def test_who_did_not_get_a_turn_has_no_times(diamond: Lake) -> None:
    make(diamond, "other", rows=1)
    declare(diamond, "alone", "SELECT id, v FROM other", "other")
    declare(diamond, "idle", "SELECT id, v FROM orders", "orders", suspended=True)
    fill(diamond, "alone")
    declare(diamond, "below", "SELECT id, v FROM alone", "alone")
    diamond._context.catalog.drop(TableName.parse("other"))
    done = {receipt.table: receipt.state for receipt in diamond.dynamic.round().receipts}
    for name, state in (("alone", "FAILED"), ("below", "UPSTREAM_FAILED"), ("idle", "SKIPPED")):
        row = latest(diamond, name)
        assert (done[f"default.{name}"], row.state) == (state, state)
        assert {getattr(row, column) for column in (*UNKNOWN_APART, "rows_copied", "files_added")} == {None}
        assert row.refresh_end_time - row.refresh_start_time == timedelta(0)


def test_how_fresh_tables_are(diamond: Lake, clock: Clock) -> None:
    declare(diamond, "new", "SELECT id, v FROM orders", "orders")
    declare(diamond, "idle", "SELECT id, v FROM orders", "orders", suspended=True)
    fill(diamond, "idle")
    found = told(diamond)
    assert {name: row["freshness"] for name, row in found.items()} == {
        "details": "fresh",
        "idle": "suspended",
        "metrics": "fresh",
        "new": "unknown",
        "top": "fresh",
    }
    assert (found["top"]["current_lag"], found["new"]["current_lag"]) == ("0", None)
    assert (found["idle"]["scheduling_state"], found["idle"]["next_due"]) == ("SUSPENDED", None)
    assert found["details"]["rows"] == 1
    append(diamond, "orders", [{"id": 3, "v": "x"}])
    clock.now += timedelta(minutes=10)
    found = told(diamond)
    assert found["details"]["freshness"] == "late"
    assert (found["metrics"]["freshness"], found["top"]["freshness"]) == ("due", "due"), "by the hour of top"
    assert found["top"]["current_lag"] == "10m"
    assert found["top"]["next_due"] == found["top"]["data_timestamp"] + timedelta(hours=1)  # type: ignore[operator]
    assert found["metrics"]["target_lag"] == "DOWNSTREAM"
    assert found["details"]["follows_changes"] is True


def test_a_table_that_was_rolled_back_is_as_of_what_it_went_back_to(diamond: Lake, clock: Clock) -> None:
    commit_refresh(diamond, "details")
    first, before = current(diamond, "details"), clock.now
    clock.now += timedelta(hours=1)
    append(diamond, "orders", [{"id": 3, "v": "x"}])
    commit_refresh(diamond, "details")
    clock.now += timedelta(hours=1)
    diamond.dynamic.refresh(["details"])
    assert told(diamond)["details"]["data_timestamp"] > before + timedelta(hours=2)  # type: ignore[operator]
    diamond.table("details").rollback(first)
    row = told(diamond)["details"]
    assert row["data_timestamp"] <= before  # type: ignore[operator]
    assert (row["freshness"], row["current_lag"]) == ("late", "2h")
    diamond.dynamic.recover()
    known = diamond._context.store.dynamic.get(facts(diamond, "details").uuid)
    assert known is not None
    assert known.data_timestamp == row["data_timestamp"]


def test_how_a_table_was_declared_is_shown_as_it_was_written(diamond: Lake, cli: Cli) -> None:
    declare(diamond, "lines", "SELECT id,\n       v\nFROM orders", "orders")
    fill(diamond, "lines")
    shown = cli("dynamic", "show", "lines").out.split("\n\n")
    assert shown[0].startswith("table                  default.lines\n")
    assert shown[1].splitlines()[1] == "id      bigint  no        -"
    assert shown[2].split() == ["READ", "FROM", "SNAPSHOT", "default.orders", str(current(diamond, "orders"))]
    assert shown[3] == "SELECT id,\n       v\nFROM orders\n"


def test_a_compaction_takes_no_table_back(diamond: Lake, clock: Clock) -> None:
    """What a commit of metadata told stays told when files are rewritten afterwards."""
    commit_refresh(diamond, "details")
    append(diamond, "orders", [{"id": 3, "v": "x"}])
    settle(diamond, "details")
    before = facts(diamond, "details")
    rows = before.current
    assert rows is not None

    def then(operation: str) -> Frontier | None:
        step = replace(rows, id=rows.id + 1, parent_id=rows.id, operation=operation, summary={})
        return frontier_of(replace(before, snapshots=(*before.snapshots, step), current_snapshot_id=step.id))

    assert then("replace") == frontier_of(before)
    assert then("append") is None, "somebody else's rows"


def test_a_table_that_falls_behind_says_so(diamond: Lake, clock: Clock) -> None:
    old = current(diamond, "orders")
    append(diamond, "orders", [{"id": 3, "v": "x"}])
    assert told(diamond)["details"]["warning"] is None
    clock.now = datetime.now(UTC) + timedelta(days=6)
    warning = told(diamond)["details"]["warning"]
    assert "may expire" in str(warning)
    diamond.table("orders").tag("kept", at=str(old))
    assert told(diamond)["details"]["warning"] is None, "any tag holds it"
    diamond.table("orders").delete_tag("kept")
    table = diamond._context.catalog._backend.open_table(TableName.parse("orders"))
    table.maintenance.expire_snapshots().by_id(old).commit()
    assert "the next refresh is full" in str(told(diamond)["details"]["warning"])


def test_what_a_refresh_would_do(diamond: Lake, cli: Cli) -> None:
    append(diamond, "orders", [{"id": 3, "v": "x"}])
    declare(diamond, "new", "SELECT id, v FROM details", "details")
    held = diamond._context.store.refreshes.of_all()
    said = cli("dynamic", "refresh", "--all", "--dry-run", "-o", "json")
    rows = {TableName.parse(row["table"]).name: row for row in json.loads(said.out)}
    assert said.code == 0
    assert {name: (row["refresh"], row["reason"]["code"]) for name, row in rows.items()} == {
        "details": ("INCREMENTAL", "changes"),
        "metrics": ("INCREMENTAL", "changes"),
        "new": ("FULL", "first"),
        "top": ("INCREMENTAL", "parents_first"),
    }
    assert rows["details"]["reason"]["detail"] == "orders: 1 appends; the files they added are read"
    assert {(row["state"], row["dry_run"]) for row in rows.values()} == {("SCHEDULED", True)}
    assert diamond._context.store.refreshes.of_all() == held, "nothing is remembered of what was not done"
    assert "Would refresh default.top: INCREMENTAL" in cli("dynamic", "refresh", "--dry-run").out
    said = cli("dynamic", "refresh", "top", "--dry-run", "-o", "json")
    assert [row["refresh"] for row in json.loads(said.out)] == ["NO_DATA"], "it reads orders as its parents did"


def test_a_source_that_is_gone_fails_those_who_read_it(diamond: Lake, cli: Cli) -> None:
    make(diamond, "other", rows=1)
    declare(diamond, "alone", "SELECT id, v FROM other", "other")
    fill(diamond, "alone")
    diamond._context.catalog.drop(TableName.parse("other"))
    said = cli("dynamic", "refresh", "-o", "json")
    states = {row["table"]: (row["state"], row["error_code"]) for row in json.loads(said.out)}
    assert (said.code, states["default.alone"]) == (1, ("FAILED", "table_not_found"))
    assert states["default.top"] == ("SUCCEEDED", None)
    assert "reads default.other, which is gone" in str(told(diamond)["alone"]["last_error"])
    reason = next(row.reason for row in diamond.status() if row.table == "default.alone")
    assert reason is not None
    assert (reason.code, "which is gone" in reason.detail) == ("refresh_failed", True)
    failed = cli("dynamic", "history", "--failed", "-o", "json")
    assert [row["name"] for row in json.loads(failed.out)] == ["default.alone"]
    assert cli("dynamic", "history", "details", "--limit", "1").out.count("NO_DATA") == 1
    assert cli("runs", "retry", "--failed").code == 1, "still gone"
    round_id = diamond.dynamic.history("alone")[0].round_id
    assert round_id is not None
    assert cli("runs", "retry", round_id).code == 1
    with pytest.raises(NotFound):
        diamond.dynamic.refresh(["alone"])
    diamond.table("alone").drop()
    assert "nothing failed" in cli("runs", "retry", "--failed").err
    assert cli("runs", "retry").code == 2
    run = diamond.runs.list(kind="create")[0].run_id
    with pytest.raises(InvalidInput, match="only refreshes"):
        diamond.runs.retry(run)
    with pytest.raises(RunNotFound):
        diamond.runs.retry("01M7GZH738")


def test_suspended_tables_are_left_out_unless_named(diamond: Lake) -> None:
    diamond._context.catalog.set_properties(TableName.parse("details"), put={"neve.dynamic.state": "SUSPENDED"})
    states = {row.table: row.state for row in diamond.dynamic.refresh()}
    assert states == {"default.details": "SKIPPED", "default.metrics": "SUCCEEDED", "default.top": "SUCCEEDED"}
    known = diamond._context.store.dynamic.get(facts(diamond, "details").uuid)
    assert known is not None
    assert known.scheduling_state == "SUSPENDED", "what was altered is remembered with the next round"
    assert diamond.dynamic.refresh(["details"])[0].state == "SUCCEEDED"


def test_the_graph_in_every_form(diamond: Lake, cli: Cli) -> None:
    make(diamond, 'odd"one', rows=1)
    declare(diamond, "alone", 'SELECT id, v FROM `odd"one`', 'odd"one')
    assert cli("dynamic", "graph", "top").out.splitlines() == [
        "default.orders",
        "   └─ default.details (wave 1)",
        "      └─ default.top (wave 2)",
        "   └─ default.metrics (wave 1)",
        "      └─ default.top (wave 2)",
        "wave 1: default.details, default.metrics",
        "wave 2: default.top",
    ]
    found = json.loads(cli("dynamic", "graph", "metrics", "-o", "json").out)
    assert found == {
        "waves": [["default.metrics"], ["default.top"]],
        "tables": ["default.orders"],
        "edges": [
            {"upstream": "default.orders", "downstream": "default.metrics"},
            {"upstream": "default.metrics", "downstream": "default.top"},
        ],
    }
    dot = cli("dynamic", "graph", "--format", "dot").out
    assert '  "default.orders" -> "default.details";' in dot
    assert '"default.`odd\\"one`" [shape=box];' in dot
    mermaid = cli("dynamic", "graph", "--format", "mermaid").out
    assert mermaid.startswith("graph LR\n")
    assert '["default.`odd#quot;one`"]' in mermaid
    with pytest.raises(Refused, match="not a dynamic table"):
        diamond.dynamic.graph("orders")


def test_tags_hold_what_the_next_refresh_goes_on_from(diamond: Lake, cli: Cli) -> None:
    names = {name: hold_name(facts(diamond, name).uuid) for name in ("details", "metrics", "top")}
    diamond.dynamic.refresh()
    first = current(diamond, "orders")
    assert tags(diamond, "orders") == {names["details"]: first, names["metrics"]: first}
    assert tags(diamond, "details") == {names["top"]: current(diamond, "details")}
    before = len(list((diamond.root / "warehouse").rglob("*.metadata.json")))
    second = append(diamond, "orders", [{"id": 3, "v": "x"}])
    settle(diamond, "details")
    settle(diamond, "metrics")
    diamond.dynamic.refresh(["details", "metrics"])
    assert tags(diamond, "orders") == {names["details"]: second, names["metrics"]: second}
    written = len(list((diamond.root / "warehouse").rglob("*.metadata.json"))) - before
    assert written == 1 + 2 + 1, "the append, two frontiers by hand, and one commit for both tags"
    (purpose,) = {row.purpose for row in diamond.table("orders").references() if row.name == names["details"]}
    assert purpose == "the next refresh of default.details goes on from here"
    assert purpose in cli("table", "show", "orders").out
    assert purpose in cli("table", "tag", "orders").out
    diamond.table("top").rename("best")
    assert tags(diamond, "details") == {names["top"]: current(diamond, "details")}
    diamond.table("best").drop()
    assert tags(diamond, "details") == tags(diamond, "metrics") == {}
    diamond.tables.undelete("best", new_name="top")
    assert tags(diamond, "details") == {names["top"]: current(diamond, "details")}
    check_healthy(diamond)


def test_tags_that_are_left_over_go_with_doctor(diamond: Lake) -> None:
    diamond.dynamic.refresh()
    diamond._context.catalog.drop(TableName.parse("top"))  # as another engine would
    diamond.table("orders").tag("mine")
    rows = [row for row in diamond.doctor(spark=False) if row.check == "tags"]
    assert [(row.state, row.fix) for row in rows] == [("warning", "neve doctor --repair")]
    assert "default.details, default.metrics" in rows[0].detail
    diamond.doctor(spark=False, repair=True)
    assert tags(diamond, "details") == {}
    assert len(tags(diamond, "orders")) == 3, "those that are needed stay, and those of users"
    assert not [row for row in diamond.doctor(spark=False) if row.check == "tags"]


def test_what_is_remembered_follows_the_table(diamond: Lake) -> None:
    diamond.dynamic.refresh()
    known = diamond._context.store.dynamic
    assert {(row.name, row.schema_name, row.scheduling_state) for row in known.list().values()} == {
        (f"default.{name}", "default", "ACTIVE") for name in ("details", "metrics", "top")
    }
    uuid = facts(diamond, "top").uuid
    sources = known.sources()[uuid]
    assert {(name, row.direct, row.last_snapshot) for name, row in sources.items()} == {
        ("default.orders", 0, current(diamond, "orders")),
        ("default.details", 1, current(diamond, "details")),
        ("default.metrics", 1, current(diamond, "metrics")),
    }
    diamond.table("top").rename("best")
    assert known.list()[uuid].name == "default.best"
    assert [row.name for row in diamond.dynamic.history("best")] == ["default.best"]
    diamond.table("best").drop()
    assert uuid not in known.list()
    declare(diamond, "best", "SELECT id, v FROM orders", "orders")
    assert diamond.dynamic.history("best") == [], "a new table of an old name has no past"
    diamond.tables.undelete("best", new_name="top")
    assert [row.name for row in diamond.dynamic.history("top")] == ["default.top"]
    diamond.table("top").drop(force=True)
    assert diamond._context.store.refreshes.of(uuid) == ()


def test_a_lost_state_database_is_written_anew(diamond: Lake, cli: Cli) -> None:
    runs = [commit_refresh(diamond, "details", rows=number) for number in (1, 2)]
    settle(diamond, "top")
    diamond.dynamic.refresh()
    before = {key: rows for key, rows in database_rows(diamond.root / ".metadata.db").items() if "source_snap" in key}
    assert before
    diamond._context.store.close()
    diamond._context.__dict__.pop("store")
    for path in diamond.root.glob(".metadata.db*"):
        path.unlink()
    assert diamond.dynamic.history() == []
    found = json.loads(cli("dynamic", "recover", "-o", "json").out)
    assert {"table": "default.details", "detail": "2 refreshes"} in found
    assert [(row.run_id, row.rows_inserted, row.refresh_action) for row in diamond.dynamic.history("details")] == [
        (runs[1], 2, "INCREMENTAL"),
        (runs[0], 1, "INCREMENTAL"),
    ]
    newest = diamond.dynamic.history("details")[0]
    assert {getattr(newest, column) for column in UNKNOWN_APART} == {None}, "no commit tells of them"
    assert (newest.rows_copied, newest.files_added, newest.files_deleted) == (0, 1, 0), "and of these it does"
    assert newest.source_snapshots == {"default.orders": current(diamond, "orders")}
    assert newest.refresh_start_time <= newest.refresh_end_time + timedelta(days=1)
    assert len(diamond._context.store.dynamic.list()) == 3
    assert {row.refresh for row in diamond.dynamic.refresh()} == {"NO_DATA"}, "the tables know how far they have come"
    assert "nothing was missing" in cli("dynamic", "recover").err


@pytest.mark.parametrize("committed", [True, False])
def test_a_refresh_whose_process_died_is_settled(diamond: Lake, committed: bool) -> None:
    store, name = diamond._context.store, TableName.parse("details")
    run_id = commit_refresh(diamond, "details") if committed else make_run().run_id
    host = os.uname().nodename
    plan = {"refresh": "FULL", "trigger": "SCHEDULED", "round_id": make_run().run_id}
    store.runs.start(make_run(run_id=run_id, kind="refresh", table_name="details", host=host, pid=DEAD, plan=plan))
    diamond._context.catalog.create_branch(name, branch_of(run_id), snapshot_id=current(diamond, "details"))
    diamond._context.store.close()
    diamond._context.__dict__.pop("store")
    (row,) = [row for row in diamond.dynamic.history("details") if row.run_id == run_id]
    expected = ("SUCCEEDED", None, "INCREMENTAL") if committed else ("FAILED", "died", "FULL")
    assert (row.state, row.state_code, row.refresh_action) == expected
    assert diamond.runs.show(run_id).state == ("succeeded" if committed else "failed")
    assert branch_of(run_id) not in [reference.name for reference in diamond.table("details").references()]
    if not committed:
        assert row.round_id == plan["round_id"], "so that it can be tried again"


def test_history_is_read_from_published_commits_only(diamond: Lake) -> None:
    from neve.services.dynamic.history import committed

    run_id = commit_refresh(diamond, "details")
    assert [record.run_id for record in committed(facts(diamond, "details"))] == [run_id]
    table = facts(diamond, "details")
    staged = RefreshRecord.model_validate(next(committed(table)).model_dump())
    assert staged.snapshot_id == table.current_snapshot_id
    assert frontier_now(diamond, "details").base.keys() == {"default.orders"}


def test_commands_that_make_no_sense(diamond: Lake, cli: Cli, tmp_path: Path) -> None:
    assert cli("dynamic", "refresh", "--all", "top").code == 2
    assert cli("dynamic", "refresh", "--downstream").code == 2
    assert cli("dynamic", "refresh", "--parallel", "0").code == 2
    assert cli("dynamic", "verify").code == 2
    assert cli("dynamic", "verify", "top", "--all").code == 2
    said = cli("dynamic", "refresh", "topp")
    assert (said.code, "did you mean top?" in said.err) == (3, True)
    assert cli("dynamic", "history", "orders").code == 6
