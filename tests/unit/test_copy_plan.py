"""Which files are copied together, which are re-encoded, which stay; and that planning again comes to an end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.model.copying import CopyOptions, CopyPlan, Element, FileShape, Leaf, RowGroupShape
from neve.model.results import Reason
from neve.plan.copying import MAX_FOOTER_BYTES, MAX_ROW_GROUPS, can_copy, copy_class, plan_copy

MB = 1_000_000
COLUMN = Element(name="k", physical="INT64", repetition="optional")


def shape(path: str, megabytes: float = 8, *, groups: int = 1, column: Element = COLUMN, **how: Any) -> FileShape:
    size = int(megabytes * MB)
    return FileShape(
        path=path,
        bytes=size + 1000,
        footer_bytes=how.pop("footer_bytes", 900),
        rows=100 * groups,
        version=2,
        created_by=how.pop("created_by", "parquet-mr version 1.16.0"),
        elements=(column,),
        leaves=(Leaf(path=(column.name,), element=column),),
        orders=("1:00",),
        row_groups=tuple(RowGroupShape(rows=100, bytes=size // groups) for _ in range(groups)),
        codecs=how.pop("codecs", (frozenset({"ZSTD"}),)),
        **how,
    )


def plan(*shapes: FileShape, target: float = 100, **how: Any) -> CopyPlan:
    return plan_copy(shapes, target_bytes=int(target * MB), **how)


def reasons(made: CopyPlan) -> dict[str, str]:
    return {held.path: held.reason.code for held in (*made.reencode, *made.left)}


def test_files_fill_outputs_up_to_the_target() -> None:
    made = plan(*(shape(f"{n}", 30) for n in range(7)))
    assert [group.files for group in made.groups] == [("0", "1", "2"), ("3", "4", "5")]
    assert reasons(made) == {"6": "alone"}
    assert (made.groups[0].rows, made.groups[0].row_groups) == (300, 3)
    assert made.groups[0].bytes == 3 * (30 * MB + 1000)


def test_small_row_groups_are_re_encoded_by_their_average() -> None:
    made = plan(shape("a", 8), shape("b", 8, groups=9), shape("c", 8, groups=8), shape("d", 0.2))
    assert [group.files for group in made.groups] == [("a", "c")]
    assert {held.path: held.reason.code for held in made.reencode} == {"b": "small_row_groups", "d": "small_row_groups"}
    assert made.reencode[0].reason.detail.startswith("888888 bytes a row group; 1000000")


def test_the_threshold_is_an_argument() -> None:
    made = plan(shape("a", 3), shape("b", 3), min_row_group_bytes=4 * MB)
    assert len(made.reencode) == 2
    assert len(plan(shape("a", 0.1), shape("b", 0.1), min_row_group_bytes=0).groups) == 1


def test_one_small_file_alone_is_left() -> None:
    assert reasons(plan(shape("a", 0.2))) == {"a": "alone"}
    assert reasons(plan(shape("a", 0.2, groups=2))) == {"a": "small_row_groups"}


def test_one_small_file_among_larger_ones_is_taken_along() -> None:
    broken = FileShape(path="x", bytes=9, problem=Reason(code="corrupt", detail="x: damaged"))
    made = plan(shape("a"), shape("b", 0.2), shape("c"), broken)
    assert [group.files for group in made.groups] == [("a", "b", "c")]
    assert reasons(plan(shape("a"), shape("b", 0.2), shape("c", 0.2))) == {
        "b": "small_row_groups",
        "c": "small_row_groups",
        "a": "alone",
    }


def test_large_files_and_broken_ones_are_left() -> None:
    broken = FileShape(path="x", bytes=9, problem=Reason(code="corrupt", detail="x: damaged"))
    strange = FileShape(path="y", bytes=9, problem=Reason(code="unknown_field", detail="y: field 99"))
    made = plan(shape("a", 75), shape("b", 74), shape("c", 20), broken, strange, shape("d", 0.1, groups=2))
    assert [group.files for group in made.groups] == [("b", "c")]
    assert reasons(made) == {"a": "large_enough", "x": "corrupt", "y": "unknown_field", "d": "small_row_groups"}
    assert [held.path for held in made.left] == ["a", "x"]


def test_unlike_files_go_apart() -> None:
    required = Element(name="k", physical="INT64", repetition="required")
    other = shape("e", metadata={"geo": "box"})
    made = plan(shape("a"), shape("b", column=required), shape("c"), shape("d", column=required), other)
    assert [group.files for group in made.groups] == [("a", "c"), ("b", "d")]
    assert reasons(made) == {"e": "alone"}
    assert plan(shape("a"), shape("e", metadata={"geo": "x"}), options=CopyOptions(ignore=frozenset({"geo"}))).groups


def test_a_codec_that_is_asked_for() -> None:
    packed = (frozenset({"ZSTD", "SNAPPY"}),)
    made = plan(shape("a"), shape("b", codecs=packed), shape("c"), codec="ZSTD")
    assert reasons(made) == {"b": "codec"}
    assert made.reencode[0].reason.detail == "packed with SNAPPY, not ZSTD"
    assert len(plan(shape("a"), shape("b", codecs=packed)).groups[0].files) == 2


def test_limits_of_one_file() -> None:
    many = [shape(str(n), 40, groups=MAX_ROW_GROUPS // 2 + 1) for n in range(2)]
    assert plan(*many, min_row_group_bytes=0).groups == ()
    reason = can_copy(many)
    assert reason is not None
    assert reason.code == "too_many_row_groups"
    wide = [shape(str(n), footer_bytes=MAX_FOOTER_BYTES // 2 + 1) for n in range(2)]
    assert plan(*wide).groups == ()
    reason = can_copy(wide)
    assert reason is not None
    assert reason.code == "footer_too_large"


def test_columns_that_are_replaced_do_not_count() -> None:
    extra = Element(name="_row_id", physical="INT64", repetition="optional", field_id=9)
    with_extra = FileShape(
        path="b",
        bytes=8 * MB,
        created_by="parquet-mr version 1.16.0",
        elements=(COLUMN, extra),
        leaves=(Leaf(path=("k",), element=COLUMN), Leaf(path=("_row_id",), element=extra)),
        orders=("1:00", "1:00"),
    )
    assert can_copy([shape("a"), with_extra]) is not None
    assert can_copy([shape("a"), with_extra], CopyOptions(without=frozenset({9}))) is None


kinds = st.sampled_from([COLUMN, Element(name="k", physical="INT64"), Element(name="j", physical="INT32")])
shapes = st.lists(
    st.tuples(st.floats(0.01, 120), st.integers(1, 6), kinds, st.sampled_from(["parquet-mr version 1.16.0", "x"])),
    max_size=25,
).map(
    lambda made: [
        shape(str(number), size, groups=groups, column=column, created_by=writer)
        for number, (size, groups, column, writer) in enumerate(made)
    ]
)


@given(shapes)
def test_every_file_is_in_one_place_and_every_group_can_be_copied(files: list[FileShape]) -> None:
    made = plan(*files)
    placed = [path for group in made.groups for path in group.files]
    placed += [held.path for held in (*made.reencode, *made.left)]
    assert sorted(placed) == sorted(file.path for file in files)
    known = {file.path: file for file in files}
    for group in made.groups:
        held = [known[path] for path in group.files]
        assert can_copy(held) is None
        assert len(held) > 1
        assert sum(file.bytes for file in held) == group.bytes <= 100 * MB
        assert [int(path) for path in group.files] == sorted(int(path) for path in group.files)


@given(shapes)
def test_planning_again_comes_to_an_end(files: list[FileShape]) -> None:
    for _ in range(10):
        made = plan(*files)
        if not made.groups:
            return
        files = _after(files, made)
    pytest.fail("ten plans, and still something to do")


def _after(files: list[FileShape], made: CopyPlan) -> list[FileShape]:
    """The files as they are once the groups are copied."""
    known = {file.path: file for file in files}
    outputs = []
    for group in made.groups:
        held = [known.pop(path) for path in group.files]
        outputs.append(
            FileShape(
                path=held[0].path,
                bytes=group.bytes,
                rows=group.rows,
                created_by=held[0].created_by,
                elements=held[0].elements,
                leaves=held[0].leaves,
                orders=held[0].orders,
                row_groups=tuple(one for file in held for one in file.row_groups),
            )
        )
    assert len(outputs) + len(known) < len(files)
    assert len({copy_class(output) for output in outputs}) <= len({copy_class(file) for file in files})
    return sorted([*known.values(), *outputs], key=lambda file: int(file.path))
