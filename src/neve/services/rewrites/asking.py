"""From the words of a caller to a request, and what does not go together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack, get_args

from neve.errors import InvalidInput, NeveError, nearest
from neve.model.names import TableName
from neve.model.rewrites import CompactOptions, RewriteReceipt, Strategy
from neve.model.units import parse_size
from neve.services.context import Context
from neve.services.expiry import ask as ask_to_expire
from neve.services.expiry import keeps_less
from neve.services.look import all_facts
from neve.services.rewrites.compaction import compact_table
from neve.services.rewrites.looking import RewriteRequest

_LEAST_FILES = 2


def ask_to_compact(table: TableName, *, dry_run: bool = False, **how: Unpack[CompactOptions]) -> RewriteRequest:
    """A request; what is not given is for the table and the settings to say."""
    size = how.get("target_file_size")
    by = how.get("by", ())
    hours = how.get("snapshot_retention_hours")
    if hours is not None and not how.get("expire_snapshots"):
        raise InvalidInput("--snapshot-retention-hours is for --expire-snapshots", hint="add --expire-snapshots")
    if (most := how.get("max_files")) is not None and most < _LEAST_FILES:
        raise InvalidInput(f"--max-files is at least {_LEAST_FILES}: one file alone cannot become fewer")
    if isinstance(by, str):
        raise InvalidInput("an order is a list of columns", hint=f'by=["{by}"]')
    return RewriteRequest(
        table=table,
        strategy=_strategy(how.get("strategy", "binpack")),
        by=tuple(by),
        target_file_size=parse_size(size) if isinstance(size, str) else size,
        max_files=most,
        force=how.get("force", False),
        where=how.get("where"),
        partition={name: "null" if value is None else str(value) for name, value in how.get("partition", {}).items()},
        expire_snapshots=how.get("expire_snapshots", False),
        snapshot_retention_hours=hours,
        dry_run=dry_run,
    )


def refuse_for_periods(how: CompactOptions) -> None:
    """A period is compacted whole, to the table's own size of files."""
    given = [name.replace("_", "-") for name, value in how.items() if not _says_nothing(value)]
    if given:
        raise InvalidInput(f"--{given[0]} is not for a --period", hint="leave out one of them")


def _says_nothing(value: object) -> bool:
    """0 is a number, and so it says something."""
    return value is None or value is False or value in ("binpack", [], (), {})


def compact_all(context: Context, *, dry_run: bool = False, **how: Unpack[CompactOptions]) -> Iterator[RewriteReceipt]:
    """Every table that is online, one after the other; a table that fails keeps none of the others from it.

    Raises:
        NeveError: the first failure, once all the others are done.
    """
    requests = [ask_to_compact(name, dry_run=dry_run, **how) for name in _online(context)]
    failed: list[NeveError] = []
    for request in requests:
        try:
            yield compact_table(context, request)
        except NeveError as exc:
            failed.append(exc)
            context.tell(f"{request.table}: {exc.message}")
    if failed:
        raise failed[0]


def keeping_less(context: Context, retention_hours: float) -> list[str]:
    """The tables that are online of which less would be kept than they and the settings say."""
    asked = (ask_to_expire(name, retention_hours=retention_hours) for name in _online(context))
    return [request.table.short for request in asked if keeps_less(context, request)]


def _online(context: Context) -> list[TableName]:
    return [facts.name for facts in all_facts(context) if facts.online]


def _strategy(word: str) -> Strategy:
    known: tuple[Strategy, ...] = get_args(Strategy)
    for strategy in known:
        if word == strategy:
            return strategy
    raise InvalidInput(f"no strategy {word!r}", hint=nearest(word, known) or f"there are: {', '.join(known)}")
