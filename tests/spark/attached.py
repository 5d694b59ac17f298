"""Processes that work on the tests' own Spark and die by kill −9: no JVM is started for them, and theirs lives on.

They are forked from a server with one thread that has every module loaded. A process dies at its nth effect: right
before a transaction's COMMIT, or before it tells Spark to run a statement, to write or to commit. That is right after
the effect before it, so together they die at every step.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from neve.lake import Lake

KILLED = -signal.SIGKILL
_MODULES = (
    "neve.services.dynamic.rounds",
    "neve.services.ingest",
    "neve.services.rewrites.compaction",
    "neve.services.worker.making",
    "neve.engine.changes.staged",
    "pyspark.sql",
    "pyiceberg.table",
)
_EFFECTS = {
    "sql",
    "append",
    "save",
    "commit",
    "commitFileGroups",
    "rewrite",
    "collectToPython",
    "collectAsArrowToPython",
}  # methods of Spark and Iceberg


class Attached:
    """The server, seen from a test."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        way = gateway.gateway_parameters
        told = {"PYSPARK_GATEWAY_PORT": str(way.port), "PYSPARK_GATEWAY_SECRET": way.auth_token}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.attached"],
            env=os.environ | told | {"PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def refresh(self, lake: Path, table: str, *, die_at: int) -> int:
        """Refreshes a table in a new process that dies at its nth effect; how it ended: 0, or KILLED."""
        self.begin("refresh", str(lake), table, die_at)
        return self.end()

    def declare(self, lake: Path, statement: str, *, die_at: int) -> int:
        """Runs a statement for dynamic tables in a new process that dies at its nth effect."""
        self.begin("declare", str(lake), statement, die_at)
        return self.end()

    def compact(self, lake: Path, table: str, *, die_at: int, later: float) -> int:
        """Compacts a table in a new process that dies at its nth effect, so many seconds later than it is."""
        self.begin("compact", str(lake), table, die_at, later)
        return self.end()

    def work(self, lake: Path, tables: str, *, die_at: int, later: float) -> int:
        """A worker's tick in a new process that dies at its nth effect on Spark, so many seconds later than it is."""
        self.begin("work", str(lake), tables, die_at, later)
        return self.end()

    def begin_ingest(self, lake: Path, table: str, source: Path, day: str) -> None:
        """Loads a file in a new process, beside whatever else is going on; `end` waits for it."""
        self.begin("ingest", str(lake), table, str(source), day)

    def begin(self, *request: object) -> None:
        """Asks for a process and does not wait for it; `end` does."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def end(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


# --------------------------------------------------------------------------------- what happens in the server and below


def serve() -> None:
    for module in _MODULES:
        importlib.import_module(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            verb, *request = json.loads(line)
            globals()[f"_{verb}"](*request)
            os._exit(0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


def _refresh(root: str, table: str, effects: int) -> None:
    lake = _open(root)
    _die_at(effects)
    lake.dynamic.refresh([table])


def _declare(root: str, statement: str, effects: int) -> None:
    lake = _open(root)
    _die_at(effects)
    lake.dynamic.create(statement)


def _compact(root: str, table: str, effects: int, later: float) -> None:
    lake = _open(root)
    _go(lake, later)
    _die_at(effects)
    lake.table(table).compact(force=True)


def _work(root: str, tables: str, effects: int, later: float) -> None:
    lake = _open(root)
    _go(lake, later)
    if effects:
        _die_at(effects, of_databases=False)
    lake.worker(slots=2, tables=[tables]).tick()


def _ingest(root: str, table: str, source: str, day: str) -> None:
    _open(root).table(table).ingest(source, date=day)


def _open(root: str) -> Lake:
    from tests.spark.dynamic_oracle import QUICK

    from neve.engine import session

    spark, fresh = _attach(), session.fresh_session

    def quick(of: SparkSession) -> SparkSession:
        made = fresh(of)
        for key, value in QUICK.items():
            made.conf.set(key, value)
        return made

    vars(session)["fresh_session"] = quick
    session.Session.spark = property(lambda _: spark)  # type: ignore[assignment, method-assign]
    return Lake(root)


def _go(lake: Lake, later: float) -> None:
    """The lake's clock goes ahead of the world's: what a dead process held is over."""
    now = lake._context.clock
    lake._context.clock = lambda: now() + timedelta(seconds=later)


def _attach() -> SparkSession:
    from pyspark import SparkContext
    from pyspark.conf import SparkConf
    from pyspark.java_gateway import launch_gateway

    gateway: Any = launch_gateway()
    running = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    context = gateway.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(running)
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf())))


def _die_at(effects: int, *, of_databases: bool = True) -> None:
    from py4j.java_gateway import GatewayClient

    from neve.database.sqlite import SQLite

    left, send, execute = effects, GatewayClient.send_command, SQLite.execute

    def effect() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def sending(self: Any, command: str, *more: Any, **named: Any) -> Any:
        words = command.split("\n", 3)
        if words[0] == "c" and words[2] in _EFFECTS:
            effect()
        return send(self, command, *more, **named)

    def executing(self: SQLite, sql: str, values: Any = ()) -> Any:
        if sql == "COMMIT" and of_databases:
            effect()
        return execute(self, sql, values)

    GatewayClient.send_command = sending
    SQLite.execute = executing  # type: ignore[method-assign]


if __name__ == "__main__":
    serve()
