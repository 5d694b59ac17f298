"""Which files below a table's folder nothing names, and which of them may go. Pure.

A file that is not named may yet be: a writer writes it first and commits it later. So only what is old enough counts,
and nothing that came since work began that has not ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from neve.errors import InvalidInput, StorageError
from neve.model.retention import Listed
from neve.model.units import format_duration

FLOOR = timedelta(days=1)
_CHECKSUM = ".crc"
_NEVER = ("version-hint.text",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """What was found. Only `found` may go."""

    found: tuple[Listed, ...]
    young: int
    unknown_age: int
    others: int

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What must stay: files that something names, and folders that belong to others. Canonical paths, all of them.

    `must_be_listed` are files of the table's own that are surely there: a listing that lacks one is not to be trusted.
    """

    files: Collection[str]
    folders: Collection[str] = ()
    must_be_listed: Collection[str] = ()


def check_age(age: timedelta) -> timedelta:
    """The age itself, unless it is below the floor."""
    if age < FLOOR:
        raise InvalidInput(
            f"files younger than {format_duration(FLOOR)} are never taken for orphans: "
            f"a writer may have written them and not committed them yet",
            hint="--older-than 24h or more",
        )
    return age


def cut_off(now: datetime, age: timedelta, work_began: Iterable[datetime]) -> datetime:
    """Files from before this moment count: old enough, and there before any work that has not ended."""
    return min([now - age, *work_began])


def find_orphans(listed: Iterable[Listed], named: Named, *, before: datetime) -> Orphans:
    """Divides a folder's files into those that nothing names and the rest.

    Raises:
        StorageError: the listing does not show what must be there, so its paths mean something else.
    """
    files = {file.path: file for file in listed}
    if lacking := sorted(set(named.must_be_listed) - set(files)):
        raise StorageError(
            f"the folder does not list {lacking[0]}, which the table names: paths cannot be compared, or it is damaged",
            hint="nothing was removed; is the warehouse reached by another path than the one in the metadata?",
        )
    inside = tuple(f"{folder}/" for folder in named.folders)
    found, young, unknown, others = [], 0, 0, 0
    for path, file in files.items():
        owner = _owner(path)
        if owner in named.files or PurePosixPath(owner).name in _NEVER:
            continue
        if inside and path.startswith(inside):
            others += 1
        elif file.modified_at is None:
            unknown += 1
        elif file.modified_at >= before:
            young += 1
        else:
            found.append(file)
    return Orphans(
        found=tuple(sorted(found, key=lambda file: file.path)), young=young, unknown_age=unknown, others=others
    )


def _owner(path: str) -> str:
    """The file that a checksum of Hadoop's is of; any other file itself.

    >>> _owner("/t/data/.a.parquet.crc"), _owner("/t/data/a.parquet")
    ('/t/data/a.parquet', '/t/data/a.parquet')
    """
    folder, _, name = path.rpartition("/")
    if name.startswith(".") and name.endswith(_CHECKSUM):
        return f"{folder}/{name[1 : -len(_CHECKSUM)]}"
    return path
