"""Rows of csv files in which nothing is quoted, cut at their delimiters by pyarrow: much less work than Spark's parser.

They are the rows that Spark's parser finds: empty values are NULL, lines of nothing but blanks are no rows, and a line
with too few or too many values is kept as it stands. Workers import this module, so it must stay light.
"""

from __future__ import annotations

import gzip
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LINE_BYTES = 4 * 1024 * 1024
"""Lines up to this length can be read."""
TEXT_BYTES = 64 * 1024 * 1024
"""A text up to this size is held in memory, unpacked, and once more as rows."""
_BLANK = "".join(map(chr, range(ord(" ") + 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainForm:
    """How the files are written: all have the same columns."""

    columns: int
    delimiter: str
    header: bool
    null_value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutWork:
    """What some tasks do: each cuts the files of one share, which are known by their numbers and have so many bytes.

    `names` are those of what `cut_rows` makes, and of the file's number. Who waits for it reads in `report` how far
    they are.
    """

    shares: Sequence[Sequence[tuple[int, str, int]]]
    form: PlainForm
    names: Sequence[str]
    report: str | None


def cut_shares(batches: Iterator[Any], work: CutWork) -> Iterator[Any]:
    """The rows of the shares that are asked for, with the number of their file.

    Raises:
        ValueError: a file is no longer what it was when it was found to be plain.
    """
    import pyarrow as pa

    for batch in batches:
        for share in batch.column(0).to_pylist():
            for number, path, size in work.shares[share]:
                content, rows = Path(path).read_bytes(), 0
                if len(content) != size:
                    raise ValueError(f"{path} was written to while it was loaded; load it again once it is whole")
                text = gzip.decompress(content) if path.lower().endswith(".gz") else content
                for arrays in cut_rows(text, work.form):
                    here = len(arrays[0])
                    rows += here
                    files = pa.repeat(pa.scalar(number, pa.int32()), here)
                    yield pa.RecordBatch.from_arrays([*arrays, files], work.names)
                _tell(work.report, len(content), rows)


def _tell(report: str | None, read: int, rows: int) -> None:
    """Nobody may be waiting for it any more."""
    if report is None:
        return
    with suppress(OSError):
        place = os.open(report, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(place, f"{read} {rows}\n".encode())
        finally:
            os.close(place)


def cut_rows(content: Any, form: PlainForm) -> Iterator[list[Any]]:
    """Arrays of text, one for each of a file's columns; then the text of lines that are no rows; then the rows' places.

    A place is the number of a row among those of the file, from 0 on, its header left out.
    """
    import pyarrow as pa

    lines = _Lines(form)
    for batch in _opened(content, form, lines):
        skipped = min(batch.num_rows, max(0, -lines.place))
        places = lines.places(batch.num_rows)
        broken = pa.nulls(batch.num_rows - skipped, pa.string())
        yield [*(column.slice(skipped) for column in batch.columns), broken, places.slice(skipped)]
    lines.places(0)
    if lines.broken:
        places, texts = zip(*lines.broken, strict=True)
        nulls = pa.nulls(len(texts), pa.string())
        yield [*[nulls] * form.columns, pa.array(texts, pa.string()), pa.array(places, pa.int64())]


def _opened(content: Any, form: PlainForm, lines: _Lines) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    names = [str(place) for place in range(form.columns)]
    kinds, nulls = dict.fromkeys(names, pa.string()), ["", *([form.null_value] if form.null_value else [])]
    return csv.open_csv(
        pa.BufferReader(content),
        csv.ReadOptions(use_threads=False, column_names=names, block_size=2 * LINE_BYTES),
        csv.ParseOptions(delimiter=form.delimiter, quote_char=False, invalid_row_handler=lines.add),
        csv.ConvertOptions(column_types=kinds, null_values=nulls, strings_can_be_null=True, check_utf8=False),
    )


class _Lines:
    """Where the rows stand among lines that are none, which pyarrow tells by number as it meets them."""

    def __init__(self, form: PlainForm) -> None:
        self.broken: list[tuple[int, str]] = []
        self._others: deque[tuple[int, str]] = deque()
        self._number = 1
        self.place = -1 if form.header else 0

    def add(self, row: Any) -> str:
        self._others.append((row.number, row.text))
        return "skip"

    def places(self, rows: int) -> Any:
        """Those of the next rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        runs = [pa.array([], pa.int64())]
        while rows or self._is_other():
            if self._is_other():
                self._pass_by(self._others.popleft()[1])
                continue
            run = min(rows, self._others[0][0] - self._number) if self._others else rows
            runs.append(pc.cumulative_sum(pa.repeat(1, run), start=self.place - 1))
            self._number, self.place, rows = self._number + run, self.place + run, rows - run
        return pa.concat_arrays(runs)

    def _is_other(self) -> bool:
        return bool(self._others) and self._others[0][0] == self._number

    def _pass_by(self, text: str) -> None:
        self._number += 1
        if text.strip(_BLANK):
            self.broken.append((self.place, text))
            self.place += 1
