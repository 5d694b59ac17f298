"""Which snapshot a person means by an id, a tag or branch name, or a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from neve.errors import InvalidInput, SnapshotNotFound, nearest
from neve.model.commands import neve
from neve.model.facts import Snapshot, TableFacts

_ID = re.compile(r"-?[0-9]{1,19}\Z")


def find_snapshot(facts: TableFacts, text: str) -> Snapshot:
    """The snapshot that `text` names: an id, a tag or branch, or the one that was current at a time.

    Raises:
        SnapshotNotFound: there is none such, or it has expired.
    """
    named = {reference.name: reference.snapshot_id for reference in facts.references}
    if text in named:
        return _kept(facts, named[text], text)
    if _ID.match(text):
        return _kept(facts, int(text), text)
    moment = parse_time(text)
    if moment is None:
        raise SnapshotNotFound(
            f"{facts.name} has no snapshot, tag or time {text!r}",
            hint=nearest(text, named) or _see(facts),
        )
    earlier = [snapshot_id for at, snapshot_id in facts.made_current if at <= moment]
    if not earlier:
        raise SnapshotNotFound(f"{facts.name} has no snapshot as old as {moment.isoformat()}", hint=_see(facts))
    return _kept(facts, earlier[-1], text)


def parse_time(text: str) -> datetime | None:
    """An ISO time, UTC unless it says otherwise; None when the text is no time.

    >>> parse_time("2024-01-01 10:00"), parse_time("v1")
    (datetime.datetime(2024, 1, 1, 10, 0, tzinfo=datetime.timezone.utc), None)
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def check_reference_name(name: str) -> None:
    """A new tag or branch needs a name of its own that no one takes for an id or a time."""
    if not name or not name.isprintable() or name.strip() != name:
        raise InvalidInput(f"not a name for a tag or branch: {name!r}")
    if name.startswith("-") or name.isdecimal() or parse_time(name) is not None:
        raise InvalidInput(f"{name!r} could be taken for a snapshot id or a time", hint="begin the name with a letter")


def _kept(facts: TableFacts, snapshot_id: int, text: str) -> Snapshot:
    snapshot = facts.snapshot(snapshot_id)
    if snapshot is None:
        raise SnapshotNotFound(f"{facts.name} has no snapshot {text}: unknown, or expired", hint=_see(facts))
    return snapshot


def _see(facts: TableFacts) -> str:
    return f"see them: {neve('table', 'history', facts.name.short)}"
