"""Directory tables on Spark: cleaned rows into one file per day, files into one, and all of them as one frame."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from neve.engine.content import Fingerprint, fingerprint, observed
from neve.engine.errors import translated
from neve.engine.formats import CSV, PARQUET_CONF
from neve.engine.ingest import Packed, Screened, Tally, Work, packed_rows, screen, sorted_by
from neve.engine.reading import exactly, file_by_file, is_whole
from neve.engine.rejects import NOWHERE, carrier_of, unpack
from neve.engine.session import fresh_session
from neve.errors import CheckFailed, Refused, Unsupported
from neve.model.directory_tables import FileFormat, PlainFile, Shape
from neve.model.ingest import INGEST_DATE
from neve.model.names import quote
from neve.model.types import Primitive, spelled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession

_DAY = "_neve_day"
_OPEN_FILES = 64


def plain_session(spark: SparkSession) -> SparkSession:
    """A session that writes files as every tool reads them."""
    session = fresh_session(spark)
    settings = {**PARQUET_CONF, "spark.sql.maxConcurrentOutputFileWriters": str(_OPEN_FILES)}
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


def check_form(shape: Shape) -> None:
    """Refuses columns that come back from CSV as something else."""
    if shape.format != "csv":
        return
    for column in shape.columns:
        if not isinstance(column.type, Primitive) or column.type.name == "binary":
            raise Unsupported(f"column {column.name} is {column.type}, and CSV has no form for it", hint="use parquet")


def write_days(
    spark: SparkSession,
    work: Work,
    shape: Shape,
    spool: Path,
    folder_values: Mapping[date, Mapping[str, int | str]],
) -> tuple[Tally, dict[date, Path]]:
    """Cleans the rows and writes them below `spool`, one file per date that has any."""
    carrier = carrier_of(work.cleaning.columns, work.files, work.rules) if _is_whole(work) else None
    with translated():
        passed: Screened | Packed
        if carrier is None:
            passed = screen(spark, work)
            _write_days(_shaped(spark, passed.accepted, work, shape, folder_values), work, shape, spool)
            files, counts = _days_in(spark, spool, shape)
        else:
            with file_by_file(spark):
                rows = packed_rows(spark, work, carrier)
                _write_days(_shaped(spark, rows, work, shape, folder_values), work, shape, spool)
            files, counts = _days_in(spark, spool, shape)
            passed = _packed(spark, spool, shape, work, carrier, rows=sum(counts.values()))
        return passed.tally(rows_by_date=counts, measured=_measure(spark, files, shape, work)), files


def _days_in(spark: SparkSession, spool: Path, shape: Shape) -> tuple[dict[date, Path], dict[date, int]]:
    """The file of each date, and its rows."""
    files = _by_day(spark, spool, shape)
    return files, _count(spark, files, shape)


def _packed(spark: SparkSession, spool: Path, shape: Shape, work: Work, carrier: str, *, rows: int) -> Packed:
    """The rejected rows, which lie beside the `rows` that were accepted."""
    parts = _parts(spool / f"{_DAY}={NOWHERE}")
    if not parts:
        return Packed(rejected=None, number=0, rows=rows, work=work)
    rejected = unpack(read_plain(spark, _written(parts, shape), shape), carrier)
    number = rejected.count() if shape.format == "csv" else sum(map(_rows_in, parts))
    return Packed(rejected=rejected, number=number, rows=rows, work=work)


def _write_days(rows: DataFrame, work: Work, shape: Shape, spool: Path) -> None:
    if not _is_whole(work):
        rows = rows.repartition(len(set(work.files.values())), INGEST_DATE)
    order = [sorted_by(item) for item in work.cleaning.order_by]
    placed = rows.withColumn(_DAY, rows[INGEST_DATE].cast("string"))
    if order:
        placed = placed.sortWithinPartitions(_DAY, *order)
    _writer(placed, shape).partitionBy(_DAY).save(str(spool))


def merge(spark: SparkSession, files: Sequence[PlainFile], shape: Shape, spool: Path) -> tuple[Path, int]:
    """One file with the rows of several, compared with them by count and content; its path and its rows.

    Raises:
        CheckFailed: the file does not hold the same bag of rows.
    """
    return _rewrite(read_plain(spark, files, shape), spark, shape, spool)


def without_dates(
    spark: SparkSession, file: PlainFile, dates: Sequence[date], shape: Shape, spool: Path
) -> tuple[Path, int]:
    """A file with the rows of another but those of some dates.

    Raises:
        Refused: it has rows without a date, which may be of these dates or of others.
        CheckFailed: the rows of both kinds are not those of the file.
    """
    from pyspark.sql import functions as f

    rows = read_plain(spark, [file], shape)
    going = f.coalesce(f.col(INGEST_DATE).isin(list(dates)), f.lit(False))
    with translated():
        if not rows.where(f.col(INGEST_DATE).isNull()).isEmpty():
            raise Refused(
                f"{file.path} has rows without {INGEST_DATE}: nobody can tell which of them are replaced",
                hint="write that column back into the file, or take it away and load its days with --replace",
            )
        gone = fingerprint(rows.where(going))
    return _rewrite(rows, spark, shape, spool, kept=~going, gone=gone)


def read_plain(spark: SparkSession, files: Sequence[PlainFile], shape: Shape) -> DataFrame:
    """All rows, by the table's columns: what a file lacks is what its path says, date and folders, or else NULL."""
    if not files:
        return spark.createDataFrame([], shape.ddl)
    named = [file for file in files if file.day is not None]
    frames = _scan(spark, [file for file in files if file.day is None], shape)
    frames += [_told(frame, named, shape) for frame in _scan(spark, named, shape)]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole


