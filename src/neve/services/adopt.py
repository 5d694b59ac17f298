"""An existing Parquet folder becomes a table: its files are read where they lie, never copied, moved or deleted."""

from __future__ import annotations

import uuid
from pathlib import Path

from pydantic import JsonValue

from neve.catalog.files import local_path
from neve.config.connections import table_defaults
from neve.errors import AlreadyExists, Refused, Unsupported
from neve.model.commands import neve
from neve.model.names import TableName
from neve.model.results import Receipt
from neve.plan.adopt import ADOPTED_FROM, Adoption, check_held, plan_adoption
from neve.plan.folders import overlap, partition_keys
from neve.plan.tables import first_properties, table_location
from neve.services.context import Context
from neve.services.look import RUN_ID, all_facts
from neve.services.registry import is_taken, register_row
from neve.services.runs import receipt_of, recorded


def adopt_folder(context: Context, folder: str, name: TableName, *, dry_run: bool = False) -> Receipt:
    """Makes a table of the Parquet files in a folder, in one commit. A dry run makes every check and no change.

    Raises:
        AlreadyExists: the name is taken, or the folder's files are another table's.
        Refused: the files cannot be a table as they lie; the message names the file.
    """
    location = absolute_location(folder)
    if is_taken(context, name):
        raise AlreadyExists(f"table {name} already exists", hint="choose another name, or delete it first")
    _refuse_foreign_side(context, location)
    _refuse_shared(context, location)
    plan = read_adoption(context, location, name)
    details = _described(plan)
    if dry_run:
        return Receipt(run_id=None, action="adopt", table=str(name), dry_run=True, details=details)
    target = table_location(context.loaded.warehouse_location, name, uuid.uuid4().hex)
    with recorded(context, "adopt", name, plan={"from": location, "location": target}) as run:
        _create(context, plan, target, run_id=run.run_id)
        register_row(context, name, new_table=True)
        run.details = details
        run.snapshot_after = context.catalog.facts(name).current_snapshot_id
        run.undo = neve("table", "delete", name.short)
    return receipt_of(run)


def absolute_location(folder: str) -> str:
    """A folder as the tables of the lake name it: a path from the root with links followed, or an S3 location."""
    if folder.startswith("s3"):
        scheme, separator, rest = folder.partition("://")
        if separator and scheme in ("s3", "s3a", "s3n"):
            return f"s3://{rest.rstrip('/')}"
    return str((local_path(folder) or Path(folder).expanduser()).resolve())


def read_adoption(context: Context, location: str, name: TableName) -> Adoption:
    """Looks at every file of a folder and decides; no Spark."""
    from neve.files.footers import distinct_values, list_files, read_footers

    filesystem, root = context.catalog.files.filesystem(location)
    files = list_files(filesystem, root, location=location, local=local_path(location) is not None)
    if not files:
        raise Refused(f"{location} holds no files to adopt", hint="files whose names begin with _ or . do not count")
    plan = plan_adoption(name, location, read_footers(filesystem, root, files, partition_keys(list(files))))
    for doubt in plan.doubts:
        check_held(doubt, distinct_values(filesystem, root, doubt.path, doubt.column))
    first_properties(plan.spec, {})
    return plan


def _refuse_foreign_side(context: Context, location: str) -> None:
    """One table's metadata and files are read through one door: all local, or all on S3."""
    warehouse = context.loaded.warehouse_location
    if (local_path(location) is None) != (local_path(warehouse) is None):
        raise Unsupported(
            f"{location} does not lie where the lake's tables do: {warehouse}",
            hint="a lake with a local warehouse adopts local folders, one on S3 those on S3",
        )
    if overlap(location, warehouse):
        raise Refused(f"{location} belongs to the lake's own warehouse", hint="see the tables: neve table list")


def _refuse_shared(context: Context, location: str, *, but: TableName | None = None) -> None:
    """Two tables must not share files: what one of them drops, the other would miss."""
    for facts in all_facts(context):
        for folder in (facts.location, facts.properties.get(ADOPTED_FROM)):
            if facts.name != but and folder is not None and overlap(folder, location):
                raise AlreadyExists(
                    f"{location} is in use by table {facts.name}, whose files lie in {folder}",
                    hint="two tables must not share files",
                )


def _create(context: Context, plan: Adoption, target: str, *, run_id: str) -> None:
    """Commits, then looks again: of two that adopt one folder at once under two names, no two stay."""
    from neve.engine.transfer import NewFile, create_with_files

    spec = plan.spec
    properties = {**first_properties(spec, table_defaults(context.loaded)), **plan.properties}
    files = [
        NewFile(path=f"{plan.folder}/{file.path}", bytes=file.bytes, rows=file.rows, partition=file.partition)
        for file in plan.files
    ]
    spark = context.session.spark
    context.catalog.ensure_namespace(spec.name.namespace)
    try:
        create_with_files(spark, spec, files, location=target, properties=properties, summary={RUN_ID: run_id})
        _refuse_shared(context, plan.folder, but=spec.name)
    except BaseException:
        _withdraw(context, spec.name, target)
        raise


def _withdraw(context: Context, name: TableName, target: str) -> None:
    """Leaves nothing of a table that was not to be; a rival's table of that name stays."""
    if is_taken(context, name):
        current = context.catalog.metadata_location(name)
        if current.startswith(f"{target}/"):
            context.catalog.drop(name, expected=current)
    context.catalog.files.remove_tree(target)


def _described(plan: Adoption) -> dict[str, JsonValue]:
    return {
        "from": plan.folder,
        "files": len(plan.files),
        "rows": plan.rows,
        "bytes": plan.bytes,
        "columns": [f"{column.name} {column.type}" for column in plan.spec.columns],
        "partition_by": [str(item) for item in plan.spec.partition_by],
        **({"empty_files": plan.empty_files} if plan.empty_files else {}),
    }
