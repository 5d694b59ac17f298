"""Dynamic tables without Spark: declared and moved on by hand, as a refresh would leave them."""

from __future__ import annotations

from tests.lake.lakes import V2, append, current, facts

from neve.config.connections import spark_meaning
from neve.lake import Lake
from neve.model.dynamic import DynamicOptions, Lag
from neve.model.names import TableName
from neve.model.refresh import CommittedRefresh, Frontier, Pin
from neve.model.results import Reason
from neve.model.runs import new_run_id
from neve.model.specs import TableSpec
from neve.model.units import parse_duration
from neve.plan.tables import STATE, SUSPENDED
from neve.services.changes import create_table
from neve.services.dynamic.definitions import FRONTIER, REFRESH, Definition, definition_of
from neve.services.look import RUN_ID
from neve.sql.columns import parse_columns


def declare(lake: Lake, name: str, query: str, *sources: str, lag: str = "5m", suspended: bool = False) -> None:
    """A dynamic table of the columns (id bigint, v string), with no rows yet."""
    target: Lag = "DOWNSTREAM" if lag == "DOWNSTREAM" else parse_duration(lag)
    definition = Definition(
        name=TableName.parse(name),
        query=query,
        options=DynamicOptions(target_lag=target),
        sources=tuple(map(TableName.parse, sources)),
        columns={},
    )
    spec = TableSpec(name=definition.name, columns=parse_columns("id bigint, v string"), properties=V2)
    own = definition.properties() | ({STATE: SUSPENDED} if suspended else {})
    create_table(lake._context, spec, own=own)


def fill(lake: Lake, name: str, *, rows: int = 1) -> None:
    """Puts rows in, and says that they are the result of the sources as they are now, as the refresh's commit does."""
    append(lake, name, [{"id": number, "v": str(number)} for number in range(rows)])
    settle(lake, name)


def settle(lake: Lake, name: str) -> None:
    """Moves the frontier to where the sources are, by a commit of metadata alone."""
    table = facts(lake, name)
    frontier = frontier_now(lake, name).model_copy(update={"snapshot": table.current_snapshot_id})
    lake._context.catalog.set_properties(table.name, put={FRONTIER: frontier.model_dump_json()})


def frontier_now(lake: Lake, name: str) -> Frontier:
    definition = definition_of(facts(lake, name))
    assert definition is not None
    pins = {str(source): _pin(lake, str(source)) for source in definition.sources}
    base: dict[str, Pin] = {}
    for source in definition.sources:
        if definition_of(facts(lake, str(source))) is None:
            base[str(source)] = pins[str(source)]
        else:
            base |= frontier_now(lake, str(source)).base
    return Frontier(
        fingerprint=definition.fingerprint,
        at=lake._context.clock(),
        sources=pins,
        base=base,
        session=spark_meaning(lake._context.loaded),
        lasting=True,
    )


def commit_refresh(lake: Lake, name: str, *, rows: int = 1) -> str:
    """Appends rows in a commit that carries what a refresh writes into its own; the run's id."""
    run_id = new_run_id(lake._context.clock(), lake._context.entropy)
    told = CommittedRefresh(
        action="INCREMENTAL",
        reason=Reason(code="changes", detail="a: 1 appends"),
        trigger="MANUAL",
        round_id=new_run_id(lake._context.clock(), lake._context.entropy),
        rows_inserted=rows,
        rows_deleted=0,
        rows_changed_in_sources=rows,
    )
    summary = {RUN_ID: run_id, FRONTIER: frontier_now(lake, name).model_dump_json(), REFRESH: told.model_dump_json()}
    append(lake, name, [{"id": number, "v": "x"} for number in range(rows)], summary=summary)
    return run_id


def _pin(lake: Lake, name: str) -> Pin:
    table = facts(lake, name)
    return Pin(uuid=table.uuid, snapshot=table.current_snapshot_id)


__all__ = ["commit_refresh", "current", "declare", "fill", "frontier_now", "settle"]
