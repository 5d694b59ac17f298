"""SQLite: one file beside the lake, in WAL mode so that readers never wait for a writer."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from neve.database.driver import BUSY_SECONDS, Answer, Value
from neve.errors import AlreadyExists, NeveError, StoreError

_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DUPLICATE = {sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE}


class SQLite:
    """Driver over a file; its folder must exist, and the file too unless `create`."""

    begin = "BEGIN IMMEDIATE"
    identity = "INTEGER PRIMARY KEY"
    skip_locked = ""  # BEGIN IMMEDIATE has kept every other writer out

    def __init__(self, path: Path, *, create: bool, what: str) -> None:
        self._what = what
        self._path = path
        self._create = create
        self._connection: sqlite3.Connection | None = None

    @property
    def label(self) -> str:
        return str(self._path)

    @property
    def connected(self) -> bool:
        return self._connection is not None

    def connect(self) -> None:
        try:
            self._check_place()
        except OSError as exc:
            raise StoreError(
                f"cannot open the {self._what} {self.label}: {exc.strerror}", hint="check its path and permissions"
            ) from exc
        mode = "rwc" if self._create else "rw"
        connection = None
        try:
            connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,  # the store's lock lets one thread in at a time
            )
            _enter_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
        except sqlite3.Error as exc:
            if connection is not None:
                connection.close()
            raise self._translate(exc) from exc
        self._connection = connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def execute(self, sql: str, values: Sequence[Value]) -> Answer:
        if self._connection is None:
            raise StoreError(f"the {self._what} {self.label} is not open")
        try:
            cursor = self._connection.execute(sql, values)
            rows = cursor.fetchall()
        except sqlite3.Error as exc:
            raise self._translate(exc) from exc
        names = [column[0] for column in cursor.description or ()]
        return Answer([dict(zip(names, row, strict=True)) for row in rows], cursor.rowcount)

    def has_table(self, name: str) -> bool:
        return bool(self.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [name]).rows)

    def lock_schema(self) -> None:
        """BEGIN IMMEDIATE has already kept every other writer out."""

    def _check_place(self) -> None:
        folder = self._path.absolute().parent
        if not folder.is_dir():
            raise StoreError(
                f"cannot open the {self._what} {self.label}: there is no folder {folder}",
                hint="create the folder, or make a lake with `neve init`",
            )
        if self._path.is_dir():
            raise StoreError(
                f"cannot open the {self._what} {self.label}: it is a folder", hint="name a file inside the folder"
            )
        if not self._create and not self._path.exists():
            raise StoreError(f"there is no {self._what} {self.label}", hint="make a lake with `neve init`")

    def _translate(self, exc: sqlite3.Error) -> NeveError:
        code = _code(exc)
        if code in _DUPLICATE:
            return AlreadyExists(f"the {self._what} {self.label} already holds this row: {exc}")
        primary = code & 0xFF
        if primary in _DAMAGED:
            return StoreError(
                f"the {self._what} {self.label} cannot be read: {exc}",
                hint="move the file away, or restore it from a backup; `neve init` makes a new one",
            )
        if primary in _UNWRITABLE:
            return StoreError(
                f"the {self._what} {self.label} cannot be written: {exc}",
                hint=f"let this user write to the file and to its folder {self._path.absolute().parent}",
            )
        if primary in _BUSY:
            return StoreError(
                f"the {self._what} {self.label} is busy: another process has been writing for {BUSY_SECONDS} s",
                hint="try again when that process has finished",
            )
        if primary == sqlite3.SQLITE_FULL:
            return StoreError(
                f"the {self._what} {self.label} cannot grow: {exc}", hint="free some space on its disk and try again"
            )
        return StoreError(f"the {self._what} {self.label} failed: {exc}")


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. While two processes create one file, SQLite says "busy" here at once instead of waiting."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as exc:
            if _code(exc) & 0xFF not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _code(exc: sqlite3.Error) -> int:
    """SQLite's extended error code; 0 for what Python's module raises by itself."""
    return getattr(exc, "sqlite_errorcode", 0)
