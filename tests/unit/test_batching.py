"""When submitted files are loaded, and which of them together."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.documents import load_document, parse_document
from neve.errors import ConfigError
from neve.model.batching import BatchLimits, BatchPlan, SubmittedFile
from neve.model.tablefile import TableFile
from neve.plan.batching import halve, plan_batches

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
DAY = date(2024, 1, 1)
RUN = "01M7GZH7380000000000000000"


def submitted(name: str, *, day: int = 0, size: int = 100, age: int = 0, run_id: str | None = None) -> SubmittedFile:
    return SubmittedFile(
        table_name="sales",
        path=f"/landing/{name}",
        date=DAY + timedelta(days=day),
        bytes=size,
        modified_at=NOW,
        submitted_at=NOW - timedelta(seconds=age),
        run_id=run_id,
    )


def names(plan: BatchPlan) -> list[list[str]]:
    return [[Path(file.path).name for file in batch.files] for batch in plan.batches]


def plan(*files: SubmittedFile, force: bool = False, **limits: object) -> BatchPlan:
    pending = [file for file in files if file.run_id is None]
    done = [file for file in files if file.run_id is not None]
    return plan_batches(pending, done, BatchLimits.model_validate(limits), now=NOW, force=force)


# ---------------------------------------------------------------------------------- Sleeper's case 16, for dates


def test_case_16_four_files_of_at_most_three_are_two_batches() -> None:
    files = [submitted(f"f{number}", day=number) for number in range(4)]
    assert names(plan(*files, max_files=3)) == [["f0", "f1", "f2"], ["f3"]]


@pytest.mark.parametrize(("age", "batches"), [(299, 0), (300, 1), (301, 1)])
def test_case_16_age_overrides_the_minima(age: int, batches: int) -> None:
    found = plan(submitted("new"), submitted("old", age=age), min_size="1GB", min_files=10, max_age="300s")
    assert len(found.batches) == batches
    assert found.reason is None if batches else (found.reason is not None and found.reason.code == "min_files")


def test_case_16_both_minima_must_hold() -> None:
    few = plan(submitted("a", size=2000), min_size="1KB", min_files=2)
    light = plan(submitted("a"), submitted("b"), min_size="1KB", min_files=2)
    both = plan(submitted("a", size=500), submitted("b", size=500), min_size="1KB", min_files=2)
    assert [found.reason.code if found.reason else None for found in (few, light, both)] == [
        "min_files",
        "min_size",
        None,
    ]
    assert not few.batches
    assert not light.batches
    assert names(both) == [["a", "b"]]
    assert light.reason is not None
    assert light.reason.detail.startswith("200 B of at least 1.0 KB; ")


def test_case_16_a_date_over_the_maximum_is_a_batch_of_its_own() -> None:
    files = [submitted("a"), submitted("b", day=1, size=900), submitted("c", day=1, size=900), submitted("d", day=2)]
    assert names(plan(*files, max_size="1KB")) == [["a"], ["b", "c"], ["d"]]
    assert names(plan(*files, max_files=1)) == [["a"], ["b", "c"], ["d"]]


def test_a_batch_may_be_exactly_as_large_as_the_maximum() -> None:
    files = [submitted(f"f{number}", day=number, size=500) for number in range(3)]
    assert names(plan(*files, max_size="1KB")) == [["f0", "f1"], ["f2"]]


def test_a_date_is_loaded_with_what_was_loaded_for_it_before() -> None:
    found = plan(submitted("second"), submitted("first", run_id=RUN), submitted("other", day=1, run_id=RUN))
    assert names(found) == [["first", "second"]]


def test_nothing_submitted_is_a_reason_even_by_force() -> None:
    found = plan(submitted("done", run_id=RUN), force=True)
    assert found.reason is not None
    assert (found.batches, found.reason.code) == ((), "nothing_submitted")
    assert names(plan(submitted("a"), force=True, min_files=5)) == [["a"]]


# ------------------------------------------------------------------------------------------------- against a model

FILES = st.lists(
    st.builds(
        submitted,
        st.integers(0, 30).map("f{:02}".format),
        day=st.integers(0, 5),
        size=st.integers(0, 400),
        age=st.integers(0, 400),
        run_id=st.sampled_from([None, None, RUN]),
    ),
    unique_by=lambda file: file.path,
    max_size=15,
)
LIMITS = st.builds(
    BatchLimits,
    min_size=st.integers(0, 900).map("{}B".format),
    max_size=st.integers(1, 900).map("{}B".format),
    min_files=st.integers(1, 5),
    max_files=st.integers(1, 5),
    max_age=st.integers(0, 400).map("{}s".format),
)


@given(FILES, LIMITS, st.booleans())
def test_a_plan_holds_each_waiting_date_once_whole_and_within_the_limits(
    files: list[SubmittedFile], limits: BatchLimits, force: bool
) -> None:
    pending = [file for file in files if file.run_id is None]
    found = plan_batches(pending, [file for file in files if file.run_id], limits, now=NOW, force=force)
    enough = len(pending) >= limits.min_files and sum(file.bytes for file in pending) >= limits.min_size
    aged = any(NOW - file.submitted_at >= limits.max_age for file in pending)
    assert bool(found.batches) == bool(pending and (force or enough or aged))
    assert (found.reason is None) == bool(found.batches)
    if not found.batches:
        return
    dates = [day.date for batch in found.batches for day in batch.dates]
    assert dates == sorted({file.date for file in pending})
    planned = Counter(file.path for batch in found.batches for file in batch.files)
    assert planned == Counter(file.path for file in files if file.date in dates)
    for batch in found.batches:
        fits = len(batch.files) <= limits.max_files and batch.bytes <= limits.max_size
        assert fits or len(batch.dates) == 1
    for batch, after in pairwise(found.batches):
        first = after.dates[0]
        joined = (len(batch.files) + len(first.files), batch.bytes + first.bytes)
        assert joined[0] > limits.max_files or joined[1] > limits.max_size, "a batch closes no sooner than it must"


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 200), st.booleans()), max_size=40), LIMITS)
def test_however_files_come_a_date_holds_all_its_files_once_it_is_loaded(
    steps: list[tuple[int, int, bool]], limits: BatchLimits
) -> None:
    """Files come again and again and time passes; the table is a dict that each load of a date replaces."""
    now, known, table = NOW, dict[str, SubmittedFile](), dict[date, dict[str, datetime]]()
    for number, seconds, force in [*steps, (0, 0, True)]:
        now += timedelta(seconds=seconds, microseconds=1)  # a file that comes again is known by its time
        row = submitted(f"f{number}", day=number // 3, size=100).model_copy(update={"submitted_at": now})
        known[row.path] = row
        rows = list(known.values())
        pending, done = [r for r in rows if r.run_id is None], [r for r in rows if r.run_id is not None]
        for batch in plan_batches(pending, done, limits, now=now, force=force).batches:
            for day in batch.dates:
                table[day.date] = {file.path: file.submitted_at for file in day.files}
            known |= {file.path: file.model_copy(update={"run_id": RUN}) for file in batch.files}
        for path, row in known.items():
            held = table.get(row.date, {}).get(path)
            assert held == row.submitted_at if row.run_id else held != row.submitted_at
    assert all(row.run_id for row in known.values())
    assert {path for paths in table.values() for path in paths} == set(known)


def test_halves_hold_what_the_whole_held() -> None:
    (batch,) = plan(*[submitted(f"f{number}", day=number) for number in range(5)]).batches
    first, second = halve(batch)
    assert first.dates + second.dates == batch.dates
    assert (len(first.dates), len(second.dates)) == (2, 3)


# --------------------------------------------------------------------------------------------- the table's file


def parse(tmp_path: Path, text: str) -> TableFile:
    path = tmp_path / "sales.yaml"
    path.write_text(f"name: sales\ningestion:\n  batch:\n{text}")
    return parse_document(load_document(path), TableFile)


def test_the_limits_are_read_with_their_units_and_written_as_they_are_read(tmp_path: Path) -> None:
    text = "    min_size: 1.5MB\n    max_size: 2GiB\n    min_files: 3\n    max_files: 7\n    max_age: 1h30m\n"
    limits = parse(tmp_path, text).ingestion.batch
    assert (limits.min_size, limits.max_size, limits.min_files, limits.max_files) == (1_500_000, 2**31, 3, 7)
    assert limits.max_age == timedelta(minutes=90)
    assert BatchLimits.model_validate(limits.model_dump(mode="json")) == limits
    assert parse(tmp_path, "    min_size: 0\n    max_age: 0\n").ingestion.batch.max_age == timedelta(0)


def test_without_limits_every_file_is_ready() -> None:
    limits = TableFile(name="t").ingestion.batch
    assert (limits.min_size, limits.max_size, limits.min_files, limits.max_files) == (0, 5_000_000_000, 1, 100)
    assert limits.max_age == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("min_size: 5", "not a size"),
        ("max_size: 0", "greater than 0"),
        ("max_size: 5 apples", "not a size"),
        ("min_size: -1B", "not a size"),
        ("min_size: true", "not a size"),
        ("min_files: 0", "at least 1"),
        ("max_files: true", "whole number"),
        ("max_files: 2.5", "whole number"),
        ("max_age: 300", "not a duration"),
        ("max_age: tomorrow", "not a duration"),
        ("max_count: 3", "max_count"),
    ],
)
def test_a_wrong_limit_is_refused_with_its_place(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        parse(tmp_path, f"    {line}\n")
    assert f"sales.yaml:4 ingestion.batch.{line.partition(':')[0]}" in str(caught.value)
