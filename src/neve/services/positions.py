"""Rows that deletes took from a file or gave back: positions compared, so that only those rows need be read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from neve.catalog import Catalog
from neve.model.changes import FileChanges, FileRead, FileReads, LiveFile, Picked, Touched

if TYPE_CHECKING:
    from pyroaring import BitMap64

# Beyond so many deleted positions the driver does not hold them: such files are read as they were and as they are.
MOST_POSITIONS = 20_000_000


def reads_of(catalog: Catalog, changes: FileChanges) -> FileReads:
    """The cheapest reads that give the changes of these files."""
    by_position = [item for item in changes.touched if _comparable(item)]
    few = sum(delete.rows for item in by_position for delete in {*item.before, *item.after}) <= MOST_POSITIONS
    whole = [item for item in changes.touched if not (few and _comparable(item))]
    went, returned = _picks(catalog, by_position if few else ())
    return FileReads(
        plus=(*changes.added, *(FileRead(item.file, item.after) for item in whole)),
        minus=(*changes.removed, *(FileRead(item.file, item.before) for item in whole)),
        picked_plus=tuple(returned),
        picked_minus=tuple(went),
    )


def _comparable(item: Touched) -> bool:
    """Whether both states are sets of positions that can be read here."""
    return all(
        delete.is_vector or (delete.content == "position_deletes" and delete.format == "parquet")
        for delete in (*item.before, *item.after)
    )


def _picks(catalog: Catalog, items: Iterable[Touched]) -> tuple[list[Picked], list[Picked]]:
    from pyroaring import BitMap64

    deleted = DeletedRows(catalog)
    went, returned = [], []
    for item in items:
        before, after = (
            BitMap64().union(*(deleted.of(delete, item.file.path) for delete in side))
            for side in (item.before, item.after)
        )
        if gone := after - before:
            went.append(_pick(item.file, gone))
        if back := before - after:
            returned.append(_pick(item.file, back))
    return went, returned


def _pick(file: LiveFile, positions: BitMap64) -> Picked:
    from neve.files.vectors import all_but, encode_vector

    return Picked(file, encode_vector(all_but(file.rows, positions)), len(positions))


class DeletedRows:
    """Positions by delete file, each file opened once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._bytes = cache(catalog.files.read)
        self._listed = cache(self._read_listed)

    def of(self, delete: LiveFile, data_file: str) -> BitMap64:
        from pyroaring import BitMap64

        from neve.files.vectors import decode_vector

        if not delete.is_vector:
            return self._listed(delete.path).get(data_file, BitMap64())
        offset = delete.offset or 0
        blob = self._bytes(delete.path)[offset : offset + (delete.size or 0)]
        return decode_vector(blob, where=f"{delete.path} at {offset}")

    def _read_listed(self, path: str) -> dict[str, BitMap64]:
        from neve.files.vectors import read_position_deletes

        return read_position_deletes(*self._catalog.files.filesystem(path))
