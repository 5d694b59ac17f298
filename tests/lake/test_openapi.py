"""The service keeps to its OpenAPI, as far as that needs no Spark: tests/spark/test_openapi.py asks everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.lake.lakes import make
from tests.lake.openapi import search
from tests.lake.serving import serving

from neve.engine.session import Session
from neve.errors import SparkUnavailable
from neve.http import create_app
from neve.lake import Lake

SPARK = ("/api/v1/sql", "/api/v1/tables/{table}/changes", "/api/v1/dynamic/validate")


@pytest.mark.slow
def test_answers_are_as_openapi_says(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_spark(_: Any) -> Any:
        raise SparkUnavailable("this test starts no JVM")

    monkeypatch.setattr(lake, "warm_up", lambda: None)
    monkeypatch.setattr(Session, "spark", property(no_spark))
    make(lake)
    with serving(create_app(lake)) as client:
        assert search(client.port, tmp_path, "--phases", "examples,fuzzing", "--max-examples", "8", without=SPARK) == ""
