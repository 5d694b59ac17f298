"""Backups of files that a change replaces, so that exactly its rows come back.

    <place>/<run>/backup.json        what was changed, written when everything else is safe
    <place>/<run>/<path>.kept        the files as they were

Data files are never written to in place, so a backup on the same disk is a second name of the same file, at no cost.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from neve.directory.change import Change
from neve.directory.directory import Directory
from neve.directory.journal import KEPT
from neve.directory.storage import LocalStorage
from neve.errors import AlreadyExists, Conflict, NotFound, StorageError, Unsupported, nearest

BACKUPS = "_backups"
_MANIFEST = "backup.json"
_BLOCK = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """One change: the files that it replaced, and those that it made."""

    run_id: str
    action: str
    directory: str
    made_at: str
    replaced: tuple[str, ...]
    published: tuple[str, ...]


class Backups:
    """The backups of a folder, inside it unless they have a place of their own."""

    def __init__(self, directory: Directory, place: str | Path | None = None) -> None:
        if not isinstance(directory.storage, LocalStorage):
            raise Unsupported(f"backups of {directory.location} are not possible: it is not a local folder")
        if place is not None and "://" in str(place):
            raise Unsupported(f"{place}: backups lie on local disks only", hint="name a local folder")
        self._directory = directory
        self._root = directory.storage.root
        self.place = self._root / BACKUPS if place is None else Path(place).expanduser().absolute()

    def make(self, change: Change, *, action: str, replaced: Sequence[str], now: datetime) -> Backup:
        """Keeps the files that a change is about to replace, and checks that they are kept, before it happens.

        The backup goes again if the change does not happen.
        """
        backup = Backup(
            run_id=change.run_id,
            action=action,
            directory=str(self._root),
            made_at=now.isoformat(timespec="seconds"),
            replaced=tuple(replaced),
            published=change.published,
        )
        folder = self.place / change.run_id
        if folder.exists():
            raise AlreadyExists(f"there is a backup of run {change.run_id} in {self.place}", hint="nothing was changed")
        change.keep_backup_in(folder)
        try:
            folder.mkdir(parents=True)
            for path in replaced:
                duplicate(self._root / path, folder / f"{path}{KEPT}")
            LocalStorage(folder).sync_names([f"{path}{KEPT}" for path in replaced])
            LocalStorage(folder).write(_MANIFEST, json.dumps(asdict(backup), ensure_ascii=False, indent=1).encode())
        except OSError as exc:
            raise StorageError(f"cannot keep a backup in {folder}: {exc.strerror or exc}") from exc
        return backup

    def discard(self, run_id: str) -> None:
        """A backup that nobody needs any more."""
        LocalStorage(self.place).discard(run_id)

    def list(self) -> list[Backup]:
        """Oldest first."""
        found = map(_read, sorted(self.place.glob(f"*/{_MANIFEST}")))
        return [backup for backup in found if self._is_ours(backup)]

    def _is_ours(self, backup: Backup) -> bool:
        """A place of its own may hold those of several folders; what lies in the folder moves with it."""
        inside = self.place.resolve().is_relative_to(self._root.resolve())
        return inside or Path(backup.directory).resolve() == self._root.resolve()

    def find(self, run_id: str) -> Backup:
        """A backup by its id, the first characters of it, or `last`."""
        known = self.list()
        if run_id == "last" and known:
            return known[-1]
        matching = [backup for backup in known if backup.run_id.startswith(run_id)]
        if len(matching) != 1:
            names = [backup.run_id for backup in known]
            what = "several backups begin with" if matching else "no backup"
            raise NotFound(
                f"{what} {run_id} of {self._root} in {self.place}",
                hint=nearest(run_id, names) or (f"there are {', '.join(names[-5:])}" if names else "none was made"),
            )
        return matching[0]

    def check(self, backup: Backup, made_by: Callable[[str], str | None]) -> None:
        """Refuses to take a change back when what it made is no longer there.

        `made_by` tells which run wrote a file.

        Raises:
            Conflict: later changes have replaced files of that change.
        """
        made = [(self._root / path).is_file() and made_by(path) == backup.run_id for path in backup.published]
        gone = [not (self._root / path).is_file() for path in backup.replaced if path not in backup.published]
        if not all(made) or not all(gone):
            later = [other.run_id for other in self.list() if other.run_id > backup.run_id]
            hint = f"take back later changes first: {', '.join(reversed(later))}" if later else None
            raise Conflict(f"the folder is no longer as run {backup.run_id} left it", hint=hint)

    def restore(self, backup: Backup, change: Change) -> None:
        """Puts the files of a backup back in place of those that its change had made; after `check`."""
        for path in backup.published:
            change.remove(path)
        for path in backup.replaced:
            staged = change.stage(path)
            try:
                duplicate(self.place / backup.run_id / f"{path}{KEPT}", Path(staged))
            except OSError as exc:
                raise StorageError(f"cannot bring back {path}: {exc.strerror or exc}") from exc
            change.publish(staged, path)


def _read(manifest: Path) -> Backup:
    try:
        words = json.loads(manifest.read_bytes())
        return Backup(**{**words, "replaced": tuple(words["replaced"]), "published": tuple(words["published"])})
    except (OSError, ValueError, TypeError, KeyError) as exc:
        raise StorageError(f"{manifest} is not a backup of Névé: {exc}") from exc


def duplicate(source: Path, target: Path) -> None:
    """A second name of a file, or where that cannot be a copy that was compared with it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError as exc:
        if exc.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        shutil.copyfile(source, target)
        with target.open("rb") as stream:
            os.fsync(stream.fileno())
        if _digest(source) != _digest(target):
            raise OSError(errno.EIO, f"the copy of {source} differs from it") from exc


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
