"""Which files of a folder a piece of work concerns, and which are merged: decided from footers alone."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import ColumnNotFound, InvalidInput, InvalidSchema, Refused
from neve.model.types import Field, Primitive
from neve.plan.adopt import Footer
from neve.plan.directories import (
    CompactionRules,
    Dataset,
    agrees,
    describe,
    disagreements,
    plan_bins,
    prune,
    refuse_disagreement,
)
from neve.plan.folders import folder_of, is_ignored, partition_of
from neve.plan.rows import find_name


def footer(
    path: str, *, size: int = 10, rows: int = 1, columns: str = "id:long k:string", **constants: object
) -> Footer:
    fields = tuple(Field(name, Primitive(kind)) for name, kind in (word.split(":") for word in columns.split()))
    return Footer(path=path, bytes=size, rows=rows, columns=fields, ids={}, constants=constants, vectorised=True)


@given(st.dictionaries(st.text(min_size=1), st.one_of(st.none(), st.text()), min_size=1, max_size=3))
def test_a_folder_gives_its_values_back(values: dict[str, str | None]) -> None:
    try:
        "".join([*values, *(value or "" for value in values.values())]).encode()
    except UnicodeEncodeError:
        return
    folder = folder_of(values)
    assert partition_of(f"{folder}/a.parquet") == tuple((key, value or None) for key, value in values.items())
    assert len(folder.split("/")) == len(values)
    assert not any(is_ignored(part) or part in (".", "..") for part in folder.split("/"))


def dataset(*paths: str) -> Dataset:
    return describe("/d", [footer(path, columns="id:long k:string day:date n:int") for path in paths])


def test_pruning() -> None:
    found = dataset(
        "k=a/day=2024-01-01/x",
        "k=a/day=2024-01-02/x",
        "k=b/day=2024-01-01/x",
        "k=__HIVE_DEFAULT_PARTITION__/day=2024-01-01/x",
    )
    cases: list[tuple[dict[str, object], list[int], dict[str, object]]] = [
        ({}, [0, 1, 2, 3], {}),
        ({"k": "a"}, [0, 1], {"k": "a"}),
        ({"day": "2024-01-01"}, [0, 2, 3], {"day": date(2024, 1, 1)}),
        ({"DAY": date(2024, 1, 1), "k": "a"}, [0], {"day": date(2024, 1, 1), "k": "a"}),
        ({"k": None}, [3], {"k": None}),
        ({"k": ""}, [3], {"k": ""}),
    ]
    for words, places, values in cases:
        selected, wanted = prune(found, words)
        assert [item.path for item in selected.footers] == [found.footers[place].path for place in places]
        assert wanted == values
    with pytest.raises(InvalidInput, match="not a date"):
        prune(found, {"day": "yesterday"})
    with pytest.raises(InvalidInput, match="not a partition key"):
        prune(found, {"id": 1})


def test_columns_and_their_names() -> None:
    found = describe("/d", [footer("year=2024/a", columns="id:int"), footer("year=2025/b", columns="id:long x:double")])
    assert [(column.name, str(column.type)) for column in found.columns] == [
        ("id", "bigint"), ("x", "double"), ("year", "int"),
    ]  # fmt: skip
    assert found.lacking() == {"year=2024/a": ("year",), "year=2025/b": ("year",)}
    assert found.folder(("2024",)) == "year=2024"
    assert found.folder((None,)) == "year=__HIVE_DEFAULT_PARTITION__"
    assert find_name(found.names, "ID", where="/d") == "id"
    with pytest.raises(ColumnNotFound, match="no column yea in /d") as caught:
        find_name(found.names, "yea", where="/d")
    assert caught.value.hint == "did you mean year?"
    with pytest.raises(InvalidSchema, match="case only"):
        describe("/d", [footer("a", columns="id:int ID:int")])
    with pytest.raises(InvalidSchema, match="keeps for itself"):
        describe("/d", [footer("a", columns="_neve_file:int")])
    with pytest.raises(Refused, match="partitioned by"):
        dataset("k=a/x", "y")


def test_the_folder_that_is_there_is_used() -> None:
    found = describe("/d", [footer("k=New%20York/a"), footer("k=x/a")])
    assert found.folder(("New York",)) == "k=New%20York"
    assert found.folder(("Old York",)) == "k=Old York"


def test_disagreement() -> None:
    found = describe(
        "/d", [footer("k=a/1", k="a"), footer("k=a/2", k="b"), footer("k=a/3"), footer("k=a/4", rows=0, k="b")]
    )
    proven, unsure = disagreements(found)
    assert [doubt.path for doubt in proven] == ["k=a/2"]
    assert [doubt.path for doubt in unsure] == ["k=a/3"]
    with pytest.raises(Refused, match="k = 'a'") as caught:
        refuse_disagreement("/d", proven)
    assert caught.value.hint is not None
    assert "neve parquet repair /d" in caught.value.hint
    assert agrees(None, "")
    assert not agrees("", None)
    assert agrees(Decimal("1.50"), Decimal("1.5"))


def bins(sizes: list[int], rules: CompactionRules, folder: str = "k=a") -> list[list[int]]:
    footers = [footer(f"{folder}/{number:04}", size=size) for number, size in enumerate(sizes)]
    found, _ = plan_bins(footers, rules)
    return [[sizes[int(path.rpartition("/")[2])] for path in item.files] for item in found]


def test_what_is_merged() -> None:
    assert bins([40, 40, 40, 40], CompactionRules(target_bytes=100)) == [[40, 40], [40, 40]]
    assert bins([40, 90, 40], CompactionRules(target_bytes=100)) == [[40, 40]]  # large enough is left alone
    assert bins([40, 90, 40], CompactionRules(target_bytes=100, max_file_bytes=30)) == []
    assert bins([10, 10, 10], CompactionRules(target_bytes=100, min_file_count=4)) == []
    assert bins([10, 10, 10, 50], CompactionRules(target_bytes=100, target_file_count=2)) == [[10, 10, 10]]
    assert bins([10] * 6, CompactionRules(target_bytes=1000, target_file_count=3)) == [[10, 10]] * 3
    assert bins([10, 10], CompactionRules(target_bytes=100, target_file_count=2)) == []
    assert bins([90], CompactionRules(target_bytes=100, sorts=True, min_file_count=1)) == [[90]]
    assert bins([10, 90], CompactionRules(target_bytes=100, target_file_count=2, sorts=True)) == [[10], [90]]
    assert bins([10, 90], CompactionRules(target_bytes=100, target_file_count=9, sorts=True)) == [[10], [90]]


@given(st.lists(st.integers(1, 200), min_size=1, max_size=30), st.integers(1, 8), st.booleans())
def test_a_plan_takes_each_file_once_and_in_order(sizes: list[int], count: int, by_count: bool) -> None:
    rules = CompactionRules(target_bytes=100, target_file_count=count if by_count else None)
    footers = [footer(f"k={number % 2}/{number:04}", size=size) for number, size in enumerate(sizes)]
    found, partitions = plan_bins(footers, rules)
    taken = [path for item in found for path in item.files]
    assert len(set(taken)) == len(taken)
    assert taken == sorted(taken)
    assert partitions == len({item.path.partition("/")[0] for item in footers})
    for item in found:
        assert {path.partition("/")[0] for path in item.files} == {item.folder}
        assert by_count or item.bytes <= 100
    if by_count:
        for folder in {item.folder for item in found}:
            members = sum(f.path.startswith(f"{folder}/") for f in footers)
            merged = [item for item in found if item.folder == folder]
            left = members - sum(len(item.files) for item in merged)
            assert left + len(merged) == count


def test_repeated_compaction_comes_to_an_end() -> None:
    """What a merge makes is large enough, or too little to merge with anything."""
    sizes = [30] * 17
    for _ in range(10):
        merged = bins(sizes, CompactionRules(target_bytes=100))
        if not merged:
            break
        taken = [size for item in merged for size in item]
        for size in taken:
            sizes.remove(size)
        sizes += [sum(item) for item in merged]
    else:
        pytest.fail("it never ends")
    assert sum(sizes) == 30 * 17
