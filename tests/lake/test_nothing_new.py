"""A round in which nothing is new: no Spark, no query looked at, and each table's metadata read a few times at most."""

from __future__ import annotations

import time

import pytest
from pyspark import SparkContext
from tests.lake.dynamic import declare, settle
from tests.lake.lakes import make

from neve.catalog.files import Files
from neve.lake import Lake
from neve.services.dynamic import rounds

TABLES = 100


@pytest.mark.slow
def test_a_hundred_tables_are_looked_at_without_spark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, "s", rows=1)
    for number in range(TABLES):
        declare(lake, f"d{number}", "SELECT id, v FROM s", "s")
        settle(lake, f"d{number}")
    reads: list[str] = []
    real = Files.read

    def counted(self: Files, location: str) -> bytes:
        reads.append(location)
        return real(self, location)

    monkeypatch.setattr(Files, "read", counted)
    monkeypatch.setattr(rounds, "decide", lambda *_: pytest.fail("a query was looked at"))
    began = time.monotonic()
    done = lake.dynamic.refresh()
    took = time.monotonic() - began
    assert {receipt.refresh for receipt in done} == {"NO_DATA"}
    assert len(done) == TABLES
    assert len(reads) <= 4 * TABLES, f"{len(reads)} reads in {took:.2f} s"
    assert SparkContext._active_spark_context is None
