"""What every use case works with. Each part opens when it is first needed: a look opens no database of runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from neve.catalog import Catalog, open_catalog
from neve.config import LoadedSettings
from neve.errors import NeveError, Unsupported
from neve.model.names import TableName

if TYPE_CHECKING:
    from neve.engine.session import Session
    from neve.observe.sending import Sender
    from neve.services.cancelling import Watch
    from neve.store import Store


def _now() -> datetime:
    return datetime.now(UTC)


def _be_quiet(_: str) -> None:
    pass


@dataclass
class Context:
    """One open lake."""

    loaded: LoadedSettings
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Callable[[], datetime] = _now
    entropy: Callable[[int], bytes] = os.urandom
    tell: Callable[[str], None] = _be_quiet
    speak: Callable[[str], None] | None = None
    """Hears warnings, where progress may not be shown; `tell` does where this is None."""
    warned: set[str] = field(default_factory=set)
    """What was told by `warn`."""
    queried: dict[tuple[str, int], str] = field(default_factory=dict)
    """By a table's uuid and snapshot, who was told to read it for a query (services/readers.hold)."""

    def warn(self, line: str) -> None:
        """Tells once what every look would find again."""
        if line not in self.warned:
            self.warned.add(line)
            (self.speak or self.tell)(line)

    @cached_property
    def catalog(self) -> Catalog:
        return open_catalog(self.loaded, elsewhere=self._directory_table)

    def _directory_table(self, name: TableName) -> NeveError | None:
        """What to say when a directory table is asked for what only Iceberg tables can do."""
        known = self.store.registry.get(name.short)
        if known is None or known.format == "iceberg":
            return None
        return Unsupported(
            f"{name} is a directory of {known.format} files; this is for Iceberg tables",
            hint="a directory has: table ingest, submit, batch, watch, query, compact, status, health, verify, show,"
            " files, delete",
        )

    @cached_property
    def store(self) -> Store:
        """The state database; opening it settles what a process that died left half done."""
        from neve.store import Store

        store = self.__dict__["store"] = Store.open(self.loaded.state_uri)
        if store.runs.unfinished():
            from neve.services.repair import settle_dead_runs

            settle_dead_runs(self)
        return store

    @cached_property
    def session(self) -> Session:
        from neve.engine.session import Session

        return Session(self.loaded, env=self.env, tell=self.tell)

    @cached_property
    def watch(self) -> Watch:
        """Who hears that a run of this process is to end."""
        from neve.services.cancelling import Watch

        return Watch(self)

    @cached_property
    def events(self) -> Sender | None:
        """Who hears of runs, by OpenLineage's specification; None where nobody does."""
        from neve.observe.sending import Sender

        asked = self.loaded.settings.openlineage
        if asked.url is None and asked.file is None:
            return None
        return Sender(
            url=None if asked.url is None else asked.url.get_secret_value(),
            key=None if asked.api_key is None else asked.api_key.get_secret_value(),
            file=None if asked.file is None else self.loaded.root / asked.file,
            tell=self.tell,
        )

    def close(self) -> None:
        """Closes what was opened; the Spark session stays with its process until `session.stop`."""
        if (events := self.__dict__.pop("events", None)) is not None:
            events.close()
        while self.queried and "store" in self.__dict__:
            self.store.readers.remove(self.queried.popitem()[1])
        for part in ("catalog", "store"):
            if part in self.__dict__:
                self.__dict__.pop(part).close()
