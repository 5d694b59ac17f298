"""A folder's rows under other partition keys, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from neve.engine.directories import group_of, partition_group, write_partitions
from neve.engine.errors import translated
from neve.engine.parquet_files import bag_hashes, check_same, scan, staged_rows, with_hash, wrap
from neve.engine.parquet_tasks import Sink, WrittenFile
from neve.errors import CheckFailed, InvalidInput, InvalidSchema
from neve.model.layout import SortField
from neve.model.names import quote
from neve.model.types import Field
from neve.plan.directories import OWN, Dataset, Group, open_groups
from neve.plan.rows import find_names
from neve.sql.columns import parse_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Transform = Callable[["DataFrame"], "DataFrame"]


def transformed_rows(session: SparkSession, dataset: Dataset, transform: Transform | None) -> DataFrame:
    """The rows as they are to be written."""
    from pyspark.sql import DataFrame

    with translated():
        rows = scan(session, dataset).select(*(quote(name) for name in dataset.names))
        if transform is None:
            return rows
        new: Any = transform(rows)
        if not isinstance(new, DataFrame):
            raise InvalidInput(f"transform_fn gave back a {type(new).__name__}, not a Spark DataFrame")
        for name in new.columns:
            if name.startswith(OWN):
                raise InvalidSchema(f"transform_fn makes a column {name}, a name that Névé keeps for itself")
        return new


def target_dataset(rows: DataFrame, location: str, keys: Sequence[str]) -> Dataset:
    """The table that the rows will be.

    Raises:
        ColumnNotFound: a partition column is neither in the rows nor made by the transform.
    """
    columns = tuple(Field(field.name, parse_type(field.dataType.simpleString())) for field in rows.schema.fields)
    found = find_names([column.name for column in columns], keys, where="the rows", what="the partitioning")
    dataset = Dataset(location, (), columns, found)
    _ = dataset.types  # refuses keys whose values no folder can name
    return dataset


def count_partitions(rows: DataFrame, keys: Sequence[str]) -> dict[Group, int]:
    """How many rows each new partition gets; one job."""
    from pyspark.sql import functions as f

    with translated():
        grouped = rows.groupBy(partition_group(keys).alias("g")).agg(f.count(f.lit(1)).alias("n"))
        return {group_of(row.g): row.n for row in grouped.collect()}


def write_rows(
    session: SparkSession,
    rows: DataFrame,
    dataset: Dataset,
    sink: Sink,
    sort_by: Sequence[SortField],
    *,
    source_bytes: int,
    validate: bool,
) -> list[WrittenFile]:
    """Writes the rows into staged files of their partitions; with `validate`, reads them back and compares.

    Raises:
        CheckFailed: a partition does not hold what was written to it.
    """
    hashed = with_hash(rows, dataset.names) if validate else rows
    if dataset.keys and not sort_by:
        tasks = session.sparkContext.defaultParallelism
        groups = len(count_partitions(rows, dataset.keys))
        sink = replace(sink, open_groups=open_groups(groups, tasks=tasks, bytes=source_bytes))
    files = write_partitions(hashed, dataset, sink, sort_by=sort_by, spread=True)
    if validate and files:
        expected: dict[str, tuple[int, int]] = {}
        for file in files:
            count, digest = expected.get(file.group, (0, 0))
            expected[file.group] = (count + file.rows, wrap(digest + file.digest))
        found = bag_hashes(staged_rows(session, files, dataset.columns), dataset.names, partition_group(dataset.keys))
        check_same(expected, found, what="repartition")
    return files


def check_count(source: Dataset, files: Sequence[WrittenFile]) -> None:
    """A transform must not lose or double rows, unless that is what is wanted."""
    written = sum(file.rows for file in files)
    if written != source.rows:
        raise CheckFailed(
            f"row count mismatch after repartition: {source.rows:,} rows came in, {written:,} went out",
            hint="look at transform_fn; validate=False accepts one that filters or adds rows",
        )
