"""New rows against the rows of a folder, by key: which ones are there already, and which are new. NULL equals NULL."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.engine.directories import ByPosition, add_up, assigned, given_name
from neve.engine.errors import translated
from neve.engine.ingest import sorted_by
from neve.engine.parquet_files import FILE, POSITION, group_column, relative_path, scan, spark_schema
from neve.errors import InvalidInput, InvalidSchema, Refused
from neve.files.footers import read_footers
from neve.model.directories import Outline
from neve.model.layout import SortField
from neve.model.names import quote, shown
from neve.plan.directories import Dataset, Group

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ORDER, _DROP = "_neve_order", "_neve_drop"
_BROADCAST_ROWS = 1_000_000
_MANY_GROUPS = 10_000


@dataclass(frozen=True, slots=True)
class Input:
    """The rows to upsert, in the table's types, each key once; `bounds` hold each key's least, most and NULL count."""

    frame: DataFrame
    rows: int
    bounds: tuple[tuple[Any, Any, int], ...]


@contextmanager
def as_frame(session: SparkSession, data: Any) -> Iterator[tuple[DataFrame, bool]]:
    """A Spark, pandas, polars or pyarrow frame as a Spark one, and whether its rows have an order."""
    from pyspark.sql import DataFrame

    if isinstance(data, DataFrame):
        yield data, False
        return
    import pyarrow.parquet as pq
    from pyarrow.fs import LocalFileSystem

    table = _as_arrow(data)
    with tempfile.TemporaryDirectory(prefix="neve-input-") as folder, translated():
        import pyarrow as pa

        numbered = table.append_column(_ORDER, pa.array(range(table.num_rows), pa.int64()))
        try:
            pq.write_table(numbered, f"{folder}/rows.parquet", coerce_timestamps="us")
        except pa.ArrowInvalid as exc:
            raise InvalidSchema(f"the new rows cannot be written as Parquet: {exc}") from exc
        size = Path(folder, "rows.parquet").stat().st_size
        footer = read_footers(LocalFileSystem(), folder, {"rows.parquet": size}, ())[0]
        yield session.read.schema(spark_schema(footer.columns)).parquet(f"{folder}/rows.parquet"), True


def _as_arrow(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "to_arrow"):  # polars
        return data.to_arrow()
    if hasattr(data, "iloc") and hasattr(data, "dtypes"):  # pandas
        return pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return pa.Table.from_pylist(data)
    raise InvalidInput(
        f"cannot take rows from a {type(data).__name__}",
        hint="give a Spark, pandas, polars or pyarrow frame, or a list of dicts",
    )


def read_input_file(path: Path) -> Any:
    """The rows of a Parquet, CSV or JSON lines file."""
    import pyarrow as pa

    try:
        match path.suffix.lower():
            case ".csv":
                from pyarrow import csv

                return csv.read_csv(path)
            case ".json" | ".jsonl" | ".ndjson":
                from pyarrow import json

                return json.read_json(path)
            case _:
                import pyarrow.parquet as pq

                return pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowInvalid) as exc:
        raise InvalidInput(f"cannot read {path}: {str(exc).splitlines()[0]}") from exc


def prepare_input(
    session: SparkSession,
    frame: DataFrame,
    dataset: Dataset,
    keys: Sequence[str],
    *,
    ordered: bool,
    on_duplicate: str,
    order_by: Sequence[SortField],
) -> Input:
    """The new rows in the table's types; of rows with the same key the last one, or none at all.

    Raises:
        Refused: a key is there twice, and nothing says which row is meant.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    with translated():
        like = session.createDataFrame([], spark_schema(dataset.columns))
        names = tuple(name for name in frame.columns if name != _ORDER)
        known = {name.casefold(): name for name in dataset.names}
        typed = [
            assigned(frame, f.col(quote(name)), known[name.casefold()], like=like).alias(known[name.casefold()])
            for name in names
        ]
        order = f.col(_ORDER) if ordered else f.monotonically_increasing_id()
        rows = frame.select(*typed, order.alias(_ORDER))
        window = Window.partitionBy(*(quote(key) for key in keys))
        if on_duplicate == "last":
            if not ordered and not order_by:
                raise InvalidInput("rows of a Spark frame have no order", hint="say which is the last: order_by=[…]")
            later = [*(sorted_by(item) for item in order_by), f.col(_ORDER).asc()]
            place, count = f.row_number().over(window.orderBy(*later)), f.count(f.lit(1)).over(window)
            rows = rows.withColumns({"_neve_place": place, "_neve_count": count})
            rows = rows.where("_neve_place = _neve_count").drop("_neve_place", "_neve_count")
        if not ordered:
            rows = rows.localCheckpoint()
        return _measured(rows, keys)


def _measured(rows: DataFrame, keys: Sequence[str]) -> Input:
    """One job: how many rows and keys there are, and the keys' bounds."""
    from pyspark.sql import functions as f

    counted = rows.groupBy(*(quote(key) for key in keys)).agg(f.count(f.lit(1)).alias("_neve_count"))
    bounds = [
        figure for key in map(quote, keys) for figure in (f.min(key), f.max(key), f.count_if(f.col(key).isNull()))
    ]
    total, most, *found = counted.agg(f.sum("_neve_count"), f.max("_neve_count"), *bounds).collect()[0]
    if most is not None and most > 1:
        twice = counted.where("_neve_count > 1").limit(1).collect()[0]
        values = ", ".join(f"{shown(key)} = {twice[key]!r}" for key in keys)
        raise Refused(
            f"the new rows hold a key {twice['_neve_count']} times: {values}",
            hint='give each key once, or take the last row of each: on_duplicate="last"',
        )
    return Input(rows, total or 0, tuple(zip(found[::3], found[1::3], found[2::3], strict=True)))


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
        old = scan(session, dataset).where(_inside(given, keys))
        old = old.select(*(f.col(quote(key)).alias(f"_neve_key_{i}") for i, key in enumerate(keys)), FILE, POSITION)
        new = f.broadcast(given.frame) if given.rows <= _BROADCAST_ROWS else given.frame
        same = reduce(
            lambda left, right: left & right,
            (f.col(f"_neve_key_{i}").eqNullSafe(f.col(quote(key))) for i, key in enumerate(keys)),
        )
        surplus = f.row_number().over(Window.partitionBy(_ORDER).orderBy(FILE, POSITION)) > 1
        values = [f.col(quote(name)).alias(given_name(dataset.names.index(name))) for name in update]
        matches = old.join(new, same).select(FILE, POSITION, _ORDER, surplus.alias(_DROP), *values)
        matches = matches.localCheckpoint(eager=False)
        outline = _outline(matches, dataset, update)
        inserts = given.frame.join(matches.select(_ORDER).distinct(), _ORDER, "left_anti")
        count = sum(file.dropped + file.changed + file.moved for file in outline.files.values())
        return Matched(ByPosition(matches.drop(_ORDER), count, tuple(update)), outline, inserts)


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


def _inside(given: Input, keys: Sequence[str]) -> Column:
    """Bounds of the keys, by which Spark passes over row groups."""
    from pyspark.sql import functions as f

    inside = f.lit(True)
    for key, (least, most, nulls) in zip(keys, given.bounds, strict=True):
        column = f.col(quote(key))
        between = f.lit(False) if least is None else column.between(f.lit(least), f.lit(most))
        inside = inside & (between | column.isNull() if nulls else between)
    return inside
