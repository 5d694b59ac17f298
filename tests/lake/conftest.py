"""A lake to work in, and its command line. Nothing here starts a JVM."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.lake.lakes import Said, run_cli
from tests.lake.processes import Processes
from tests.postgres import postgres_cluster

from neve.lake import Lake

__all__ = ["postgres_cluster"]


@pytest.fixture(scope="session")
def new_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lake that nobody has touched, to be copied."""
    root = tmp_path_factory.mktemp("template") / "lake"
    Lake.create(root).close()
    return root


@pytest.fixture
def lake(new_lake: Path, tmp_path: Path) -> Iterator[Lake]:
    """A fresh lake."""
    shutil.copytree(new_lake, tmp_path / "lake")
    with Lake(tmp_path / "lake") as opened:
        yield opened


@pytest.fixture
def cli(lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`neve …` in the lake's folder, in this process."""
    monkeypatch.chdir(lake.root)
    return partial(run_cli, capsys)


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Other processes, to be killed or to compete."""
    server = Processes()
    yield server
    server.close()
