"""CREATE_TABLE, LIST_TABLES, DESCRIBE_TABLE, DROP_TABLE, DROP_NAMESPACE and COMPACT. No Spark but for compaction."""

from __future__ import annotations

from neve.model.operation_answers import (
    Compacted,
    CompactionStats,
    NamespaceDropped,
    TableCreated,
    TableDescribed,
    TableDropped,
    TableList,
)
from neve.model.operations import Compact, CreateTable, DescribeTable, DropNamespace, DropTable, ListTables
from neve.model.rewrites import CompactOptions
from neve.plan.discretion import shown_properties
from neve.plan.operations import check_same, described_partition, described_schema, own_properties, spec_of
from neve.services.changes import create_table, drop_namespace
from neve.services.context import Context
from neve.services.deletion import delete_table
from neve.services.look import live_rows
from neve.services.rewrites.asking import ask_to_compact
from neve.services.rewrites.compaction import compact_table

_MIB = 1 << 20


def create(context: Context, request: CreateTable) -> TableCreated:
    own = own_properties(request)
    receipt = create_table(context, spec_of(request), if_not_exists=request.if_not_exists, own=own)
    existed = receipt.reason is not None
    return TableCreated(table_created=not existed, table_existed=existed)


def ensure(context: Context, asked: CreateTable) -> None:
    """The table is there, as it was asked for; made now if it was not."""
    if not context.catalog.exists(asked.name):
        create(context, asked)
    check_same(context.catalog.facts(asked.name), asked)


def list_tables(context: Context, request: ListTables) -> TableList:
    """Those of this namespace alone, not of those below it."""
    place = request.place
    return TableList(tables=sorted(name.name for name in context.catalog.tables() if name.namespace == place))


def describe(context: Context, request: DescribeTable, *, confined: bool = False) -> TableDescribed:
    facts = context.catalog.facts(request.name)
    current = facts.current
    properties = shown_properties(facts.properties) if confined else facts.properties
    return TableDescribed(
        table=request.table,
        namespace=request.namespace,
        tenant_id=request.tenant_id,
        columns=described_schema(facts),
        partition=described_partition(facts),
        properties=dict(sorted(properties.items())),
        rows=live_rows(facts),
        files=current.total("data-files") if current else 0,
        bytes=current.total("files-size") if current else 0,
        snapshot=facts.current_snapshot_id,
    )


def drop(context: Context, request: DropTable) -> TableDropped:
    receipt = delete_table(context, request.name, force=request.purge)
    return TableDropped(table_dropped=True, purged=request.purge, undo=receipt.undo)


def drop_place(context: Context, request: DropNamespace) -> NamespaceDropped:
    drop_namespace(context, request.place)
    return NamespaceDropped(namespace_dropped=True)


def compact(context: Context, request: Compact) -> Compacted:
    how = CompactOptions(
        force=request.force,
        max_files=request.max_files,
        partition=request.partition_filter or request.partition_filters or {},
        expire_snapshots=request.expire_snapshots,
        snapshot_retention_hours=request.snapshot_retention_hours,
    )
    if request.target_file_size_mb is not None:
        how["target_file_size"] = round(request.target_file_size_mb * _MIB)
    receipt = compact_table(context, ask_to_compact(request.name, **how))
    stats = CompactionStats.model_validate({name: getattr(receipt, name) for name in CompactionStats.model_fields})
    reason = None if receipt.compacted or receipt.reason is None else receipt.reason.detail
    return Compacted(compacted=receipt.compacted, reason=reason, stats=stats)
