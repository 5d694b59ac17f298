"""Routes about tables and namespaces."""

from __future__ import annotations

from typing import Any

from neve.errors import InvalidInput, InvalidSchema
from neve.http.rest.routes import Call, Route
from neve.lake import LakeTable
from neve.model import rest
from neve.model.compaction import CompactionReceipt
from neve.model.health import TableHealth
from neve.model.ingest import IngestReceipt
from neve.model.layout import split_list
from neve.model.range_rows import RangeRead, RangeRow, SplitReceipt
from neve.model.results import (
    FileRow,
    NamespaceRow,
    PartitionRow,
    PropertyRow,
    Receipt,
    ReferenceRow,
    SnapshotRow,
    TableDetails,
    TableStatus,
    TableSummary,
    TrashRow,
)
from neve.model.retention import ExpireReceipt
from neve.model.rewrites import RewriteReceipt
from neve.services.ranges.reading import asked_in_words

_T = "/tables/{table}"


def _table(call: Call) -> LakeTable:
    return call.lake.named(call.names["table"])


def _create(call: Call) -> Receipt:
    words: rest.NewTable = call.body
    if words.columns.endswith((".yaml", ".yml")):
        raise InvalidSchema("schema is the columns themselves, not a file", hint="such as: id bigint not null")
    return call.lake.tables.create(
        words.table, words.columns, **words.model_dump(exclude={"table", "columns"}, by_alias=False)
    )


def _drop(call: Call) -> Receipt:
    target = _table(call)
    if call.query.dry_run:
        return target.plan_drop(force=call.query.purge)
    return target.drop(force=call.query.purge)


def _change_properties(call: Call) -> list[Receipt]:
    if not call.body.put and not call.body.unset:
        raise InvalidInput("give set, unset or both")
    target = _table(call)
    done = [target.set(call.body.put)] if call.body.put else []
    return [*done, target.unset(call.body.unset)] if call.body.unset else done


def _compact(call: Call) -> CompactionReceipt | RewriteReceipt:
    done: CompactionReceipt | RewriteReceipt = _table(call).compact(**call.body.model_dump(exclude_unset=True))
    return done


def _ingest(call: Call) -> IngestReceipt:
    words: dict[str, Any] = call.body.model_dump()
    return _table(call).ingest(*words.pop("sources"), **words)


def _changes(call: Call) -> Any:
    words: rest.ChangesQuery = call.query
    columns = None if words.columns is None else split_list(words.columns)
    return _table(call).changes(words.since, words.until, columns=columns)


