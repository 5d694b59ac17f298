"""The service itself, without a JVM: what it says of itself, whom it answers, how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lake.lakes import Cli, make
from tests.lake.serving import Client, serving

from neve.errors import SparkUnavailable
from neve.http import create_app
from neve.http.service import Service
from neve.lake import Lake
from neve.model.service import ServiceAddress


def parts(client: Client) -> tuple[int, bool, dict[str, str]]:
    found = client.get("/health")
    return found.status, found.json["ready"], {part["part"]: part["state"] for part in found.json["parts"]}


def wait_for(client: Client, state: str) -> dict[str, str]:
    found = parts(client)[2]
    for _ in range(200):
        if found["spark"] == state:
            return found
        time.sleep(0.02)
        found = parts(client)[2]
    raise AssertionError(found)


def test_it_is_live_at_once_and_ready_when_spark_is(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = threading.Event()
    monkeypatch.setattr(lake, "warm_up", warm.wait)
    make(lake, "t", rows=2)
    with serving(create_app(lake)) as client:
        assert parts(client) == (503, False, {"catalog": "ok", "state": "ok", "spark": "starting", "worker": "off"})
        assert client.get("/health/live").json == {"live": True}
        assert "neve_service_ready 0\n" in client.get("/metrics").text
        warm.set()
        wait_for(client, "ok")
        assert parts(client)[:2] == (200, True)
        told = client.get("/metrics")
        assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'neve_table_files{table="default.t"} 1\n' in told.text
        assert "neve_service_ready 1\n" in told.text


def test_a_part_that_fails_is_named_with_its_reason(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise SparkUnavailable("no Java here")

    monkeypatch.setattr(lake, "warm_up", fail)
    with serving(create_app(lake)) as client:
        wait_for(client, "failed")
        found = client.get("/health")
        assert (found.status, found.json["live"], found.json["ready"]) == (503, True, False)
        assert {"part": "spark", "state": "failed", "detail": "no Java here"} in found.json["parts"]


def test_the_worker_runs_beside_and_is_drained(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    names: list[str] = []
    with serving(create_app(lake, worker=True, log=lambda event: names.append(event.name))) as client:
        for _ in range(200):
            if "worker_started" in names:
                break
            time.sleep(0.02)
        assert parts(client)[2]["worker"] == "ok"
    assert names == ["worker_started", "worker_stopped"]
    assert not any(thread.name == "neve-worker" for thread in threading.enumerate())


def test_the_docs_need_nothing_from_elsewhere(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as client:
        page = client.get("/docs")
        assert page.status == 200
        assert "GET /health" in page.text
        assert "http://" not in page.text
        assert "https://" not in page.text
        assert "/health" in client.get("/openapi.json").json["paths"]


@pytest.mark.parametrize("host", ["evil.example", "10.0.0.1:8080", "localhost.evil.example", ""])
@pytest.mark.slow
def test_requests_for_other_hosts_are_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """A page in a browser may have its own name lead to this machine."""
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as client:
        assert client.get("/health/live", Host=host).status == 421
        assert client.get("/health/live", Host="[::1]:1").status == 200


def test_others_cannot_reach_it(cli: Cli) -> None:
    said = cli("serve", "--host", "0.0.0.0", "--port", "0")
    assert (said.code, "0.0.0.0 can be reached by others" in said.err) == (6, True)


def test_a_port_that_is_taken_is_named(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as client:
        said = cli("serve", "--port", str(client.port))
        assert (said.code, f"127.0.0.1:{client.port}" in said.err) == (6, True)


@pytest.mark.slow
def test_sigterm_ends_it_cleanly(lake: Lake, tmp_path: Path) -> None:
    """In a process of its own; without jars Spark fails, which the service outlives and says."""
    (tmp_path / "jars").mkdir()
    words = ["serve", "--port", "0", "--lake", str(lake.root)]
    with subprocess.Popen(
        [sys.executable, "-m", "neve", *words],
        env={"PATH": "/usr/bin:/bin", "NEVE_SPARK__JARS": str(tmp_path / "jars")},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        url = first.split(" at ")[1].split(":")
        address = ":".join(url[:3])
        assert address.startswith("http://127.0.0.1:"), first
        said = ServiceAddress.file(lake.root)
        for _ in range(400):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=30)
            except urllib.error.HTTPError as exc:
                if b'"failed"' in exc.read():
                    break
            time.sleep(0.05)
        assert address in said.read_text()
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(60) == 0, rest
    assert not said.exists()
    assert "worker stopped" in rest
    assert rest.endswith("stopped\n")


def test_help_imports_no_server() -> None:
    code = (
        "import sys; from neve.cli.app import run; run(['--help']); run(['serve', '--help']);"
        "found = {'fastapi', 'uvicorn', 'pyspark', 'pyiceberg'} & set(sys.modules); assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_second_signal_breaks_off_what_the_worker_does(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Event()

    class Busy:
        def run(self) -> Iterator[None]:
            assert cancelled.wait(60)
            yield None

        def drain(self) -> None:
            pass

    monkeypatch.setattr(lake, "warm_up", lambda: None)
    monkeypatch.setattr(lake, "worker", lambda **_: Busy())
    monkeypatch.setattr(lake, "cancel_jobs", cancelled.set)
    service = Service(lake, worker=True)
    service.start()
    stopping = threading.Thread(target=service.stop)
    stopping.start()
    stopping.join(0.5)
    assert (stopping.is_alive(), cancelled.is_set()) == (True, False)
    service.break_off()
    stopping.join(10)
    assert (stopping.is_alive(), cancelled.is_set()) == (False, True)
