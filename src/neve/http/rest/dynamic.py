"""Routes about dynamic tables."""

from __future__ import annotations

from typing import Any

from neve.errors import RefreshFailed
from neve.http.rest.routes import Call, Route
from neve.lake import DynamicTable
from neve.model import rest
from neve.model.delta import Step
from neve.model.history import RefreshRecord
from neve.model.refresh import DynamicDetails, DynamicGraph, DynamicRow, RefreshReceipt
from neve.model.results import Receipt

_T = "/dynamic/{table}"
_SQL = (
    "CREATE DYNAMIC TABLE totals TARGET_LAG = '5 minutes' AS SELECT region, sum(amount) AS s FROM sales GROUP BY region"
)


def _one(call: Call) -> DynamicTable:
    return call.lake.dynamic(call.names["table"])


def _refresh(call: Call) -> Any:
    """What the command line prints; a round in which tables failed is an error that names them."""
    words: rest.Refresh = call.body
    done = call.lake.dynamic.round(
        words.names, downstream=words.downstream, parallel=words.parallel, dry_run=words.dry_run
    )
    if done.errors:
        raise RefreshFailed(done.told(), hint="GET /api/v1/dynamic/history tells what became of each")
    return done.receipts


ROUTES = (
    Route(
        verb="GET", path="/dynamic", role="reader", summary="Every dynamic table, with freshness and lag",
        do=lambda call: call.lake.dynamic.list(), answer=DynamicRow, many=True,
    ),
    Route(
        verb="POST", path="/dynamic", role="admin", summary="Make dynamic tables, and fill them",
        do=lambda call: call.lake.dynamic.create(call.body.sql), answer=Receipt, many=True, body=rest.Declaration,
        way="as a run", example={"sql": _SQL},
    ),
    Route(
        verb="POST", path="/dynamic/validate", role="reader", summary="How a declared table would follow changes",
        do=lambda call: call.lake.dynamic.validate(call.body.sql), answer=Step, body=rest.Declaration,
        example={"sql": _SQL},
    ),
    Route(
        verb="POST", path="/dynamic/refresh", role="writer", summary="A round of refreshes", do=_refresh,
        answer=RefreshReceipt, many=True, body=rest.Refresh, way="as a run", example={"names": ["totals+"]},
    ),
    Route(
        verb="GET", path="/dynamic/graph", role="reader", summary="Who reads whom",
        do=lambda call: call.lake.dynamic.graph(call.query.name), answer=DynamicGraph, query=rest.GraphQuery,
    ),
    Route(
        verb="GET", path="/dynamic/history", role="reader", summary="The latest refreshes of all",
        do=lambda call: call.lake.dynamic.history(failed=call.query.failed, limit=call.query.limit),
        answer=RefreshRecord, many=True, query=rest.HistoryQuery,
    ),
    Route(
        verb="GET", path=_T, role="reader", summary="How it was declared, and how far it has come",
        do=lambda call: _one(call).show(), answer=DynamicDetails,
    ),
    Route(
        verb="PATCH", path=_T, role="writer", summary="Change its options",
        do=lambda call: _one(call).alter(call.body.put, unset=call.body.unset), answer=Receipt,
        body=rest.AlterDynamic, example={"set": {"TARGET_LAG": "10 minutes"}},
    ),
    Route(
        verb="DELETE", path=_T, role="admin", summary="Drop it",
        do=lambda call: _one(call).drop(cascade=call.query.cascade), answer=Receipt, many=True,
        query=rest.CascadeQuery,
    ),
    Route(
        verb="POST", path=f"{_T}/suspend", role="writer", summary="Leave it out of rounds",
        do=lambda call: _one(call).suspend(), answer=Receipt, many=True,
    ),
    Route(
        verb="POST", path=f"{_T}/resume", role="writer", summary="Take it into rounds again",
        do=lambda call: _one(call).resume(), answer=Receipt, many=True,
    ),
    Route(
        verb="GET", path=f"{_T}/explain", role="reader", summary="How it follows changes",
        do=lambda call: _one(call).explain(), answer=Step,
    ),
    Route(
        verb="GET", path=f"{_T}/history", role="reader", summary="Its latest refreshes",
        do=lambda call: call.lake.dynamic.history(
            call.names["table"], failed=call.query.failed, limit=call.query.limit
        ),
        answer=RefreshRecord, many=True, query=rest.HistoryQuery,
    ),
)  # fmt: skip
