"""One change of a folder: files are staged unseen, then published, removed or kept aside together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from neve.directory.journal import BACKUP_NOTE, HIDDEN, KEPT, LEDGER, SOURCES, STAGED, Journal, commit
from neve.directory.storage import Storage
from neve.errors import AlreadyExists, InvalidInput, StalePlan, StorageError
from neve.plan.folders import is_ignored


class Change:
    """Made by `Directory.change`; nothing is seen by others until its block ends well."""

    def __init__(self, storage: Storage, run_id: str) -> None:
        self.run_id = run_id
        self._storage = storage
        self._folder = f"{HIDDEN}/{run_id}"
        self._staged = 0
        self._publishes: dict[str, str] = {}
        self._removals: dict[str, None] = {}
        self._keeps: dict[str, str] = {}

    def stage(self, name: str) -> str:
        """Where to write a new file; `name` is for people who look into the folder while it is written."""
        self._staged += 1
        path = f"{self._folder}/{self._staged:05}-{name.rpartition('/')[2]}{STAGED}"
        self._storage.make_folders([path])
        return self._storage.address(path)

    def stage_folder(self) -> str:
        """Where several programs may write new files, under names of their own that end in `.staged`."""
        self._storage.make_folders([f"{self._folder}/x"])
        return self._storage.address(self._folder)

    def publish(self, staged: str, final: str) -> None:
        """A staged file gets its name. It must be written and closed."""
        _check_name(final)
        path = self._inside(staged)
        if not path.startswith(f"{self._folder}/") or not path.endswith(STAGED):
            raise InvalidInput(f"{staged} was not staged by this change")
        if not self._storage.exists(path):
            raise StorageError(f"{staged} was never written")
        if path in self._publishes or final in self._publishes.values():
            raise AlreadyExists(f"{final} is published twice by one change")
        self._publishes[path] = final

    def bring(self, source: Path, final: str) -> None:
        """A local file leaves its place, is staged and published."""
        staged = self.stage(final)
        self._storage.bring(source, self._inside(staged))
        self.publish(staged, final)

    def write(self, final: str, content: bytes) -> None:
        """A small file, staged and published."""
        staged = self.stage(final)
        self._storage.write(self._inside(staged), content)
        self.publish(staged, final)

    def write_ledger(self, content: bytes) -> None:
        """What the folder keeps about itself, where no reader looks; in place of what it kept before."""
        if self._storage.exists(LEDGER):
            self._removals[LEDGER] = None
        path = self._inside(self.stage(LEDGER))
        self._storage.write(path, content)
        self._publishes[path] = LEDGER

    def note(self, name: str, content: bytes | None) -> None:
        """A hidden file beside the data, such as how far a run has come; None takes it away."""
        if not is_ignored(name) or "/" in name:
            raise InvalidInput(f"a note has a hidden name: {name!r}")
        if self._storage.exists(name):
            self._removals[name] = None
        if content is not None:
            staged = self._inside(self.stage(name))
            self._storage.write(staged, content)
            self._publishes[staged] = name

    def keep_backup_in(self, folder: Path) -> None:
        """A folder that is to go unless this change happens: whoever clears up after it finds a note of it.

        The note leaves with the commit.
        """
        note = f"{self._folder}/{BACKUP_NOTE}"
        self._storage.make_folders([note])
        inside = folder.is_relative_to(self._storage.location)  # it is found again where both were moved
        self._storage.write(note, str(folder.relative_to(self._storage.location) if inside else folder).encode())
        self._removals[note] = None

    def remove(self, final: str) -> None:
        """A file goes; or makes room for one of the same name."""
        self._leave(final)
        self._removals[final] = None

    def keep(self, final: str) -> str:
        """A file moves to where no reader counts its rows; its new path in the folder."""
        self._leave(final)
        kept = f"{SOURCES}/{final}{KEPT}"
        if self._storage.exists(kept) or kept in self._keeps.values():
            kept = f"{SOURCES}/{final}.{self.run_id}{KEPT}"
        self._keeps[final] = kept
        return kept

    def restore(self, kept: str, final: str) -> None:
        """A file that was kept aside comes back."""
        if not kept.startswith(f"{SOURCES}/") or not self._storage.exists(kept):
            raise StalePlan(f"{kept} is not kept in {self._storage.location}")
        _check_name(final)
        if final in self._publishes.values():
            raise AlreadyExists(f"{final} is published twice by one change")
        self._publishes[kept] = final

    @property
    def published(self) -> tuple[str, ...]:
        return tuple(self._publishes.values())

    @property
    def leaving(self) -> frozenset[str]:
        """The files that go, or make room."""
        return frozenset(self._removals) | frozenset(self._keeps)

    def prepare(self) -> Journal | None:
        """Checks the change as a whole and makes it durable but for the journal; None when there is nothing to do."""
        if not (self._publishes or self._removals or self._keeps):
            return None
        leaving = self._removals.keys() | self._keeps.keys()
        for final in self._publishes.values():
            if final not in leaving and self._storage.exists(final):
                raise AlreadyExists(f"{self._storage.address(final)} is there already", hint="nothing was changed")
        self._check_there(leaving)
        self._storage.sync(self._publishes)
        return Journal(run_id=self.run_id, publishes=self._publishes, keeps=self._keeps, removals=tuple(self._removals))

    def _inside(self, address: str) -> str:
        """The path in the folder of what lies at an address."""
        return address.removeprefix(self._storage.address(f"{HIDDEN}/x").removesuffix(f"{HIDDEN}/x"))

    def _leave(self, final: str) -> None:
        _check_name(final)
        if final in self._removals or final in self._keeps:
            raise InvalidInput(f"{final} is removed twice by one change")

    def _check_there(self, leaving: Iterable[str]) -> None:
        for final in leaving:
            if not self._storage.exists(final):
                raise StalePlan(
                    f"{self._storage.address(final)} has gone since the folder was looked at",
                    hint="another program changes this folder; run the command again",
                )


@contextmanager
def places_for(storage: Storage, journal: Journal) -> Iterator[None]:
    """The folders that a swap needs, made beforehand so that a full disk cannot stop it half-way; gone if it fails.

    The hidden folder stays in any case: its writer's lock is on it, and a rival would make another one.
    """
    trash = [f"{HIDDEN}/{journal.run_id}/trash/x"] if journal.removals else []
    made = storage.make_folders([*journal.publishes.values(), *journal.keeps.values(), *trash])
    storage.sync_names([*(f"{folder}/x" for folder in made), *journal.publishes])
    try:
        yield
    finally:
        storage.prune(folder for folder in made if not folder.startswith(f"{HIDDEN}/"))


def carry_out(storage: Storage, journal: Journal) -> None:
    with places_for(storage, journal):
        commit(storage, journal)


def _check_name(path: str) -> None:
    """Names that a reader would see, inside the folder."""
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") for part in parts):
        raise InvalidInput(f"not a file's name in a folder: {path!r}")
    if any(map(is_ignored, parts)):
        raise InvalidInput(f"readers pass over names that begin with _ or a dot: {path!r}")
