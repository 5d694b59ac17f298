"""Receipts of expiry, orphans, manifests, deletes and statistics as text."""

from __future__ import annotations

from collections import Counter

from neve.cli.text import table
from neve.model.commands import neve
from neve.model.names import TableName
from neve.model.retention import DeletesReceipt, ExpireReceipt, ManifestReceipt, OrphanReceipt, StatisticsReceipt
from neve.model.units import format_bytes

Lines = list[tuple[str, object]]
_WOULD = {
    "expire": "expire snapshots of",
    "manifests": "rewrite the manifests of",
    "rewrite_deletes": "rewrite the deletes of",
    "stats": "count distinct values of",
}
_KINDS = {
    "data": "data files",
    "deletes": "delete files",
    "manifest": "manifests",
    "manifest_list": "manifest lists",
    "statistics": "statistics files",
    "metadata": "metadata files",
}


Tidied = ExpireReceipt | ManifestReceipt | DeletesReceipt | StatisticsReceipt


def would(action: str) -> str:
    """What a dry run says would be done to a table."""
    return _WOULD.get(action, action)


def tidying_headline(receipt: Tidied) -> str:
    match receipt:
        case ExpireReceipt():
            return f"✓ Expired {len(receipt.expired):,} of {receipt.snapshots_before:,} snapshots of {receipt.table}"
        case ManifestReceipt():
            return f"✓ {receipt.table} has {receipt.manifests_after:,} manifests, of {receipt.manifests_before:,}"
        case DeletesReceipt():
            return f"✓ Deletes of {receipt.table} rewritten"
        case StatisticsReceipt():
            return f"✓ Distinct values of {receipt.table} counted"


def tidying_lines(receipt: Tidied | OrphanReceipt) -> Lines:
    match receipt:
        case ExpireReceipt():
            return expire_lines(receipt)
        case OrphanReceipt():
            return orphan_lines(receipt)
        case ManifestReceipt():
            sizes = f"{format_bytes(receipt.bytes_before)} → {format_bytes(receipt.bytes_after)}"
            counts = f"{receipt.manifests_before:,} → {receipt.manifests_after:,}"
            return [("manifests", counts), *([] if receipt.dry_run else [("size", sizes)])]
        case DeletesReceipt():
            return deletes_lines(receipt)
        case StatisticsReceipt():
            return []


def deletes_lines(receipt: DeletesReceipt) -> Lines:
    """What a dry run cannot know is left out: how many come of them shows when they are read."""
    after = receipt.position_files_after
    files = f"{receipt.position_files_before:,}" + ("" if receipt.dry_run else f" → {after:,}")
    vectors = f"{receipt.vectors_before:,}" + ("" if receipt.dry_run else f" → {receipt.vectors_after:,}")
    lines: Lines = [("position delete files", files), ("vectors", vectors)]
    if receipt.dangling:
        lines.append(("without a data file", f"{receipt.dangling:,}"))
    if receipt.equality_files:
        lines.append(("equality delete files", f"{receipt.equality_files:,} stay: compact folds them in"))
    return lines


def statistics_table(receipt: StatisticsReceipt) -> str:
    columns = ("column", "distinct_values", "snapshot", "at")
    return table(columns, [[getattr(item, key) for key in columns] for item in receipt.columns])


def expire_lines(receipt: ExpireReceipt) -> Lines:
    """Snapshots and files that went, and for whom the others stayed."""
    lines: Lines = [("snapshots", f"{receipt.snapshots_before:,} → {receipt.snapshots_after:,}")]
    if receipt.references_expired:
        lines.append(("references expired", receipt.references_expired))
    size = format_bytes(receipt.bytes_removed)
    lines.append(("files that go" if receipt.dry_run else "files removed", f"{receipt.files_removed:,} ({size})"))
    for item in receipt.removed:
        lines.append((f"  {_KINDS[item.kind]}", f"{item.files:,} ({format_bytes(item.bytes)})"))
    for detail, count in Counter(item.reasons[0].detail for item in receipt.kept).most_common():
        lines.append((f"kept {count:,}", detail))
    if receipt.files_left:
        lines.append(("left", f"{len(receipt.files_left):,} files that are not in its folder, or could not be removed"))
    return lines


def orphan_headline(receipt: OrphanReceipt) -> str:
    files = f"{receipt.files:,} files ({format_bytes(receipt.bytes)})"
    if receipt.run_id is not None:
        return f"✓ Removed {receipt.removed:,} of {files} of {receipt.table} that nothing names"
    if not receipt.table:
        return f"{receipt.location} belongs to no table: {files}"
    return f"{receipt.table} has {files} that nothing names, older than {receipt.older_than}"


def orphan_table(receipt: OrphanReceipt) -> str:
    """The files, by their paths from the table's folder on."""
    columns = ("path", "kind", "bytes", "modified_at")
    rows = [[getattr(item, key) for key in columns[1:]] for item in receipt.orphans]
    names = [item.path.removeprefix(f"{receipt.location}/") for item in receipt.orphans]
    return table(columns, [[name, *row] for name, row in zip(names, rows, strict=True)])


def orphan_lines(receipt: OrphanReceipt) -> Lines:
    told = {
        "younger": receipt.young,
        "of unknown age": receipt.unknown_age,
        "in folders of others": receipt.others,
        "could not be removed": len(receipt.files_left),
    }
    lines: Lines = [(f"left alone, {word}", f"{count:,}") for word, count in told.items() if count]
    lines += [("not looked through", folder) for folder in receipt.elsewhere]
    if receipt.dry_run and receipt.table:
        lines.append(("remove them", neve("orphans", TableName.parse(receipt.table).short, "--delete")))
    return lines
