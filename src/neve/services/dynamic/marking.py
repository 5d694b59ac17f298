"""Rows to be gone, as deletion vectors: the positions of each file joined with those that were gone before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from neve.model.changes import Lineage, LiveFile
from neve.model.results import Reason
from neve.plan.file_changes import Deletes
from neve.services.context import Context
from neve.services.positions import DeletedRows

if TYPE_CHECKING:
    from neve.engine.row_delta import Marked


def mark(
    context: Context, lineage: Lineage, snapshot: int, places: Mapping[str, Sequence[int]]
) -> tuple[list[Marked], Reason | None]:
    """The vectors of a snapshot's files once the rows at these places are gone, or why there cannot be any."""
    from pyroaring import BitMap64

    from neve.engine.row_delta import Marked

    if not places:
        return [], None
    manifests = context.catalog.manifests(lineage.steps[snapshot])
    live = [file for manifest in manifests for file in context.catalog.manifest_files(manifest)]
    unpartitioned = {spec for spec, sources in lineage.partition_sources.items() if not sources}
    deletes = Deletes((file for file in live if file.content != "data"), unpartitioned)
    touched = [file for file in live if file.content == "data" and file.path in places]
    deleted, marked = DeletedRows(context.catalog), []
    for file in touched:
        before = [delete for delete in deletes.of(file) if delete.content == "position_deletes"]
        if (why := _obstacle(file, before)) is not None:
            return [], why
        positions = BitMap64(places[file.path])
        for vector in before:
            positions |= deleted.of(vector, file.path)
        marked.append(Marked(file, positions, before[0] if before else None))
    return marked, None


def _obstacle(file: LiveFile, before: Sequence[LiveFile]) -> Reason | None:
    if not all(delete.is_vector for delete in before):
        return Reason(code="older_deletes", detail=f"{file.path} has deletes that are not vectors")
    if any(isinstance(value, float) and not isfinite(value) for value in file.partition):
        return Reason(code="odd_partition", detail=f"{file.path} has a partition value that JSON cannot say")
    return None
