"""Which files compaction takes, by which mechanic, and why it leaves the others: every rule and every knob, pure."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.test_changes_plan import lineage
from tests.unit.test_copy_plan import MB, shape

from neve.config import CompactionSettings
from neve.model.changes import LiveFile
from neve.model.copying import CopyOptions, FileShape, RowGroupShape
from neve.model.facts import FileFact
from neve.model.results import Reason
from neve.model.rewrites import Candidate, DataEntry, FileMetrics, RewritePlan
from neve.plan.measures import MIB
from neve.plan.rewrite_groups import Footers, assign, for_spark
from neve.plan.rewrites import Chosen, RewriteRules, choose, take
from neve.plan.schedule import plan_compaction

_NUMBERS = itertools.count()
RULES = RewriteRules(strategy="binpack", target_bytes=128 * MIB, small_bytes=64 * MIB, min_files=3)


def file(
    size: float, partition: str = "a", *, name: str | None = None, added: int = 1, spec: int = 0, rows: int = 100
) -> Candidate:
    """A file of so many MiB."""
    path = name or f"{partition}-{next(_NUMBERS):06}"
    live = LiveFile(
        content="data",
        path=path,
        format="parquet",
        spec_id=spec,
        partition=(partition,),
        rows=rows,
        bytes=round(size * MIB),
        sequence=added,
    )
    entry = DataEntry(file=live, place={"p": partition}, first_row_id=0, added=added, metrics=FileMetrics())
    return Candidate(entry=entry)


def deleted(candidate: Candidate, rows: int, *, kind: Any = "position_deletes", named: bool = True) -> Candidate:
    delete = LiveFile(
        content=kind,
        path="deletes",
        format="puffin" if named else "parquet",
        spec_id=0,
        partition=candidate.entry.file.partition,
        rows=rows,
        bytes=10,
        sequence=candidate.entry.added + 1,
        referenced=candidate.path if named else None,
    )
    return replace(candidate, deletes=(*candidate.deletes, delete))


def plan(files: Sequence[Candidate], rules: RewriteRules = RULES, *footers: FileShape) -> RewritePlan:
    """Every file is one row group, alike all others, unless `footers` say otherwise."""
    chosen = choose(files, 0, rules)
    return assign(chosen, known(chosen, {footer.path: footer for footer in footers}), rules)


def known(chosen: Chosen, footers: Mapping[str, FileShape]) -> Footers:
    files = [item for members, _ in chosen.work.values() for item in members]
    spark = {item.path: why for item in files if (why := for_spark(item, spec_id=0, lineage=True))}
    shapes = {
        item.path: footers.get(item.path, shape(item.path, item.bytes / MB)) for item in files if item.path not in spark
    }
    return Footers(spark=spark, shapes=shapes, encodable=frozenset(shapes), options=CopyOptions())


def sizes(found: RewritePlan) -> list[list[float]]:
    return [[item.bytes / MIB for item in group.files] for group in found.groups]


def why(found: RewritePlan) -> dict[str, int]:
    told: dict[str, int] = {}
    for item in found.left:
        told[item.reason.code] = told.get(item.reason.code, 0) + item.files
    return told


# ---------------------------------------------------------------------------------------------------------- small files


def test_small_files_of_a_partition_become_one_and_large_ones_stay() -> None:
    found = plan([file(8), file(8), file(9), file(64), file(500), file(5, "b"), file(5, "b")])
    assert sizes(found) == [[8, 8, 9]]
    assert why(found) == {"large_enough": 2, "few_small_files": 2}
    assert {group.mechanic for group in found.groups} == {"copy"}


def test_two_files_are_enough_when_forced_or_when_they_fill_one() -> None:
    pair = [file(5), file(6)]
    assert not plan(pair).groups
    assert sizes(plan(pair, replace(RULES, force=True))) == [[5, 6]]
    full = replace(RULES, target_bytes=80 * MIB, small_bytes=60 * MIB)
    assert sizes(plan([file(40), file(40)], full)) == [[40, 40]]
    assert not plan([file(40), file(39)], full).groups


def test_outputs_have_the_target_size_and_a_remainder_joins_the_last() -> None:
    assert sorted(map(len, sizes(plan([file(32) for _ in range(8)])))) == [4, 4]
    assert sorted(map(len, sizes(plan([file(32) for _ in range(9)])))) == [4, 5], "a file alone gains nothing"
    assert sorted(map(len, sizes(plan([*(file(32) for _ in range(8)), file(2), file(2)])))) == [4, 6]
    assert sorted(map(len, sizes(plan([*(file(32) for _ in range(8)), file(20), file(20)])))) == [2, 4, 4]
    uneven = plan([file(size) for size in (60, 10, 60, 10, 60, 10)], replace(RULES, target_bytes=100 * MIB))
    assert sorted(map(sum, sizes(uneven))) == [80, 130], "no file is cut off while it is still small"
    huge = plan([file(60), file(60), file(63)], replace(RULES, target_bytes=120 * MIB))
    assert (sizes(huge), why(huge)) == ([[60, 60]], {"alone": 1}), "nor does one that is half as large again"


def test_nothing_is_taken_twice_and_nothing_is_forgotten() -> None:
    dice = random.Random(7)
    for _ in range(200):
        files = [
            file(dice.choice([0.1, 1, 7, 40, 63, 64, 200]), dice.choice("abc"), spec=dice.choice([0, 0, 0, 1]))
            for _ in range(dice.randrange(40))
        ]
        files = [deleted(item, dice.choice([1, 50])) if dice.random() < 0.2 else item for item in files]
        rules = replace(
            RULES,
            strategy=dice.choice(["binpack", "size-ratio", "sort"]),
            max_files=dice.choice([None, 2, 5, 11]),
            force=dice.random() < 0.3,
        )
        found = plan(files, rules)
        taken = [item.path for group in found.groups for item in group.files]
        assert len(taken) == len(set(taken))
        assert len(taken) + sum(item.files for item in found.left) == len(files)
        assert rules.max_files is None or len(taken) <= rules.max_files
        assert all(len({item.partition for item in group.files}) == 1 for group in found.groups)


def test_repeated_plans_come_to_an_end() -> None:
    """What a group becomes is put back in its place: after a few runs nothing is left to do."""
    dice = random.Random(11)
    for round_ in range(100):
        files = [file(dice.choice([0.2, 3, 30, 63, 70]), dice.choice("ab")) for _ in range(dice.randrange(60))]
        rules = replace(RULES, strategy=dice.choice(["binpack", "size-ratio"]), force=dice.random() < 0.5)
        for step in range(9):
            found = plan(files, rules)
            assert step < 8 or not found.groups, f"round {round_} never ends: {sizes(found)}"
            gone = {item.path for group in found.groups for item in group.files}
            assert all(len(group.files) > 1 for group in found.groups), "a file alone cannot become fewer"
            made = [file(group.bytes / MIB, group.partition) for group in found.groups]
            files = [item for item in files if item.path not in gone] + made


def test_files_that_all_were_small_become_fewer_by_spark_too() -> None:
    for sizes_ in ((90, 90, 90), (95.9, 95.9), (1, 1, 1, 95), (95,) * 40):
        (group,) = plan([deleted(file(size), 50) for size in sizes_], replace(RULES, small_bytes=96 * MIB)).groups
        assert (group.mechanic, group.outputs(RULES.target_bytes) < len(sizes_)) == ("spark", True)
        assert group.bytes / group.outputs(RULES.target_bytes) <= 1.5 * RULES.target_bytes


def test_chosen_files_leave_one_small_file_in_a_partition() -> None:
    """However unlike they are: a period that was compacted has nothing to be compacted again."""
    dice = random.Random(5)
    rules = replace(RULES, unite=True, small_bytes=96 * MIB)
    mechanics = set()
    for _ in range(200):
        files = [file(dice.choice([0.1, 7, 40, 90]), dice.choice("ab")) for _ in range(dice.randrange(2, 12))]
        files = [deleted(item, 1) if dice.random() < 0.1 else item for item in files]
        footers = {
            item.path: replace(
                shape(item.path, item.bytes / MB), codecs=(frozenset({dice.choice(["ZSTD", "SNAPPY"])}),)
            )
            for item in files
        }
        chosen = take(files, 0, {item.path for item in files}, Reason(code="files", detail=""))
        found = assign(chosen, known(chosen, footers), rules)
        mechanics |= {group.mechanic for group in found.groups}
        for partition in "ab":
            taken = [item.path for group in found.groups for item in group.files]
            left = [item for item in files if item.path not in taken and item.partition == f"p={partition}"]
            made = [
                size
                for group in found.groups
                if group.partition == f"p={partition}"
                for size in [group.bytes / group.outputs(128 * MIB)] * group.outputs(128 * MIB)
            ]
            assert sum(size < 96 * MIB for size in [*made, *(item.bytes for item in left)]) <= 1
    assert mechanics == {"copy", "encode", "spark"}


# -------------------------------------------------------------------------------------------------------------- deletes


def test_files_with_many_deleted_rows_are_rewritten_by_spark() -> None:
    many, few = deleted(file(100), 5), deleted(file(100), 4)
    found = plan([many, few, file(100)])
    assert [(group.mechanic, group.reason.code, len(group.files)) for group in found.groups] == [
        ("spark", "deletes", 1)
    ]
    assert found.groups[0].files == (many,)
    assert len(plan([many, few], replace(RULES, force=True)).groups[0].files) == 2


def test_deletes_that_may_be_of_any_file_count_as_many() -> None:
    for kind in ("equality_deletes", "position_deletes"):
        (group,) = plan([deleted(file(100), 1, kind=kind, named=False)]).groups
        assert group.mechanic == "spark"


def test_what_only_spark_can_take() -> None:
    good = file(1)
    live = good.entry.file
    reasons = {
        "deletes": deleted(good, 1),
        "format": replace(good, entry=replace(good.entry, file=replace(live, format="avro"))),
        "old_layout": replace(good, entry=replace(good.entry, file=replace(live, spec_id=7))),
        "no_row_ids": replace(good, entry=replace(good.entry, first_row_id=None)),
    }
    for code, candidate in reasons.items():
        reason = for_spark(candidate, spec_id=0, lineage=True)
        assert reason is not None
        assert reason.code == code
    assert for_spark(good, spec_id=0, lineage=True) is None
    assert for_spark(reasons["no_row_ids"], spec_id=0, lineage=False) is None


def test_an_older_layout_is_left_unless_forced() -> None:
    files = [file(1, spec=1), file(1, spec=1), file(1, spec=1)]
    assert why(plan(files)) == {"old_layout": 3}
    only = replace(RULES, force=True, only=frozenset({files[0].path, files[1].path}))
    assert [file.path for group in plan(files, only).groups for file in group.files] == [files[0].path, files[1].path]
    assert why(plan(files, only)) == {"filtered": 1}
    (group,) = plan(files, replace(RULES, force=True)).groups
    assert (group.mechanic, len(group.files)) == ("spark", 3)


# ------------------------------------------------------------------------------------------------------------ mechanics


def test_the_cheapest_mechanic_that_is_right() -> None:
    tiny = [file(0.2, name=f"t{number}") for number in range(4)]
    (group,) = plan(tiny).groups
    assert group.mechanic == "encode"
    assert "too small to be copied" in group.reason.detail
    large = [file(8, name=f"l{number}") for number in range(4)]
    assert [(item.mechanic, len(item.files)) for item in plan([*tiny, *large]).groups] == [("encode", 4), ("copy", 4)]
    chosen = choose(tiny, 0, RULES)
    (by_spark,) = assign(chosen, replace(known(chosen, {}), encodable=frozenset()), RULES).groups
    assert by_spark.mechanic == "spark"


def test_columns_that_are_required_here_and_not_there_are_encoded_and_others_are_for_spark() -> None:
    files = [file(8, name=name) for name in ("a", "b", "c")]
    plain = shape("a", 8)
    required = tuple(replace(element, repetition="required") for element in plain.elements)
    other = tuple(replace(element, name=f"{element.name}2") for element in plain.elements)
    (group,) = plan(files[:2], replace(RULES, force=True), replace(plain, path="b", elements=required)).groups
    assert (group.mechanic, len(group.files)) == ("encode", 2)
    (unlike,) = plan(files[:2], replace(RULES, force=True), replace(plain, path="b", elements=other)).groups
    assert (unlike.mechanic, unlike.reason.code) == ("spark", "unlike")
    lone = plan(files, RULES, replace(plain, path="b", elements=other))
    assert [(item.mechanic, len(item.files)) for item in lone.groups] == [("copy", 2)]
    assert why(lone) == {"alone": 1}


def test_another_codec_is_encoded_anew() -> None:
    files = [file(8, name=name) for name in ("a", "b", "c")]
    (group,) = plan(files, replace(RULES, codecs=frozenset({"SNAPPY"}))).groups
    assert group.mechanic == "encode"
    (group,) = plan(files, replace(RULES, codecs=frozenset({"ZSTD", "SNAPPY"}))).groups
    assert group.mechanic == "copy"


def test_not_more_files_are_copied_into_one_than_can_be_open() -> None:
    found = plan([file(1.2) for _ in range(900)], replace(RULES, target_bytes=2000 * MIB))
    assert sorted(len(group.files) for group in found.groups) == [100, 400, 400]
    tiny = plan([file(0.01) for _ in range(900)], replace(RULES, target_bytes=2000 * MIB))
    assert [(group.mechanic, len(group.files)) for group in tiny.groups] == [("encode", 900)], "opened one by one"


# ----------------------------------------------------------------------------------------------------------- strategies


@pytest.mark.parametrize(
    ("held", "taken"),
    [
        ([100, 100, 100, 100], [[100, 100, 100, 100]]),
        ([10, 10, 10, 100], []),
        ([10, 10, 10, 10, 100], [[10, 10, 10, 10]]),
    ],
)
def test_size_ratio_as_sleeper_has_it(held: list[int], taken: list[list[int]]) -> None:
    """The largest is left out until the others together are three times as large."""
    rules = replace(RULES, strategy="size-ratio", target_bytes=1000 * MIB, min_files=4)
    assert sizes(plan([file(size) for size in held], rules)) == taken


def test_fixed_batches_as_sleeper_has_them() -> None:
    """Five files, two at a time (a run of --max-files 2): two pieces of work, and one file is left."""
    rules = replace(RULES, target_bytes=20 * MIB, small_bytes=15 * MIB, min_files=2, max_files=2)
    held, batches = [file(10) for _ in range(5)], []
    while groups := plan(held, rules).groups:
        (group,) = groups
        batches.append(len(group.files))
        held = [item for item in held if item not in group.files] + [
            file(sum(item.bytes for item in group.files) / MIB)
        ]
    assert (batches, sorted(item.bytes / MIB for item in held)) == ([2, 2], [10, 20, 20])


@pytest.mark.parametrize(
    ("added", "taken"),
    [
        pytest.param([5, 5], 0, id="made by one commit"),
        pytest.param([5, 6], 0, id="made by two commits of one look"),
        pytest.param([5, 7], 2, id="something came since"),
        pytest.param([5, 3], 2, id="something was left out, or was lost to a writer"),
        pytest.param([5, 8], 2, id="two sorts have put it in two orders"),
        pytest.param([3, 4], 2, id="never sorted"),
    ],
)
def test_a_sort_takes_whole_partitions_that_no_sort_made(added: list[int], taken: int) -> None:
    rules = replace(RULES, strategy="sort", sorted_from={5: 4, 6: 4, 8: 7})
    held = [file(300, "a", added=5), file(300, "a", added=5), *(file(30, "b", added=number) for number in added)]
    found = plan(held, rules)
    assert [(group.partition, len(group.files)) for group in found.groups] == [("p=b", 2)] * bool(taken)
    assert why(found) == {"in_order": 4 - taken}
    if found.groups:
        (group,) = found.groups
        assert group.mechanic == "spark"


def test_a_sort_takes_no_half_of_a_partition() -> None:
    held = [*(file(0.1, "a") for _ in range(5)), *(file(1, "b") for _ in range(3))]
    found = plan(held, replace(RULES, strategy="sort", max_files=4))
    assert [(group.partition, len(group.files)) for group in found.groups] == [("p=b", 3)]
    assert why(found) == {"max_files": 5}


def test_partitions_whose_rows_change_are_left_where_work_is_long() -> None:
    rules = replace(RULES, heat=frozenset({8, 9}))
    slow = [deleted(file(100, added=7), 90), deleted(file(100, "b", added=3), 90)]
    found = plan([*slow, *(file(8, "c", added=9) for _ in range(3))], rules)
    assert {group.partition for group in found.groups} == {"p=b", "p=c"}, "a copy is done before the next writer comes"
    assert why(found) == {"hot": 1}
    came = [deleted(file(100, "d", added=3), 90), file(8, "d", added=10), file(8, "d", added=10)]
    found = plan(came, replace(rules, strategy="sort"))
    assert [len(group.files) for group in found.groups] == [3], "rows that only come are no heat"


# --------------------------------------------------------------------------------------------------------------- budget


def test_a_budget_goes_to_what_helps_most_per_byte() -> None:
    crowded = [file(0.5, "crowded") for _ in range(20)]
    heavy = [file(60, "heavy") for _ in range(3)]
    found = plan([*heavy, *crowded], replace(RULES, max_files=20))
    assert [group.partition for group in found.groups] == ["p=crowded"]
    assert why(found) == {"max_files": 3}
    part = plan(crowded, replace(RULES, max_files=7))
    assert ([len(group.files) for group in part.groups], why(part)) == ([7], {"max_files": 13})
    assert not plan([file(1) for _ in range(4)], replace(RULES, max_files=1)).groups


def test_a_filter_leaves_the_rest() -> None:
    files = [file(1, name=f"f{number}") for number in range(6)]
    found = plan(files, replace(RULES, only=frozenset({"f0", "f1", "f2"})))
    assert [{item.path for item in group.files} for group in found.groups] == [{"f0", "f1", "f2"}]
    assert why(found) == {"filtered": 3}


def test_row_groups_are_counted_as_they_are() -> None:
    """Eight megabytes in a hundred row groups are small row groups."""
    files = [file(8, name=name) for name in ("a", "b", "c")]
    groups = tuple(RowGroupShape(rows=1, bytes=80_000) for _ in range(100))
    shapes = [replace(shape(name, 8), row_groups=groups) for name in ("a", "b", "c")]
    (group,) = plan(files, RULES, *shapes).groups
    assert group.mechanic == "encode"


def test_what_is_due_is_what_compaction_would_take() -> None:
    """Else a worker would come again and again, and do nothing."""
    dice = random.Random(3)
    seen = set()
    for _ in range(400):
        files = [file(dice.choice([1, 30, 63, 64, 90]), dice.choice("abc")) for _ in range(dice.randrange(9))]
        files = [deleted(item, dice.choice([1, 4, 5, 90])) if dice.random() < 0.15 else item for item in files]
        if dice.random() < 0.1:
            kind = dice.choice(["equality_deletes", "position_deletes"])
            files = [deleted(item, 1, kind=kind, named=False) for item in files[:1]] + files[1:]
        settings = CompactionSettings(min_files_to_compact=dice.choice([1, 2, 3, 5]))
        job = plan_compaction(lineage().facts, [fact for item in files for fact in _facts(item)], settings, 128 * MIB)
        taken = plan(files, replace(RULES, min_files=settings.min_files_to_compact)).groups
        assert job.due == bool(taken), (job, sizes(plan(files)))
        seen.add((job.due, job.reason.code))
    assert seen == {(True, "small_files"), (True, "deleted_rows"), (False, "few_small_files")}


def _facts(item: Candidate) -> list[FileFact]:
    """As health and schedules see a file and its deletes."""
    live = [item.entry.file, *item.deletes]
    return [
        FileFact(
            content=each.content,
            path=each.path,
            format=each.format,
            partition=item.entry.place,
            rows=each.rows,
            bytes=each.bytes,
            sequence_number=each.sequence,
            spec_id=0,
            deletes_from=each.referenced,
        )
        for each in live
    ]
