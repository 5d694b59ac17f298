"""Ctrl-C while Spark works: its jobs are cancelled, and the caller is interrupted at once.

PySpark's own handler calls the JVM from within the call that it interrupts: py4j fails with a trace of its own, and
the jobs go on. Here another thread, with a connection of its own, cancels them. py4j, interrupted in a call, would
ask the JVM to close every connection, those of other threads and the next one too: the call's own is closed before.
"""

from __future__ import annotations

import logging
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

_ASKING = 3.0
_ANSWERING = 20.0
_PAUSE = 0.1
_AGAIN = 0.02
_PY4J = ("KeyboardInterrupt while sending command.", "Exception while sending command.")
Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


def current_handler() -> Handler:
    """What Ctrl-C does now; to be asked before PySpark puts its own handler there."""
    return signal.getsignal(signal.SIGINT)


def take_over(context: SparkContext, before: Handler) -> None:
    """Puts our handler where PySpark put its own, or what was there before when that was somebody's choice."""
    if threading.current_thread() is not threading.main_thread() or before is None:
        return
    ours = _handler(context) if before is signal.default_int_handler else before
    signal.signal(signal.SIGINT, ours)


def give_back(before: Handler) -> None:
    """Puts back what was there before Spark started."""
    if threading.current_thread() is threading.main_thread() and before is not None:
        signal.signal(signal.SIGINT, before)


def quieten_py4j() -> None:
    """py4j logs, on the root logger, each call that breaks off; what we raise says it already."""
    root = logging.getLogger()
    if _unless_py4j not in root.filters:
        root.addFilter(_unless_py4j)


def _unless_py4j(record: logging.LogRecord) -> bool:
    return record.msg not in _PY4J


def _handler(context: SparkContext) -> Callable[[int, FrameType | None], None]:
    busy = threading.Lock()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _is_unheard(frame):
            return _send_again(number)
        if not busy.acquire(blocking=False):
            raise KeyboardInterrupt
        try:
            end_calls()
        finally:
            busy.release()
        raise KeyboardInterrupt

    def end_calls() -> None:
        client: Any = context._gateway and context._gateway._gateway_client
        own = client and client.get_thread_connection()
        _cancel(context)
        if own is not None and own not in client.deque:
            _break_off(context, own)

    return interrupt


def _is_unheard(frame: FrameType | None) -> bool:
    """Whether Python would print and forget what is raised here: while py4j tells the JVM of an object that is gone."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or (code.co_name == "<lambda>" and "py4j" in Path(code.co_filename).parts):
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    main = threading.main_thread().ident or 0
    again = threading.Timer(_AGAIN, signal.pthread_kill, (main, number))
    again.daemon = True
    again.start()


def _cancel(context: SparkContext) -> None:
    canceller = threading.Thread(target=_cancel_jobs, args=(context,), name="neve-cancel", daemon=True)
    canceller.start()
    canceller.join(_ASKING)


def _cancel_jobs(context: SparkContext) -> None:
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError, AttributeError):
        context.cancelAllJobs()


def _break_off(context: SparkContext, connection: Any) -> None:
    """Ends the call under way: cancels until it answers, then closes its line.

    The call may not have begun its job yet, and on a busy machine that takes seconds: giving up before would leave a
    job that nobody ends. A second Ctrl-C breaks off at once.
    """
    deadline = time.monotonic() + _ANSWERING
    try:
        while not _answered(connection, _PAUSE) and time.monotonic() < deadline:
            _cancel(context)
    finally:
        connection.close()


def _answered(connection: Any, seconds: float) -> bool:
    return bool(select.select([connection.socket], [], [], seconds)[0])
