"""The store: one open state database and the tables in it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from neve.database import Database, open_database
from neve.model.runs import CompactionRecord, IngestionRecord
from neve.store.claims import Claims
from neve.store.dynamic import DynamicTables, RefreshHistory
from neve.store.keys import Keys, ServiceLog
from neve.store.leases import Leases
from neve.store.logs import TableLog
from neve.store.registry import Registry
from neve.store.retention import OrphanScans, Readers
from neve.store.runs import Runs
from neve.store.schema import MIGRATIONS, Migration, migrate, read_version
from neve.store.setbacks import Setbacks
from neve.store.submissions import Submissions
from neve.store.trash import Trash
from neve.store.workers import Alerts, Workers
from neve.store.writes import WriteCounts, WriteKeys


class Store:
    """What Névé remembers. Every write is a transaction; threads may share a store, processes open their own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.ingestions = TableLog(database, "ingestion_log", IngestionRecord, unit="date")
        self.compactions = TableLog(database, "compaction_log", CompactionRecord, unit="period")
        self.submissions = Submissions(database)
        self.registry = Registry(database, (self.ingestions, self.compactions, self.submissions))
        self.runs = Runs(database)
        self.leases = Leases(database)
        self.trash = Trash(database)
        self.dynamic = DynamicTables(database)
        self.refreshes = RefreshHistory(database)
        self.scans = OrphanScans(database)
        self.readers = Readers(database)
        self.keys = Keys(database)
        self.service_log = ServiceLog(database)
        self.claims = Claims(database)
        self.setbacks = Setbacks(database)
        self.workers = Workers(database)
        self.alerts = Alerts(database)
        self.write_counts = WriteCounts(database)
        self.write_keys = WriteKeys(database)

    @classmethod
    def open(cls, uri: str, *, create: bool = True, migrations: Sequence[Migration] = MIGRATIONS) -> Store:
        """Open `sqlite:////absolute/path` or `postgresql://…`, and migrate an older schema.

        Raises:
            StoreError: it cannot be reached, read or written, or is not there and `create` is false.
            SchemaTooNew: a later version of Névé has been here.
            ConfigError: the URI makes no sense.
        """
        database = open_database(uri, create=create, what="state database")
        try:
            migrate(database, migrations, create=create)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def transaction(self) -> AbstractContextManager[None]:
        """All calls within become one: all happen or none.

        SQLite lets one transaction in at a time. PostgreSQL lets several run side by side (READ COMMITTED): where a
        write rests on an earlier read, hold a lease.
        """
        return self._database.transaction()

    def schema_version(self) -> int:
        return read_version(self._database)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
