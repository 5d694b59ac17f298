"""Manifest lists and manifests → live files, with fastavro alone and without the column statistics.

A manifest never changes once it is written: what two snapshots share need not be read to know how they differ.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from neve.catalog.files import Reader
from neve.errors import StorageError
from neve.model.changes import LiveFile, Manifest, PartitionValue

_CONTENT: dict[int, Any] = {0: "data", 1: "position_deletes", 2: "equality_deletes"}
_DELETED = 2
_LISTED = ("manifest_path", "partition_spec_id", "content", "sequence_number")
_ENTRY = ("status", "sequence_number", "data_file")
_FILE = (
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "key_metadata"),
    *("equality_ids", "referenced_data_file", "content_offset", "content_size_in_bytes"),
)
_NANOS = 1_000_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
Convert = Callable[[Any], PartitionValue]


def read_manifest_list(location: str, read: Reader) -> list[Manifest]:
    """The manifests of a snapshot."""
    records = _records(location, read(location), lambda schema: _narrowed(schema, _LISTED))[1]
    return [
        Manifest(
            path=record["manifest_path"],
            deletes=record.get("content", 0) == 1,
            spec_id=record["partition_spec_id"],
            sequence=record.get("sequence_number") or 0,
        )
        for record in records
    ]


def read_manifest(manifest: Manifest, read: Reader) -> list[LiveFile]:
    """The files that a manifest lists and that are not deleted by it."""
    schema, records = _records(manifest.path, read(manifest.path), _narrowed_entry)
    converts = _converters(_field(_field(schema, "data_file"), "partition"))
    try:
        return [_live_file(record, manifest, converts) for record in records if record["status"] != _DELETED]
    except (KeyError, ValueError, OverflowError) as exc:
        raise StorageError(f"{manifest.path} lists a file that Névé cannot read: {exc}") from exc


def _live_file(entry: Mapping[str, Any], manifest: Manifest, converts: list[Convert]) -> LiveFile:
    file = entry["data_file"]
    sequence = entry.get("sequence_number")
    values = zip(converts, file["partition"].values(), strict=True)
    return LiveFile(
        content=_CONTENT[file.get("content") or 0],
        path=file["file_path"],
        format=file["file_format"].lower(),
        spec_id=manifest.spec_id,
        partition=tuple(None if value is None else convert(value) for convert, value in values),
        rows=file["record_count"],
        bytes=file["file_size_in_bytes"],
        sequence=manifest.sequence if sequence is None else sequence,
        referenced=file.get("referenced_data_file"),
        offset=file.get("content_offset"),
        size=file.get("content_size_in_bytes"),
        equality_ids=tuple(file.get("equality_ids") or ()),
        encrypted=file.get("key_metadata") is not None,
    )


def _records(location: str, content: bytes, narrow: Callable[[Any], Any]) -> tuple[Any, Iterator[Mapping[str, Any]]]:
    """The narrowed schema of an Avro file and its records read by it."""
    import fastavro

    try:
        schema = narrow(fastavro.reader(io.BytesIO(content)).writer_schema)
        records: Any = list(fastavro.reader(io.BytesIO(content), reader_schema=schema))
    except (ValueError, KeyError, EOFError, OverflowError) as exc:
        raise StorageError(f"{location} is not a manifest that Névé can read: {exc}") from exc
    return schema, iter(records)


def _narrowed_entry(schema: Mapping[str, Any]) -> dict[str, Any]:
    entry = _narrowed(schema, _ENTRY)
    return {
        **entry,
        "fields": [
            {**field, "type": _narrowed(field["type"], _FILE)} if field["name"] == "data_file" else field
            for field in entry["fields"]
        ],
    }


def _narrowed(schema: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {**schema, "fields": [field for field in schema["fields"] if field["name"] in names]}


def _field(schema: Mapping[str, Any], name: str) -> Any:
    return next(field["type"] for field in schema["fields"] if field["name"] == name)


def _converters(partition: Mapping[str, Any]) -> list[Convert]:
    return [_converter(_not_null(field["type"])) for field in partition["fields"]]


def _not_null(kind: Any) -> Any:
    return next(choice for choice in kind if choice != "null") if isinstance(kind, list) else kind


def _converter(kind: Any) -> Convert:
    """From fastavro's value of this Avro type to Iceberg's JSON for it."""
    logical = kind.get("logicalType") if isinstance(kind, dict) else None
    if logical == "timestamp-nanos":
        return _nanos(utc=bool(kind.get("adjust-to-utc")))
    if logical == "timestamp-micros" and not kind.get("adjust-to-utc"):
        return lambda value: value.replace(tzinfo=None).isoformat(timespec="microseconds")
    return _json


def _json(value: Any) -> PartitionValue:
    match value:
        case bool() | int() | float() | str():
            return value
        case dt.datetime() | dt.time():
            return value.isoformat(timespec="microseconds")
        case dt.date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case UUID():
            return str(value)
        case bytes():
            return value.hex().upper()
        case _:
            raise ValueError(f"a partition value of an unknown kind: {value!r}")


def _nanos(*, utc: bool) -> Convert:
    def convert(value: Any) -> PartitionValue:
        if not isinstance(value, int):
            raise ValueError(f"not nanoseconds: {value!r}")  # noqa: TRY004 - the reader's word for what it cannot read
        seconds, nanos = divmod(value, _NANOS)
        moment = _EPOCH + dt.timedelta(seconds=seconds)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanos:09}{'+00:00' if utc else ''}"

    return convert
