"""A table's compaction as lines of text: what became of its files, and why the rest was left alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from neve.model.rewrites import GroupRow, LeftRow, Mechanic, RewriteReceipt
from neve.model.units import counted, format_bytes

_MECHANICS: dict[Mechanic, str] = {
    "copy": "row groups copied",
    "encode": "encoded anew",
    "spark": "rewritten by Spark",
}
_SHOWN = 5
_EXPECTED = ("large_enough", "alone")


def rewrite_lines(receipt: RewriteReceipt) -> list[tuple[str, object]]:
    """Names and values, below the headline."""
    lines: list[tuple[str, object]] = [
        ("files", f"{receipt.files_before:,} → {receipt.files_after:,}{' or so' if receipt.dry_run else ''}"),
        ("bytes", _bytes(receipt)),
    ]
    if receipt.rows_deleted:
        lines.append(("deleted rows gone", f"{receipt.rows_deleted:,}"))
    lines += _by_mechanic(receipt.groups)
    lines += _left(receipt.left)
    if receipt.small_files_remaining and not receipt.dry_run:
        lines.append(("small files left", f"{receipt.small_files_remaining:,}"))
    if receipt.snapshots_expired:
        lines.append(("snapshots expired", f"{receipt.snapshots_expired:,}"))
    if again := receipt.conflicts - receipt.groups_lost:
        lines.append(("done again", f"{counted(again, 'group')}, after a writer changed them"))
    if receipt.groups_lost:
        lines.append(("lost", f"{counted(receipt.groups_lost, 'group')}, which writers changed each time"))
    if not receipt.dry_run:
        lines.append(("time", f"{receipt.duration_ms / 1000:.1f} s"))
    return lines


def _bytes(receipt: RewriteReceipt) -> str:
    if receipt.dry_run:
        return f"{format_bytes(sum(group.bytes for group in receipt.groups))} of {format_bytes(receipt.bytes_before)}"
    return f"{format_bytes(receipt.bytes_before)} → {format_bytes(receipt.bytes_after)}"


def _by_mechanic(groups: Iterable[GroupRow]) -> list[tuple[str, object]]:
    held: dict[Mechanic, list[GroupRow]] = defaultdict(list)
    for group in groups:
        held[group.mechanic].append(group)
    return [(_MECHANICS[mechanic], _files(rows)) for mechanic, rows in held.items()]


def _left(left: Iterable[LeftRow]) -> list[tuple[str, object]]:
    """What one would not expect, by its reason, most files first."""
    held: dict[str, list[LeftRow]] = defaultdict(list)
    for row in left:
        if row.reason.code not in _EXPECTED:
            held[row.reason.detail].append(row)
    most = sorted(held.items(), key=lambda item: -sum(row.files for row in item[1]))
    return [("left", f"{_files(rows)}: {reason}") for reason, rows in most[:_SHOWN]]


def _files(rows: list[GroupRow] | list[LeftRow]) -> str:
    files, size = sum(row.files for row in rows), format_bytes(sum(row.bytes for row in rows))
    partitions = sorted({row.partition for row in rows})
    where = partitions[0] if len(partitions) == 1 else f"{len(partitions):,} partitions"
    return f"{files:,} file{'' if files == 1 else 's'}, {size}{f', in {where}' if where else ''}"
