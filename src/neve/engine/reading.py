"""Landing files as one frame of raw rows: any mix of formats and headers, every row with its file and its date."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Any

from neve.engine.plain_csv import cut_files, files_to_cut
from neve.errors import InvalidName, InvalidSchema
from neve.model.dataset import CORRUPT, SourceFormat, is_own_name
from neve.model.encodings import java_name
from neve.model.ingest import INGEST_DATE, SOURCE_FILE, SOURCE_LINE, SourceFile
from neve.model.names import quote
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct, Type, spelled
from neve.plan.ingest import by_month
from neve.sql.columns import parse_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

SPLIT_BYTES = 128 * 1024 * 1024
"""Spark's spark.sql.files.maxPartitionBytes: a file from this size on may be read by several tasks."""
_ROW, _BLOCK, _URL = "_neve_row", "_neve_block", "_neve_url"
_PLACE_IN_TASK = (1 << 33) - 1
_WILD = re.compile(r"[][{}*?\\]")
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9_./=,@+~-]*")


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The columns of some files, all together: with the types of those that are nested, and of those of typed files."""

    present: Mapping[str, Type | None]
    typed: Mapping[str, Primitive]


def source_columns(spark: SparkSession, files: Collection[SourceFile], source: SourceFormat) -> SourceColumns:
    found: dict[str, Type | None] = {}
    typed: dict[str, set[Primitive | None]] = defaultdict(set)
    for members in groups(files, source).values():
        if members[0].header is not None:
            columns: dict[str, Type | None] = dict.fromkeys(members[0].header)
            types: dict[str, Primitive | None] = dict.fromkeys(members[0].header)
        else:
            fields = [field for field in _outline(spark, members, source).schema.fields if field.name != CORRUPT]
            columns = {field.name: _nested_type(field.dataType) for field in fields}
            text = members[0].format == "json"
            types = {field.name: None if text else _simple_type(field.dataType) for field in fields}
        _check_names(columns)
        found |= {name: kind for name, kind in columns.items() if name not in found}
        for name, kind in types.items():
            typed[name].add(kind)
    return SourceColumns(found, {name: kind for name, (kind, *more) in typed.items() if kind is not None and not more})


def read_rows(
    spark: SparkSession,
    files: Mapping[SourceFile, date],
    source: SourceFormat,
    *,
    json_types: Mapping[str, Type],
    with_lines: bool = False,
) -> DataFrame:
    """Raw rows of all files: csv as text, json by the types given, the others typed; plus file, line (if wanted), date.

    Files are read in groups of equal format, header and delimiter: Spark would read a csv file by those of another one.
    """
    frames: list[DataFrame] = []
    for members in groups(files, source).values():
        plain = {file: files[file] for file in files_to_cut(spark, members)}
        others = {file: files[file] for file in members if file not in plain}
        if plain:
            frames.append(cut_files(spark, plain, source))
        if others:
            scanned = _scan_by_date(spark, others, source, json_types)
            frames.append(_placed(spark, scanned, others, source, with_lines=with_lines))
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def groups(
    files: Iterable[SourceFile], source: SourceFormat
) -> dict[tuple[str, tuple[str, ...] | None, str | None], list[SourceFile]]:
    """Files that Spark can read together: of one format, and csv files of one header and delimiter."""
    found: dict[tuple[str, tuple[str, ...] | None, str | None], list[SourceFile]] = defaultdict(list)
    for file in files:
        delimiter = source.delimiter_of(file.path) if file.format == "csv" else None
        found[file.format, file.header, delimiter].append(file)
    return found


def _scan_by_date(
    spark: SparkSession, dates: Mapping[SourceFile, date], source: SourceFormat, json_types: Mapping[str, Type]
) -> DataFrame:
    """Rows of files in the order of their months, where each is read by one task and none has columns of its own.

    Spark would take files by their size, so that every task had rows of every month, and wrote a file for each.
    """
    files = list(dates)
    if files[0].format not in ("csv", "json") or not is_whole(files):
        return _scan(spark, files, source, json_types)
    parts = [_scan(spark, part, source, json_types) for part in by_month(files, dates)]
    return reduce(lambda left, right: left.unionAll(right), parts)


def _scan(
    spark: SparkSession, files: Sequence[SourceFile], source: SourceFormat, json_types: Mapping[str, Type]
) -> DataFrame:
    if files[0].format == "csv":
        return _scan_csv(spark, [file.path for file in files], files[0].header or (), source)
    if files[0].format == "json":
        typed = [f"{quote(name)} {spelled(kind)}" for name, kind in json_types.items()]
        return _scan_json(spark, files, source, schema=", ".join([*typed, f"{CORRUPT} string"]))
    return _outline(spark, files, source)


def _outline(spark: SparkSession, files: Sequence[SourceFile], source: SourceFormat) -> DataFrame:
    """Files that bring their own columns; each may have others."""
    if files[0].format == "json":
        return _scan_json(spark, files, source)
    reader = spark.read.format(files[0].format).option("mergeSchema", "true")
    return reader.load(exactly(file.path for file in files))


def exactly(paths: Iterable[str]) -> list[str]:
    """Paths as Spark's readers take them for these files and no others: `[` or `*` would make a pattern of a name.

    Spark's own `__globPaths__` reads every file of a load again for each name that looks like a pattern.

    >>> exactly(["/in/a[1].csv", "/in/a.csv"])
    ['/in/a\\\\[1\\\\].csv', '/in/a.csv']
    """
    return [_WILD.sub(r"\\\g<0>", path) for path in paths]


def _scan_json(
    spark: SparkSession, files: Sequence[SourceFile], source: SourceFormat, schema: str | None = None
) -> DataFrame:
    options = _given(schema=schema, encoding=_encoding(source), multiLine=source.multiline)
    paths = exactly(file.path for file in files)
    return spark.read.json(paths, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT, **options)


def _nested_type(kind: DataType) -> Type | None:
    from pyspark.sql.types import ArrayType, MapType, StructType

    return model_type(kind) if isinstance(kind, ArrayType | MapType | StructType) else None


def _simple_type(kind: DataType) -> Primitive | None:
    """A simple type of Spark in our words; None when there is none for it."""
    try:
        found = model_type(kind)
    except InvalidSchema:
        return None
    return found if isinstance(found, Primitive) else None


def model_type(kind: DataType) -> Type:
    """A type of Spark in our words."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return Struct(tuple(Field(field.name, model_type(field.dataType)) for field in kind.fields))
    if isinstance(kind, ArrayType):
        return ListOf(model_type(kind.elementType))
    if isinstance(kind, MapType):
        return MapOf(model_type(kind.keyType), model_type(kind.valueType))
    return parse_type(kind.simpleString())


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if is_own_name(name):
            raise InvalidName(f"the files have a column {name!r}, a name that Névé keeps for itself", hint="rename it")


