"""Manifest lists and manifests → live files, and data files with all that is said of them.

A manifest never changes once it is written: what two snapshots share need not be read to know how they differ.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from neve.catalog.avro import read_records, read_schema
from neve.catalog.files import Reader
from neve.errors import StorageError
from neve.model.changes import LiveFile, Manifest, PartitionValue
from neve.model.rewrites import DataEntry, FileMetrics

_CONTENT: dict[int, Any] = {0: "data", 1: "position_deletes", 2: "equality_deletes"}
_DELETED = 2
_METRIC_FIELDS = {
    "sizes": "column_sizes",
    "values": "value_counts",
    "nulls": "null_value_counts",
    "nans": "nan_value_counts",
    "lower": "lower_bounds",
    "upper": "upper_bounds",
}
_METRICS = frozenset({*_METRIC_FIELDS.values(), "split_offsets"})
_NANOS = 1_000_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
Convert = Callable[[Any], PartitionValue]
Place = Callable[[LiveFile], Mapping[str, str | None]]
"""A file's partition in words."""


def read_manifest_list(location: str, read: Reader) -> list[Manifest]:
    """The manifests of a snapshot."""
    return [
        Manifest(
            path=record["manifest_path"],
            deletes=record.get("content", 0) == 1,
            spec_id=record["partition_spec_id"],
            sequence=record.get("sequence_number") or 0,
            first_row_id=record.get("first_row_id"),
        )
        for record in read_records(location, read(location))
    ]


def read_manifest(manifest: Manifest, read: Reader) -> list[LiveFile]:
    """The files that a manifest lists and that are not deleted by it."""
    return [_live_file(entry, manifest, converts) for entry, converts in _entries(manifest, read, without=_METRICS)]


def read_entries(
    manifest: Manifest, read: Reader, place: Callable[[LiveFile], Mapping[str, str | None]]
) -> list[DataEntry]:
    """The data files that a manifest lists and that are not deleted by it, with all that is said of them.

    Row ids that the manifest leaves out follow one another, as the specification assigns them.
    """
    next_row = manifest.first_row_id
    found = []
    for entry, converts in _entries(manifest, read):
        file = entry["data_file"]
        first = None if next_row is None else file.get("first_row_id")
        if next_row is not None and first is None:
            first, next_row = next_row, next_row + file["record_count"]
        live = _live_file(entry, manifest, converts)
        found.append(
            DataEntry(
                file=live,
                place=place(live),
                first_row_id=first,
                added=manifest.sequence if entry.get("file_sequence_number") is None else entry["file_sequence_number"],
                metrics=FileMetrics(**{name: file.get(field) or {} for name, field in _METRIC_FIELDS.items()}),
            )
        )
    return found


def _entries(
    manifest: Manifest, read: Reader, *, without: Collection[str] = ()
) -> Iterator[tuple[Mapping[str, Any], list[Convert]]]:
    """The live entries of a manifest, and how the values of its partitions are told."""
    content = read(manifest.path)
    try:
        converts = _converters(_field(_field(read_schema(manifest.path, content), "data_file"), "partition"))
        for entry in read_records(manifest.path, content, without=without):
            if entry["status"] != _DELETED:
                yield entry, converts
    except (KeyError, ValueError, OverflowError, StopIteration) as exc:
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
