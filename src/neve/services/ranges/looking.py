"""The key ranges of a table, as people look at them and take them along. Metadata alone, never Spark."""

from __future__ import annotations

from pydantic import ValidationError

from neve.errors import InvalidInput
from neve.model.names import TableName
from neve.model.range_rows import RangeFiles, RangeRow
from neve.model.ranges import ExportedRange, RangeTree, exported, imported, points_of, tree_of_points
from neve.model.splits import format_points, parse_points
from neve.plan.ranges import Keys, RangeReport, keys_of, need_keys, place_files
from neve.services.context import Context


def table_ranges(context: Context, name: TableName) -> list[RangeRow]:
    """Every range with its files and rows, a range before those that came of it."""
    return _report(context, name).rows()


def has_ranges(context: Context, name: TableName) -> bool:
    return keys_of(context.catalog.facts(name)) is not None


def range_files(context: Context, name: TableName) -> RangeFiles:
    """How many files the ranges have."""
    return _report(context, name).files()


def _report(context: Context, name: TableName) -> RangeReport:
    files = context.catalog.table_files(name)
    keys = need_keys(files.facts)
    return RangeReport(keys, place_files(files, keys))


def export_split_points(context: Context, name: TableName, *, encoded: bool = False) -> str:
    """The table's split points as a file that `create` and `reinitialise` read."""
    return format_points(points_of(need_keys(context.catalog.facts(name)).tree), encoded=encoded)


def export_ranges(context: Context, name: TableName) -> list[ExportedRange]:
    """Every range, ids and all, as `reinitialise` reads it back."""
    keys = need_keys(context.catalog.facts(name))
    return exported(keys.tree, keys.row_keys)


def asked_tree(
    keys: Keys, *, delete_partitions: bool, split_points: str | None, encoded: bool, ranges: str | None
) -> RangeTree | None:
    """The ranges that a table is to have: of a split file, of an export, or one; None to leave them as they are.

    Raises:
        InvalidInput: a file cannot be read so, or there are two.
    """
    if split_points is not None and ranges is not None:
        raise InvalidInput("split points and exported ranges both say what the ranges are", hint="give one of them")
    if ranges is not None:
        return imported(_lines(ranges), keys.row_keys, keys.kinds)
    if split_points is not None:
        return tree_of_points(parse_points(split_points, keys.kinds[0], encoded=encoded), len(keys.row_keys))
    return RangeTree(len(keys.row_keys)) if delete_partitions else None


def _lines(text: str) -> list[ExportedRange]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found.append(ExportedRange.model_validate_json(line))
        except ValidationError as exc:
            raise InvalidInput(
                f"exported ranges, line {number}: this is no range",
                hint="write the file by neve table export-partitions",
            ) from exc
    return found
