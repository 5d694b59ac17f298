"""Compaction of a period of an Iceberg table: few files, the same bag of rows, and every knob of the file honoured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from neve.engine import content
from neve.engine.content import Fingerprint
from neve.errors import CheckFailed, InvalidInput, LeaseHeld, Refused
from neve.lake import Lake, LakeTable
from neve.services.leases import leased
from neve.services.rewrites.work import Rewriting

Make = Callable[..., LakeTable]


@pytest.fixture
def daily(spark_lake: Lake, namespace: str, tmp_path: Path) -> Make:
    """A table with two ingests of three days each, described by a file."""

    def make(compaction: str = "", first: date = date(2024, 1, 29)) -> LakeTable:
        config = tmp_path / "daily.yaml"
        config.write_text(
            f"name: {namespace}.daily\ncolumns: {{id: bigint, word: string}}\nschema: strict\n{compaction}"
        )
        spark_lake.tables.create(str(config))
        table = spark_lake.table(str(config))
        for start in (0, 3):
            load(table, tmp_path, [first + timedelta(days=start + step) for step in range(3)])
        return table

    return make


def load(table: LakeTable, folder: Path, days: list[date], rows: int = 5) -> None:
    for old in folder.glob("in_*.csv"):
        old.unlink()
    for day in days:
        lines = [f"{day.toordinal() * 100 + row // 2},{'' if row == 1 else f'w{row % 3}'}" for row in range(rows)]
        (folder / f"in_{day}.csv").write_text("id,word\n" + "\n".join(lines) + "\n")
    table.ingest(folder / "in_*.csv", date_from_name="in_{date}.csv")


def bag(lake: Lake, table: LakeTable) -> Counter[tuple[object, ...]]:
    rows = lake.sql(f"SELECT id, word, _ingest_date FROM {table.name.sql}").collect()
    return Counter(map(tuple, rows))


def data_files(table: LakeTable) -> list[str]:
    return [row.path for row in table.files() if row.content == "data"]


def lineage(lake: Lake, table: LakeTable) -> list[tuple[object, ...]]:
    rows = lake.sql(f"SELECT id, word, _row_id, _last_updated_sequence_number FROM {table.name.sql}").collect()
    return sorted(map(tuple, rows), key=repr)


def test_a_period_becomes_one_file_per_partition_and_the_bag_stays(spark_lake: Lake, daily: Make) -> None:
    table = daily()
    before, files, rows = bag(spark_lake, table), data_files(table), lineage(spark_lake, table)
    assert len(files) >= 4, "both ingests wrote into January and February"
    plan = table.compact("2024", dry_run=True)
    assert (plan.dry_run, plan.run_id, data_files(table)) == (True, None, files)
    done = table.compact("2024")
    assert (done.files_before, done.rows) == (plan.files_before, plan.rows) == (len(files), 30)
    assert done.files_after == len(data_files(table)) == 2, "one for January, one for February"
    assert bag(spark_lake, table) == before
    assert lineage(spark_lake, table) == rows, "tables below see no change"
    assert all(path.endswith("-neve.parquet") for path in data_files(table)), "encoded here: Spark rewrote nothing"
    assert table.history()[0].operation == "replace"
    assert table.history()[0].run_id == done.run_id
    again = table.compact("2024")
    assert again.run_id is None
    assert again.reason is not None
    assert again.reason.code == "already_compacted"
    status = table.status()
    assert (status.compaction.total_compactions, status.compaction.first_date) == (1, "2024-01-01")


def test_new_days_and_a_replaced_day_are_merged_in(spark_lake: Lake, daily: Make, tmp_path: Path) -> None:
    table = daily()
    table.compact("2024")
    kept = set(data_files(table))
    load(table, tmp_path, [date(2024, 2, 4)])
    load(table, tmp_path, [date(2024, 2, 2)], rows=9)
    before = bag(spark_lake, table)
    assert sum(before.values()) == 30 + 5 + 4
    done = table.compact("2024-02")
    assert done.rows == 24, "four days in February, one of them replaced"
    assert bag(spark_lake, table) == before
    assert len(set(data_files(table)) & kept) == 1, "January was left alone"
    assert not [row for row in table.files() if row.content != "data"], "what the replacement deleted is folded in"
    assert [(row.state, row.counted) for row in table.verify() if row.date == date(2024, 2, 2)] == [("ok", 9)]
    table.rollback(str(done.snapshot_before))
    assert table.compact("2024-02", dry_run=True).files_before == done.files_before, "what was undone is to do again"


def test_a_writer_in_between_loses_nothing_and_the_period_is_done_again(
    spark_lake: Lake, daily: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = daily()
    commit, commits = Rewriting.commit, []

    def late(rewriting: Rewriting, summary: Mapping[str, str]) -> int:
        commits.append(len(rewriting.made))
        if len(commits) == 1:
            spark_lake.sql(f"DELETE FROM {table.name.sql} WHERE _ingest_date = DATE '2024-01-30'", write=True)
        return commit(rewriting, summary)

    monkeypatch.setattr(Rewriting, "commit", late)
    with leased(spark_lake._context, f"compaction of {table.name}"), pytest.raises(LeaseHeld):
        table.compact("2024")
    done = table.compact("2024")
    assert commits == [2, 1, 1], "January lost to the delete; February went in as it was, then January without the rows"
    assert (done.rows, done.files_after, done.undo) == (25, 2, None)
    assert sum(bag(spark_lake, table).values()) == 25
    on_disk = {path.name for path in Path(table.show().location).rglob("*-neve.parquet")}
    assert on_disk <= {Path(path).name for path in data_files(table)}, "what lost is removed"
    assert table.compact("2024").run_id is None


def test_a_period_without_files_is_skipped(daily: Make) -> None:
    receipt = daily().compact("2024-03")
    assert receipt.reason is not None
    assert (receipt.run_id, receipt.reason.code) == (None, "no_files")
    assert "2024-03" in receipt.reason.detail


def test_missing_days_are_refused_and_listed_when_all_are_expected(daily: Make) -> None:
    table = daily("compaction: {strategy: {type: monthly, expected: complete}}")
    files = data_files(table)
    with pytest.raises(CheckFailed, match=r"2024-01 has 3 of 31 days; missing: 2024-01-01 to 2024-01-28"):
        table.compact("2024-01")
    assert data_files(table) == files


def test_the_delay_is_kept_or_ignored_on_demand(daily: Make) -> None:
    first = datetime.now(UTC).date().replace(day=1)
    table = daily("compaction: {trigger: {delay_days: 7}}", first=first)
    month = f"{first:%Y-%m}"
    with pytest.raises(Refused, match="delay_days: 7"):
        table.compact(month)
    due = table.status().compaction.next
    assert [(row.period, row.due) for row in due] == [(month, False)]
    assert table.compact(month, ignore_delay=True).rows == 30


@pytest.mark.parametrize(
    ("compaction", "period", "error"),
    [
        ("compaction: {enabled: false}", "2024-01", "compaction.enabled is false"),
        (
            "compaction: {strategy: {type: weekly}}",
            "2024-01",
            "2024-01 is a month, and this table is compacted into weeks",
        ),
        ("", "2024-01-02", "is a day"),
        ("", "2024-13", "the calendar has no month"),
    ],
)
def test_what_the_file_does_not_allow_is_refused(daily: Make, compaction: str, period: str, error: str) -> None:
    table = daily(compaction)
    with pytest.raises((Refused, InvalidInput), match=error):
        table.compact(period)


def test_a_table_without_dates_has_no_periods(make_table: Make) -> None:
    with pytest.raises(InvalidInput, match="no ingest dates"):
        make_table(rows="(1, 'a')").compact("2024-01")


def test_a_week_across_the_year_and_its_schedule(spark_lake: Lake, daily: Make) -> None:
    weekly = "compaction: {trigger: {schedule: '0 3 * * 1'}, strategy: {type: weekly, lookback_months: 1200}}"
    table = daily(weekly, first=date(2024, 12, 30))
    before = bag(spark_lake, table)
    due = [row for row in spark_lake.schedule() if row.table == str(table.name) and row.action == "compact 2025-W01"]
    assert [row.due for row in due] == [False], "the days came after the last Monday, three o'clock"
    assert due[0].reason.code == "waiting_for_schedule"
    done = table.compact("2025-W01")
    assert done.rows == 30
    assert bag(spark_lake, table) == before
    assert len(data_files(table)) == 2, "files do not leave their month"


def test_rows_that_come_out_otherwise_are_taken_back(
    spark_lake: Lake, daily: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = daily()
    before, snapshot = bag(spark_lake, table), table.show().current_snapshot
    real = content.fingerprint_period
    answers: list[Fingerprint] = []

    def wrong(*args: object) -> Fingerprint:
        answers.append(real(*args))  # type: ignore[arg-type]
        return answers[-1] if len(answers) == 1 else Fingerprint(answers[-1].rows, 1, 1)

    monkeypatch.setattr(content, "fingerprint_period", wrong)
    with pytest.raises(CheckFailed, match="taken back"):
        table.compact("2024")
    assert answers[0] == answers[1], "the rewrite itself was right"
    assert table.show().current_snapshot == snapshot
    assert bag(spark_lake, table) == before
    assert table.status().compaction.total_compactions == 0
    assert spark_lake.runs.list(table=table.name.short, kind="compact")[0].state == "failed"


SCRIPT = """
import os, signal, sys
from neve import Lake
from neve.services import compaction