def infer_plain(spark: SparkSession, files: Sequence[PlainFile], format: FileFormat) -> list[tuple[str, str]]:  # noqa: A002
    """Names and types of the columns of files that nobody described."""
    with translated():
        paths = exactly(file.path for file in files)
        options = {**CSV, "inferSchema": "true"} if format == "csv" else {"mergeSchema": "true"}
        found = spark.read.format(format).options(**options).load(paths).schema.fields
        return [(field.name, field.dataType.simpleString()) for field in found]


def count_plain(spark: SparkSession, files: Sequence[PlainFile], shape: Shape) -> dict[date | None, int]:
    """Rows per ingest date."""
    with translated():
        return {row[0]: row[1] for row in read_plain(spark, files, shape).groupBy(INGEST_DATE).count().collect()}


def _told(rows: DataFrame, files: Sequence[PlainFile], shape: Shape) -> DataFrame:
    """Rows of files that are named after their day: who wrote one of them anew may have left out what its path says.

    A value is looked up for rows without it alone, and nothing is computed for a query that does not ask for it.
    """
    from pyspark.sql import functions as f

    told = {_place(file.path): {INGEST_DATE: file.day, **dict(file.folders)} for file in files}
    found = {_spoken(url): told[_place(unquote(url))] for url in rows.inputFiles()}
    for name, kind in _kinds_told(files[0], shape).items():
        listed = "\n".join(f"{url}\t{values[name]}" for url, values in found.items())
        by_file = f.str_to_map(f.lit(listed), f.lit("\n"), f.lit("\t"))
        value = by_file[f.col("_metadata.file_path")].cast(kind)
        rows = rows.withColumn(name, f.coalesce(f.col(quote(name)), value))
    return rows


def _kinds_told(file: PlainFile, shape: Shape) -> dict[str, str]:
    """The columns to look up, with their types; Spark itself takes those of Parquet files from their folders."""
    if shape.format == "parquet":
        return {INGEST_DATE: "date"}
    types = {column.name.casefold(): spelled(column.type) for column in shape.columns}
    return {INGEST_DATE: "date"} | {name: types[name.casefold()] for name, _ in file.folders}


def _place(path: str) -> str:
    """A path without its scheme, however it is written."""
    return re.sub(r"\A\w+:/+", "", path).lstrip("/")


def _spoken(url: str) -> str:
    """The address of a file as `_metadata.file_path` says it."""
    return re.sub(r"\Afile:/+", "file:/", url)


def _scan(spark: SparkSession, files: Sequence[PlainFile], shape: Shape) -> list[DataFrame]:
    if not files:
        return []
    if shape.format == "parquet":
        return [_scan_parquet(spark, files, shape)]
    return [_scan_csv(spark, header, files, shape) for header in dict.fromkeys(file.columns for file in files)]


def _scan_parquet(spark: SparkSession, files: Sequence[PlainFile], shape: Shape) -> DataFrame:
    """Where folders have values, they are those of the rows: Spark opens no file of a folder that is not asked for."""
    reader = spark.read.schema(shape.ddl)
    if depth := len(files[0].folders):
        reader = reader.option("basePath", files[0].path.rsplit("/", depth + 1)[0])
    return reader.parquet(*exactly(file.path for file in files)).select(*map(quote, shape.names))


