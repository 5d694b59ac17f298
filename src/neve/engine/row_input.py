"""New rows from outside: frames of several libraries and files, in the types of the target, each key once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.engine.ingest import sorted_by
from neve.engine.parquet_files import spark_schema
from neve.engine.row_values import unchanged
from neve.errors import InvalidInput, InvalidSchema, JobFailed, Refused
from neve.files.footers import read_footers
from neve.model.layout import SortField
from neve.model.names import quote, shown
from neve.plan.directories import OWN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

ORDER = "_neve_order"
_BROADCAST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Input:
    """The rows to upsert, in the target's types, each key once.

    `bounds` hold each key's least, most and NULL count; `nulls` the columns that hold NULL.
    """

    frame: DataFrame
    rows: int
    bounds: tuple[tuple[Any, Any, int], ...]
    nulls: frozenset[str]


@contextmanager
def as_frame(session: SparkSession, data: Any) -> Iterator[tuple[DataFrame, bool]]:
    """A Spark, pandas, polars or pyarrow frame as a Spark one, and whether its rows have an order.

    A column of nothing but NULL has no type of its own, and takes that of the target.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f

    if isinstance(data, DataFrame):
        _check_names(data.columns)
        yield data, False
        return
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow.fs import LocalFileSystem

    try:
        table = _as_arrow(data)
        _check_names(table.column_names)
        numbered = table.append_column(ORDER, pa.array(range(table.num_rows), pa.int64()))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as exc:
        raise InvalidSchema(f"the new rows are no table: {str(exc).splitlines()[0]}") from exc
    untyped = [field.name for field in numbered.schema if pa.types.is_null(field.type)]
    with tempfile.TemporaryDirectory(prefix="neve-input-") as folder, translated():
        try:
            pq.write_table(numbered.drop_columns(untyped), f"{folder}/rows.parquet", coerce_timestamps="us")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
            raise InvalidSchema(f"the new rows cannot be written as Parquet: {exc}") from exc
        size = Path(folder, "rows.parquet").stat().st_size
        footer = read_footers(LocalFileSystem(), folder, {"rows.parquet": size}, ())[0]
        typed = session.read.schema(spark_schema(footer.columns)).parquet(f"{folder}/rows.parquet")
        yield typed.withColumns({name: f.lit(None) for name in untyped}) if untyped else typed, True


