"""The service keeps to its OpenAPI, whatever is asked: a server of its own, as users start it."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.service import server
from tests.lake.openapi import search

from neve.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.soak]


@pytest.mark.timeout(1800)
def test_nothing_is_found(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with Lake.create(root) as lake:
        lake.tables.create("t", "id bigint, v string")
    with server(root) as port:
        assert search(port, tmp_path, "--max-examples", "25") == ""