def _scan_csv(spark: SparkSession, header: tuple[str, ...], files: Sequence[PlainFile], shape: Shape) -> DataFrame:
    """Files of one header: Spark goes by the place of a column, not by its name."""
    from pyspark.sql import functions as f

    types = {column.name.casefold(): str(column.type) for column in shape.columns} | {INGEST_DATE: "date"}
    ddl = ", ".join(f"{quote(name)} {types.get(name.casefold(), 'string')}" for name in header)
    options = {**CSV, "multiLine": "true", "mode": "FAILFAST", "enforceSchema": "true"}
    paths = exactly(file.path for file in files if file.columns == header)
    found = spark.read.schema(ddl).options(**options).csv(paths)
    by_name = {name.casefold(): name for name in header}
    return found.select(
        *(
            f.col(quote(by_name[name.casefold()])).alias(name)
            if name.casefold() in by_name
            else f.lit(None).cast(types[name.casefold()]).alias(name)
            for name in shape.names
        )
    )


def _shaped(
    spark: SparkSession,
    rows: DataFrame,
    work: Work,
    shape: Shape,
    folder_values: Mapping[date, Mapping[str, int | str]],
) -> DataFrame:
    """The rows in the columns and types of the table; what the folders say of a date stands beside it."""
    from pyspark.sql import functions as f

    first = next(iter(folder_values.values()))
    if first:
        types = [f"{quote(name)} {'int' if isinstance(value, int) else 'string'}" for name, value in first.items()]
        places = spark.createDataFrame(
            [(day, *values.values()) for day, values in folder_values.items()],
            ", ".join([f"{INGEST_DATE} date", *types]),
        )
        rows = rows.join(f.broadcast(places), INGEST_DATE, "left")
    there = {name.casefold() for name in (*work.columns, *first)}
    columns = [
        (f.col(quote(column.name)) if column.name.casefold() in there else f.lit(None))
        .cast(spelled(column.type))
        .alias(column.name)
        for column in shape.columns
    ]
    return rows.select(*columns, INGEST_DATE)


def _is_whole(work: Work) -> bool:
    """Whether Spark reads each date in one task, so that each has one file without a shuffle."""
    return len(set(work.files.values())) == len(work.files) and is_whole(work.files)


def _writer(rows: DataFrame, shape: Shape) -> DataFrameWriter:
    writer = rows.write.format(shape.format)
    return writer.options(**CSV) if shape.format == "csv" else writer.option("compression", shape.codec)


def _by_day(spark: SparkSession, spool: Path, shape: Shape) -> dict[date, Path]:
    """The one file of each date; where Spark made several of a date's rows, they are made one."""
    found: dict[date, Path] = {}
    for folder in sorted(spool.glob(f"{_DAY}=*")):
        day = date.fromisoformat(folder.name.partition("=")[2])
        parts = _parts(folder) if day != NOWHERE else []
        if len(parts) > 1:
            found[day] = merge(spark, _written(parts, shape), shape, spool / f"_whole_{day}")[0]
        elif parts:
            found[day] = parts[0]
    return found


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*"))


def _written(paths: Iterable[Path], shape: Shape) -> list[PlainFile]:
    return [PlainFile(path=str(path), columns=shape.names) for path in paths]


def _count(spark: SparkSession, files: Mapping[date, Path], shape: Shape) -> dict[date, int]:
    if shape.format == "parquet":
        return {day: _rows_in(path) for day, path in files.items()}
    counted = count_plain(spark, _written(files.values(), shape), shape)
    return {day: counted.get(day, 0) for day in files}


def _rows_in(path: Path) -> int:
    from pyarrow.parquet import read_metadata

    return int(read_metadata(path).num_rows)


def _measure(spark: SparkSession, files: Mapping[date, Path], shape: Shape, work: Work) -> Mapping[str, object]:
    """All validations in one pass over the rows that were written."""
    if not work.validations:
        return {}
    rows = read_plain(spark, _written(files.values(), shape), shape)
    return rows.selectExpr(*(check.sql for check in work.validations)).collect()[0].asDict()


def _rewrite(
    rows: DataFrame,
    spark: SparkSession,
    shape: Shape,
    spool: Path,
    *,
    kept: Column | None = None,
    gone: Fingerprint | None = None,
) -> tuple[Path, int]:
    """Writes the rows, or those that are kept; what was read must be what was written, and what is to go."""
    from pyspark.sql import Observation

    with translated():
        seen = Observation()
        passed = observed(rows, seen)
        _writer((passed if kept is None else passed.where(kept)).coalesce(1), shape).save(str(spool))
        expected = Fingerprint.of_row(seen.get)
        if gone is not None:
            expected = expected.without(gone)
        parts = _parts(spool)
        if len(parts) != 1:
            raise CheckFailed(f"Spark wrote {len(parts)} files where one was asked for")
        written = fingerprint(read_plain(spark, [PlainFile(path=str(parts[0]), columns=shape.names)], shape))
        if written != expected:
            raise CheckFailed(
                f"{expected.rows:,} rows were read and {written.rows:,} written, or other ones; nothing was changed",
                hint="please report this",
            )
        return parts[0], written.rows
