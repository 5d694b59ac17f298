"""Writes that share a commit: each row once, each caller told after its own commit, none waiting for company."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from neve.services.operations import grouping
from neve.services.operations.grouping import Groups, Pending


class Table:
    """Commits as they come; the first waits until it is told to go on."""

    def __init__(self) -> None:
        self.commits: list[list[int]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self._busy = threading.Lock()

    def commit(self, group: Sequence[Pending]) -> None:
        assert self._busy.acquire(blocking=False), "two commits of one table at once"
        try:
            self.begun.set()
            assert self.go_on.wait(30)
            if self.error is not None:
                raise self.error
            self.commits.append([row["n"] for each in group for row in each.rows])
        finally:
            self._busy.release()


def rows(*numbers: int) -> Pending:
    return Pending([{"n": number} for number in numbers])


def waiting(groups: Groups, count: int) -> None:
    while sum(map(len, groups._waiting.values())) < count:
        time.sleep(0.005)


def begin(pool: ThreadPoolExecutor, groups: Groups, table: Table, count: int) -> list[Future[None]]:
    """One write whose commit runs, and others that wait for it in their order."""
    begun = [pool.submit(groups.write, "t", rows(0), table.commit)]
    assert table.begun.wait(30)
    for number in range(1, count):
        begun.append(pool.submit(groups.write, "t", rows(number), table.commit))
        waiting(groups, number)
    return begun


def test_writes_that_arrive_during_a_commit_share_the_next() -> None:
    groups, table = Groups(), Table()
    with ThreadPoolExecutor(8) as pool:
        begun = begin(pool, groups, table, 6)
        assert not any(each.done() for each in begun)
        table.go_on.set()
        for each in begun:
            each.result(30)
    assert table.commits == [[0], [1, 2, 3, 4, 5]]
    groups.write("t", rows(9), table.commit)
    assert table.commits[-1] == [9]
    assert groups._waiting == {}


def test_tables_do_not_wait_for_each_other() -> None:
    groups, slow, quick = Groups(), Table(), Table()
    quick.go_on.set()
    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(groups.write, "slow", rows(1), slow.commit)
        assert slow.begun.wait(30)
        groups.write("quick", rows(2), quick.commit)
        assert (quick.commits, held.done()) == ([[2]], False)
        slow.go_on.set()
        held.result(30)


def test_a_commit_that_fails_is_told_to_all_who_shared_it() -> None:
    groups, table = Groups(), Table()
    with ThreadPoolExecutor(8) as pool:
        begun = begin(pool, groups, table, 4)
        table.error = RuntimeError("no disk")
        table.go_on.set()
        for each in begun:
            with pytest.raises(RuntimeError, match="no disk"):
                each.result(30)
    table.error = None
    groups.write("t", rows(7), table.commit)
    assert table.commits == [[7]]


def test_who_is_refused_by_the_commit_hears_it_alone() -> None:
    groups, table = Groups(), Table()
    table.go_on.set()

    def commit(group: Sequence[Pending]) -> None:
        for each in group:
            each.error = ValueError("this one") if each.rows[0]["n"] == 1 else None
        table.commit([each for each in group if each.error is None])

    groups.write("t", rows(0), commit)
    with pytest.raises(ValueError, match="this one"):
        groups.write("t", rows(1), commit)
    assert table.commits == [[0], []]


def test_a_commit_takes_so_many_rows_and_the_rest_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "MOST_ROWS", 2)
    groups, table = Groups(), Table()
    with ThreadPoolExecutor(8) as pool:
        begun = begin(pool, groups, table, 6)
        table.go_on.set()
        for each in begun:
            each.result(30)
    assert table.commits == [[0], [1, 2], [3, 4], [5]]


def test_many_writers_lose_and_double_nothing() -> None:
    groups, table = Groups(), Table()
    table.go_on.set()

    def write(writer: int) -> None:
        for turn in range(20):
            number = writer * 100 + turn
            groups.write("t", rows(number), table.commit)
            assert any(number in commit for commit in table.commits), "told before it was done"

    with ThreadPoolExecutor(16) as pool:
        for each in [pool.submit(write, writer) for writer in range(16)]:
            each.result(60)
    written = sorted(number for commit in table.commits for number in commit)
    assert written == sorted(writer * 100 + turn for writer in range(16) for turn in range(20))
