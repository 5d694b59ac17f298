"""Parquet files of a folder on Spark: read as one table, and written by workers into files that nobody sees yet."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from neve.engine.arrow import map_arrow
from neve.engine.errors import translated
from neve.engine.parquet_tasks import GROUP, HASH, REPORT, Sink, Told, WrittenFile, merge_files, write_batches
from neve.engine.reading import exactly
from neve.engine.session import fresh_session
from neve.errors import CheckFailed, Unsupported
from neve.model.names import CATALOG, quote
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct, Type
from neve.plan.directories import Dataset

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

FILE, POSITION, HOME = "_neve_file", "_neve_position", "_neve_home"
_SPLIT = 128 * 1024 * 1024
_MAX_TASKS = 200


def work_session(spark: SparkSession, dataset: Dataset | None = None) -> SparkSession:
    """A session for one piece of work, in which no file is read by two tasks: its rows come in order, from one."""
    ours = spark.conf.get(f"spark.sql.catalog.{CATALOG}", None) is not None
    session = fresh_session(spark) if ours else spark.newSession()
    largest = max((footer.bytes for footer in dataset.footers), default=1) if dataset else 1
    settings = {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.files.maxPartitionBytes": str(max(largest, _SPLIT)),
        "spark.sql.files.openCostInBytes": str(largest),
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    }
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


def scan(session: SparkSession, dataset: Dataset, *, home: bool = False) -> DataFrame:
    """All rows, with the file and the place that each comes from; `home` adds its folder's partition values.

    Partition columns come from inside the files; where a file lacks them, from its folder.
    """
    from pyspark.sql import functions as f

    with translated():
        if not dataset.footers:
            empty = session.createDataFrame([], spark_schema(dataset.columns))
            return empty.withColumns({FILE: f.lit(""), POSITION: f.lit(0), HOME: f.lit(None).cast("array<string>")})
        paths = [f"{dataset.location}/{footer.path}" for footer in dataset.footers]
        rows = read_files(session, dataset.columns, paths)
        root = _url(session, dataset.location)
        rows = rows.withColumns(
            {FILE: f.expr(f"substring(_metadata.file_path, {len(root) + 2})"), POSITION: f.col("_metadata.row_index")}
        )
        return _with_folders(session, rows, dataset, home=home)


def read_files(session: SparkSession, columns: Sequence[Field], paths: Collection[str]) -> DataFrame:
    """These files and no others."""
    return session.read.schema(spark_schema(columns)).parquet(*exactly(paths))


def _with_folders(session: SparkSession, rows: DataFrame, dataset: Dataset, *, home: bool) -> DataFrame:
    from pyspark.sql import functions as f

    lacking = dataset.lacking()
    if not lacking and not home:
        return rows
    places = [
        (file_text(session, dataset.location, path), list(group), list(lacking.get(path, ())))
        for path, group in dataset.groups.items()
    ]
    table = session.createDataFrame(places, f"{FILE} string, {HOME} array<string>, _neve_lacking array<string>")
    joined = rows.join(f.broadcast(table), FILE)
    for place, key in enumerate(dataset.keys):
        if any(key in keys for keys in lacking.values()):
            own = f.col(HOME)[place].cast(str(Primitive(dataset.types[key])))
            joined = joined.withColumn(
                key, f.when(f.array_contains("_neve_lacking", key), own).otherwise(f.col(quote(key)))
            )
    order = [quote(name) for name in dataset.names]
    return joined.select(*order, FILE, POSITION, HOME)


def relative_path(file: str) -> str:
    """A file as the folder knows it, from the way that Spark writes it."""
    return unquote(file)


def group_column(columns: Sequence[Column]) -> Column:
    """Partition values as the folders have them: text, and NULL for the empty string."""
    from pyspark.sql import functions as f

    if not columns:
        return f.array().cast("array<string>")
    return f.array(*(f.nullif(column.cast("string"), f.lit("")) for column in columns))


def write_groups(frame: DataFrame, sink: Sink) -> list[WrittenFile]:
    """Writes rows that lie together by their group (`_neve_group`, text) into files; what was written."""
    with translated():
        return _reports(_map_arrow(frame, partial(write_batches, sink=sink)))


def merge(
    session: SparkSession, jobs: Sequence[tuple[str, Sequence[tuple[str, Told]]]], sink: Sink
) -> list[WrittenFile]:
    """Each list of files becomes one, read and written by pyarrow in a task of its own; rows keep their order.

    With each file comes what its folder tells of the columns that it lacks.
    """
    with translated():
        texts = [(json.dumps({"group": group, "files": list(files)}),) for group, files in jobs]
        frame = session.createDataFrame(texts, "job string").repartition(min(len(jobs), _MAX_TASKS))
        return _reports(_map_arrow(frame, partial(merge_files, sink=sink)))


def _reports(frame: DataFrame) -> list[WrittenFile]:
    rows = [
        WrittenFile(address=row[0], group=row[1], rows=row[2], bytes=row[3], digest=row[4]) for row in frame.collect()
    ]
    return sorted(rows, key=lambda written: (written.group, written.address))


def _map_arrow(frame: DataFrame, function: Callable[[Iterator[Any]], Iterator[Any]]) -> DataFrame:
    from pyspark.sql.types import StructType

    return map_arrow(frame, function, StructType.fromDDL(REPORT))


# ------------------------------------------------------------------------------------------------------ content hashes


def with_hash(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Adds a hash of each row over these columns, for a sum that does not depend on any order."""
    return frame.withColumn(HASH, _row_hash(frame, names))


