"""New rows against the rows of a folder, by key: which ones are there already, and which are new. NULL equals NULL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.engine.directories import ByPosition, add_up, given_name
from neve.engine.errors import translated
from neve.engine.parquet_files import FILE, POSITION, group_column, relative_path, scan, spark_schema
from neve.engine.row_input import ORDER, Input, broadcast_if_small, inside, same_key
from neve.model.directories import Outline
from neve.model.names import quote
from neve.plan.directories import Dataset, Group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DROP = "_neve_drop"
_MANY_GROUPS = 10_000


def relevant_groups(given: Input, dataset: Dataset, keys: Sequence[str]) -> set[Group] | None:
    """The partitions that can hold the keys, as far as keys name them; None when that says nothing.

    Places of partition columns that are no part of the key are not looked at, and hold None.
    """
    from pyspark.sql import functions as f

    named = [key for key in dataset.keys if key in keys]
    if not named:
        return None
    with translated():
        columns = [f.col(quote(key)) if key in named else f.lit(None) for key in dataset.keys]
        found = given.frame.select(group_column(columns).alias("g")).distinct().limit(_MANY_GROUPS + 1).collect()
    return None if len(found) > _MANY_GROUPS else {tuple(row.g) for row in found}


@dataclass(frozen=True, slots=True)
class Matched:
    """The rows of a folder that have a key of the input, and the input rows that have none there."""

    work: ByPosition
    outline: Outline
    inserts: DataFrame


def match_rows(
    session: SparkSession, given: Input, dataset: Dataset, keys: Sequence[str], update: Sequence[str]
) -> Matched:
    """Of several rows with one key the first by file name and place is updated, and the others go."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    with translated():
        old = scan(session, dataset).where(inside(given, keys))
        old = old.select(*(f.col(quote(key)).alias(f"_neve_key_{i}") for i, key in enumerate(keys)), FILE, POSITION)
        same = same_key([f"_neve_key_{i}" for i in range(len(keys))], keys)
        surplus = f.row_number().over(Window.partitionBy(ORDER).orderBy(FILE, POSITION)) > 1
        values = [f.col(quote(name)).alias(given_name(dataset.names.index(name))) for name in update]
        matches = old.join(broadcast_if_small(given), same).select(FILE, POSITION, ORDER, surplus.alias(_DROP), *values)
        matches = matches.localCheckpoint(eager=False)
        inserts = given.frame.join(matches.select(ORDER).distinct(), ORDER, "left_anti")
        if not update:  # only keys are given: known rows stay as they are
            matches = matches.where(_DROP)
        outline = _outline(matches, dataset, update)
        count = sum(file.dropped + file.changed + file.moved for file in outline.files.values())
        return Matched(ByPosition(matches.drop(ORDER), count, tuple(update)), outline, inserts)


def _outline(matches: DataFrame, dataset: Dataset, update: Sequence[str]) -> Outline:
    """What becomes of the matched rows, from the matches alone: old partition values are those of the folder."""
    from pyspark.sql import functions as f

    values = [f.col(given_name(dataset.names.index(key))) if key in update else f.lit(None) for key in dataset.keys]
    found = matches.groupBy(FILE, _DROP, group_column(values).alias("g")).agg(f.count(f.lit(1)).alias("n")).collect()
    parts = []
    for row in found:
        path = relative_path(row[FILE])
        home = dataset.groups[path]
        target = tuple(new if key in update else old for key, new, old in zip(dataset.keys, row.g, home, strict=True))
        parts.append((path, None if row[_DROP] or target == home else target, row.n if row[_DROP] else 0, row.n))
    return add_up((path, target, dropped, 0 if dropped else rows) for path, target, dropped, rows in parts)


def inserted_rows(inserts: DataFrame, dataset: Dataset) -> DataFrame:
    """New rows with all columns of the table; those that were not given are NULL."""
    from pyspark.sql import functions as f

    schema = spark_schema(dataset.columns)
    given = set(inserts.columns)
    return inserts.select(
        *(
            (f.col(quote(name)) if name in given else f.lit(None).cast(schema[name].dataType)).alias(name)
            for name in dataset.names
        )
    )


def count_groups(inserts: DataFrame, dataset: Dataset) -> dict[Group, int]:
    """How many new rows each partition gets."""
    from pyspark.sql import functions as f

    with translated():
        group = group_column([f.col(quote(key)) for key in dataset.keys])
        return {tuple(row[0]): row[1] for row in inserts.groupBy(group.alias("g")).agg(f.count(f.lit(1))).collect()}
