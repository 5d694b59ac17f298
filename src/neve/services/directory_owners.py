"""Whether a folder's files belong to a table: one that says so beside them, or one of the lake at hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from neve.catalog.files import canonical_folder
from neve.directory import LEDGER
from neve.errors import Refused, StorageError, StoreError, Unreachable
from neve.model.commands import neve
from neve.model.facts import TableFacts
from neve.model.names import TableName
from neve.model.runs import TrashedTable
from neve.plan.adopt import ADOPTED_FROM
from neve.plan.folders import overlap
from neve.services.context import Context
from neve.services.look import all_facts
from neve.services.shared import folders_of

_FOREIGN = {"_delta_log": "Delta Lake", ".hoodie": "Apache Hudi"}


def refuse_tables(location: str, context: Context | None, *, belongs: bool) -> None:
    """Refuses a change of files that a table counts on; it would miss them, or rows of them.

    `context` is the lake at hand, and `belongs` says whether the folder is its own, or said to be: then it must answer.

    Raises:
        Refused: the folder is a table's, or lies in one's, or around it; or nobody can tell.
    """
    folder = Path(canonical_folder(location))
    if context is not None:
        _ask_lake(str(folder), context, belongs=belongs)
    for place in (folder, *folder.parents):
        _refuse_marked(folder, place)


def _refuse_marked(folder: Path, place: Path) -> None:
    """By what lies in the folder, or in one around it."""
    for name, who in _FOREIGN.items():
        if (place / name).is_dir():
            raise Refused(f"{folder} belongs to a table of {who} in {place}", hint=f"change it with {who}")
    if (place / LEDGER).is_file():
        raise Refused(
            f"{folder} belongs to a directory table in {place}",
            hint="change it through its lake, by the table's name, as in `neve compact TABLE`",
        )
    if any((place / "metadata").glob("*.metadata.json")):
        raise Refused(
            f"{folder} belongs to an Iceberg table in {place}",
            hint="change it by the table's name, as in `neve compact TABLE`; `neve table register` takes in a table",
        )


def _ask_lake(folder: str, context: Context, *, belongs: bool) -> None:
    """By what the lake says; one that does not answer keeps nobody from folders that lie outside of it."""
    try:
        _refuse_owned(folder, context)
    except (StorageError, StoreError, Unreachable) as exc:
        unknown = (
            f"the lake in {context.loaded.root} cannot say whether {folder} holds files of its tables: {exc.message}"
        )
        own = (str(context.loaded.root), context.loaded.warehouse_location)
        if belongs or _lie_in(own, folder):
            raise Refused(unknown, hint=exc.hint or "bring the lake back, and run the command again") from exc
        context.warn(f"{unknown}; the folder lies outside of the lake, and is changed")


def _refuse_owned(folder: str, context: Context) -> None:
    """By what the lake's tables say of where their files lie."""
    for facts in all_facts(context):
        if _lie_in(_places(facts), folder):
            name = facts.name.short
            verbs = " or ".join(neve(verb, name) for verb in ("compact", "delete", "update", "upsert", "dedupe"))
            raise Refused(f"files of table {name} lie in {folder}", hint=f"change the table: {verbs}")
    for trashed in context.store.trash.list():
        if trashed.metadata_location is not None and _lie_in(_places_of_trashed(context, trashed), folder):
            raise Refused(
                f"files of table {trashed.table_name}, which is in the trash, lie in {folder}",
                hint=f"bring it back: {neve('table', 'undelete', trashed.table_name)};"
                f" it leaves the trash on {trashed.purge_after:%Y-%m-%d}",
            )
    for row in context.store.registry.list():
        if row.format != "iceberg" and overlap(canonical_folder(row.base_path), folder):
            raise Refused(
                f"files of the directory table {row.table_name} lie in {folder}",
                hint=f"change the table: {neve('table', 'ingest', row.table_name)}, {neve('compact', row.table_name)}",
            )


def _places(facts: TableFacts) -> tuple[str, ...]:
    adopted = facts.properties.get(ADOPTED_FROM)
    return folders_of(facts) if adopted is None else (*folders_of(facts), adopted)


def _places_of_trashed(context: Context, row: TrashedTable) -> tuple[str, ...]:
    """Of a table that can come back; where its metadata cannot be read, its own folder alone."""
    try:
        return _places(context.catalog.facts_at(TableName.parse(row.table_name), str(row.metadata_location)))
    except StorageError:
        return (row.location,)


def _lie_in(places: Iterable[str], folder: str) -> bool:
    return any(overlap(canonical_folder(place), folder) for place in places)