def staged_rows(session: SparkSession, files: Sequence[WrittenFile], columns: Sequence[Field]) -> DataFrame:
    """The rows of files that wait to be published."""
    return read_files(session, columns, [file.address for file in files])


def bag_hashes(frame: DataFrame, names: Sequence[str], by: Column) -> dict[str, tuple[int, int]]:
    """Count and content hash of the rows of each group."""
    from pyspark.sql import functions as f

    with translated():
        hashed = frame.select(by.alias(GROUP), _row_hash(frame, names).cast("decimal(38,0)").alias(HASH))
        sums = hashed.groupBy(GROUP).agg(f.count(f.lit(1)), f.sum(HASH)).collect()
        return {row[0]: (row[1], wrap(int(row[2]))) for row in sums}


def _row_hash(frame: DataFrame, names: Sequence[str]) -> Column:
    """Columns in the order of their names; maps as sorted entries, because Spark hashes no maps."""
    from pyspark.sql import functions as f

    parts = [_hashable(f.col(quote(name)), frame.schema[name].dataType) for name in sorted(names)]
    nulls = [f.col(quote(name)).isNull() for name in sorted(names)]  # xxhash64 passes over NULL
    return f.xxhash64(*parts, *nulls)


def _hashable(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import MapType

    if isinstance(kind, MapType):
        return f.to_json(f.array_sort(f.map_entries(column)))
    return f.to_json(column) if "map<" in kind.simpleString() else column


def wrap(total: int) -> int:
    """A sum of signed 64-bit numbers as a worker adds them up."""
    wrapped = total & ((1 << 64) - 1)
    return wrapped - (1 << 64) if wrapped >= 1 << 63 else wrapped


def check_same(expected: dict[str, tuple[int, int]], found: dict[str, tuple[int, int]], *, what: str) -> None:
    """Refuses what was written when it is not what was read, group by group."""
    for group in expected.keys() | found.keys():
        if expected.get(group, (0, 0)) != found.get(group, (0, 0)):
            raise CheckFailed(
                f"{what}: {group} holds {found.get(group, (0, 0))[0]:,} rows where "
                f"{expected.get(group, (0, 0))[0]:,} were expected, or other content",
                hint="nothing was changed",
            )


# --------------------------------------------------------------------------------------------------------------- types


def spark_schema(columns: Sequence[Field]) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(column.name, _spark_type(column.type)) for column in columns])


_UNREADABLE = ("uuid", "time", "timestamp_ns", "timestamptz_ns")


def _spark_type(kind: Type) -> DataType:
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType

    match kind:
        case Struct(fields):
            return spark_schema(fields)
        case ListOf(element):
            return ArrayType(_spark_type(element))
        case MapOf(key, value):
            return MapType(_spark_type(key), _spark_type(value))
        case Primitive(name) if name in _UNREADABLE:
            raise Unsupported(f"Spark cannot read plain Parquet columns of type {kind}")
        case Primitive(name) if name == "binary" or name.startswith("fixed"):
            return BinaryType()
        case Primitive("string"):
            return StringType()
        case Primitive():
            return _parsed(str(kind))


def _parsed(words: str) -> DataType:
    from pyspark.sql.types import DataType

    return DataType.fromDDL(words)


def _url(session: SparkSession, path: str) -> str:
    """A path as Spark writes it into `_metadata.file_path`."""
    jvm: Any = session._jvm
    url: str = jvm.org.apache.spark.paths.SparkPath.fromPath(jvm.org.apache.hadoop.fs.Path(path)).urlEncoded()
    return url if ":" in url.split("/", 1)[0] else f"file:{url}"


def file_text(session: SparkSession, location: str, path: str) -> str:
    """A file of a folder as `_neve_file` has it."""
    return _url(session, f"{location}/{path}")[len(_url(session, location)) + 1 :]
