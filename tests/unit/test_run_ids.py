"""Run ids: ULIDs that sort by time; and the records that carry them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from neve.model.runs import CROCKFORD, Run, new_run_id

NOW = datetime(2026, 11, 16, tzinfo=UTC)
MOMENTS = st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def decode(run_id: str) -> tuple[int, bytes]:
    value = 0
    for letter in run_id:
        value = value * 32 + CROCKFORD.index(letter)
    return value >> 80, (value & (1 << 80) - 1).to_bytes(10, "big")


@given(MOMENTS, st.binary(min_size=10, max_size=10))
def test_an_id_holds_its_time_and_its_randomness(moment: datetime, noise: bytes) -> None:
    run_id = new_run_id(moment, lambda size: noise[:size])
    milliseconds, entropy = decode(run_id)
    assert len(run_id) == 26
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds) <= moment
    assert moment - datetime(1970, 1, 1, tzinfo=UTC) < timedelta(milliseconds=milliseconds + 1)
    assert entropy == noise


@given(MOMENTS, MOMENTS)
def test_ids_sort_by_millisecond(one: datetime, other: datetime) -> None:
    earlier, later = sorted([one, other])
    if later - earlier >= timedelta(milliseconds=1):
        assert new_run_id(earlier, lambda size: b"\xff" * size) < new_run_id(later, bytes)


def test_ids_of_one_moment_differ() -> None:
    assert len({new_run_id(NOW, os.urandom) for _ in range(1000)}) == 1000


def test_a_time_before_1970_or_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="1969"):
        new_run_id(datetime(1969, 12, 31, tzinfo=UTC), bytes)
    with pytest.raises(TypeError):
        new_run_id(datetime(2026, 1, 1), bytes)  # noqa: DTZ001


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_id": "01ABC"},
        {"run_id": "01ABCDEFGHU000000000000000"},
        {"run_id": "01ABCDEFGH0000000000000000\n"},
        {"state": "done"},
        {"started_at": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"plan": {"ratio": float("nan")}},
        {"plan": {"when": NOW}},
        {"surprise": 1},
    ],
)
def test_a_run_that_cannot_be_recorded_is_not_made(wrong: dict[str, object]) -> None:
    right = {"run_id": new_run_id(NOW, os.urandom), "kind": "ingest", "started_at": NOW, "host": "h", "pid": 1}
    assert Run.model_validate(right).state == "running"
    with pytest.raises(ValidationError):
        Run.model_validate(right | wrong)


def test_a_run_cannot_be_changed() -> None:
    run = Run(run_id=new_run_id(NOW, os.urandom), kind="ingest", started_at=NOW, host="h", pid=1)
    with pytest.raises(ValidationError):
        run.kind = "other"  # type: ignore[misc]
