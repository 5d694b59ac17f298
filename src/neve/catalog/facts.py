"""Iceberg metadata → facts, with the standard library and fastavro alone.

PyIceberg would do it too, but importing it takes several times as long as reading a table (see docs/architecture.md);
a command that only looks must answer in about a second.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from neve.catalog.avro import read_records
from neve.catalog.backend import Loaded
from neve.catalog.files import Reader
from neve.catalog.statistics import read_statistics
from neve.errors import StorageError
from neve.model.bounds import Bounded, bounds_of
from neve.model.facts import FileFact, Layout, ManifestSize, Reference, Snapshot, TableFacts, instant
from neve.model.ingest import INGEST_DATE
from neve.model.layout import SortField, Transform
from neve.model.names import TableName
from neve.model.retention import ColumnStatistics
from neve.model.types import field_from_iceberg

_CONTENT = {0: "data", 1: "position_deletes", 2: "equality_deletes"}
_DELETED = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = 12
_LONGEST = timedelta(days=365_000) // timedelta(milliseconds=1)
_NAIVE = "without-zone"
_UNREAD = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "split_offsets", "key_metadata")
_ORDERED = ("identity", "truncate", "year", "month", "day", "hour")
"""Transforms that keep the order of their column."""
_PATH_OF_DELETE = Bounded(2147483546, "string")
"""The column of position deletes that names the data file, by the id that it has in every table."""


def read_metadata(location: str, read: Reader) -> Mapping[str, Any]:
    """The metadata file as JSON."""
    return parse_metadata(location, read(location))


def parse_metadata(location: str, content: bytes) -> Mapping[str, Any]:
    """A metadata file's JSON, unpacked when it is gzipped."""
    try:
        metadata = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    except (ValueError, OSError, EOFError, zlib.error) as exc:
        raise StorageError(f"{location} is not Iceberg table metadata: {exc}") from exc
    if not isinstance(metadata, dict) or "format-version" not in metadata:
        raise StorageError(f"{location} is not Iceberg table metadata")
    return metadata


def load_current(locate: Callable[[], str | None], read: Reader) -> Loaded | None:
    """A table's metadata from where the catalog says it is; None when the catalog has no such table.

    A rival may commit, or delete the table, between the two: then the file can be gone, and the catalog is asked again.
    """
    location = locate()
    while location is not None:
        try:
            return Loaded(location, read_metadata(location, read))
        except StorageError:
            if (now := locate()) == location:
                raise
            location = now
    return None


def table_facts(name: TableName, metadata_location: str, metadata: Mapping[str, Any]) -> TableFacts:
    """The table that a metadata file describes."""
    try:
        return _facts(name, metadata_location, metadata)
    except (KeyError, StopIteration, TypeError, ValueError) as exc:
        what = f"{type(exc).__name__}: {exc}"
        raise StorageError(f"{metadata_location} is not Iceberg table metadata that Névé knows ({what})") from exc


def _facts(name: TableName, metadata_location: str, metadata: Mapping[str, Any]) -> TableFacts:
    schema = _by_id(metadata, "schemas", "schema-id", "current-schema-id")
    columns = tuple(field_from_iceberg(field) for field in schema["fields"])
    paths = dict(_paths(schema["fields"], ""))
    spec = _by_id(metadata, "partition-specs", "spec-id", "default-spec-id")
    order = _by_id(metadata, "sort-orders", "order-id", "default-sort-order-id")
    current = metadata.get("current-snapshot-id")
    return TableFacts(
        name=name,
        uuid=str(metadata["table-uuid"]),
        location=str(metadata["location"]),
        metadata_location=metadata_location,
        format_version=int(metadata["format-version"]),
        updated_at=instant(metadata["last-updated-ms"]),
        columns=columns,
        partition_by=tuple(
            Transform(paths[field["source-id"]], field["transform"])
            for field in spec["fields"]
            if field["transform"] != "void" and field["source-id"] in paths
        ),
        sort_by=tuple(
            SortField(
                Transform(paths[field["source-id"]], field["transform"]),
                field["direction"] == "desc",
                field["null-order"] == "nulls-first",
            )
            for field in order["fields"]
            if field["source-id"] in paths
        ),
        properties=dict(metadata.get("properties", {})),
        snapshots=tuple(_snapshot(snapshot) for snapshot in metadata.get("snapshots", ())),
        current_snapshot_id=None if current in (None, -1) else int(current),
        made_current=tuple(
            (instant(entry["timestamp-ms"]), int(entry["snapshot-id"])) for entry in metadata.get("snapshot-log", ())
        ),
        references=tuple(_reference(name, ref) for name, ref in sorted(metadata.get("refs", {}).items())),
    )


