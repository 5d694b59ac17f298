"""Rejected rows in the pass that writes the accepted ones: they travel in the table's own columns.

Reading files a second time to keep their rejected rows cost nearly as much as loading them. Instead a rejected row goes
to the day `NOWHERE`, whose rows lie in files of their own, and says in one text column where it came from, what it
broke and what it was. These files are read, and removed; no table ever names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from neve.engine.reading import is_whole
from neve.model.dataset import CORRUPT
from neve.model.ingest import INGEST_DATE, SOURCE_FILE, SOURCE_LINE, SourceFile
from neve.model.names import quote
from neve.model.types import Field, Primitive
from neve.plan.ingest import task_count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NOWHERE = date(1, 1, 1)
REJECTED, RAW = "_neve_rejected", "_neve_raw"
_RULES, _PARTS = "\x1e", "\x1f"
"""What stands between rules, and between what is said of a row; a line break ends it."""
_TEXT = Primitive("string")


def carrier_of(columns: Sequence[Field], files: Mapping[SourceFile, date], rules: Sequence[str]) -> str | None:
    """The column that rejected rows can travel in; None when the files have to be read again for them.

    A row's line is its place in its file, so each file must be read by one task.
    """
    words = "".join((*rules, *(file.path for file in files)))
    if not is_whole(files) or min(files.values()) <= NOWHERE or not {_RULES, _PARTS, "\n"}.isdisjoint(words):
        return None
    return next((column.name for column in columns if column.type == _TEXT), None)


def pack(judged: DataFrame, columns: Sequence[str], carrier: str, files: Mapping[SourceFile, date]) -> DataFrame:
    """All rows in the table's columns: accepted ones as they are, rejected ones as the value of one column.

    Each file is read by itself, and as many are written by one task as Spark would have read by one.
    """
    from pyspark.sql import functions as f

    accepted = f.col(REJECTED).isNull()
    packed = _packed()

    def held(name: str) -> Column:
        column = f.col(quote(name))
        return (f.when(accepted, column).otherwise(packed) if name == carrier else f.when(accepted, column)).alias(name)

    nowhere = f.lit(NOWHERE.isoformat()).cast("date")  # Java's own dates of that time are those of another calendar
    day = f.when(accepted, f.col(INGEST_DATE)).otherwise(nowhere).alias(INGEST_DATE)
    tasks = task_count(files, judged.sparkSession.sparkContext.defaultParallelism)
    return judged.select(*map(held, columns), day).coalesce(tasks)


def unpack(packed: DataFrame, carrier: str) -> DataFrame:
    """The rejected rows: the day and the file they came from, their line, the rules they broke, and their text.

    They are parted as bytes: Spark walks through all letters of a text to find one of them.
    """
    from pyspark.sql import functions as f

    whole = f.col(quote(carrier))
    head, held = f.substring_index(whole, "\n", 1), whole.cast("binary")
    raw = f.substring(held, f.octet_length(head) + 2, f.octet_length(whole)).cast("string")
    parted = packed.select(f.split(head, _PARTS).alias("head"), raw.alias("raw"))
    told = f.col("head")
    return parted.select(
        told[0].cast("date").alias("ingest_date"),
        told[1].alias("source_file"),
        told[2].cast("bigint").alias("source_line"),
        f.split(told[3], _RULES).alias("rules"),
        "raw",
    )


def by_rule(rules: Sequence[str], found: Column) -> list[Column]:
    """How many rows broke each rule, by its place: no column can have every name that a rule can."""
    from pyspark.sql import functions as f

    return [f.count_if(f.array_contains(found, rule)).alias(f"rule_{place}") for place, rule in enumerate(rules)]


def broken(rules: Sequence[str], counted: Mapping[str, int]) -> dict[str, int]:
    """Those that were broken, and how often."""
    return {rule: count for place, rule in enumerate(rules) if (count := counted[f"rule_{place}"])}


def raw_text() -> Column:
    """A rejected row as it was: the line, where it was none, else the row as JSON."""
    from pyspark.sql import functions as f

    return f.coalesce(CORRUPT, f.col(RAW).cast("string"))


def _packed() -> Column:
    """What is said of a row, in a line, and the raw text after it. Of a hundred thousand rows, JSON takes a second."""
    from pyspark.sql import functions as f

    rules = f.array_join(REJECTED, _RULES)
    line = f.col(SOURCE_LINE).cast("string")
    return f.concat(f.concat_ws(_PARTS, f.col(INGEST_DATE), SOURCE_FILE, line, rules), f.lit("\n"), raw_text())
