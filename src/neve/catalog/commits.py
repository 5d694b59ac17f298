"""Metadata commits without a JVM: PyIceberg builds the change, we write it whole and swap it in.

PyIceberg 0.12 understands format 3 but refuses to write its metadata; a three-way merge with the file it started from
keeps every key it may not know (`merge`), and Spark reads the result (tests/spark/test_metadata_commits.py).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.transforms import parse_transform

from neve.catalog.editing import next_location
from neve.catalog.facts import load_current, read_metadata
from neve.catalog.files import Files
from neve.catalog.merge import merge
from neve.catalog.rows import CatalogRows
from neve.errors import InvalidSchema, StorageError, TableNotFound
from neve.model.names import TableName
from neve.model.specs import TableSpec
from neve.model.types import fields_to_iceberg

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_ROW_LINEAGE = 3
_FIRST_PARTITION_FIELD = 1000


class MetadataCommitter:
    """Stands in for a PyIceberg catalog where a Table asks for one: it loads, and it commits."""

    def __init__(self, rows: CatalogRows, files: Files) -> None:
        self._rows = rows
        self._files = files

    def create(self, spec: TableSpec, *, location: str, properties: Mapping[str, str]) -> str:
        """Writes the first metadata of a table; nothing is registered yet. Where it lies."""
        metadata = build_metadata(spec, location=location, properties=properties)
        target = f"{location}/metadata/00000-{uuid.uuid4()}.metadata.json"
        self._files.write_new(target, encode(as_json(metadata)))
        return target

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        name = TableName(identifier[:-1], identifier[-1])
        loaded = load_current(lambda: self._rows.metadata_location(name), self._files.read)
        if loaded is None:
            raise TableNotFound(f"no table {name}")
        metadata = TableMetadataUtil.parse_obj(dict(loaded.metadata))
        io = load_file_io({}, loaded.location)
        return Table(identifier, metadata, loaded.location, io, self)  # type: ignore[arg-type]

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Applies the updates to the newest metadata, or fails when a requirement or the swap does."""
        identifier = table.name()
        name = TableName(identifier[:-1], identifier[-1])
        current = self.load_table(identifier)
        for requirement in requirements:
            requirement.validate(current.metadata)
        updated = update_table_metadata(
            current.metadata, updates, enforce_validation=False, metadata_location=current.metadata_location
        )
        if updated == current.metadata:
            return CommitTableResponse(metadata=updated, metadata_location=current.metadata_location)
        original = read_metadata(current.metadata_location, self._files.read)
        content = merge(dict(original), as_json(current.metadata), as_json(updated))
        target = next_location(updated.properties, updated.location, current.metadata_location)
        self._files.write_new(target, encode(content))
        if not self._rows.replace(name, expected=current.metadata_location, location=target):
            self._files.remove(target)
            raise CommitFailedException(f"{name} was changed by somebody else")
        return CommitTableResponse(metadata=updated, metadata_location=target)

    def _delete_old_metadata(self, _: object, base: TableMetadata, metadata: TableMetadata) -> None:
        """PyIceberg calls it after a commit: metadata that fell off the log is removed, if the table says so."""
        if metadata.properties.get("write.metadata.delete-after-commit.enabled") != "true":
            return
        kept = {entry.metadata_file for entry in metadata.metadata_log}
        for entry in base.metadata_log:
            if entry.metadata_file not in kept:
                with suppress(StorageError):  # the commit is made; an old file that stays does no harm
                    self._files.remove(entry.metadata_file)


def build_metadata(spec: TableSpec, *, location: str, properties: Mapping[str, str]) -> TableMetadata:
    """The metadata of an empty table."""
    ids = iter(range(1, 1_000_000))
    fields = fields_to_iceberg(spec.columns, lambda: next(ids))
    schema = Schema.model_validate({"type": "struct", "schema-id": 0, "fields": fields})
    return new_table_metadata(
        schema=schema,
        partition_spec=_partition_spec(spec, schema),
        sort_order=_sort_order(spec, schema),
        location=location,
        properties=dict(properties),
    )


def as_json(metadata: TableMetadata) -> dict[str, Any]:
    """The metadata as JSON, format 3 included."""
    content: dict[str, Any] = json.loads(BaseModel.model_dump_json(metadata, exclude_none=True, by_alias=True))
    if metadata.format_version >= _ROW_LINEAGE:
        content.setdefault("next-row-id", 0)
    return content


def _partition_spec(spec: TableSpec, schema: Schema) -> PartitionSpec:
    fields = []
    for index, item in enumerate(spec.partition_by):
        column = schema.find_field(item.column)
        transform = parse_transform(item.function)
        if not transform.can_transform(column.field_type):
            raise InvalidSchema(f"cannot partition by {item}: {item.column} is a {column.field_type}")
        fields.append(PartitionField(column.field_id, _FIRST_PARTITION_FIELD + index, transform, item.field_name))
    return PartitionSpec(*fields)


def _sort_order(spec: TableSpec, schema: Schema) -> SortOrder:
    return SortOrder(
        *(
            SortField(
                schema.find_field(item.term.column).field_id,
                parse_transform(item.term.function),
                SortDirection.DESC if item.descending else SortDirection.ASC,
                NullOrder.NULLS_FIRST if item.nulls_first else NullOrder.NULLS_LAST,
            )
            for item in spec.sort_by
        )
    )


def encode(content: object) -> bytes:
    if not isinstance(content, dict):
        raise StorageError("table metadata must be a JSON object")
    return json.dumps(content).encode()
