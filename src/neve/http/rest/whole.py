"""Routes about the lake as a whole: how it is, what is due, what was done, and SQL."""

from __future__ import annotations

from typing import Any

from neve import __version__
from neve.http.rest.routes import Call, Route
from neve.model import rest
from neve.model.health import StatusRow
from neve.model.results import CheckRow, JobRow, Receipt
from neve.model.runs import Run
from neve.model.service import ServiceIdentity


def _sql(call: Call) -> Any:
    return call.lake.read_sql(call.body.sql, as_of=call.body.as_of)


ROUTES = (
    Route(
        verb="GET", path="/service", role="reader", summary="Which lake this is, and by which version it is served",
        do=lambda call: ServiceIdentity(lake=str(call.lake.root), version=__version__), answer=ServiceIdentity,
    ),
    Route(
        verb="GET", path="/status", role="reader", summary="Every table: health, lag, small files, due work",
        do=lambda call: call.lake.status(late=call.query.late), answer=StatusRow, many=True, query=rest.StatusQuery,
    ),
    Route(
        verb="GET", path="/schedule", role="reader", summary="What is due, and what keeps the rest waiting",
        do=lambda call: call.lake.schedule(call.query.at), answer=JobRow, many=True, query=rest.ScheduleQuery,
    ),
    Route(
        verb="GET", path="/doctor", role="reader", summary="Every check that needs no JVM",
        do=lambda call: call.lake.doctor(spark=False), answer=CheckRow, many=True,
    ),
    Route(
        verb="POST", path="/sql", role="reader", summary="One statement that reads, answered row by row", do=_sql,
        answer=Receipt, body=rest.Sql, way="as rows", example={"sql": "SELECT region, count(*) FROM sales GROUP BY 1"},
    ),
    Route(
        verb="GET", path="/runs", role="reader", summary="The latest runs",
        do=lambda call: call.lake.runs.list(**call.query.model_dump()), answer=Run, many=True, query=rest.RunsQuery,
    ),
    Route(
        verb="GET", path="/runs/{run}", role="reader", summary="Everything about one run",
        do=lambda call: call.lake.runs.show(call.names["run"]), answer=Run,
    ),
    Route(
        verb="POST", path="/runs/{run}/cancel", role="writer", summary="End a run; nothing of it stays",
        do=lambda call: call.lake.runs.cancel(call.names["run"]), answer=Run,
    ),
)  # fmt: skip
