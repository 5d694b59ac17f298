"""What `lake.table("sales")` can do when its rows lie in key ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from neve.model.names import TableName
from neve.model.range_rows import RangeFiles, RangeRead, RangeRow, SplitReceipt
from neve.model.ranges import ExportedRange
from neve.services.context import Context
from neve.services.ranges import looking, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from neve.plan.ranges import Keys


class KeyRanges:
    """The part of a table that knows its row keys; each method refuses a table that has none."""

    def __init__(self, context: Context, name: TableName) -> None:
        self._context = context
        self.name = name

    def has_ranges(self) -> bool:
        """Whether this is a key-range table."""
        return looking.has_ranges(self._context, self.name)

    def ranges(self) -> list[RangeRow]:
        """Every range with its files and rows, a range before those that came of it."""
        return looking.table_ranges(self._context, self.name)

    def range_files(self) -> RangeFiles:
        """How many files the ranges have."""
        return looking.range_files(self._context, self.name)

    def get(self, *keys: reading.Values) -> DataFrame:
        """The rows of these keys, in key order; a key is a value, or a list of them for several row keys."""
        asked = reading.Asked(exact=keys)
        return reading.read_keys(self._context, self.name, lambda _: asked)

    def range(
        self, low: reading.Values = None, high: reading.Values = None, *, with_low: bool = True, with_high: bool = False
    ) -> DataFrame:
        """The rows from `low` to `high`, in key order; None has no end. Of several row keys, each has its bounds."""
        asked = reading.Asked(between=[(low, high)], with_low=with_low, with_high=with_high)
        return reading.read_keys(self._context, self.name, lambda _: asked)

    def read(self, asked: Callable[[Keys], reading.Asked]) -> DataFrame:
        """Several keys and ranges at once, each row that is in one of them once."""
        return reading.read_keys(self._context, self.name, asked)

    def explain_read(self, asked: Callable[[Keys], reading.Asked]) -> RangeRead:
        """The ranges and files that such a read opens."""
        return reading.explain_read(self._context, self.name, asked)

    def split(self, range_id: int | None = None, *, at: str | None = None, dry_run: bool = False) -> SplitReceipt:
        """Divides the ranges that are full, or one that is named: at the median, or at a value of the first row key."""
        from neve.services.ranges.splitting import split_table

        return split_table(self._context, self.name, range_id=range_id, at=at, dry_run=dry_run)

    def export_splits(self, *, base64: bool = False) -> str:
        """The split points as the text of a split file."""
        return looking.export_split_points(self._context, self.name, encoded=base64)

    def export_partitions(self) -> list[ExportedRange]:
        """Every range, ids and all, as `reinitialise` reads it back."""
        return looking.export_ranges(self._context, self.name)
