"""Directory tables: what a folder keeps about itself, in the same change as the files it speaks of.

The ledger lies in the folder, so the folder can be moved, and a state database that was lost is filled from it again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from neve.errors import StorageError
from neve.model.compaction import CompactedPeriod
from neve.model.ingest import INGEST_DATE, Held
from neve.model.names import quote
from neve.model.periods import parse_period
from neve.model.types import Field, spelled

VERSION = 1
FileFormat = Literal["parquet", "csv"]


class Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LedgerColumn(Entry):
    name: str
    type: str


class LedgerDate(Entry):
    """What was last ingested for a date; rows with no file when all of them were rejected."""

    content_hash: str
    run_id: str
    rows: int
    ingested_at: AwareDatetime


class LedgerPeriod(Entry):
    """A period that was compacted, as `CompactedPeriod`."""

    output: str
    sources: tuple[str, ...]
    dates: tuple[dt.date, ...]
    rows: int
    bytes: int
    compacted_at: AwareDatetime
    run_id: str


class Ledger(Entry):
    version: int = VERSION
    uuid: str
    columns: tuple[LedgerColumn, ...] = ()
    dates: Mapping[dt.date, LedgerDate] = {}
    periods: Mapping[str, LedgerPeriod] = {}

    def held(self) -> dict[dt.date, Held]:
        return {
            day: Held(date=day, content_hash=entry.content_hash, run_id=entry.run_id)
            for day, entry in self.dates.items()
        }

    def compacted(self) -> list[CompactedPeriod]:
        return [
            CompactedPeriod(
                period=parse_period(label),
                output=entry.output,
                sources=entry.sources,
                dates=frozenset(entry.dates),
                rows=entry.rows,
                bytes=entry.bytes,
                compacted_at=entry.compacted_at,
            )
            for label, entry in self.periods.items()
        ]

    def with_dates(self, dates: Mapping[dt.date, LedgerDate]) -> Ledger:
        return self._but(dates=dict(sorted({**self.dates, **dates}.items())))

    def with_periods(self, periods: Mapping[str, LedgerPeriod], *, without: Iterable[str] = ()) -> Ledger:
        kept = {label: entry for label, entry in self.periods.items() if label not in set(without)}
        return self._but(periods=dict(sorted({**kept, **periods}.items())))

    def with_types(self, columns: Iterable[LedgerColumn]) -> Ledger:
        """Other types for columns that are there already."""
        types = {column.name: column for column in columns}
        return self._but(columns=tuple(types.get(column.name, column) for column in self.columns))

    def with_columns(self, columns: Iterable[LedgerColumn]) -> Ledger:
        return self._but(columns=(*self.columns, *columns))

    def to_bytes(self) -> bytes:
        return self.model_dump_json(indent=1).encode()

    def _but(self, **changes: object) -> Ledger:
        return self.model_copy(update=changes)


def read_ledger(content: bytes, *, where: str) -> Ledger:
    """Raises StorageError when a folder's ledger is none, or of a later Névé."""
    try:
        ledger = Ledger.model_validate_json(content)
    except ValidationError as exc:
        raise StorageError(
            f"{where} is not a ledger that this version reads: {exc.errors()[0]['msg']}",
            hint="was it written by a later version, or by hand?",
        ) from exc
    if ledger.version > VERSION:
        raise StorageError(f"{where} was written by a later version of Névé", hint="upgrade neve")
    return ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFile:
    """A file to read. `columns` is the header of a csv file; `day` is that of its name, for rows without one.

    `folders` is what the folders say in which the file of a day lies, outermost first.
    """

    path: str
    columns: tuple[str, ...] = ()
    day: dt.date | None = None
    folders: tuple[tuple[str, int | str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How the rows of a table lie in its files: its columns in order, without the ingest date, which comes last."""

    format: FileFormat
    columns: tuple[Field, ...]
    codec: str

    @property
    def names(self) -> tuple[str, ...]:
        return (*(column.name for column in self.columns), INGEST_DATE)

    @property
    def ddl(self) -> str:
        typed = [f"{quote(column.name)} {spelled(column.type)}" for column in self.columns]
        return ", ".join([*typed, f"{INGEST_DATE} date"])