compaction.log_compaction = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
Lake(sys.argv[1]).table(sys.argv[2]).compact("2024")
"""


@pytest.mark.faults
def test_a_compaction_that_was_killed_before_its_log_is_logged_later(spark_lake: Lake, daily: Make) -> None:
    table = daily()
    before = bag(spark_lake, table)
    killed = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(spark_lake.root), str(table.name)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    table.set({"any.change": "settles the dead run"})
    (logged,) = spark_lake._context.store.compactions.for_table(table.name.short)
    assert (logged.period, logged.rows_processed) == ("2024", 30)
    assert bag(spark_lake, table) == before
    assert spark_lake.runs.list(table=table.name.short, kind="compact")[0].state == "succeeded"


def test_the_words_of_the_document(cli: Callable[..., tuple[int, str, str]], daily: Make) -> None:
    table = daily()
    code, out, _ = cli("table", "compact", str(table.name), "--period", "2024-01", "--delete-source")
    assert code == 0
    assert out.startswith("✓ Compacted ")
    assert " files (15 rows)\n" in out
    assert "kept until its snapshots expire" in out
    code, out, _ = cli("compact", str(table.name), "--period", "2023-01")
    assert (code, out) == (0, "= skipped: no files for period 2023-01\n")
    code, out, _ = cli("table", "verify", str(table.name))
    assert code == 0
