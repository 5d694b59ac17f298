"""Key ranges as lines of text."""

from __future__ import annotations

from neve.model.range_rows import RangeRead, SplitReceipt, SplitRow
from neve.model.units import counted, format_bytes

RANGE_COLUMNS = (
    "range",
    "leaf",
    "parent",
    "low",
    "high",
    "files",
    "files_out_of_place",
    "rows",
    "rows_approximate",
    "bytes",
    "will_be_split",
    "unsplittable",
    "split_key",
    "split_at",
)


def split_lines(receipt: SplitReceipt) -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = [(f"range {row.range}", _split(row)) for row in receipt.ranges]
    if receipt.files_moved:
        lines.append(("files moved", f"{receipt.files_moved:,}"))
    return lines


def _split(row: SplitRow) -> str:
    if row.split_at is None:
        return row.reason.detail
    into = f", into {row.parts[0]} and {row.parts[1]}" if row.parts else ""
    return f"at {row.split_key} = {row.split_at}{into} ({row.reason.detail})"


def read_lines(read: RangeRead) -> list[tuple[str, object]]:
    whole = f"{format_bytes(read.bytes)} of {format_bytes(read.bytes_total)}"
    lines: list[tuple[str, object]] = [("table", read.table), ("regions", "; ".join(read.regions))]
    lines.append(("files", f"{read.files:,} of {read.files_total:,} ({whole})"))
    for touched in read.ranges:
        name = "without a range" if touched.range is None else f"range {touched.range}"
        lines.append((name, f"{counted(touched.files, 'file')}, {format_bytes(touched.bytes)}"))
    return lines