def _scan_csv(spark: SparkSession, paths: list[str], header: Sequence[str], source: SourceFormat) -> DataFrame:
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([StructField(name, StringType()) for name in (*header, CORRUPT)])
    reader = spark.read.option("columnPruning", "false")  # or a row with too many values would pass unseen
    options = csv_options(paths[0], source)
    return reader.csv(exactly(paths), schema=schema, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT, **options)


def csv_options(path: str, source: SourceFormat) -> dict[str, Any]:
    """How Spark is to read a file and those like it."""
    return _given(
        header=source.header is not False,
        sep=source.delimiter_of(path),
        quote=source.quote,
        escape=source.escape or '"',
        encoding=_encoding(source),
        nullValue=source.null_value,
        multiLine=source.multiline,
    )


def _placed(
    spark: SparkSession, rows: DataFrame, dates: Mapping[SourceFile, date], source: SourceFormat, *, with_lines: bool
) -> DataFrame:
    """Adds the line, the file and the date of each row."""
    from pyspark.sql import functions as f

    places = _known_places(spark, dates)
    rows = places.addressed(rows)
    if with_lines:
        first_line = 2 if next(iter(dates)).header is not None and source.header is not False else 1
        rows = _counted(rows, first_line) if is_whole(dates) else _numbered(rows, first_line)
    else:
        rows = rows.withColumn(SOURCE_LINE, f.lit(None).cast("bigint"))
    if CORRUPT not in rows.columns:
        rows = rows.withColumn(CORRUPT, f.lit(None).cast("string"))
    return places.named(rows)


