"""Fixtures that every suite shares: lakes in a temporary folder, one Spark session per process."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from neve.lake import Lake

os.environ["TZ"] = "UTC"
# A shell starts background jobs with Ctrl-C ignored; the tests of Ctrl-C need it, wherever the suite was started from.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Queries as trees are many small objects, none of them in the way: looking for garbage less often saves a twelfth.
gc.set_threshold(50_000, 20, 100)
# How busy the machine is proves nothing, and what is checked must not depend on luck where it decides whether work
# lands: people's own runs search anew each time.
settings.register_profile("neve", deadline=None, derandomize="CI" in os.environ)
settings.register_profile("quick", settings.get_profile("neve"), max_examples=20)  # `make test-fast`
settings.load_profile("neve")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test in tests/spark starts a JVM, and says so by its mark."""
    for item in items:
        if "spark" in item.path.relative_to(item.config.rootpath).parts:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine's owner reaches a test."""
    for name in [name for name in os.environ if name.startswith("NEVE_") and name != "NEVE_REQUIRE_POSTGRES"]:
        monkeypatch.delenv(name)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A fresh lake without Spark."""
    with Lake.create(tmp_path / "lake") as opened:
        yield opened
