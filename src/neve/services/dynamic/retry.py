"""Once more, for the tables of a round that failed and those that did not get their turn."""

from __future__ import annotations

from neve.errors import InvalidInput
from neve.model.history import RefreshRecord
from neve.services.context import Context
from neve.services.dynamic.laps import RoundRequest
from neve.services.dynamic.rounds import Round, run_round
from neve.services.look import all_facts


def retry(context: Context, run_id: str | None = None, *, parallel: int | None = None) -> Round | None:
    """One round of the tables that failed in a round, by its id or by the run of one of its tables.

    Without an id, of all whose last refresh failed. None when there is nothing to do again.

    Raises:
        RunNotFound: there is no such round or run.
        InvalidInput: the run is no refresh.
    """
    rows = context.store.refreshes.latest().values() if run_id is None else _of_round(context, run_id)
    names = {facts.uuid: facts.name.short for facts in all_facts(context)}
    again = [names[row.table_uuid] for row in rows if row.failed and row.table_uuid in names]
    return run_round(context, RoundRequest(selectors=sorted(again), parallel=parallel)) if again else None


def _of_round(context: Context, run_id: str) -> tuple[RefreshRecord, ...]:
    if found := context.store.refreshes.of_round(run_id.upper()):
        return found
    run = context.store.runs.get(run_id)
    round_id = (run.plan or {}).get("round_id")
    if run.kind != "refresh" or not isinstance(round_id, str):
        raise InvalidInput(
            f"run {run.run_id} is a {run.kind}: only refreshes can be tried again", hint="give its command again"
        )
    return context.store.refreshes.of_round(round_id)
