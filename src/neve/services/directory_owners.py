"""Whether a folder's files belong to a table: one that says so beside them, or one of the lake at hand."""

from __future__ import annotations

from pathlib import Path

from neve.catalog.files import canonical_folder
from neve.directory import LEDGER
from neve.errors import Refused
from neve.model.commands import neve
from neve.plan.adopt import ADOPTED_FROM
from neve.plan.folders import overlap
from neve.services.context import Context
from neve.services.look import all_facts
from neve.services.shared import folders_of

_FOREIGN = {"_delta_log": "Delta Lake", ".hoodie": "Apache Hudi"}


def refuse_tables(location: str, context: Context | None) -> None:
    """Refuses a change of files that a table counts on; it would miss them, or rows of them. `context` is the lake.

    Raises:
        Refused: the folder is a table's, or lies in one's, or around it.
    """
    folder = Path(canonical_folder(location))
    if context is not None:
        _refuse_owned(str(folder), context)
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


def _refuse_owned(folder: str, context: Context) -> None:
    """By what the lake's tables say of where their files lie."""
    for facts in all_facts(context):
        places = [*folders_of(facts), facts.properties.get(ADOPTED_FROM)]
        if any(overlap(canonical_folder(place), folder) for place in places if place is not None):
            name = facts.name.short
            verbs = " or ".join(neve(verb, name) for verb in ("compact", "delete", "update", "upsert", "dedupe"))
            raise Refused(f"files of table {name} lie in {folder}", hint=f"change the table: {verbs}")
    for row in context.store.registry.list():
        if row.format != "iceberg" and overlap(canonical_folder(row.base_path), folder):
            raise Refused(
                f"files of the directory table {row.table_name} lie in {folder}",
                hint=f"change the table: {neve('table', 'ingest', row.table_name)}, {neve('compact', row.table_name)}",
            )
