"""Tags that keep the snapshots which dynamic tables go on from: which are due, and which are left over. Pure.

A refresh reads what changed since the snapshots of its frontier, so those must not expire before it. Each is held by a
tag on the source, named by the uuid of the table that needs it: a rename changes nothing, and no two tables share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.refresh import Frontier

_PREFIX = "neve_dynamic_"

Consumed = Mapping[str, Frontier]
"""Dynamic tables by uuid, each with how far it has come."""


def hold_name(uuid: str) -> str:
    """
    >>> hold_name("6f1c2b3a-0000-4000-8000-000000000000")
    'neve_dynamic_6f1c2b3a-0000-4000-8000-000000000000'
    """
    return f"{_PREFIX}{uuid}"


def holder_of(reference: str) -> str | None:
    """The uuid of the table that a tag is for; None for any other reference.

    >>> holder_of("neve_dynamic_u"), holder_of("v1")
    ('u', None)
    """
    return reference.removeprefix(_PREFIX) if reference.startswith(_PREFIX) else None


def missing_holds(source: TableFacts, consumed: Consumed) -> dict[str, int]:
    """The tags that a source lacks or has elsewhere, with their snapshots. What has expired cannot be held."""
    present = _holds(source)
    wanted = {hold_name(uuid): _snapshot(source, frontier) for uuid, frontier in consumed.items()}
    return {
        name: snapshot
        for name, snapshot in wanted.items()
        if snapshot is not None and present.get(name) != snapshot and source.snapshot(snapshot) is not None
    }


def left_over_holds(source: TableFacts, consumed: Consumed) -> list[str]:
    """The tags on a source that no table needs: it is gone, or reads the source no more."""
    needed = {hold_name(uuid) for uuid, frontier in consumed.items() if _snapshot(source, frontier) is not None}
    return sorted(set(_holds(source)) - needed)


def held_by(frontier: Frontier) -> list[TableName]:
    """The sources on which a table holds a snapshot."""
    return [TableName.parse(name) for name, pin in frontier.sources.items() if pin.snapshot is not None]


def purposes(source: TableFacts, tables: Iterable[TableFacts]) -> dict[str, str]:
    """What each of these tags is for, in words."""
    names = {facts.uuid: str(facts.name) for facts in tables}
    return {
        name: f"the next refresh of {names[uuid]} goes on from here" if uuid in names else "left over: neve doctor"
        for name in _holds(source)
        if (uuid := holder_of(name)) is not None
    }


def _holds(source: TableFacts) -> dict[str, int]:
    return {
        reference.name: reference.snapshot_id
        for reference in source.references
        if reference.kind == "tag" and holder_of(reference.name) is not None
    }


def _snapshot(source: TableFacts, frontier: Frontier) -> int | None:
    pin = frontier.sources.get(str(source.name))
    return None if pin is None or pin.uuid != source.uuid else pin.snapshot
