"""From the columns that a dynamic table has to those that another query gives it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from neve.errors import Unsupported
from neve.model.facts import TableFacts
from neve.model.layout import SortField, Transform
from neve.model.specs import (
    AddColumn,
    Alteration,
    DropColumn,
    MoveColumn,
    Position,
    SetComment,
    SetPartitioning,
    SetSortOrder,
)
from neve.model.types import Field


def same_columns(held: Sequence[Field], wanted: Sequence[Field]) -> bool:
    """Whether rows can stay as they are stored; comments do not matter."""
    return [(column.name, column.type) for column in held] == [(column.name, column.type) for column in wanted]


def reshape(facts: TableFacts, wanted: Sequence[Field], used_to_partition: frozenset[str]) -> list[Alteration]:
    """Columns that are no more, or of another type, go; those that are new come; all stand in the wanted order.

    Raises:
        Unsupported: a column that goes partitions files of the table, or did once.
    """
    types = {column.name: column.type for column in wanted}
    gone = [column.name for column in facts.columns if types.get(column.name) != column.type]
    if stuck := sorted(set(gone) & used_to_partition):
        raise Unsupported(
            f"{', '.join(stuck)} partitions files of {facts.name} and cannot go", hint="drop the table and create it"
        )
    left = [column.name for column in facts.columns if column.name not in gone]
    new = [column for column in wanted if column.name not in left]
    changes: list[Alteration] = [DropColumn(name) for name in gone]
    changes += [AddColumn("", column) for column in new]
    names = [column.name for column in wanted]
    if [*left, *(column.name for column in new)] != names:
        changes += [MoveColumn(names[0], Position(side="first"))]
        changes += [MoveColumn(name, Position(side="after", column=before)) for before, name in pairwise(names)]
    kept = [column for column in wanted if column.name in left]
    return [*changes, *comment_changes(facts, kept)]


def comment_changes(facts: TableFacts, wanted: Sequence[Field]) -> list[Alteration]:
    """The comments of columns that stay, where they are others."""
    held = {column.name: column.comment for column in facts.columns}
    return [
        SetComment(column.name, column.comment or "")
        for column in wanted
        if (held.get(column.name) or "") != (column.comment or "")
    ]


def layout_changes(
    facts: TableFacts, partition_by: tuple[Transform, ...], sort_by: tuple[SortField, ...]
) -> list[Alteration]:
    """Another partitioning or order, where it is another; files that are there keep theirs."""
    changes: list[Alteration] = []
    if facts.partition_by != partition_by:
        changes.append(SetPartitioning(partition_by))
    if facts.sort_by != sort_by:
        changes.append(SetSortOrder(sort_by))
    return changes


def metrics_of(partition_by: Sequence[Transform], sort_by: Sequence[SortField]) -> dict[str, str]:
    """Full statistics for the columns that locate rows."""
    keys = [*(item.column for item in partition_by), *(item.term.column for item in sort_by)]
    return {f"write.metadata.metrics.column.{key}": "full" for key in keys}
