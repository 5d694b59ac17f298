"""Rows from Python into a table: as a frame of the table's own types, and as one commit."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.errors import StalePlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_PER_FILE = 100_000


def frame_of(
    session: SparkSession, table: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None
) -> DataFrame:
    """Rows with a value for each of the table's columns, or of some, in few parts: each part becomes a file."""
    from pyspark.sql.types import StructType

    with translated():
        schema = session.table(table).schema
        if gone := [name for name in columns or () if name not in schema.names]:
            raise StalePlan(f"{table} was altered meanwhile: it has no {gone[0]}", hint="send the records again")
        chosen = StructType([field for field in schema.fields if columns is None or field.name in columns])
        values = [tuple(row.get(name) for name in chosen.names) for row in rows]
        frame = session.createDataFrame(values, chosen, verifySchema=False)
        return frame.coalesce(max(1, len(values) // _ROWS_PER_FILE))


@contextmanager
def asked_of(frame: DataFrame, select: Callable[[str], str]) -> Iterator[DataFrame]:
    """What a statement over a frame gives, to be read within; `select` makes it for the name that the frame gets."""
    name = f"neve_{uuid.uuid4().hex}"
    with translated():
        frame.createTempView(name)
    try:
        with translated():
            found = frame.sparkSession.sql(select(name))
        yield found
    finally:
        frame.sparkSession.catalog.dropTempView(name)


def append(frame: DataFrame, table: str, *, summary: Mapping[str, str], overwrite: bool = False) -> None:
    """One commit; with `overwrite`, the rows that were there go in the same one."""
    from pyspark.sql import functions as f

    with translated():
        writer = frame.writeTo(table)
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        if overwrite:
            writer.overwrite(f.lit(True))
        else:
            writer.append()
