"""What an ingest may load into which column. Pure."""

from __future__ import annotations

import pytest

from neve.errors import InvalidSchema
from neve.model.names import TableName
from neve.model.types import Field
from neve.plan.ingest import check_fits
from neve.sql.columns import parse_type

WIDER = [
    ("int", "bigint"),
    ("float", "double"),
    ("decimal(8,2)", "decimal(10,2)"),
]
OTHERS = [
    ("int", "double"),
    ("bigint", "double"),
    ("int", "decimal(10,0)"),
    ("decimal(10,2)", "decimal(12,3)"),
    ("int", "string"),
    ("date", "timestamp"),
    ("timestamp", "timestamp_ntz"),
]


def fits(cleaned: str, held: str) -> bool:
    try:
        check_fits(TableName.parse("t"), Field("c", parse_type(cleaned)), Field("c", parse_type(held)))
    except InvalidSchema:
        return False
    return True


@pytest.mark.parametrize(("narrow", "wide"), WIDER)
def test_a_type_goes_into_one_that_holds_all_of_it_and_never_back(narrow: str, wide: str) -> None:
    assert (fits(narrow, wide), fits(wide, narrow)) == (True, False)
    assert fits(narrow, narrow)
    assert fits(wide, wide)


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_types_that_are_read_otherwise_are_refused_both_ways(one: str, other: str) -> None:
    assert not fits(one, other)
    assert not fits(other, one)
