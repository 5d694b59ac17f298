"""Which files differ between two snapshots, and which deletes apply to each: from manifests alone.

The rules of which deletes apply are those of the Iceberg specification ("Scan Planning").
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from neve.model.changes import (
    ChangeEstimate,
    FileChanges,
    FileRead,
    FileReads,
    LiveFile,
    Manifest,
    PartitionValue,
    Touched,
)

Load = Callable[[Manifest], Sequence[LiveFile]]
_Place = tuple[int, tuple[PartitionValue, ...]]


class Deletes:
    """The delete files of a snapshot, by what they may apply to; `unpartitioned` are the ids of such layouts."""

    def __init__(self, files: Iterable[LiveFile], unpartitioned: Collection[int]) -> None:
        self._vectors: dict[str, LiveFile] = {}
        self._of_file: dict[str, list[LiveFile]] = defaultdict(list)
        self._of_place: dict[_Place, list[LiveFile]] = defaultdict(list)
        self._everywhere: list[LiveFile] = []
        for file in files:
            if file.is_vector and file.referenced is not None:
                self._vectors[file.referenced] = file
            elif file.content == "position_deletes" and file.referenced is not None:
                self._of_file[file.referenced].append(file)
            elif file.content == "equality_deletes" and file.spec_id in unpartitioned:
                self._everywhere.append(file)
            else:
                self._of_place[_place(file)].append(file)

    def of(self, file: LiveFile) -> tuple[LiveFile, ...]:
        """The deletes that apply to a data file; a vector takes the place of position deletes."""
        vector = self._vectors.get(file.path)
        if vector is not None and vector.sequence < file.sequence:
            vector = None
        found = [*self._of_place.get(_place(file), ()), *self._everywhere]
        applying = [delete for delete in found if _applies(delete, file)]
        if vector is not None:
            return (*(delete for delete in applying if delete.content == "equality_deletes"), vector)
        return (*applying, *(delete for delete in self._of_file.get(file.path, ()) if _applies(delete, file)))


def compare_files(
    old: Sequence[Manifest], new: Sequence[Manifest], *, load: Load, unpartitioned: Collection[int]
) -> FileChanges:
    """What differs between the files of two snapshots. `load` is asked only for manifests that matter to that."""
    shared = {manifest.path for manifest in old} & {manifest.path for manifest in new}
    removed, added, kept = _difference(
        _files(_outside(old, shared), load, deletes=False), _files(_outside(new, shared), load, deletes=False)
    )
    if not any(manifest.deletes for manifest in (*old, *new)):
        return FileChanges(tuple(map(FileRead, added)), tuple(map(FileRead, removed)))
    gone, come, _ = _difference(
        _files(_outside(old, shared), load, deletes=True), _files(_outside(new, shared), load, deletes=True)
    )
    if not (removed or added or gone or come):
        return FileChanges()
    before, after = (Deletes(_files(side, load, deletes=True), unpartitioned) for side in (old, new))
    reach = _Reach((*gone, *come), unpartitioned)
    inside = [manifest for manifest in new if manifest.path in shared and not manifest.deletes]
    return FileChanges(
        added=tuple(FileRead(file, after.of(file)) for file in added),
        removed=tuple(FileRead(file, before.of(file)) for file in removed),
        touched=tuple(_touched(reach.among(kept, inside, known=(*added, *removed), load=load), before, after)),
    )


def net_reads(reads: Iterable[FileReads]) -> FileReads:
    """The reads of several legs as one; what one leg adds and another removes just so is not read at all."""
    every = list(reads)
    plus, minus = [read for each in every for read in each.plus], [read for each in every for read in each.minus]
    both = Counter(map(_read_key, plus)) & Counter(map(_read_key, minus))
    return FileReads(
        plus=tuple(_without(plus, both)),
        minus=tuple(_without(minus, both)),
        picked_plus=tuple(picked for each in every for picked in each.picked_plus),
        picked_minus=tuple(picked for each in every for picked in each.picked_minus),
    )


def estimate_reads(reads: FileReads) -> ChangeEstimate:
    """Upper bounds: a file of which some rows are picked is opened, but those rows are all it gives."""
    whole, picked = (*reads.plus, *reads.minus), (*reads.picked_plus, *reads.picked_minus)
    opened = [*(read.file for read in whole), *(item.file for item in picked)]
    return ChangeEstimate(
        files=len(opened),
        rows=sum(read.file.rows for read in whole) + sum(item.rows for item in picked),
        bytes=sum(file.bytes for file in opened),
        row_bytes=sum(read.file.bytes for read in whole)
        + sum(item.file.bytes * item.rows // max(1, item.file.rows) for item in picked),
    )


class _Reach:
    """The data files that some delete files may apply to."""

    def __init__(self, deletes: Iterable[LiveFile], unpartitioned: Collection[int]) -> None:
        self._paths: set[str] = set()
        self._places: set[_Place] = set()
        self._everywhere = False
        for delete in deletes:
            if delete.referenced is not None:
                self._paths.add(delete.referenced)
            elif delete.content == "equality_deletes" and delete.spec_id in unpartitioned:
                self._everywhere = True
            else:
                self._places.add(_place(delete))

    def among(
        self, kept: Sequence[LiveFile], manifests: Sequence[Manifest], *, known: Iterable[LiveFile], load: Load
    ) -> Iterator[LiveFile]:
        """Those of the kept files and of the files in the manifests; files that are known already are not sought."""
        yield from filter(self._holds, kept)
        sought = self._paths - {file.path for file in (*kept, *known)}
        for manifest in sorted(manifests, key=lambda item: item.sequence, reverse=True):
            if not (sought or self._places or self._everywhere):
                return
            found = [file for file in load(manifest) if self._holds(file)]
            sought -= {file.path for file in found}
            yield from found

    def _holds(self, file: LiveFile) -> bool:
        return self._everywhere or file.path in self._paths or _place(file) in self._places


def _touched(files: Iterable[LiveFile], before: Deletes, after: Deletes) -> Iterator[Touched]:
    for file in files:
        old, new = before.of(file), after.of(file)
        if {delete.key for delete in old} != {delete.key for delete in new}:
            yield Touched(file, old, new)


def _applies(delete: LiveFile, file: LiveFile) -> bool:
    """Deletes apply to what was there before; a position may also be deleted in the commit that wrote it."""
    if delete.content == "equality_deletes":
        return file.sequence < delete.sequence
    return file.sequence <= delete.sequence


def _place(file: LiveFile) -> _Place:
    return file.spec_id, file.partition


def _outside(manifests: Sequence[Manifest], shared: Collection[str]) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest.path not in shared]


def _files(manifests: Sequence[Manifest], load: Load, *, deletes: bool) -> list[LiveFile]:
    return [file for manifest in manifests if manifest.deletes == deletes for file in load(manifest)]


def _difference(
    old: Sequence[LiveFile], new: Sequence[LiveFile]
) -> tuple[list[LiveFile], list[LiveFile], list[LiveFile]]:
    """Files only in the old, only in the new, and in both; a file that is there twice counts twice."""
    before, after = Counter(file.key for file in old), Counter(file.key for file in new)
    both = before & after
    kept = [file for file in {file.key: file for file in new}.values() for _ in range(both[file.key])]
    return list(_beyond(old, both)), list(_beyond(new, both)), kept


def _beyond(files: Iterable[LiveFile], both: Counter[tuple[str, int | None, int]]) -> Iterator[LiveFile]:
    left = Counter(both)
    for file in files:
        if left[file.key] > 0:
            left[file.key] -= 1
        else:
            yield file


_ReadKey = tuple[object, frozenset[object]]


def _read_key(read: FileRead) -> _ReadKey:
    return read.file.key, frozenset(delete.key for delete in read.deletes)


def _without(reads: Iterable[FileRead], both: Counter[_ReadKey]) -> Iterator[FileRead]:
    left = Counter(both)
    for read in reads:
        if left[_read_key(read)] > 0:
            left[_read_key(read)] -= 1
        else:
            yield read
