"""One piece of work on a directory table: its folder is locked, Spark writes aside, the change is made at the end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neve.directory import Change
from neve.services.context import Context
from neve.services.directory_tables.tables import Contents, DirectoryTable, contents_of, open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 3600.0
"""Seconds that a second writer waits for the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`found` is what the folder holds while this process alone may change it; `spool` is where Spark writes."""

    context: Context
    table: DirectoryTable
    run_id: str
    found: Contents
    change: Change
    spool: Path
    spark: SparkSession

    def hand_over(self, written: Path, final: str) -> None:
        """A file that Spark wrote becomes part of the change."""
        self.change.bring(written, final)


@contextmanager
def at_work(context: Context, table: DirectoryTable, run_id: str) -> Iterator[Job]:
    """The change happens when the block ends, and not at all when it fails."""
    from neve.engine.directory_tables import plain_session

    spark = plain_session(context.session.spark)
    directory = open_table(context, table.location, table.described)
    with directory.change(run_id, patience=PATIENCE) as change, _spool(context, run_id) as spool:
        yield Job(
            context=context,
            table=table,
            run_id=run_id,
            found=contents_of(table, directory),
            change=change,
            spool=spool,
            spark=spark,
        )


def spool_of(context: Context, run_id: str) -> Path:
    """A folder of the lake: in the table's own, readers would count what Spark has not finished."""
    return context.loaded.root / ".neve" / "spool" / run_id


@contextmanager
def _spool(context: Context, run_id: str) -> Iterator[Path]:
    place = spool_of(context, run_id)
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
