"""`Lake`: the open lake, and what concerns all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from neve.config import LoadedSettings, Settings, load_settings
from neve.errors import LakeNotFound
from neve.model.health import StatusRow
from neve.model.names import TableName
from neve.model.results import (
    CheckRow,
    JobRow,
    TableStatus,
)
from neve.model.retention import OrphanReceipt
from neve.model.rewrites import CompactOptions, RewriteReceipt
from neve.model.service import PartRow
from neve.model.units import parse_duration
from neve.services import lakes, queries, specs
from neve.services.context import Context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.observe.log import Event
    from neve.services.worker.worker import Worker

from neve.lake.database import Database
from neve.lake.dynamic import DynamicTables
from neve.lake.keys import Keys
from neve.lake.namespaces import Namespaces
from neve.lake.runs import Runs
from neve.lake.table import LakeTable
from neve.lake.tables import Tables


class Lake:
    """An open lake. Without a folder, the nearest one upwards from the working directory (or NEVE_LAKE)."""

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        profile: str | None = None,
        flags: Mapping[str, str] | None = None,
        tell: Callable[[str], None] | None = None,
        speak: Callable[[str], None] | None = None,
    ) -> None:
        found = lakes.locate_lake(Path.cwd(), given=None if root is None else str(root), env=os.environ)
        if found is None:
            raise LakeNotFound("there is no lake here or above", hint="make one: neve init")
        loaded = load_settings(found, flags=flags or {}, env=os.environ, profile=profile)
        self._context = Context(loaded, speak=speak) if tell is None else Context(loaded, tell=tell, speak=speak)
        self._opened = ExitStack()

    @classmethod
    def create(cls, root: str | Path = ".") -> Lake:
        """Makes a new lake in a folder and opens it."""
        lakes.create_lake(Path(root), env=os.environ)
        return cls(root)

    @property
    def root(self) -> Path:
        return self._context.loaded.root

    @property
    def settings(self) -> Settings:
        return self._context.loaded.settings

    @property
    def loaded_settings(self) -> LoadedSettings:
        """The settings with the source of each value."""
        return self._context.loaded

    @property
    def spark(self) -> SparkSession:
        """The lake's Spark session; starts it."""
        return self._context.session.spark

    @cached_property
    def tables(self) -> Tables:
        return Tables(self._context)

    @cached_property
    def dynamic(self) -> DynamicTables:
        return DynamicTables(self._context)

    @cached_property
    def database(self) -> Database:
        return Database(self._context)

    @cached_property
    def namespaces(self) -> Namespaces:
        return Namespaces(self._context)

    @cached_property
    def keys(self) -> Keys:
        return Keys(self._context)

    @cached_property
    def runs(self) -> Runs:
        return Runs(self._context)

    def table(self, name: str) -> LakeTable:
        """A table by name or by its configuration file; that it exists is checked when it is used."""
        if specs.is_table_file(name):
            return LakeTable(self._context, specs.name_in_file(Path(name)), file=Path(name))
        return LakeTable(self._context, TableName.parse(name))

    def named(self, name: str) -> LakeTable:
        """A table by its name, which is never taken for a file: for names that come from elsewhere."""
        return LakeTable(self._context, TableName.parse(name))

    def uploads(self) -> Path:
        """The folder for files that are sent to a service, until they are loaded."""
        from neve.services.spool import uploads

        return uploads(self._context)

    def read_sql(self, text: str, *, as_of: str | None = None) -> DataFrame:
        """As `sql`, for whoever may only look: one statement that reads, no files by path, no settings."""
        from neve.services.operations.asking import check_reads

        check_reads(text)
        return queries.run_sql(self._context, text, as_of=as_of, files=False)

    def sql(self, text: str, *, write: bool = False, as_of: str | None = None) -> DataFrame:
        return queries.run_sql(self._context, text, write=write, as_of=as_of)

    def changes(
        self,
        table: str,
        since: str | int | None,
        until: str | int | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """Net row changes between two snapshots, as rows with a weight `_w`; readable until the lake is closed.

        Snapshots go by id, tag, branch or time; `since` None is before the first row, `until` None is now.
        """
        return self._opened.enter_context(self.table(table).changes(since, until, columns=columns)).frame()

    def schedule(self, now: datetime | None = None) -> list[JobRow]:
        """What the worker would do at this moment, or another, in its order; and what keeps the rest waiting."""
        from neve.services.worker.schedule import schedule

        return schedule(self._context, now)

    def worker(
        self,
        *,
        slots: int | None = None,
        tables: Sequence[str] = (),
        metrics_file: str | Path | None = None,
        log: Callable[[Event], None] | None = None,
    ) -> Worker:
        """A worker: `tick()` does all that is due, `run()` goes on until `drain()`. Settings say what is not given."""
        from neve.services.worker.making import make_worker

        return make_worker(self._context, slots=slots, tables=tables, metrics_file=metrics_file, log=log)

    def compact(self, *, dry_run: bool = False, **how: Unpack[CompactOptions]) -> list[RewriteReceipt]:
        """Compacts every table that is online, one after the other.

        Raises:
            NeveError: the first failure, once all the others are done.
        """
        return list(self.compact_each(dry_run=dry_run, **how))

    def compact_each(self, *, dry_run: bool = False, **how: Unpack[CompactOptions]) -> Iterator[RewriteReceipt]:
        """As `compact`, table by table, as the receipts are asked for."""
        from neve.services.rewrites.asking import compact_all

        return compact_all(self._context, dry_run=dry_run, **how)

    def expiry_keeps_less(self, *, retention_hours: float) -> list[str]:
        """The tables of which `compact` that expires snapshots would keep less than they and the settings say."""
        from neve.services.rewrites.asking import keeping_less

        return keeping_less(self._context, retention_hours)

    def status(self, *, late: bool = False) -> list[StatusRow]:
        """Every table, or those that are late: health, lag, small files, due work."""
        from neve.services.health import lake_status

        return lake_status(self._context, late=late)

    def orphans(
        self, *, older_than: timedelta | str | None = None, delete: bool = False, dry_run: bool = False
    ) -> list[OrphanReceipt]:
        """Of every table; and the folders of the warehouse that belong to none, which are only listed."""
        from neve.services.orphans import all_orphans, ask

        age = parse_duration(older_than) if isinstance(older_than, str) else older_than
        return all_orphans(self._context, ask(self._context, older_than=age, delete=delete and not dry_run))

    def doctor(self, *, repair: bool = False, spark: bool = True) -> list[CheckRow]:
        """Every check; without `spark`, only those that need no JVM."""
        from neve.services.doctor import examine

        return examine(self._context, repair=repair, spark=spark)

    def make_demo(self) -> TableStatus:
        """Adds the example table `sales`, with rows."""
        from neve.services.demo import make_demo

        return make_demo(self._context)

    def parts(self) -> list[PartRow]:
        """Whether the catalog and the state database answer."""
        from neve.services.parts import look_at_parts

        return look_at_parts(self._context)

    def metrics(self) -> str:
        """The figures of the lake and its workers as Prometheus reads them."""
        from neve.services.worker.metrics import metrics_text

        return metrics_text(self._context, self._context.clock())

    def warm_up(self) -> None:
        """Starts Spark, and opens what every request needs, so that the first one finds it."""
        self.parts()
        self.spark.range(1).count()

    @property
    def has_lost_spark(self) -> bool:
        """Whether Spark was started and does not answer any more."""
        return "session" in self._context.__dict__ and self._context.session.is_gone

    def cancel_jobs(self) -> None:
        """Ends every job of Spark that runs now."""
        if "session" in self._context.__dict__:
            self._context.session.cancel_jobs()

    def close(self) -> None:
        """Closes the databases and stops Spark, if it runs."""
        try:
            self._opened.close()
        finally:
            if "session" in self._context.__dict__:
                self._context.session.stop()
            self._context.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
