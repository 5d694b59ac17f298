"""kill −9 of a server between a group's commit and its answers: what was acknowledged is there, and all is once."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.lake.serving import Client, serving

from neve.http import create_app
from neve.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.faults]
SERVER = """
import os, signal, sys
from neve.cli.app import run
from neve.engine.appending import Append

commit, made = Append.commit, []

def commit_and_die(self, files, summary):
    commit(self, files, summary)
    made.append(1)
    if len(made) == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return True

Append.commit = commit_and_die
run(["serve", "--port", "0", "--no-worker", "--lake", sys.argv[1]])
"""
CLIENTS = 8


def test_writes_are_there_once_after_a_kill(spark_lake: Lake, namespace: str) -> None:
    """Clients write with keys and without; the server dies after its eighth commit, and another one takes over."""
    table = {"namespace": namespace, "table": "t"}

    def write(to: Client, number: int, *, keyed: bool = True) -> object:
        body = {"operation": "WRITE", **table, "records": [{"id": number}]}
        key = {"Idempotency_Key": f"key-{number}"} if keyed else {}
        answer = to.post("/database", body, **key).json
        return answer.get("records_written", answer)

    with serving(create_app(spark_lake)) as after:
        after.do("CREATE_TABLE", **table, schema={"fields": {"id": {"type": "long"}}})
        with subprocess.Popen(
            [sys.executable, "-c", SERVER, str(spark_lake.root)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            first = process.stderr.readline()
            before = Client(int(first.split("http://127.0.0.1:")[1].split(":")[0]))

            def client(number: int) -> tuple[list[int], list[int]]:
                """Those that were acknowledged, and those that were sent."""
                told, sent = list[int](), list[int]()
                while True:
                    sent.append(number * 1000 + len(sent))
                    try:
                        found = write(before, sent[-1], keyed=number % 4 != 3)
                    except (OSError, http.client.HTTPException):
                        return told, sent
                    assert found == 1
                    told.append(sent[-1])

            try:
                with ThreadPoolExecutor(CLIENTS) as pool:
                    clients = list(pool.map(client, range(CLIENTS)))
                assert process.wait(60) == -signal.SIGKILL
            finally:
                process.kill()

        told = {number for each, _ in clients for number in each}
        sent = {number for _, each in clients for number in each}
        keyed = {number for number in sent if number // 1000 % 4 != 3}
        assert len(sent) == len(told) + CLIENTS
        there = Counter(row["id"] for row in after.do("QUERY", **table)["records"])
        assert set(there.values()) == {1}
        assert told < set(there) <= sent  # some were committed and never answered, which is what this is about
        with ThreadPoolExecutor(CLIENTS) as pool:  # all that had a key are sent again, whatever was heard of them
            assert set(pool.map(lambda number: write(after, number), sorted(keyed))) == {1}
        ids = Counter(row["id"] for row in after.do("QUERY", **table)["records"])
    assert set(ids.values()) == {1}
    assert told | keyed <= set(ids) <= sent
    states = Counter(run.state for run in spark_lake.runs.list(table=f"{namespace}.t", kind="write", limit=1000))
    assert set(states) <= {"succeeded", "failed"}
