"""One open database: statements, transactions, and which driver a URI asks for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from neve.database.driver import Driver, Row, Value
from neve.database.postgresql import PostgreSQL
from neve.database.sqlite import SQLite
from neve.errors import ConfigError, StoreError

_SQLITE = "sqlite:///"
_POSTGRESQL = "postgresql://"


class Database:
    """May be shared by threads: one works at a time, and a transaction keeps the others out until it ends."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.RLock()
        self._depth = 0
        self._closed = False
        driver.connect()

    @property
    def label(self) -> str:
        return self._driver.label

    @property
    def identity(self) -> str:
        """The type of a column that numbers its rows."""
        return self._driver.identity

    @property
    def skip_locked(self) -> str:
        """What ends a SELECT that locks its rows, and passes over those that another transaction has locked."""
        return self._driver.skip_locked

    def read(self, sql: str, *values: Value) -> Sequence[Row]:
        with self._lock:
            self._ensure_connected()
            return self._driver.execute(sql, values).rows

    def write(self, sql: str, *values: Value) -> int:
        """Run one statement in a transaction of its own, or in the one that is open; answers how many rows changed."""
        with self.transaction():
            return self._driver.execute(sql, values).changed

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. One inside another can fail and be caught without spoiling the outer one."""
        with self._lock:
            self._ensure_connected()
            begin, commit, rollback = self._bounds()
            self._driver.execute(begin, ())
            self._depth += 1
            try:
                yield
                self._driver.execute(commit, ())
            except BaseException:
                with suppress(StoreError):  # the connection may be what failed; the first error is the one to tell
                    self._driver.execute(rollback, ())
                raise
            finally:
                self._depth -= 1

    def has_table(self, name: str) -> bool:
        with self._lock:
            self._ensure_connected()
            return self._driver.has_table(name)

    def lock_schema(self) -> None:
        self._driver.lock_schema()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._driver.close()

    def _bounds(self) -> tuple[str, str, str]:
        if self._depth == 0:
            return self._driver.begin, "COMMIT", "ROLLBACK"
        savepoint = f"SAVEPOINT level_{self._depth}"
        return savepoint, f"RELEASE {savepoint}", f"ROLLBACK TO {savepoint}"

    def _ensure_connected(self) -> None:
        """A server that came back is used again; what a lost transaction did is gone, so that one must fail."""
        if self._closed:
            raise StoreError(f"the database {self.label} has been closed")
        if self._depth == 0 and not self._driver.connected:
            self._driver.connect()


def open_database(uri: str, *, create: bool, what: str) -> Database:
    """Open `sqlite:////absolute/path` or `postgresql://…`; `what` is how messages call it."""
    if uri.startswith(_SQLITE) and len(uri) > len(_SQLITE):
        return Database(SQLite(Path(uri.removeprefix(_SQLITE)), create=create, what=what))
    if uri.startswith(_POSTGRESQL):
        return Database(PostgreSQL(uri, what=what))
    raise ConfigError(  # without the URI, which may hold a password
        f"the URI of the {what} begins with neither sqlite:/// nor postgresql://",
        hint="write sqlite:////absolute/path/.metadata.db or postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
    )