def _reference(name: str, json: Mapping[str, Any]) -> Reference:
    return Reference(
        name=name,
        kind=json["type"],
        snapshot_id=int(json["snapshot-id"]),
        max_age=_age(json.get("max-ref-age-ms")),
        max_snapshot_age=_age(json.get("max-snapshot-age-ms")),
        min_snapshots=json.get("min-snapshots-to-keep"),
    )


def _age(milliseconds: int | None) -> timedelta | None:
    """Some writers say "for ever" by the greatest number that there is, which is longer than we can count."""
    if milliseconds is None:
        return None
    return timedelta(milliseconds=min(milliseconds, _LONGEST))


def read_layout(facts: TableFacts, snapshot: Snapshot, read: Reader) -> Layout:
    """The data and delete files of a snapshot, from its manifests; each file of metadata is read once."""
    content = read(facts.metadata_location)
    metadata = parse_metadata(facts.metadata_location, content)
    manifests = list(read_records(snapshot.manifest_list, read(snapshot.manifest_list)))
    try:
        return Layout(
            files=tuple(_live_files(metadata, manifests, read)),
            manifest_sizes=tuple(map(_manifest_size, manifests)),
            metadata_bytes=len(content),
            statistics=_statistics(facts, metadata),
        )
    except (KeyError, StopIteration, TypeError, ValueError) as exc:
        what = f"{type(exc).__name__}: {exc}"
        raise StorageError(f"{snapshot.manifest_list} lists files that Névé cannot read ({what})") from exc


def _statistics(facts: TableFacts, metadata: Mapping[str, Any]) -> tuple[ColumnStatistics, ...]:
    """None where they cannot be read: nothing but `neve stats` needs them, which says so."""
    try:
        return tuple(read_statistics(facts, metadata))
    except StorageError:
        return ()


def read_manifest_sizes(snapshot: Snapshot, read: Reader) -> tuple[ManifestSize, ...]:
    """The manifests of a snapshot, from its list alone."""
    try:
        return tuple(map(_manifest_size, read_records(snapshot.manifest_list, read(snapshot.manifest_list))))
    except (KeyError, TypeError) as exc:
        raise StorageError(f"{snapshot.manifest_list} lists manifests that Névé cannot read ({exc!r})") from exc


def _manifest_size(record: Mapping[str, Any]) -> ManifestSize:
    return ManifestSize(
        spec_id=record["partition_spec_id"], deletes=record.get("content") == 1, bytes=record["manifest_length"]
    )


def _live_files(metadata: Mapping[str, Any], manifests: list[Mapping[str, Any]], read: Reader) -> Iterator[FileFact]:
    naive = {item for schema in metadata["schemas"] for item in _without_zone(schema["fields"])}
    specs: dict[int, list[Mapping[str, Any]]] = {
        spec["spec-id"]: [{**field, _NAIVE: field["source-id"] in naive} for field in spec["fields"]]
        for spec in metadata["partition-specs"]
    }
    dated, ordered = _ingest_date(metadata), _first_sort_column(metadata)
    for manifest in manifests:
        path, fields = manifest["manifest_path"], specs[manifest["partition_spec_id"]]
        for entry in read_records(path, read(path), without=_UNREAD):
            if entry["status"] != _DELETED:
                yield _file(entry, manifest, fields, dated, ordered)


def _ingest_date(metadata: Mapping[str, Any]) -> Bounded | None:
    fields = _by_id(metadata, "schemas", "schema-id", "current-schema-id")["fields"]
    return next(
        (Bounded(field["id"], "date") for field in fields if field["name"] == INGEST_DATE and field["type"] == "date"),
        None,
    )


def _first_sort_column(metadata: Mapping[str, Any]) -> Bounded | None:
    """The column that the table's rows are sorted by first; None where its order says nothing of a column's range."""
    order = _by_id(metadata, "sort-orders", "order-id", "default-sort-order-id")["fields"]
    if not order or order[0]["transform"].partition("[")[0] not in _ORDERED:
        return None
    schema = _by_id(metadata, "schemas", "schema-id", "current-schema-id")["fields"]
    kind = dict(_leaves(schema)).get(order[0]["source-id"])
    return None if kind is None else Bounded(order[0]["source-id"], kind)


