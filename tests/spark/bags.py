"""Rows as bags: what two readers must agree on, whatever order and integer widths they have."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa


def bag(table: pa.Table) -> Counter[str]:
    """The rows with their multiplicity; a column's place does not count, its name does."""
    return Counter(repr(sorted((name, _plain(value)) for name, value in row.items())) for row in table.to_pylist())


def _plain(value: Any) -> Any:
    """Maps come as lists of pairs, dictionaries as structs, UUIDs as such or as text."""
    match value:
        case dict():
            return sorted((name, _plain(inner)) for name, inner in value.items())
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case None | bool() | int() | float() | str() | bytes():
            return value
        case _:
            return str(value)


def digests(folder: Path) -> dict[str, str]:
    """Every file below a folder by its content: what must not change."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
