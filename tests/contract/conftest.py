"""Every test here that asks for `uri` or `store` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres import Cluster, postgres_cluster

from neve.store import Store

__all__ = ["postgres_cluster"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A state database that nobody has opened yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / '.metadata.db'}"
    cluster: Cluster = request.getfixturevalue("postgres_cluster")
    return cluster.create_schema()


@pytest.fixture
def store(uri: str) -> Iterator[Store]:
    with Store.open(uri) as opened:
        yield opened
