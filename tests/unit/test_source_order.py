"""The order in which landing files are read: by month, so that a task writes few of a table's partitions."""

from __future__ import annotations

import random
from datetime import date, timedelta

from neve.model.ingest import SourceFile
from neve.plan.ingest import by_month


def files(days: int) -> dict[SourceFile, date]:
    dice = random.Random(days)
    found = [(SourceFile(path=str(day), format="csv", bytes=1, digest=""), day) for day in range(days)]
    dice.shuffle(found)
    return {file: date(2020, 1, 15) + timedelta(days=day) for file, day in found}


def test_files_of_a_month_are_read_together_in_order() -> None:
    dates = files(60)
    parts = by_month(dates, dates)
    assert [{(dates[file].year, dates[file].month) for file in part} for part in parts] == [
        {(2020, 1)},
        {(2020, 2)},
        {(2020, 3)},
    ]
    assert [file for part in parts for file in part] == sorted(dates, key=lambda file: dates[file])


def test_of_many_years_several_months_are_read_together() -> None:
    for days in (1, 700, 731, 3000):
        dates = files(days)
        parts = by_month(dates, dates)
        assert len(parts) <= 24
        assert [file for part in parts for file in part] == sorted(dates, key=lambda file: dates[file])
