"""Rows out of a table into plain files, and plain files into a table without reading their rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.engine.errors import translated
from neve.engine.formats import CSV, PARQUET_CONF, flat
from neve.engine.session import fresh_session
from neve.engine.statements import use_namespace
from neve.errors import InvalidQuery, StalePlan, Unsupported
from neve.model.names import CATALOG, TableName, quote
from neve.model.specs import TableSpec
from neve.model.types import fields_to_iceberg

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITERS = 8
_FIRST_PARTITION_FIELD = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A Parquet file to add as it lies; `partition` in the order of the table's partition fields."""

    path: str
    bytes: int
    rows: int
    partition: tuple[str, ...]


def read_rows(spark: SparkSession, name: TableName, *, snapshot_id: int | None, where: str | None) -> DataFrame:
    """A table's rows, as they are or were, for which a condition holds.

    The condition is given to Spark as an expression, never pasted into a statement.

    Raises:
        InvalidQuery: `where` is not one boolean expression over the table's columns.
    """
    session = fresh_session(spark)
    for key, value in PARQUET_CONF.items():
        session.conf.set(key, value)
    use_namespace(session, name.namespace)
    version = "" if snapshot_id is None else f" VERSION AS OF {snapshot_id}"
    with translated():
        frame = session.sql(f"SELECT * FROM {name.sql}{version}")  # noqa: S608 - the name is quoted
        if where is None:
            return frame
        if not where.strip():
            raise InvalidQuery("the condition is empty", hint='write a condition: --where "amount > 10"')
        return frame.where(where)


def write_parquet(frame: DataFrame, folder: str) -> int:
    """How many rows were written."""
    with translated():
        counted, rows = _counted(frame)
        counted.write.parquet(folder)
        return int(rows.get["rows"])


def write_csv(frame: DataFrame, folder: str) -> int:
    """How many rows were written. Binary columns become hexadecimal text.

    Raises:
        Unsupported: a column is nested, or the only column holds NULL: Spark would leave out the empty line.
    """
    with translated():
        counted, rows = _counted(flat(frame))
        counted.write.options(**CSV).csv(folder)
        if len(frame.columns) == 1 and rows.get["nulls"]:
            raise Unsupported(
                f"{frame.columns[0]} is the only column, and CSV has no line for a NULL alone",
                hint="export as parquet, or only the rows that are not NULL: --where",
            )
        return int(rows.get["rows"])


def _counted(frame: DataFrame) -> tuple[DataFrame, Any]:
    """The frame, and counts of the rows that pass through it: all, and those whose first column is NULL."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    rows = Observation()
    first = f.col(quote(frame.columns[0]))
    return frame.observe(rows, f.count(f.lit(1)).alias("rows"), f.count_if(first.isNull()).alias("nulls")), rows


def create_with_files(
    spark: SparkSession,
    spec: TableSpec,
    files: Sequence[NewFile],
    *,
    location: str,
    properties: Mapping[str, str],
    summary: Mapping[str, str],
) -> None:
    """Makes a table that holds these files, in one commit: it is there with all of them, or not at all.

    `properties` must hold a name mapping when the files do not number their columns.

    Raises:
        AlreadyExists: the name is taken.
        StalePlan: a file has changed since it was looked at.
    """
    jvm = spark._jvm
    iceberg: Any = jvm.org.apache.iceberg  # type: ignore[union-attr]
    with translated():
        transaction = _new_table(spark, iceberg, spec, location, properties).createTransaction()
        build = _file_builder(iceberg, transaction.table())
        append = transaction.newAppend()
        with ThreadPoolExecutor(_WRITERS) as pool:
            for file in pool.map(build, files):
                append = append.appendFile(file)
        for key, value in summary.items():
            append = append.set(key, value)
        append.commit()
        transaction.commitTransaction()


def _new_table(spark: SparkSession, iceberg: Any, spec: TableSpec, location: str, properties: Mapping[str, str]) -> Any:
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog(CATALOG).icebergCatalog()
    strings = spark.sparkContext._gateway.new_array(  # type: ignore[union-attr]
        spark._jvm.java.lang.String,  # type: ignore[union-attr]
        len(spec.name.namespace),
    )
    for index, part in enumerate(spec.name.namespace):
        strings[index] = part
    identifier = iceberg.catalog.TableIdentifier.of(iceberg.catalog.Namespace.of(strings), spec.name.name)
    ids = iter(range(1, 1_000_000))
    fields = fields_to_iceberg(spec.columns, lambda: next(ids))
    schema = iceberg.SchemaParser.fromJson(json.dumps({"type": "struct", "schema-id": 0, "fields": fields}))
    partition = [
        {
            "name": item.field_name,
            "transform": item.function,
            "source-id": schema.findField(item.column).fieldId(),
            "field-id": _FIRST_PARTITION_FIELD + index,
        }
        for index, item in enumerate(spec.partition_by)
    ]
    layout = iceberg.PartitionSpecParser.fromJson(schema, json.dumps({"spec-id": 0, "fields": partition}))
    builder = catalog.buildTable(identifier, schema)
    return builder.withPartitionSpec(layout).withLocation(location).withProperties(dict(properties))


def _file_builder(iceberg: Any, table: Any) -> Any:
    """A function that makes Iceberg's entry for a file, with the metrics that its footer holds."""
    metrics_config = iceberg.MetricsConfig.forTable(table)
    mapping = iceberg.mapping.NameMappingParser.fromJson(table.properties()["schema.name-mapping.default"])

    def build(file: NewFile) -> Any:
        metrics = iceberg.parquet.ParquetUtil.fileMetrics(table.io().newInputFile(file.path), metrics_config, mapping)
        if metrics.recordCount() != file.rows:
            raise StalePlan(f"{file.path} has changed since it was looked at", hint="run the command again")
        entry = iceberg.DataFiles.builder(table.spec()).withPath(file.path).withFormat("PARQUET")
        entry = entry.withFileSizeInBytes(file.bytes).withMetrics(metrics)
        return (entry.withPartitionValues(list(file.partition)) if file.partition else entry).build()

    return build
