"""Columns that an ingest adds for itself, and what becomes of them when it fails beside others. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.lake.lakes import append, current, facts, make

from neve.lake import Lake
from neve.model.names import TableName
from neve.model.types import Field, Primitive
from neve.services import columns

T = TableName.parse("t")


def publish(lake: Lake) -> None:
    append(lake, "t", [{"id": 1, "v": "x", "extra": "a rival's"}])


def stage(lake: Lake) -> None:
    lake._context.catalog.create_branch(T, "neve_rival", snapshot_id=current(lake, "t"))


def load(lake: Lake, rival: Callable[[Lake], None] | None) -> None:
    with columns.fit_columns(lake._context, T, {}, None, evolve=True):
        assert "extra" in [column.name for column in facts(lake, "t").columns]
        if rival is not None:
            rival(lake)
        raise KeyboardInterrupt


@pytest.mark.parametrize(("rival", "stays"), [(None, False), (publish, True), (stage, True)])
def test_a_column_that_a_failed_load_added_goes_unless_a_rival_may_use_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, rival: Callable[[Lake], None] | None, *, stays: bool
) -> None:
    make(lake, rows=1)
    fitted = columns.Fit(work=cast("Any", None), missing=(Field("extra", Primitive("string")),))
    monkeypatch.setattr(columns, "fit", lambda *_, **__: fitted)
    with pytest.raises(KeyboardInterrupt):
        load(lake, rival)
    assert ("extra" in [column.name for column in facts(lake, "t").columns]) == stays