def _leaves(fields: list[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """Ids and types of the columns that have a range: primitive ones, in structs too."""
    for field in fields:
        if isinstance(field["type"], str):
            yield field["id"], field["type"]
        elif field["type"]["type"] == "struct":
            yield from _leaves(field["type"]["fields"])


def _days(file: Mapping[str, Any], dated: Bounded | None) -> tuple[date, date] | None:
    """The first and last ingest date, where the writer kept them."""
    found = bounds_of(file, dated)
    if found is None:
        return None
    first, last = (_EPOCH.date() + timedelta(days=int(days)) for days in found)
    return first, last


def _only_of(file: Mapping[str, Any]) -> str | None:
    """The data file that all rows of a file of position deletes name: both of its bounds, which are never cut."""
    found = bounds_of(file, _PATH_OF_DELETE)
    if found is None or found[0] != found[1] or not isinstance(found[0], bytes):
        return file.get("referenced_data_file")
    return found[0].decode()


def _file(
    entry: Mapping[str, Any],
    manifest: Mapping[str, Any],
    fields: list[Mapping[str, Any]],
    dated: Bounded | None,
    ordered: Bounded | None,
) -> FileFact:
    file = entry["data_file"]
    sequence, added = entry.get("sequence_number"), entry.get("file_sequence_number")
    content: Any = _CONTENT[file.get("content", 0)]
    size = file.get("content_size_in_bytes") if content != "data" else None
    return FileFact(
        content=content,
        path=file["file_path"],
        format=file["file_format"].lower(),
        partition={
            field["name"]: partition_text(field["transform"], _local(value) if field[_NAIVE] else value)
            for field, value in zip(fields, _values(file["partition"], fields), strict=True)
        },
        rows=file["record_count"],
        bytes=file["file_size_in_bytes"] if size is None else size,
        sequence_number=manifest.get("sequence_number", 0) if sequence is None else sequence,
        spec_id=manifest["partition_spec_id"],
        ingest_dates=_days(file, dated) if content == "data" else None,
        deletes_from=file.get("referenced_data_file"),
        only_of=_only_of(file) if content == "position_deletes" else None,
        sort_range=bounds_of(file, ordered) if content == "data" else None,
        added=manifest.get("sequence_number", 0) if added is None else added,
    )


def partition_text(transform: str, value: object) -> str | None:
    """A partition value as people write it: months and years are numbers since 1970 on disk.

    >>> partition_text("month", 648), partition_text("year", 54), partition_text("hour", 473353)
    ('2024-01', '2024', '2024-01-01-01')
    """
    match transform, value:
        case _, None:
            return None
        case "year", int(years):
            return str(_EPOCH.year + years)
        case "month", int(months):
            return f"{_EPOCH.year + months // _MONTHS:04}-{months % _MONTHS + 1:02}"
        case "day", int(days):
            return (_EPOCH.date() + timedelta(days=days)).isoformat()
        case "hour", int(hours):
            return (_EPOCH + timedelta(hours=hours)).strftime("%Y-%m-%d-%H")
        case _, date() as moment:
            return moment.isoformat()
        case _, bytes(raw):
            return raw.hex()
        case _:
            return str(value)


def _values(record: Mapping[str, Any], fields: list[Mapping[str, Any]]) -> list[object]:
    by_position = list(record.values())
    return [record.get(field["name"], by_position[index]) for index, field in enumerate(fields)]


def _snapshot(json: Mapping[str, Any]) -> Snapshot:
    summary = json.get("summary", {})
    return Snapshot(
        id=int(json["snapshot-id"]),
        parent_id=json.get("parent-snapshot-id"),
        sequence_number=json.get("sequence-number", 0),
        at=instant(json["timestamp-ms"]),
        operation=summary.get("operation", "unknown"),
        summary=summary,
        manifest_list=json.get("manifest-list", ""),
    )


def _by_id(metadata: Mapping[str, Any], items: str, key: str, current: str) -> Mapping[str, Any]:
    wanted = metadata[current]
    found: Mapping[str, Any] = next(item for item in metadata[items] if item[key] == wanted)
    return found


def _paths(fields: list[Mapping[str, Any]], prefix: str) -> Iterator[tuple[int, str]]:
    for field in fields:
        path = prefix + field["name"]
        yield field["id"], path
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from _paths(field["type"]["fields"], f"{path}.")


def _without_zone(fields: list[Mapping[str, Any]]) -> Iterator[int]:
    """Ids of the columns whose times have no zone: Avro's reader gives them one."""
    for field in fields:
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from _without_zone(field["type"]["fields"])
        elif field["type"] in ("timestamp", "timestamp_ns"):
            yield field["id"]


def _local(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def partition_columns(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Columns that any of the table's partition specs reads."""
    paths = dict(_paths(_by_id(metadata, "schemas", "schema-id", "current-schema-id")["fields"], ""))
    sources = {field["source-id"] for spec in metadata["partition-specs"] for field in spec["fields"]}
    return frozenset(paths[source] for source in sources if source in paths)
