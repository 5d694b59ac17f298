"""The journal of a folder: the moment it is written, a change has happened; whoever comes next carries it out.

    _neve/journal.json           what is to be done, written in one step
    _neve/<run>/*.staged         new files that wait for it
    _neve/<run>/trash/*          files that have left their places
    _neve/<run>/backup           where the backup of a change lies that has not happened yet

Staged files end in `.staged` and kept sources in `.kept`, because tools that look for `**/*.parquet` or `**/*.csv` go
into hidden folders too, and would count rows twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from neve.directory.storage import LocalStorage, Storage
from neve.errors import SchemaTooNew, StorageError

HIDDEN = "_neve"
JOURNAL = f"{HIDDEN}/journal.json"
SOURCES = "_sources"
LEDGER = "_neve_ledger.json"
BACKUP_NOTE = "backup"
STAGED, KEPT = ".staged", ".kept"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """One change: staged → final, sources → where they are kept, and files that go."""

    run_id: str
    publishes: Mapping[str, str] = field(default_factory=dict)
    keeps: Mapping[str, str] = field(default_factory=dict)
    removals: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        words = {
            "version": _VERSION,
            "run": self.run_id,
            "publish": dict(self.publishes),
            "keep": dict(self.keeps),
            "remove": list(self.removals),
        }
        return json.dumps(words, ensure_ascii=False, indent=1).encode()

    @classmethod
    def from_bytes(cls, content: bytes, *, where: str) -> Journal:
        try:
            words = json.loads(content)
            if words["version"] > _VERSION:
                raise SchemaTooNew(f"{where} was written by a newer Névé", hint="upgrade this one")
            return cls(
                run_id=words["run"], publishes=words["publish"], keeps=words["keep"], removals=tuple(words["remove"])
            )
        except (ValueError, KeyError, TypeError) as exc:
            raise StorageError(f"{where} is not a journal of Névé: {exc}", hint="nothing was changed") from exc


def read_journal(storage: Storage) -> Journal | None:
    if not storage.exists(JOURNAL):
        return None
    return Journal.from_bytes(storage.read(JOURNAL), where=storage.address(JOURNAL))


def commit(storage: Storage, journal: Journal) -> None:
    """Makes the change happen. A failure up to the journal leaves everything as it was; after it, only forward."""
    storage.write(JOURNAL, journal.to_bytes())
    roll_forward(storage, journal)


def roll_forward(storage: Storage, journal: Journal) -> None:
    """Carries out what the journal says, however much of it is done already.

    Files leave before new ones come: who looks in unasked may miss rows for a moment, but counts none twice.
    """
    coming = {final: staged for staged, final in journal.publishes.items()}

    def keep(source: str, kept: str) -> None:
        waiting = source not in coming or (storage.exists(coming[source]) and not storage.exists(kept))
        if waiting and storage.exists(source):
            storage.move(source, kept)

    def put_away(path: str, trash: str) -> None:
        if path not in coming and storage.exists(path):
            storage.put_away(path, trash)

    def publish(staged: str, final: str) -> None:
        if storage.exists(staged):
            storage.move(staged, final)

    trash = f"{HIDDEN}/{journal.run_id}/trash"
    storage.each(keep, journal.keeps.items())
    storage.each(put_away, [(path, f"{trash}/{index}") for index, path in enumerate(journal.removals)])
    storage.each(publish, journal.publishes.items())
    storage.sync_names([*coming, *journal.keeps, *journal.keeps.values(), *journal.removals])
    storage.remove(JOURNAL)
    storage.sync_names([JOURNAL])
    storage.prune(_folder(path) for path in (*journal.removals, *journal.keeps))


def clear_up(storage: Storage) -> None:
    """Nothing is left of changes that did not happen, nor of what one that did has put away."""
    if isinstance(storage, LocalStorage):  # backups are of local folders alone
        for note in storage.root.glob(f"{HIDDEN}/*/{BACKUP_NOTE}"):
            backup = storage.root / note.read_text()
            if backup.name == note.parent.name:  # the run
                LocalStorage(backup.parent).discard(backup.name)
    storage.clear(HIDDEN)


def recover(storage: Storage) -> bool:
    """Ends what a process that died had begun: forward if it had committed, else back. Whether it had.

    Only for the one who holds the folder: whoever else was at work there is dead.
    """
    journal = read_journal(storage)
    if journal is not None:
        roll_forward(storage, journal)
    clear_up(storage)
    return journal is not None


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
