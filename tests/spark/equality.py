"""Equality deletes, as another engine would write them: through Iceberg's Java API."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql import SparkSession

from neve.engine.staging import load_iceberg
from neve.model.names import TableName


def delete_where_equal(spark: SparkSession, name: TableName, column: str, values: list[Any], *, like: str = "") -> None:
    """Commits one file that deletes every row so far whose column equals one of the values.

    In a partitioned table it is for the partition of the data file whose path contains `like`.
    """
    java: Any = spark._jvm
    iceberg = java.org.apache.iceberg
    gateway: Any = spark.sparkContext._gateway
    table = load_iceberg(spark, name)
    field = table.schema().findField(column)
    names = gateway.new_array(java.java.lang.String, 1)
    names[0] = column
    schema = table.schema().select(names)
    ids = gateway.new_array(java.int, 1)
    ids[0] = field.fieldId()
    factory = (
        iceberg.data.GenericFileWriterFactory.Builder(table)
        .deleteFileFormat(iceberg.FileFormat.PARQUET)
        .equalityFieldIds(ids)
        .equalityDeleteRowSchema(schema)
        .build()
    )
    outputs = iceberg.io.OutputFileFactory.builderFor(table, 1, 1).operationId(str(uuid.uuid4())).build()
    spec, partition = table.spec(), None
    if spec.isPartitioned():
        tasks = table.newScan().planFiles().iterator()
        files = iter(lambda: tasks.next().file() if tasks.hasNext() else None, None)
        found: Any = next(file for file in files if like in file.location())
        spec, partition = table.specs().get(found.specId()), found.partition()
        output = outputs.newOutputFile(spec, partition)
    else:
        output = outputs.newOutputFile()
    writer = factory.newEqualityDeleteWriter(output, spec, partition)
    try:
        for value in values:
            record = iceberg.data.GenericRecord.create(schema)
            record.setField(column, value)
            writer.write(record)
    finally:
        writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
