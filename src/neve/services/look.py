"""Looking at tables: metadata and logs alone, never Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from neve.errors import StorageError, TableNotFound
from neve.model.facts import FileFact, TableFacts, partition_label
from neve.model.names import Namespace, TableName
from neve.model.results import (
    ColumnRow,
    FileRow,
    NamespaceRow,
    PartitionRow,
    PropertyRow,
    ReferenceRow,
    SnapshotRow,
    TableDetails,
    TableSummary,
)
from neve.plan.holds import holder_of, purposes
from neve.plan.ranges import keys_of
from neve.plan.tables import dependants, row_keys_of
from neve.services.context import Context

RUN_ID = "neve.run-id"


def list_tables(context: Context, namespace: Namespace | None = None) -> list[TableSummary]:
    """Every table, or those in a namespace and below it, sorted by name."""
    names = [name for name in context.catalog.tables() if namespace in (None, name.namespace[: len(namespace or ())])]
    facts = {item.name: item for item in all_facts(context)}
    return [_summary(facts[name]) if name in facts else _unreadable(name) for name in names]


def all_facts(context: Context) -> list[TableFacts]:
    """Facts of every table that can be read; `doctor` speaks of the others."""
    found = []
    for name in context.catalog.tables():
        try:
            found.append(context.catalog.facts(name))
        except (StorageError, TableNotFound):  # a rival may delete one while we look
            continue
    return found


def dependants_of(context: Context, name: TableName) -> list[TableName]:
    return dependants(name, all_facts(context))


def show_table(context: Context, name: TableName) -> TableDetails:
    facts = context.catalog.facts(name)
    current, keys = facts.current, keys_of(facts)
    return TableDetails(
        table=str(name),
        uuid=facts.uuid,
        comment=facts.properties.get("comment"),
        format="iceberg",
        format_version=facts.format_version,
        online=facts.online,
        location=facts.location,
        columns=[
            ColumnRow(name=column.name, type=str(column.type), required=column.required, comment=column.comment)
            for column in facts.columns
        ],
        partition_by=[str(item) for item in facts.partition_by],
        sort_by=[str(item) for item in facts.sort_by],
        row_keys=list(row_keys_of(facts)),
        sort_keys=[] if keys is None else list(keys.sort_keys),
        ranges=None if keys is None else len(keys.tree.leaves),
        rows=live_rows(facts),
        files=current.total("data-files") if current else 0,
        delete_files=current.total("delete-files") if current else 0,
        bytes=current.total("files-size") if current else 0,
        snapshots=len(facts.snapshots),
        current_snapshot=facts.current_snapshot_id,
        updated_at=facts.updated_at,
        properties=dict(sorted(facts.properties.items())),
        dependants=[str(other) for other in dependants_of(context, name)],
        references=table_references(context, name),
    )


def table_history(context: Context, name: TableName) -> list[SnapshotRow]:
    """Snapshots, newest first; `current` is the one readers see, `ancestor` leads to it."""
    facts = context.catalog.facts(name)
    ancestors = {snapshot.id for snapshot in facts.ancestors()}
    labels: dict[int, list[str]] = defaultdict(list)
    for reference in facts.references:
        labels[reference.snapshot_id].append(reference.name)
    return [
        SnapshotRow(
            snapshot=snapshot.id,
            parent=snapshot.parent_id,
            at=snapshot.at,
            operation=snapshot.operation,
            current=snapshot.id == facts.current_snapshot_id,
            ancestor=snapshot.id in ancestors,
            references=labels[snapshot.id],
            rows_added=int(snapshot.summary.get("added-records", 0)),
            rows_deleted=int(snapshot.summary.get("deleted-records", 0))
            + int(snapshot.summary.get("added-position-deletes", 0)),
            files_added=int(snapshot.summary.get("added-data-files", 0)),
            files_deleted=int(snapshot.summary.get("deleted-data-files", 0)),
            rows=snapshot.rows,
            run_id=snapshot.summary.get(RUN_ID),
        )
        for snapshot in sorted(facts.snapshots, key=lambda item: (item.sequence_number, item.at), reverse=True)
    ]


def table_files(context: Context, name: TableName) -> list[FileRow]:
    files = context.catalog.live_files(context.catalog.facts(name))
    rows = [
        FileRow(
            path=file.path,
            content=file.content,
            format=file.format,
            partition=partition_label(file.partition),
            rows=file.rows,
            bytes=file.bytes,
        )
        for file in files
    ]
    return sorted(rows, key=lambda row: (row.partition, row.content, row.path))


def table_partitions(context: Context, name: TableName) -> list[PartitionRow]:
    """Files, rows and bytes per partition. Rows are live ones: those that position deletes took are not counted."""
    groups: dict[str, list[FileFact]] = defaultdict(list)
    for file in context.catalog.live_files(context.catalog.facts(name)):
        groups[partition_label(file.partition)].append(file)
    return [_partition(label, files) for label, files in sorted(groups.items())]


def table_references(context: Context, name: TableName) -> list[ReferenceRow]:
    facts = context.catalog.facts(name)
    ours = any(holder_of(reference.name) for reference in facts.references)
    told = purposes(facts, all_facts(context)) if ours else {}
    return [
        ReferenceRow(
            name=reference.name,
            kind=reference.kind,
            snapshot=reference.snapshot_id,
            at=snapshot.at if (snapshot := facts.snapshot(reference.snapshot_id)) else None,
            purpose=told.get(reference.name),
        )
        for reference in facts.references
    ]


def table_properties(context: Context, name: TableName) -> list[PropertyRow]:
    properties = context.catalog.facts(name).properties
    return [PropertyRow(key=key, value=value) for key, value in sorted(properties.items())]


def list_namespaces(context: Context) -> list[NamespaceRow]:
    tables = context.catalog.tables()
    return [
        NamespaceRow(namespace=".".join(namespace), tables=sum(table.namespace == namespace for table in tables))
        for namespace in context.catalog.namespaces()
    ]


def _summary(facts: TableFacts) -> TableSummary:
    current = facts.current
    return TableSummary(
        table=str(facts.name),
        online=facts.online,
        rows=live_rows(facts),
        files=current.total("data-files") if current else 0,
        bytes=current.total("files-size") if current else 0,
        snapshots=len(facts.snapshots),
        updated_at=facts.updated_at,
    )


def _unreadable(name: TableName) -> TableSummary:
    """A table whose metadata cannot be read is listed all the same: it can be deleted, and `doctor` says why."""
    return TableSummary(
        table=str(name), online=None, rows=None, files=None, bytes=None, snapshots=None, updated_at=None
    )


def live_rows(facts: TableFacts) -> int | None:
    return facts.current.rows if facts.current else 0


def _partition(label: str, files: Sequence[FileFact]) -> PartitionRow:
    data = [file for file in files if file.content == "data"]
    removed = sum(file.rows for file in files if file.content == "position_deletes")
    sizes = [file.bytes for file in data] or [0]
    return PartitionRow(
        partition=label,
        files=len(data),
        delete_files=len(files) - len(data),
        rows=sum(file.rows for file in data) - removed,
        bytes=sum(file.bytes for file in files),
        smallest_file=min(sizes),
        largest_file=max(sizes),
    )
