"""A command in a lake finds the service that runs for it, and only that one. No JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lake.lakes import Cli
from tests.lake.serving import Client, serving

from neve import __version__
from neve.cli.options import REMOTE, WARM
from neve.client.finding import find_service
from neve.http import create_app
from neve.lake import Lake
from neve.model.service import ServiceAddress

GET = ("table", "get", "t", "--key", "a", "--explain")


def announce(root: Path, text: str) -> None:
    ServiceAddress.file(root).parent.mkdir(exist_ok=True)
    ServiceAddress.file(root).write_text(text)


@pytest.fixture
def client(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    lake.tables.create("t", "k string not null, n int not null", row_keys=["k"])
    with serving(create_app(lake)) as opened:
        announce(lake.root, f'{{"url": "http://127.0.0.1:{opened.port}"}}')
        yield opened


def asked(client: Client, **headers: str) -> int:
    """How often a command has asked the service."""
    lines = client.get("/metrics", **headers).text.splitlines()
    counts = [line for line in lines if line.startswith("neve_http_requests_total") and "get/explain" in line]
    return sum(int(line.split()[-1]) for line in counts)


def test_the_service_of_this_lake_is_asked(client: Client, cli: Cli, tmp_path: Path) -> None:
    there = cli(*GET)
    assert (there.code, asked(client)) == (0, 1)
    assert cli(*GET, "--server", "off") == there
    assert asked(client) == 1


def test_what_is_given_with_the_call_keeps_it_here(
    client: Client, cli: Cli, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli(*GET, "--profile", "prod").code == 0
    (lake.root / "t.yaml").write_text("name: t\nrow_keys: [k]\ncolumns:\n  - {name: k, type: string}\n")
    cli("table", "get", str(lake.root / "t.yaml"), "--key", "a", "--explain")
    monkeypatch.setenv("NEVE_SERVER", "off")
    assert cli(*GET).code == 0
    monkeypatch.delenv("NEVE_SERVER")
    monkeypatch.setenv("NEVE_COMPACTION__MIN_FILES_TO_COMPACT", "3")
    assert cli(*GET).code == 0
    assert asked(client) == 0
    monkeypatch.delenv("NEVE_COMPACTION__MIN_FILES_TO_COMPACT")
    monkeypatch.setenv("NEVE_SERVER", f"http://127.0.0.1:{client.port}")
    assert cli(*GET).code == 0
    assert asked(client) == 1


def test_a_service_that_wants_a_key_is_asked_with_one_alone(
    client: Client, cli: Cli, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = lake.keys.create(None, "admin").key
    assert cli(*GET).code == 0
    assert asked(client, Authorization=f"Bearer {key}") == 0
    monkeypatch.setenv("NEVE_KEY", str(key))
    assert cli(*GET).code == 0
    assert asked(client, Authorization=f"Bearer {key}") == 1
    tenant = lake.keys.create("acme", "admin").key
    assert find_service(lake.root, str(tenant), version=__version__) is None


def test_no_other_is_taken_for_it(client: Client, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{client.port}"
    assert find_service(lake.root, None, version=__version__) == url
    announce(tmp_path, f'{{"url": "{url}"}}')
    assert find_service(tmp_path, None, version=__version__) is None, "it answers for another lake"
    for wrong in ("", "{", '{"url": 1}', '{"url": "http://127.0.0.1:1"}', '{"url": "http://203.0.113.1:80"}'):
        announce(lake.root, wrong)
        assert find_service(lake.root, None, version=__version__) is None, wrong
    announce(lake.root, f'{{"url": "{url}"}}')
    assert find_service(lake.root, None, version="0") is None, "it is of another version"


def test_only_what_a_service_can_do_is_asked_of_one() -> None:
    assert WARM <= REMOTE
