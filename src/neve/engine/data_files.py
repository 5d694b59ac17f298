"""Data files that this process wrote, as Iceberg's Java classes: told as JSON, all in one call.

A thousand cost the same few calls as one. JSON carries no sequence numbers, which a commit gives.
Written for Iceberg 1.12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neve.engine.changes.staged import file_json
from neve.engine.classes import json_mapper, static
from neve.model.changes import LiveFile
from neve.model.rewrites import FileMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A data file that was written, and what the manifest is to say of it. Its rows are in no order."""

    file: LiveFile
    metrics: FileMetrics
    split_offsets: tuple[int, ...]


def parsed_tasks(java: Any, table: Any, files: Sequence[LiveFile | NewFile]) -> Any:
    """A Java list of scan tasks, each of one of these files of an Iceberg table."""
    listed = [
        {
            "data-file": new_file_json(file) if isinstance(file, NewFile) else file_json(file),
            "delete-file-references": [],
            "residual-filter": True,
        }
        for file in files
    ]
    node = json_mapper(java).readTree(json.dumps({"file-scan-tasks": listed}))
    deletes = static(java, "java.util.Collections", "emptyList")()
    parse = static(java, "org.apache.iceberg.rest.TableScanResponseParser", "parseFileScanTasks")
    return parse(node, deletes, table.specs(), True)


def new_file_json(new: NewFile) -> dict[str, Any]:
    """A new file as Iceberg's REST protocol writes it; empty figures are left out."""
    metrics = new.metrics
    counts = {
        "column-sizes": metrics.sizes,
        "value-counts": metrics.values,
        "null-value-counts": metrics.nulls,
        "nan-value-counts": metrics.nans,
    }
    bounds = {"lower-bounds": metrics.lower, "upper-bounds": metrics.upper}
    return {
        **file_json(new.file),
        **{name: _map(held) for name, held in counts.items() if held},
        **{name: _map({key: raw.hex().upper() for key, raw in held.items()}) for name, held in bounds.items() if held},
        "split-offsets": list(new.split_offsets),
    }


def _map(held: Mapping[int, Any]) -> dict[str, list[Any]]:
    return {"keys": list(held), "values": list(held.values())}
