"""Many files into one each, on Spark: merged in their order, or sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from neve.engine.errors import translated
from neve.engine.ingest import sorted_by
from neve.engine.parquet_files import (
    FILE,
    bag_hashes,
    check_same,
    file_text,
    merge,
    read_files,
    scan,
    write_groups,
)
from neve.engine.parquet_tasks import GROUP, Sink, WrittenFile
from neve.model.layout import SortField
from neve.model.names import quote
from neve.plan.directories import Bin, Dataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def merge_bins(session: SparkSession, dataset: Dataset, bins: Sequence[Bin], sink: Sink) -> list[WrittenFile]:
    """One file per bin, in tasks that hold a row group at a time; rows keep the order of files and of rows in them."""
    told = dataset.told()
    jobs = [
        (str(number), [(f"{dataset.location}/{path}", told.get(path, {})) for path in item.files])
        for number, item in enumerate(bins)
    ]
    return merge(session, jobs, sink)


def sort_bins(
    session: SparkSession, dataset: Dataset, bins: Sequence[Bin], sink: Sink, order: Sequence[SortField]
) -> list[WrittenFile]:
    """One file per bin, its rows sorted."""
    with translated():
        rows = _numbered(session, dataset, bins).repartition(len(bins), GROUP)
        ordered = rows.sortWithinPartitions(GROUP, *map(sorted_by, order))
        return write_groups(ordered.select(*(quote(name) for name in dataset.names), GROUP), sink)


def verify_bins(session: SparkSession, dataset: Dataset, bins: Sequence[Bin], made: Mapping[int, str]) -> None:
    """Each new file holds the very rows of the files that it is made of, in whatever order.

    Raises:
        CheckFailed: it does not.
    """
    from pyspark.sql import functions as f

    with translated():
        rows = _numbered(session, dataset, bins)
        for key, numbers in _left_out(dataset, made).items():
            rows = rows.withColumn(key, f.when(~f.col(GROUP).isin(numbers), f.col(quote(key))))
        expected = bag_hashes(rows, dataset.names, f.col(GROUP))
        new = read_files(session, dataset.columns, made.values())
        places = {address.rpartition("/")[2]: str(number) for number, address in made.items()}
        file = f.element_at(f.split(f.col("_metadata.file_path"), "/"), -1)
        found = bag_hashes(new.withColumn(FILE, file), dataset.names, f.col(FILE))
        check_same(expected, {places[name]: bag for name, bag in found.items()}, what="compaction")


def _left_out(dataset: Dataset, made: Mapping[int, str]) -> dict[str, list[str]]:
    """Partition columns that new files lack as all their sources did, and the numbers of their bins."""
    import pyarrow.parquet as pq

    found: dict[str, list[str]] = {}
    for number, address in made.items() if dataset.lacking() else ():
        inside = pq.read_schema(address).names
        for key in dataset.keys:
            if key not in inside:
                found.setdefault(key, []).append(str(number))
    return found


def _numbered(session: SparkSession, dataset: Dataset, bins: Sequence[Bin]) -> DataFrame:
    """The rows of all bins with the number of their bin."""
    from pyspark.sql import functions as f

    members = {path: str(number) for number, item in enumerate(bins) for path in item.files}
    chosen = dataset.only(list(members))
    table = session.createDataFrame(
        [(file_text(session, dataset.location, path), number) for path, number in members.items()],
        f"{FILE} string, {GROUP} string",
    )
    return scan(session, chosen).join(f.broadcast(table), FILE)