@dataclass(frozen=True, slots=True)
class _Places:
    """The files and dates of a load as a small table beside its rows, one line per file."""

    table: DataFrame
    short: Callable[[Column], Column]

    def addressed(self, rows: DataFrame) -> DataFrame:
        """Rows as they are scanned, with what their file is found by."""
        from pyspark.sql import functions as f

        return rows.withColumn(_URL, self.short(f.input_file_name()))  # `_metadata.file_path` costs a third of a scan

    def named(self, rows: DataFrame) -> DataFrame:
        """The same rows with their file and their date.

        A row of a file that is not among them fails the job: left out, it would be missed by nobody.
        """
        from pyspark.sql import functions as f

        table = self.table.withColumn(_URL, self.short(f.col("url"))).drop("url")
        known = f.coalesce(INGEST_DATE, f.raise_error(f.lit("a row came from a file that is not among those to load")))
        return rows.join(f.broadcast(table), _URL, "left").withColumn(INGEST_DATE, known).drop(_URL)


def _known_places(spark: SparkSession, dates: Mapping[SourceFile, date]) -> _Places:
    """Made by Spark's SQL: its own way with Python's values starts a worker of Python for them."""
    listed = [
        {"url": _url(spark, file.path), SOURCE_FILE: file.path, INGEST_DATE: day.isoformat()}
        for file, day in dates.items()
    ]
    kind = f"array<struct<url: string, {SOURCE_FILE}: string, {INGEST_DATE}: date>>"
    table = spark.sql(f"SELECT inline(from_json(:files, '{kind}'))", {"files": json.dumps(listed)})
    return _Places(table, _short_name(table, len(dates)))


def _short_name(places: DataFrame, files: int) -> Callable[[Column], Column]:
    """What files are joined by, row by row: a number made of their address, unless two of them have the same."""
    from pyspark.sql import functions as f

    if files == 1:
        return f.xxhash64
    numbers = {row[0] for row in places.select(f.xxhash64("url")).collect()}
    return f.xxhash64 if len(numbers) == files else lambda url: url


def is_whole(files: Iterable[SourceFile]) -> bool:
    """Whether Spark reads each of the files in one task."""
    return all(file.bytes < SPLIT_BYTES for file in files)


@contextmanager
def file_by_file(spark: SparkSession) -> Iterator[None]:
    """Makes Spark give each file a task of its own while rows are read, instead of packing small ones together."""
    key = "spark.sql.files.openCostInBytes"
    before = spark.conf.get(key)
    spark.conf.set(key, str(SPLIT_BYTES))
    try:
        yield
    finally:
        spark.conf.set(key, str(before))


def _counted(rows: DataFrame, first_line: int) -> DataFrame:
    """Line numbers where each file has a task of its own: a row's place in its task."""
    from pyspark.sql import functions as f

    place = f.monotonically_increasing_id().bitwiseAND(f.lit(_PLACE_IN_TASK))
    return rows.withColumn(SOURCE_LINE, place + f.lit(first_line))


def _numbered(rows: DataFrame, first_line: int) -> DataFrame:
    """Line numbers: a row's place in its block of the file, after the lines of the blocks before it.

    Spark numbers rows in the order of each scan partition, so a block's first number and count, found by one small
    aggregation, say where each of its rows stands.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    block, row = f.col("_metadata.file_block_start"), f.monotonically_increasing_id()
    rows = rows.withColumn(_BLOCK, block).withColumn(_ROW, row)
    blocks = rows.groupBy(_URL, _BLOCK).agg(f.min(_ROW).alias("first"), f.count(f.lit(1)).alias("rows"))
    earlier = Window.partitionBy(_URL).orderBy(_BLOCK).rowsBetween(Window.unboundedPreceding, -1)
    starts = blocks.withColumn("before", f.coalesce(f.sum("rows").over(earlier), f.lit(0))).drop("rows")
    line: Column = f.col(_ROW) - f.col("first") + f.col("before") + f.lit(first_line)
    joined = rows.join(f.broadcast(starts), [_URL, _BLOCK])
    return joined.withColumn(SOURCE_LINE, line).drop(_ROW, _BLOCK, "first", "before")


def _url(spark: SparkSession, path: str) -> str:
    """The path as Spark's `input_file_name` says it; the JVM is asked when it may have to be escaped."""
    if _PLAIN_PATH.fullmatch(path):
        return f"file://{path}"
    jvm: Any = spark._jvm
    hadoop = spark._jsc.hadoopConfiguration()
    found = jvm.org.apache.hadoop.fs.Path(path)
    qualified = found.getFileSystem(hadoop).makeQualified(found)
    url: str = jvm.org.apache.spark.paths.SparkPath.fromPath(qualified).urlEncoded()
    return url


def _given(**options: Any) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def _encoding(source: SourceFormat) -> str | None:
    return None if source.encoding is None else java_name(source.encoding)
