"""Directory tables: which file is which day, what a new delivery displaces. Pure."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from neve.errors import InvalidSchema
from neve.model.compaction import DayFile
from neve.model.directories import DataFile
from neve.model.directory_tables import Ledger
from neve.model.ingest import Held
from neve.model.patterns import format_pattern, match_pattern
from neve.model.tablefile import TableFile

_NUMBER = re.compile(r"\{(?:year|month|day|week|quarter)\}")


@dataclass(frozen=True, slots=True)
class FolderColumn:
    """A column that the folders of a hive layout name; its values are kept inside the files too."""

    name: str
    type: Literal["int", "string"]


def folder_columns(described: TableFile) -> tuple[FolderColumn, ...]:
    """The columns of `year={year}/month={month}/…`; none for a flat layout."""
    found = []
    for step in described.day_pattern.split("/")[:-1]:
        name, _, template = step.partition("=")
        found.append(FolderColumn(name, "int" if _NUMBER.fullmatch(template) else "string"))
    return tuple(found)


def folder_values(described: TableFile, day: dt.date) -> dict[str, int | str]:
    """What the folders of a day say."""
    texts = [step.partition("=")[2] for step in day_path(described, day).split("/")[:-1]]
    columns = folder_columns(described)
    return {
        column.name: int(text) if column.type == "int" else text for column, text in zip(columns, texts, strict=True)
    }


def check_names(described: TableFile, columns: Collection[str]) -> None:
    """Refuses a column that a folder names too: two values for one name."""
    taken = {column.name.casefold() for column in folder_columns(described)}
    clash = next((name for name in columns if name.casefold() in taken), None)
    if clash is not None:
        raise InvalidSchema(
            f"{clash} is a column of the files and a folder of partitioning.pattern",
            hint="give the column another name in the dataset config, or the folder in the pattern",
        )


def day_path(described: TableFile, day: dt.date) -> str:
    return format_pattern(described.day_pattern, day, described.date_format)


def day_files(described: TableFile, files: Sequence[DataFile], ledger: Ledger) -> list[DayFile]:
    """The files that the pattern gives to days. Where rows or time are unknown, somebody else put the file there."""
    found = []
    for file in files:
        day = match_pattern(described.day_pattern, file.path, described.date_format)
        if isinstance(day, dt.date):
            entry = ledger.dates.get(day)
            found.append(
                DayFile(
                    date=day,
                    path=file.path,
                    rows=entry.rows if entry else 0,
                    bytes=file.bytes,
                    ingested_at=entry.ingested_at if entry else None,
                )
            )
    return found


def held_dates(ledger: Ledger, days: Sequence[DayFile]) -> dict[dt.date, Held]:
    """What the folder holds, by the ledger; of a file that somebody else put there only the date is known."""
    foreign = {day.date: Held(date=day.date, content_hash=None, run_id=None) for day in days}
    return foreign | ledger.held()


def periods_holding(
    ledger: Ledger, dates: Collection[dt.date], files: Sequence[DataFile]
) -> Mapping[str, frozenset[dt.date]]:
    """The labels of compacted periods whose files hold rows of these dates, and which of them.

    A period whose file is no longer there was taken in by a longer one.
    """
    there = {file.path for file in files}
    found = {
        label: frozenset(entry.dates) & frozenset(dates)
        for label, entry in ledger.periods.items()
        if entry.output in there
    }
    return {label: held for label, held in found.items() if held}
