"""Key ranges: the tree of cuts, the expression that finds a row's range, and what is decided from both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from neve.errors import InvalidInput, InvalidSchema, NeveError
from neve.model.changes import LiveFile
from neve.model.merging import AGGREGATIONS, FILTERS, AgeOff, Merging, merging_of
from neve.model.names import TableName
from neve.model.ranges import (
    ExportedRange,
    KeyRange,
    RangeTree,
    exported,
    from_property,
    imported,
    parse_threshold,
    points_of,
    to_property,
    tree_of_points,
)
from neve.model.regions import Side
from neve.model.rewrites import DataEntry, FileMetrics, TableFiles
from neve.model.specs import TableSpec, check_spec, in_ranges
from neve.model.splits import Key, order
from neve.model.types import Field, Primitive
from neve.plan.range_upkeep import aged_files
from neve.plan.ranges import SplitPoint, even_points, split_point
from neve.plan.tables import check_range_properties
from neve.services.specs import spec_from_words
from neve.sql.merging import merged
from neve.sql.ranges import inside, locate

VALUES: dict[str, st.SearchStrategy[Key]] = {
    "int": st.integers(-5, 5),
    "string": st.text(st.sampled_from("ab\\'\n\U00010000"), max_size=2),
    "binary": st.binary(max_size=2),
}
KINDS = st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[str], RangeTree]:
    """A tree that was cut at random, by any of its keys."""
    kinds = draw(KINDS)
    tree = RangeTree(len(kinds))
    for _ in range(draw(st.integers(0, 12))):
        leaf, key = draw(st.sampled_from(tree.leaves)), draw(st.integers(0, len(kinds) - 1))
        at = draw(VALUES[kinds[key]])
        if leaf.holds(key, at, at) and leaf.low[key] != at:
            tree = tree.split(leaf.id, key, at)
    return kinds, tree


def evaluate(node: exp.Expr, row: dict[str, Key]) -> int:
    """What Spark makes of the expression: strings and binaries compare as bytes."""
    while isinstance(node, exp.If):
        less = node.this
        assert isinstance(less, exp.LT)
        at: Key
        if isinstance(less.expression, exp.HexString):
            at = bytes.fromhex(less.expression.name)
        elif less.expression.is_string:
            at = less.expression.name
        else:
            at = int(less.expression.sql())
        node = node.args["true" if order(row[less.this.name]) < order(at) else "false"]
    return int(node.sql())


def owner(tree: RangeTree, row: Sequence[Key]) -> list[KeyRange]:
    return [leaf for leaf in tree.leaves if all(leaf.holds(key, value, value) for key, value in enumerate(row))]


@given(st.data())
def test_every_row_has_one_range_and_the_expression_finds_it(data: st.DataObject) -> None:
    kinds, tree = data.draw(trees())
    row = [data.draw(VALUES[kind]) for kind in kinds]
    names = [f"k`{number}" for number in range(len(kinds))]
    (found,) = owner(tree, row)
    parsed = sqlglot.parse_one(locate(tree, names), read="spark")
    assert evaluate(parsed, dict(zip(names, row, strict=True))) == found.id


@pytest.mark.parametrize("key", ["${system:user.name}", "a\x00b"])
def test_spark_replaces_nothing_in_a_key(key: str) -> None:
    """It would put in variables of the machine, and reads some escapes otherwise."""
    region = (Side(low=key, high=key, with_high=True),)
    for text in (locate(tree_of_points([key], 1), ["k"]), inside([region], ["k"])):
        assert "${" not in text
        assert "\x00" not in text


@given(trees())
def test_leaves_are_in_the_order_of_their_keys(made: tuple[list[str], RangeTree]) -> None:
    _, tree = made
    lows = [leaf.low[0] for leaf in tree.leaves if not any(cut.key for cut in tree.cuts)]
    assert lows[1:] == sorted((low for low in lows[1:] if low is not None), key=order)
    assert sum(not found.leaf for found in tree.ranges.values()) == len(tree.leaves) - 1


@given(trees())
def test_a_tree_comes_back_from_a_property_and_from_an_export(made: tuple[list[str], RangeTree]) -> None:
    kinds, tree = made
    names = [f"k{number}" for number in range(len(kinds))]
    assert from_property(to_property(tree), kinds) == tree
    lines = [ExportedRange.model_validate_json(line.model_dump_json()) for line in exported(tree, names)]
    assert imported(lines, names, kinds) == tree


@given(st.sets(st.integers()).map(sorted))
def test_points_make_ranges_and_come_back(points: list[int]) -> None:
    tree = tree_of_points(points, 2)
    assert points_of(tree) == tuple(points)
    assert [leaf.low[0] for leaf in tree.leaves] == [None, *points]
    assert [leaf.high[0] for leaf in tree.leaves] == [*points, None]


def test_a_lopsided_tree_is_searched_by_halves() -> None:
    tree = RangeTree(1)
    for at in range(1, 256):  # keys that grow, so that the last range is always the one that is cut
        tree = tree.split(tree.leaves[-1].id, 0, at)
    text, depth, deepest = locate(tree, ["k"]), 0, 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    assert deepest == 8


def test_points_cannot_say_what_other_keys_divide() -> None:
    with pytest.raises(InvalidInput, match="more than the first key"):
        points_of(RangeTree(2).split(0, 1, 5))


@pytest.mark.parametrize(("at", "said"), [(10, "must lie inside"), (20, "must lie inside"), (9, "must lie inside")])
def test_a_cut_lies_inside_its_range(at: int, said: str) -> None:
    tree = tree_of_points([10, 20], 1)
    (middle,) = (leaf for leaf in tree.leaves if leaf.low == (10,))
    with pytest.raises(InvalidInput, match=said):
        tree.split(middle.id, 0, at)
    assert [leaf.low[0] for leaf in tree.split(middle.id, 0, 15).leaves] == [None, 10, 15, 20]


@pytest.mark.parametrize(("range_id", "said"), [(0, "cut already"), (7, "not there")])
def test_only_a_leaf_is_cut(range_id: int, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        tree_of_points([10], 1).split(range_id, 0, 5)


@pytest.mark.parametrize(
    "change",
    [
        {"split_key": "other"},
        {"split_at": "x"},
        {"split_at": None},
        {"children": (1, 1)},
        {"children": (0, 2)},
        {"children": (1, 7)},
    ],
)
def test_lines_that_are_no_tree_are_refused(change: dict[str, object]) -> None:
    first, *others = exported(tree_of_points([10], 1), ["k"])
    with pytest.raises(InvalidInput):
        imported([first.model_copy(update=change), *others], ["k"], ["int"])
    with pytest.raises(InvalidInput):
        imported(others, ["k"], ["int"])


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([list(range(100))], SplitPoint(0, 50)),
        ([[1] * 100, list(range(100))], SplitPoint(1, 50)),
        ([["a"] * 9 + ["b"]], SplitPoint(0, "b")),
        ([[7] * 100], None),
        ([[]], None),
        ([["é", "z", "\U00010000"]], SplitPoint(0, "é")),
    ],
)
def test_case_9_where_a_range_is_divided(samples: list[list[Key]], expected: SplitPoint | None) -> None:
    assert split_point(samples) == expected


@given(st.lists(st.integers(0, 20), min_size=1), st.integers(1, 30))
def test_even_points_divide_what_was_sampled(sample: list[int], leaves: int) -> None:
    points = even_points(sample, leaves)
    assert len(points) < leaves
    assert list(points) == sorted(set(points))
    counts = [
        sum(owner(tree_of_points(points, 1), [value])[0].id == leaf.id for value in sample)
        for leaf in tree_of_points(points, 1).leaves
    ]
    assert all(counts)


def test_no_range_is_no_number_of_leaves() -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        even_points([1], 0)


@pytest.mark.parametrize("text", ["", "1", "-5", "many", "1.5"])
def test_a_threshold_is_a_number_of_rows(text: str) -> None:
    with pytest.raises(InvalidInput, match="number of rows"):
        parse_threshold(text)
    assert parse_threshold("20") == 20


def test_row_keys_are_the_layout() -> None:
    spec = spec_from_words("t", "k string not null, j int not null, v int", row_keys=["k, j"], sort_keys=["v"])
    made = in_ranges(spec)
    assert [column.name for column in made.columns] == ["k", "j", "v", "_neve_range"]
    assert [str(item) for item in made.partition_by] == ["_neve_range"]
    assert [item.term.column for item in made.sort_by] == ["k", "j", "v"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"row_keys": ["k"], "partition_by": ["v"]}, "no partitioning"),
        ({"row_keys": ["k"], "sort_by": ["v"]}, "no sort order"),
        ({"row_keys": ["k"], "sort_keys": ["K"]}, "no column K"),
        ({"row_keys": ["k"], "sort_keys": ["k"]}, "a key twice"),
        ({"row_keys": ["k, k"]}, "a key twice"),
        ({"sort_keys": ["v"]}, "come after the row keys"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(words: dict[str, list[str]], said: str) -> None:
    with pytest.raises(NeveError, match=said) as raised:
        in_ranges(spec_from_words("t", "k string not null, v int", **words))  # type: ignore[arg-type]
    assert raised.value.hint


def test_the_range_column_is_not_for_users() -> None:
    columns = (Field("k", Primitive("int"), True, None), Field("_NEVE_range", Primitive("int"), False, None))
    with pytest.raises(InvalidSchema, match="keeps key ranges"):
        check_spec(TableSpec(name=TableName.parse("t"), columns=columns, row_keys=("k",)))


COLUMNS = "k string not null, s int, n int, last timestamp, seen date, m map<string,int>, must int not null"


@pytest.mark.parametrize(
    ("filters", "aggregations", "said"),
    [
        ("ageOff(last)", "", "no filter"),
        ("ageOff(last, -1)", "", "no filter"),
        ("young(last, 1)", "", "no filter"),
        ("ageOff(k, 1)", "", "date or a timestamp"),
        ("ageOff(nope, 1)", "", "no column nope"),
        ("", "avg(n)", "no aggregation"),
        ("", "n", "no aggregation"),
        ("", "sum(n)", "just one"),
        ("", "sum(k), sum(n), max(last), max(seen), map_sum(m), max(must)", "is a key"),
        ("", "sum(n), max(n), max(last), max(seen), map_sum(m), max(must)", "just one"),
        ("", "sum(n), max(last), max(seen), map_sum(m), max(must)", "NOT NULL"),
        ("", "sum(last), max(n), max(seen), map_sum(m), max(must)", "does not go"),
        ("", "sum(n), max(last), max(seen), max(m), max(must)", "does not go"),
        ("", "map_sum(n), max(last), max(seen), map_sum(m), max(must)", "does not go"),
    ],
)
def test_filters_and_aggregations_fit_the_columns(filters: str, aggregations: str, said: str) -> None:
    spec = spec_from_words("t", COLUMNS, row_keys=["k"], sort_keys=["s"])
    with pytest.raises(InvalidInput, match=said):
        check_range_properties(spec.columns, {FILTERS: filters, AGGREGATIONS: aggregations}, ("k", "s"))


def test_filters_and_aggregations_need_row_keys() -> None:
    spec = spec_from_words("t", "k int, last date")
    with pytest.raises(InvalidInput, match="row keys"):
        check_range_properties(spec.columns, {FILTERS: "ageOff(last, 3)"}, ())
    check_range_properties(spec.columns, {}, ())


def test_merging_is_one_select() -> None:
    spec = spec_from_words("t", "k string not null, `a b` int, m map<string,int>, seen date", row_keys=["k"])
    merging = merging_of({FILTERS: "ageoff(seen, 14)", AGGREGATIONS: "sum(`a b`), map_max(m), min(seen)"})
    assert merging is not None
    check_range_properties(spec.columns, {AGGREGATIONS: "sum(`a b`), map_max(m), min(seen)"}, ("k",))
    now = datetime(2024, 3, 1, 12, tzinfo=UTC)
    assert merged("r", merging, spec.columns, ["k"], now=now) == (
        "SELECT `k`, CAST(SUM(`a b`) AS int) AS `a b`, "
        "REDUCE(COLLECT_LIST(`m`), CAST(NULL AS map<string,int>), (a, b) -> "
        "CAST(COALESCE(MAP_ZIP_WITH(a, b, (k, x, y) -> COALESCE(GREATEST(x, y), x, y)), a, b) AS map<string,int>)) "
        "AS `m`, CAST(MIN(`seen`) AS date) AS `seen` FROM r WHERE `seen` >= DATE'2024-02-16' GROUP BY `k`"
    )


@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_a_side_meets_the_files_that_can_hold_one_of_its_values(data: st.DataObject, kind: str) -> None:
    values = st.none() | VALUES[kind]
    side = Side(
        low=data.draw(values),
        high=data.draw(values),
        with_low=data.draw(st.booleans()),
        with_high=data.draw(st.booleans()),
    )
    held = data.draw(st.lists(VALUES[kind], min_size=1))

    def has(value: Key) -> bool:
        low, high = side.low, side.high
        above = low is None or order(low) < order(value) or (side.with_low and low == value)
        return above and (high is None or order(value) < order(high) or (side.with_high and high == value))

    ends = sorted(held, key=order)
    least, greatest = (end.encode() if isinstance(end, str) else end for end in (ends[0], ends[-1]))
    if any(map(has, held)):
        assert side.meets(least, greatest)
    if side.meets(least, greatest):
        assert not side.empty
        assert side.low is None or order(side.low) <= order(ends[-1])
        assert side.high is None or order(side.high) >= order(ends[0])


@pytest.mark.parametrize(
    ("kind", "least", "nulls", "aged"),
    [
        ("timestamptz", datetime(2024, 2, 15, 11, 59, tzinfo=UTC), 0, True),
        ("timestamptz", datetime(2024, 2, 15, 12, 0, tzinfo=UTC), 0, False),
        ("timestamptz", datetime(2024, 2, 29, tzinfo=UTC), 1, True),
        ("timestamptz", None, 3, True),
        ("timestamptz", None, None, False),
        ("date", date(2024, 2, 14), 0, True),
        ("date", date(2024, 2, 15), 0, False),
    ],
)
def test_files_with_rows_that_are_too_old_are_known_from_manifests(
    kind: str, least: datetime | date | None, nulls: int | None, aged: bool
) -> None:
    raw: dict[int, bytes] = {}
    if isinstance(least, datetime):
        raw[2] = (int(least.timestamp()) * 1_000_000).to_bytes(8, "little", signed=True)
    elif least is not None:
        raw[2] = (least - date(1970, 1, 1)).days.to_bytes(4, "little", signed=True)
    entry = DataEntry(
        file=LiveFile(content="data", path="f", format="parquet", spec_id=0, partition=(), rows=3, bytes=9, sequence=1),
        place={},
        first_row_id=0,
        added=1,
        metrics=FileMetrics(lower=raw, nulls={} if nulls is None else {2: nulls}),
    )
    files = TableFiles(
        facts=None,  # type: ignore[arg-type]
        spec_id=0,
        unpartitioned=frozenset(),
        types={2: kind},
        ids={"at": 2},
        data=(entry,),
    )
    now = datetime(2024, 2, 29, 12, tzinfo=UTC)
    found = aged_files(files, Merging(age_offs=(AgeOff("at", 14),)), now)
    assert found == (frozenset({"f"}) if aged else frozenset())
