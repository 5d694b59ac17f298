"""A table's health as text."""

from __future__ import annotations

from collections.abc import Iterator

from neve.cli.text import block, table
from neve.model.health import Action, TableHealth
from neve.model.units import format_bytes


def health_text(health: TableHealth) -> str:
    """The score and what it was made of; sizes and the partitions with the most small files where there are any."""
    parts = [f"Table: {health.table}", block([("score", f"{health.score} of 100, {health.state}"), *_lines(health)])]
    if health.deductions:
        costs = [[f"−{item.points}", item.reason.detail] for item in health.deductions]
        parts.append(table(("points", "reason"), costs))
    if health.files:
        sizes = [[_size(item.below), item.files, item.bytes] for item in health.histogram if item.files]
        parts.append(table(("file_size", "files", "bytes"), sizes))
    if health.partitions > 1:
        columns = ("partition", "files", "small_files", "delete_files", "bytes")
        parts.append(table(columns, [[getattr(item, key) for key in columns] for item in health.worst]))
    if health.action:
        parts.append(_action(health.action))
    return "\n\n".join(parts)


def _lines(health: TableHealth) -> Iterator[tuple[str, object]]:
    """What was measured; what a table does not have is left out."""
    if health.freshness:
        lag = "" if health.current_lag is None else f": {health.current_lag} behind, target {health.target_lag}"
        yield "freshness", f"{health.freshness}{lag}"
    yield "files", f"{health.files:,} ({format_bytes(health.bytes)})"
    yield "small files", f"{health.small_files:,} below {format_bytes(health.small_below)}"
    if health.deletes:
        deletes = health.deletes
        yield (
            "deletes",
            f"{deletes.delete_files:,} files, {deletes.rows_deleted:,} rows ({deletes.share:.1%} of all in the files)",
        )
    if health.partitions > 1:
        yield "partitions", f"{health.partitions:,}, the largest {health.skew or 1:g} × the average"
    if health.sort:
        sort = health.sort
        yield "sorted by", f"{sort.column}: {sort.overlapping:,} of {sort.files:,} files overlap, depth {sort.depth:g}"
    if health.snapshots is not None:
        yield "snapshots", f"{health.snapshots:,}"
    if health.manifests is not None:
        yield "manifests", f"{health.manifests:,} ({format_bytes(health.manifest_bytes or 0)})"
        yield "metadata file", format_bytes(health.metadata_bytes or 0)
    if health.writes:
        writes = health.writes
        yield (
            "commits",
            f"{writes.last_hour:,} in the last hour, {writes.last_day:,} in the last day, {writes.per_day:g} a day",
        )
        yield "orphans", _orphans(health)


def _orphans(health: TableHealth) -> str:
    if health.orphans_scanned_at is None:
        return "never scanned"
    found = f"{health.orphan_files or 0:,} files ({format_bytes(health.orphan_bytes or 0)})"
    return f"{found} on {health.orphans_scanned_at:%Y-%m-%d %H:%M}"


def _size(below: int | None) -> str:
    return "larger" if below is None else f"< {format_bytes(below)}"


def _action(action: Action) -> str:
    points = f" (+{action.gain_points} points)" if action.gain_points else ""
    return "Helps most:\n" + block(
        [("  command", action.command), ("  gain", f"{action.gain}{points}"), ("  cost", action.cost)]
    )
