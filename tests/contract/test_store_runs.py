"""Runs: recorded once, ended once, found again."""

from __future__ import annotations

import pytest
from tests.contract.records import MINUTE, NOW, make_run

from neve.errors import AlreadyExists, Conflict, InvalidInput, RunNotFound
from neve.model.runs import RunState
from neve.store import Store

SNAPSHOT = 2**63 - 1


def test_a_run_from_start_to_end(store: Store) -> None:
    run = make_run(plan={"files": ["a", "é"], "deep": {"n": 1.5, "none": None}}, snapshot_before=-SNAPSHOT)
    store.runs.start(run)
    assert store.runs.get(run.run_id) == run
    assert store.runs.unfinished() == (run,)
    ended = run.model_copy(
        update={
            "state": "succeeded",
            "finished_at": NOW + MINUTE,
            "result": {"rows": 2**60},
            "snapshot_after": SNAPSHOT,
            "undo": "neve table rollback sales",
        }
    )
    store.runs.finish(
        run.run_id,
        state="succeeded",
        finished_at=NOW + MINUTE,
        result={"rows": 2**60},
        snapshot_after=SNAPSHOT,
        undo="neve table rollback sales",
    )
    assert store.runs.get(run.run_id) == ended
    assert store.runs.unfinished() == ()


def test_finish_keeps_what_start_recorded(store: Store) -> None:
    run = make_run(result={"part": 1}, snapshot_after=5, undo="neve undo", error_code="early")
    store.runs.start(run)
    store.runs.finish(run.run_id, state="cancelled", finished_at=NOW)
    assert store.runs.get(run.run_id) == run.model_copy(update={"state": "cancelled", "finished_at": NOW})


def test_a_failure_keeps_its_error_whatever_is_in_it(store: Store) -> None:
    run = make_run()
    store.runs.start(run)
    message = "broken: \0 \ud800 ✓ 100% ?"
    store.runs.finish(
        run.run_id,
        state="failed",
        finished_at=NOW,
        error_code="job_failed",
        error_message=message,
        result={"\ud800": "\0"},
    )
    found = store.runs.get(run.run_id)
    assert (found.error_code, found.error_message) == ("job_failed", "broken: \ufffd ? ✓ 100% ?")
    assert found.result == {"?": "\0"}


def test_a_run_ends_once(store: Store) -> None:
    run = make_run(state="queued")
    store.runs.start(run)
    store.runs.finish(run.run_id, state="failed", finished_at=NOW)
    with pytest.raises(Conflict, match="failed"):
        store.runs.finish(run.run_id, state="succeeded", finished_at=NOW)
    assert store.runs.get(run.run_id).state == "failed"
    with pytest.raises(RunNotFound):
        store.runs.finish(make_run().run_id, state="succeeded", finished_at=NOW)


def test_a_result_that_is_not_json_is_refused_and_the_run_goes_on(store: Store) -> None:
    run = make_run()
    store.runs.start(run)
    with pytest.raises(ValueError, match="JSON"):
        store.runs.finish(run.run_id, state="succeeded", finished_at=NOW, result={"ratio": float("nan")})
    assert store.runs.unfinished() == (run,)


def test_an_id_is_used_once(store: Store) -> None:
    run = make_run()
    store.runs.start(run)
    with pytest.raises(AlreadyExists, match=run.run_id):
        store.runs.start(run.model_copy(update={"kind": "other"}))
    assert store.runs.get(run.run_id) == run


def test_a_run_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    ids = ["01ABCDEFGH0000000000000000", "01ABCDEFGHZZZZZZZZZZZZZZZZ", "01ABCDEFGJ0000000000000000"]
    for run_id in ids:
        store.runs.start(make_run(run_id=run_id))
    assert store.runs.get("01abcdefgj").run_id == ids[2]
    assert store.runs.get("01ABCDEFGHZ").run_id == ids[1]
    assert store.runs.get(ids[0]).run_id == ids[0]
    with pytest.raises(InvalidInput) as caught:
        store.runs.get("01ABCDEFGH")
    assert ids[0] in str(caught.value)
    assert ids[1] in str(caught.value)
    assert ids[2] not in str(caught.value)


def test_many_candidates_are_not_all_named(store: Store) -> None:
    for _ in range(9):
        store.runs.start(make_run())
    with pytest.raises(InvalidInput, match="and more"):
        store.runs.get(make_run().run_id[:10])


@pytest.mark.parametrize("asked", ["", "01A", "01AB%", "____", "01ABU", "0" * 27, "'; --", "7ZZZZ"])
def test_no_run_begins_so(store: Store, asked: str) -> None:
    store.runs.start(make_run(run_id="01ABCDEFGH0000000000000000"))
    with pytest.raises(RunNotFound) as caught:
        store.runs.get(asked)
    assert caught.value.hint


def test_list_is_newest_first_and_filtered(store: Store) -> None:
    states: list[RunState] = ["succeeded", "running", "failed", "running"]
    runs = [
        make_run(
            started_at=NOW + number * MINUTE,
            state=state,
            kind="compact" if number % 2 else "ingest",
            table_name=None if number == 3 else f"t{number % 2}",
        )
        for number, state in enumerate(states)
    ]
    for run in (runs[2], runs[0], runs[3], runs[1]):
        store.runs.start(run)
    assert store.runs.list() == tuple(reversed(runs))
    assert store.runs.list(limit=2) == (runs[3], runs[2])
    assert store.runs.list(table="t0") == (runs[2], runs[0])
    assert store.runs.list(kind="compact") == (runs[3], runs[1])
    assert store.runs.list(table="t1", kind="compact", state="running") == (runs[1],)
    assert store.runs.list(state="cancelled") == ()
    assert store.runs.unfinished() == (runs[1], runs[3])


def test_a_run_is_asked_to_end_once_and_only_while_it_runs(store: Store) -> None:
    runs = [make_run(), make_run()]
    for run in runs:
        store.runs.start(run)
    assert store.runs.asked_to_end() == ()
    store.runs.ask_to_end(runs[0].run_id, NOW)
    store.runs.ask_to_end(runs[0].run_id, NOW + MINUTE)
    assert store.runs.asked_to_end() == (runs[0].run_id,)
    assert store.runs.get(runs[0].run_id) == runs[0], "it goes on until its process has heard"
    store.runs.finish(runs[0].run_id, state="cancelled", finished_at=NOW)
    assert store.runs.asked_to_end() == ()
    with pytest.raises(Conflict, match="already ended: cancelled"):
        store.runs.ask_to_end(runs[0].run_id, NOW)
    with pytest.raises(RunNotFound):
        store.runs.ask_to_end(make_run().run_id, NOW)
