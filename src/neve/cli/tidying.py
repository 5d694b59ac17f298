"""Receipts of expiry, orphans, manifests, deletes and statistics as text."""

from __future__ import annotations

from collections import Counter

from neve.model.retention import ExpireReceipt
from neve.model.units import format_bytes

Lines = list[tuple[str, object]]
_KINDS = {
    "data": "data files",
    "deletes": "delete files",
    "manifest": "manifests",
    "manifest_list": "manifest lists",
    "statistics": "statistics files",
    "metadata": "metadata files",
}


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
