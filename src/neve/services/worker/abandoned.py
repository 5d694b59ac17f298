"""What dead workers held for work that has ended all the same: Java ended it, or a person did it."""

from __future__ import annotations

from collections.abc import Container

from neve.model.names import TableName
from neve.model.work import Claim
from neve.plan.agenda import Agenda
from neve.services.context import Context
from neve.services.worker.landing import KIND as LANDING


def free_abandoned(context: Context, agenda: Agenda, *, only: Container[TableName] | None, but: str) -> list[Claim]:
    """Frees the tables of lapsed claims that nothing is due on; what was freed. `but` is the worker that asks.

    Whoever claimed such a table later would count a death against work that was done. Files that land are left out, as
    a first look cannot tell whether they are complete.
    """
    now, claims = context.clock(), context.store.claims
    lapsed = [claim for claim in claims.held().values() if claim.expires_at <= now and claim.owner != but]
    return [
        claim
        for claim in lapsed
        if (only is None or TableName.parse(claim.table_name) in only)
        and claim.action != LANDING
        and (claim.table_uuid, claim.action) not in agenda.due
        and claims.release(claim)
    ]