def _check_names(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.startswith(OWN):
            raise InvalidInput(f"the new rows have a column {name}, a name that Névé keeps for itself")
        if (key := name.casefold()) in seen:
            raise InvalidInput(f"the new rows have two columns {shown(seen[key])}", hint="rename one")
        seen[key] = name


def _as_arrow(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):  # polars, lazy or not
        data = data.lazy().collect()
    if hasattr(data, "to_arrow"):
        return data.to_arrow()
    if hasattr(data, "iloc") and hasattr(data, "dtypes"):  # pandas
        return pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _from_dicts(data)
    raise InvalidInput(
        f"cannot take rows from a {type(data).__name__}",
        hint="give a Spark, pandas, polars or pyarrow frame, or a list of dicts",
    )


def _from_dicts(rows: list[dict[str, Any]]) -> Any:
    """With the columns of all rows: pyarrow alone would take those of the first one."""
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def read_input_file(path: Path, *, as_text: bool) -> Any:
    """The rows of a Parquet, CSV or JSON lines file.

    `as_text` leaves the values of a CSV file as they are written, for the target to say what they are; an empty one is
    NULL. Else their types are guessed.
    """
    import pyarrow as pa

    try:
        match path.suffix.lower():
            case ".csv":
                return _read_csv(path, as_text=as_text)
            case ".json" | ".jsonl" | ".ndjson":
                return _read_json(path)
            case _:
                import pyarrow.parquet as pq

                return pq.read_table(path, partitioning=None)
    except (OSError, ValueError, pa.ArrowException) as exc:
        raise InvalidInput(f"cannot read {path}: {str(exc).splitlines()[0]}") from exc


def _read_csv(path: Path, *, as_text: bool) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    if not as_text:
        return csv.read_csv(path)
    with csv.open_csv(path) as opened:
        names = opened.schema.names
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return csv.read_csv(path, convert_options=options)


def _read_json(path: Path) -> Any:
    """Line by line, values as they stand: pyarrow's own reader takes texts for times."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise InvalidInput(f"{path}: line {number} is no JSON object", hint="write one object per line")
            rows.append(row)
    return rows


def prepare_input(
    frame: DataFrame,
    schema: StructType,
    keys: Sequence[str],
    *,
    ordered: bool,
    on_duplicate: str,
    order_by: Sequence[SortField],
) -> Input:
    """The new rows in the target's types; of rows with the same key the last one, or none at all.

    Raises:
        Refused: a key is there twice, and nothing says which row is meant.
        InvalidSchema: a value would not be the same in the target's type.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    known = {name.casefold(): name for name in schema.names}
    with translated():
        typed = []
        for name in (name for name in frame.columns if name != ORDER):
            target = known[name.casefold()]
            typed.append(unchanged(frame, name, schema[target].dataType, target=target).alias(target))
        order = f.col(ORDER) if ordered else f.monotonically_increasing_id()
        rows = frame.select(*typed, order.alias(ORDER))
        window = Window.partitionBy(*(quote(key) for key in keys))
        if on_duplicate == "last":
            if not ordered and not order_by:
                raise InvalidInput("rows of a Spark frame have no order", hint="say which is the last: order_by=[…]")
            later = [*(sorted_by(item) for item in order_by), f.col(ORDER).asc()]
            place, count = f.row_number().over(window.orderBy(*later)), f.count(f.lit(1)).over(window)
            rows = rows.withColumns({"_neve_place": place, "_neve_count": count})
            rows = rows.where("_neve_place = _neve_count").drop("_neve_place", "_neve_count")
    try:
        with translated():
            return _measured(rows if ordered else rows.localCheckpoint(), keys)
    except JobFailed as exc:
        if "would not hold this value" not in exc.message:
            raise
        raise InvalidSchema(exc.message.removeprefix("Spark: "), hint="round or cast it first") from exc


def _measured(rows: DataFrame, keys: Sequence[str]) -> Input:
    """One job: how many rows and keys there are, the keys' bounds, and which columns hold NULL."""
    from pyspark.sql import functions as f

    names = [name for name in rows.columns if name != ORDER]
    counted = rows.groupBy(*(quote(key) for key in keys)).agg(
        f.count(f.lit(1)).alias("_neve_count"),
        *(f.count_if(f.col(quote(name)).isNull()).alias(f"_neve_nulls_{i}") for i, name in enumerate(names)),
    )
    bounds = [
        figure for key in map(quote, keys) for figure in (f.min(key), f.max(key), f.count_if(f.col(key).isNull()))
    ]
    nulls = [f.sum(f"_neve_nulls_{i}") for i in range(len(names))]
    total, most, *found = counted.agg(f.sum("_neve_count"), f.max("_neve_count"), *nulls, *bounds).collect()[0]
    if most is not None and most > 1:
        twice = counted.where("_neve_count > 1").limit(1).collect()[0]
        values = ", ".join(f"{shown(key)} = {twice[key]!r}" for key in keys)
        raise Refused(
            f"the new rows hold a key {twice['_neve_count']} times: {values}",
            hint='give each key once, or take the last row of each: on_duplicate="last"',
        )
    empty = frozenset(name for name, count in zip(names, found, strict=False) if count)
    found = found[len(names) :]
    return Input(rows, total or 0, tuple(zip(found[::3], found[1::3], found[2::3], strict=True)), empty)


def broadcast_if_small(given: Input) -> DataFrame:
    from pyspark.sql import functions as f

    return f.broadcast(given.frame) if given.rows <= _BROADCAST_ROWS else given.frame


def same_key(one: Sequence[str], other: Sequence[str]) -> Column:
    """Whether columns of two frames agree; NULL equals NULL."""
    from pyspark.sql import functions as f

    pairs = zip(one, other, strict=True)
    return reduce(lambda left, right: left & right, (f.col(quote(a)).eqNullSafe(f.col(quote(b))) for a, b in pairs))


def _between(column: Column, least: Any, most: Any) -> Column:
    """Times are given a day more: on their way through Python, the hour that a clock repeats in autumn is not exact."""
    from pyspark.sql import functions as f

    if isinstance(least, datetime):
        try:
            least, most = least - timedelta(days=1), most + timedelta(days=1)
        except OverflowError:
            return f.lit(True)
    return column.between(f.lit(least), f.lit(most))


def inside(given: Input, keys: Sequence[str]) -> Column:
    """Bounds of the keys, by which Spark passes over row groups and files."""
    from pyspark.sql import functions as f

    found = f.lit(True)
    for key, (least, most, nulls) in zip(keys, given.bounds, strict=True):
        column = f.col(quote(key))
        between = f.lit(False) if least is None else _between(column, least, most)
        found = found & (between | column.isNull() if nulls else between)
    return found
