"""The lake behind the service: Spark is started in the background, and the worker runs beside if it is wanted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from pydantic import JsonValue

from neve import __version__
from neve.errors import NeveError, TooManyRequests
from neve.http.access import Access
from neve.lake import Lake
from neve.model.runs import Run
from neve.model.service import PartRow, ServiceHealth
from neve.observe.prometheus import Metric, as_text

if TYPE_CHECKING:
    from neve.observe.log import Event
    from neve.services.worker.worker import Worker

T = TypeVar("T")
_SLICE = 0.2
AT_ONCE = 64
"""Operations that run side by side; most of many writers wait for the one that commits for them."""

AT_LENGTH = 8
"""Pieces of long work that go on at once, each as a run."""

WAITING = 256
"""Operations that wait for their turn, at most; more are told to come again."""


class Service:
    """What all requests share. `start` returns at once; `stop` lets the worker finish what runs."""

    def __init__(self, lake: Lake, *, worker: bool = False, log: Callable[[Event], None] | None = None) -> None:
        self.lake = lake
        self.access = Access(lake)
        self._worker: Worker | None = lake.worker(log=log) if worker else None
        self._spark = PartRow(part="spark", state="starting")
        self._working = PartRow(part="worker", state="starting" if worker else "off")
        self._threads: list[threading.Thread] = []
        self._answered: Counter[tuple[str, int]] = Counter()
        self._counting = threading.Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="neve-request")
        self._places = threading.BoundedSemaphore(AT_ONCE + WAITING)
        self._long = threading.BoundedSemaphore(AT_LENGTH)
        self._breaking = False

    def start(self) -> None:
        self.lake.parts()  # opens the databases here, before threads share them
        self.lake.database.remove_exports()
        self._begin(self._warm_up, "neve-warm-up")
        if self._worker is not None:
            self._begin(self._work, "neve-worker")

    def _begin(self, what: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=what, name=name)
        self._threads.append(thread)
        thread.start()

    def _warm_up(self) -> None:
        try:
            self.lake.warm_up()
        except Exception as exc:  # noqa: BLE001 - whatever it is, /health says it
            self._spark = PartRow(part="spark", state="failed", detail=_reason(exc))
        else:
            self._spark = PartRow(part="spark", state="ok")

    def _work(self) -> None:
        """Goes on until it is drained; a worker that breaks says why, and leaves the requests alone."""
        assert self._worker is not None  # noqa: S101 - started for it alone
        self._working = PartRow(part="worker", state="ok")
        try:
            for _ in self._worker.run():
                pass
        except Exception as exc:  # noqa: BLE001 - whatever it is, /health says it, and requests go on
            self._working = PartRow(part="worker", state="failed", detail=_reason(exc))
        else:
            self._working = PartRow(part="worker", state="off")

    def break_off(self) -> None:
        """`stop` is to wait no longer. May be called from a signal handler."""
        self._breaking = True

    def stop(self) -> None:
        """Waits for the worker's jobs, or ends them; requests that run have been waited for already."""
        if self._worker is not None:
            self._worker.drain()
        self._pool.shutdown(wait=False, cancel_futures=self._breaking)
        for thread in self._threads:
            while thread.is_alive():
                if self._breaking:
                    self.lake.cancel_jobs()
                thread.join(_SLICE)

    def submit(self, work: Callable[[], T]) -> Future[T] | None:
        """Work in its turn; None when too much of it waits already."""
        if not self._places.acquire(blocking=False):
            return None
        future = self._pool.submit(work)
        future.add_done_callback(lambda _: self._places.release())
        return future

    def begin(self, plan: Mapping[str, JsonValue], table: str | None, work: Callable[[], JsonValue]) -> Run:
        """Long work, in a thread of its own; the run that it goes on as.

        Raises:
            TooManyRequests: as many as can go on at once do already.
        """
        if not self._long.acquire(blocking=False):
            raise TooManyRequests(f"{AT_LENGTH} pieces of long work go on already", hint="wait for one of their runs")
        begun: Future[Run] = Future()

        def carry() -> None:
            try:
                self.lake.runs.carry(plan, table, work, begun.set_result)
            except BaseException as exc:  # noqa: BLE001 - the run has it; before there was one, the caller has
                if not begun.done():
                    begun.set_exception(exc)
            finally:
                self._long.release()

        with self._counting:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._begin(carry, "neve-request-run")
        return begun.result()

    def health(self) -> ServiceHealth:
        spark = self._spark
        if spark.state == "ok" and self.lake.has_lost_spark:
            spark = PartRow(part="spark", state="failed", detail="Spark has died; see .neve/spark.log, and start again")
        parts = [*self.lake.parts(), spark, self._working]
        ready = all(part.state in ("ok", "off") for part in parts)
        return ServiceHealth(live=True, ready=ready, version=__version__, parts=parts)

    def count(self, what: str, status: int) -> None:
        """Remembers an answer for `/metrics`."""
        with self._counting:
            self._answered[what, status] += 1

    def metrics(self) -> str:
        ready = Metric(name="neve_service_ready", help="1 when every part of the service is well.")
        ready.add(int(self.health().ready))
        answers = Metric(name="neve_http_requests_total", help="Answers by what was asked.", kind="counter")
        with self._counting:
            counted = sorted(self._answered.items())
        for (what, status), count in counted:
            answers.add(count, operation=what, status=str(status))
        return self.lake.metrics() + as_text([ready, answers])


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, NeveError) else f"{type(error).__name__}: {error}"
