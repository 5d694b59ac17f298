"""How many WRITEs a second the service acknowledges, beside a commit per write by Spark and by PyIceberg.

64 clients, each with one connection and one row at a time, write to one table of a server that is a process of its
own; then the rows are counted, which must be those that were acknowledged. In the same run: the same rows as one Spark
commit per write, in a warm session, and as one PyIceberg append per write, to a table of format 2, as it writes no
format 3. At last, clients that write, ask and compact side by side: no answer but 200 and 429.
`python -m bench.service` prints a table and writes bench/results/service.json. Compare ratios: the machine may be
noisy.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from neve import Lake
from neve.model.operations import OPERATION

RESULTS = Path(__file__).parent / "results"
FIELDS = {"fields": {"id": {"type": "long", "required": True}, "name": {"type": "string"}, "at": {"type": "timestamp"}}}
START = 15  # seconds until every process is there
PROCESSES = 4  # that the clients live in: one could not ask fast enough


@dataclass(frozen=True)
class Figure:
    way: str
    clients: int
    seconds: float
    writes: int
    per_second: float
    p50_ms: float
    p95_ms: float
    commits: int
    small_files: int
    rows_found: int


def record(number: int) -> dict[str, object]:
    return {"id": number, "name": f"name {number}", "at": "2026-11-16T12:00:00Z"}


class Connection:
    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def do(self, operation: str, **words: object) -> tuple[int, dict[str, Any]]:
        body = json.dumps({"operation": operation, "table": "t", **words})
        self._http.request("POST", "/database", body, {"Content-Type": "application/json"})
        answer = self._http.getresponse()
        return answer.status, json.loads(answer.read())


def count(port: int) -> int:
    _, answer = Connection(port).do("QUERY", aggregations=[{"function": "count"}])
    return int(answer["records"][0]["count"])


@contextmanager
def server(root: Path) -> Iterator[int]:
    """`neve serve`, as users start it; its port, once it is ready."""
    words = [sys.executable, "-m", "neve", "serve", "--port", "0", "--no-worker", "--lake", str(root)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        port = int(process.stderr.readline().split("http://127.0.0.1:")[1].split(":")[0])
        try:
            while not _is_ready(port):
                time.sleep(0.2)
            yield port
        finally:
            process.terminate()
            process.stderr.read()


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/health")
    return connection.getresponse().status == 200


def _write_for(port: int, first: int, clients: int, begin: float, seconds: float) -> list[float]:
    """So many clients, as threads, all from one moment on; the time of each write that was acknowledged."""
    time.sleep(max(0.0, begin - time.monotonic()))  # one clock for all processes, where there is Linux
    times: list[float] = []

    def client(number: int) -> None:
        connection, turn, end = Connection(port), 0, time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            status, answer = connection.do("WRITE", records=[record(number * 1_000_000 + turn)])
            if (status, answer.get("records_written")) != (200, 1):
                raise RuntimeError(f"{status}: {answer}")
            times.append(time.monotonic() - began)
            turn += 1

    threads = [threading.Thread(target=client, args=(first + number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def by_service(root: Path, clients: int, seconds: float) -> Figure:
    with server(root) as port:
        Connection(port).do("CREATE_TABLE", schema=FIELDS)
        warm = len(_write_for(port, 900, 8, 0, 3))  # until Java has compiled what a commit does
        before = _snapshots(root)
        share = clients // PROCESSES
        began = time.monotonic() + START
        with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
            parts = pool.starmap(_write_for, [(port, part * share, share, began, seconds) for part in range(PROCESSES)])
        took = time.monotonic() - began
        times = [one for part in parts for one in part]
        found = count(port) - warm
        if found != len(times):
            raise RuntimeError(f"{len(times)} writes were acknowledged, and {found} rows are there")
        return _figure(
            "service",
            times,
            clients=clients,
            took=took,
            commits=_snapshots(root) - before,
            files=_files(root),
            found=found,
        )


def mixed(root: Path, seconds: float) -> dict[str, dict[str, Any]]:
    """Writers, readers and a compaction after the other that lets every older snapshot expire: by operation, how often
    it was answered with which status, and how long that took."""
    answers: dict[str, list[tuple[int, float]]] = {"WRITE": [], "QUERY": [], "COMPACT": []}
    asked: dict[str, Callable[[int], dict[str, object]]] = {
        "WRITE": lambda turn: {"records": [record(turn)]},
        "QUERY": lambda turn: {"filters": [{"field": "id", "operator": "lt", "value": turn}], "limit": 100},
        "COMPACT": lambda _: {"force": True, "snapshot_retention_hours": 0},
    }

    def client(port: int, operation: str) -> None:
        connection, turn, end = Connection(port), 0, time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            status, _ = connection.do(operation, **asked[operation](turn))
            answers[operation].append((status, time.monotonic() - began))
            turn += 1

    with server(root) as port:
        Connection(port).do("CREATE_TABLE", schema=FIELDS)
        before = count(port)
        kinds = ["WRITE"] * 16 + ["QUERY"] * 4 + ["COMPACT"]
        threads = [threading.Thread(target=client, args=(port, kind)) for kind in kinds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after = count(port)
    told = {kind: _answered(found) for kind, found in answers.items()}
    written = told["WRITE"]["statuses"].get("200", 0)
    if after - before != written:
        raise RuntimeError(f"{written} writes were acknowledged, and {after - before} rows are there")
    if wrong := {kind: each for kind, each in told.items() if set(each["statuses"]) - {"200", "429"}}:
        raise RuntimeError(f"answers that nobody should get: {wrong}")
    return told


def _answered(found: list[tuple[int, float]]) -> dict[str, Any]:
    cuts = statistics.quantiles([took for _, took in found], n=20)
    statuses = Counter(str(status) for status, _ in found)
    return {"statuses": dict(statuses), "p50_ms": round(cuts[9] * 1000, 1), "p95_ms": round(cuts[18] * 1000, 1)}


def by_spark(root: Path, seconds: float) -> Figure:
    """One commit per write, each a Spark job in a warm session, one after the other."""
    from neve.engine.records import append, frame_of

    with Lake(root) as lake:
        lake.database.do(OPERATION.validate_python({"operation": "CREATE_TABLE", "table": "t", "schema": FIELDS}))
        name, session = "lake.default.t", lake.spark
        moment = session.sql("SELECT timestamp'2026-11-16 12:00:00Z'").collect()[0][0]

        def write(number: int) -> None:
            rows = [{"id": number, "name": f"name {number}", "at": moment}]
            append(frame_of(session, name, rows), name, summary={})

        for number in (-2, -1):  # until Java has loaded what a job needs
            write(number)
        times, took = _one_by_one(write, seconds)
        found = session.table(name).where("id >= 0").count()
        return _figure(
            "Spark, a commit per write",
            times,
            clients=1,
            took=took,
            commits=_snapshots(root),
            files=_files(root),
            found=found,
        )


def by_pyiceberg(root: Path, seconds: float) -> Figure:
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("other", uri=f"sqlite:///{root}/pyiceberg.db", warehouse=str(root / "pyiceberg"))
    catalog.create_namespace("default")
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("at", pa.timestamp("us", tz="UTC"))]
    )
    table = catalog.create_table("default.t", schema, properties={"format-version": "2"})

    def write(number: int) -> None:
        table.append(pa.Table.from_pylist([{"id": number, "name": f"name {number}", "at": 0}], schema))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times, took = _one_by_one(write, seconds)
        found = table.scan().to_arrow().num_rows
    return _figure(
        "PyIceberg, an append per write",
        times,
        clients=1,
        took=took,
        commits=len(table.history()),
        files=len(table.inspect.files()),
        found=found,
    )


def _one_by_one(write: Callable[[int], None], seconds: float) -> tuple[list[float], float]:
    times, began = list[float](), time.monotonic()
    while (start := time.monotonic()) < began + seconds or len(times) < 3:
        write(len(times))
        times.append(time.monotonic() - start)
    return times, time.monotonic() - began


def _figure(way: str, times: list[float], *, clients: int, took: float, commits: int, files: int, found: int) -> Figure:
    cuts = statistics.quantiles(times, n=20)
    return Figure(
        way=way,
        clients=clients,
        seconds=round(took, 1),
        writes=len(times),
        per_second=round(len(times) / took, 1),
        p50_ms=round(cuts[9] * 1000, 1),
        p95_ms=round(cuts[18] * 1000, 1),
        commits=commits,
        small_files=files,
        rows_found=found,
    )


def _snapshots(root: Path) -> int:
    with Lake(root) as lake:
        return len(lake._context.catalog.facts(lake.table("t").name).snapshots)


def _files(root: Path) -> int:
    with Lake(root) as lake:
        return len(lake.table("t").files())


def _show(figure: Figure, base: float) -> None:
    print(
        f"{figure.way:32} {figure.per_second:8.1f}/s  × {figure.per_second / base:6.1f}  p50 {figure.p50_ms} ms"
        f"  p95 {figure.p95_ms} ms  {figure.writes} writes, {figure.commits} commits, {figure.small_files} files",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--peer-seconds", type=float, default=20)
    parser.add_argument("--mixed-seconds", type=float, default=120)
    parser.add_argument("--only-mixed", action="store_true", help="leave the writes by themselves out")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        roots = [Path(folder, name) for name in ("service", "spark", "pyiceberg", "mixed")]
        for root in roots:
            Lake.create(root).close()
        ways: list[Callable[[], Figure]] = [
            lambda: by_spark(roots[1], asked.peer_seconds),
            lambda: by_pyiceberg(roots[2], asked.peer_seconds),
            lambda: by_service(roots[0], asked.clients, asked.seconds),
        ]
        figures: list[Figure] = []
        for measure in () if asked.only_mixed else ways:
            figures.append(measure())
            _show(figures[-1], figures[0].per_second)
        answers = mixed(roots[3], asked.mixed_seconds)
    print(f"side by side for {asked.mixed_seconds:.0f} s: {answers}")
    told = {"figures": [asdict(figure) for figure in figures], "mixed": answers, "load": os.getloadavg()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "service.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