ROUTES = (
    Route(
        verb="GET", path="/namespaces", role="reader", summary="Every namespace",
        do=lambda call: call.lake.namespaces.list(), answer=NamespaceRow, many=True,
    ),
    Route(
        verb="POST", path="/namespaces", role="writer", summary="Make a namespace", body=rest.NewNamespace,
        do=lambda call: call.lake.namespaces.create(call.body.namespace, if_not_exists=call.body.if_not_exists),
        answer=NamespaceRow, example={"namespace": "raw"},
    ),
    Route(
        verb="DELETE", path="/namespaces/{namespace}", role="admin", summary="Drop an empty namespace",
        do=lambda call: call.lake.namespaces.drop(call.names["namespace"]), answer=NamespaceRow,
    ),
    Route(
        verb="GET", path="/tables", role="reader", summary="Every table, or those below a namespace",
        do=lambda call: call.lake.tables.list(call.query.namespace), answer=TableSummary, many=True,
        query=rest.TablesQuery,
    ),
    Route(
        verb="POST", path="/tables", role="writer", summary="Make an empty table", do=_create, answer=Receipt,
        body=rest.NewTable, example={"table": "raw.sales", "schema": "id bigint not null, amount decimal(10,2)"},
    ),
    Route(
        verb="GET", path=_T, role="reader", summary="Schema, layout, sizes, properties",
        do=lambda call: _table(call).show(), answer=TableDetails,
    ),
    Route(
        verb="DELETE", path=_T, role="admin", summary="Delete a table; it stays in the trash unless purged", do=_drop,
        answer=Receipt, query=rest.DropQuery,
    ),
    Route(
        verb="POST", path=f"{_T}/rename", role="admin", summary="Rename a table",
        do=lambda call: _table(call).rename(call.body.to), answer=Receipt, body=rest.Rename, example={"to": "raw.sold"},
    ),
    Route(
        verb="GET", path="/trash", role="reader", summary="Deleted tables that can come back",
        do=lambda call: call.lake.tables.trash(), answer=TrashRow, many=True,
    ),
    Route(
        verb="POST", path=f"{_T}/undelete", role="admin", summary="Bring a table back from the trash",
        do=lambda call: call.lake.tables.undelete(call.names["table"], new_name=call.body.new_name), answer=Receipt,
        body=rest.Undelete,
    ),
    Route(
        verb="GET", path=f"{_T}/properties", role="reader", summary="Its properties",
        do=lambda call: _table(call).properties(), answer=PropertyRow, many=True,
    ),
    Route(
        verb="PATCH", path=f"{_T}/properties", role="admin", summary="Set and unset properties",
        do=_change_properties, answer=Receipt, many=True, body=rest.Properties,
        example={"set": {"write.target-file-size-bytes": "134217728"}},
    ),
    Route(
        verb="POST", path=f"{_T}/online", role="writer", summary="Let scheduled jobs work on it",
        do=lambda call: _table(call).online(), answer=Receipt,
    ),
    Route(
        verb="POST", path=f"{_T}/offline", role="writer", summary="Keep scheduled jobs away from it",
        do=lambda call: _table(call).offline(), answer=Receipt,
    ),
    Route(
        verb="GET", path=f"{_T}/snapshots", role="reader", summary="Its snapshots, newest first",
        do=lambda call: _table(call).history(), answer=SnapshotRow, many=True,
    ),
    Route(
        verb="GET", path=f"{_T}/references", role="reader", summary="Its tags and branches",
        do=lambda call: _table(call).references(), answer=ReferenceRow, many=True,
    ),
    Route(
        verb="POST", path=f"{_T}/tags", role="writer", summary="Name a snapshot",
        do=lambda call: _table(call).tag(call.body.name, at=call.body.at), answer=Receipt, body=rest.NewTag,
        example={"name": "v1"},
    ),
    Route(
        verb="DELETE", path=f"{_T}/tags/{{tag}}", role="admin", summary="Delete a tag",
        do=lambda call: _table(call).delete_tag(call.names["tag"]), answer=Receipt,
    ),
    Route(
        verb="POST", path=f"{_T}/rollback", role="admin", summary="Make an earlier snapshot the current one",
        do=lambda call: _table(call).rollback(call.body.to, dry_run=call.body.dry_run), answer=Receipt,
        body=rest.Rollback, example={"to": "v1"},
    ),
    Route(
        verb="GET", path=f"{_T}/status", role="reader", summary="Sizes, ingestions, compactions",
        do=lambda call: _table(call).status(), answer=TableStatus,
    ),
    Route(
        verb="GET", path=f"{_T}/health", role="reader", summary="A score, and what helps most",
        do=lambda call: _table(call).health(), answer=TableHealth,
    ),
    Route(
        verb="GET", path=f"{_T}/files", role="reader", summary="Files of the current snapshot",
        do=lambda call: _table(call).files(), answer=FileRow, many=True,
    ),
    Route(
        verb="GET", path=f"{_T}/partitions", role="reader", summary="Files, rows and bytes per partition",
        do=lambda call: _table(call).partitions(), answer=PartitionRow, many=True,
    ),
    Route(
        verb="GET", path=f"{_T}/ranges", role="reader", summary="The ranges of a key-range table, with files and rows",
        do=lambda call: _table(call).ranges(), answer=RangeRow, many=True,
    ),
    Route(
        verb="POST", path=f"{_T}/get", role="reader", summary="Rows by their row keys, in key order, row by row",
        do=lambda call: _table(call).read(asked_in_words(call.body)), answer=Receipt, body=rest.RowsByKey,
        way="as rows", example={"keys": ["17"], "ranges": [["a", "c"]]},
    ),
    Route(
        verb="POST", path=f"{_T}/get/explain", role="reader", summary="The ranges and files that such a read opens",
        do=lambda call: _table(call).explain_read(asked_in_words(call.body)), answer=RangeRead, body=rest.KeyWords,
        example={"keys": ["17"]},
    ),
    Route(
        verb="POST", path=f"{_T}/split", role="writer", summary="Divide key ranges that are full", answer=SplitReceipt,
        do=lambda call: _table(call).split(call.body.range, at=call.body.at, dry_run=call.body.dry_run),
        body=rest.Split, way="as a run", example={"dry_run": True},
    ),
    Route(
        verb="GET", path=f"{_T}/changes", role="reader", summary="Net row changes between two snapshots, row by row",
        do=_changes, answer=Receipt, query=rest.ChangesQuery, way="as rows",
    ),
    Route(
        verb="POST", path=f"{_T}/compact", role="writer", summary="Few large files of many small ones", do=_compact,
        answer=RewriteReceipt, body=rest.Compact, way="as a run", example={"force": True},
    ),
    Route(
        verb="POST", path=f"{_T}/expire", role="admin", summary="Remove snapshots that nobody needs",
        do=lambda call: _table(call).expire(**call.body.model_dump()), answer=ExpireReceipt, body=rest.Expire,
        way="as a run", example={"older_than": "7d"},
    ),
    Route(
        verb="POST", path=f"{_T}/ingest", role="admin", summary="Load files that the service can read", do=_ingest,
        answer=IngestReceipt, body=rest.Ingest, way="as a run",
        example={"sources": ["/landing/sales_2026-11-16.csv"], "date": "2026-11-16"},
    ),
)  # fmt: skip
