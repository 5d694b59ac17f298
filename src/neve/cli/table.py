"""`neve table …`"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from neve.cli.options import Command, confirm, group, open_lake, pairs, read_text
from neve.errors import InvalidInput
from neve.model.commands import neve

app = group("Tables: create, look, change, delete.")

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A table's name, or its YAML file.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


SplitPoints = Annotated[
    Path | None, typer.Option("--split-points", help="A file of split points: one per line, ascending.")
]
Base64 = Annotated[bool, typer.Option("--base64", help="The split points are base64.")]


def _emit(answer: object, *, empty: str = "nothing to show", next_step: str | None = None) -> None:
    from neve.cli.render import emit

    emit(answer, empty=empty, next_step=next_step)  # type: ignore[arg-type]


@app.command("create", cls=Command)
def create(
    table: Annotated[
        str, typer.Argument(metavar="NAME|CONFIG.yaml", help="A name, or a file that describes the table.")
    ],
    schema: Annotated[
        str | None, typer.Option("--schema", help='A YAML file, or columns: "id bigint not null, name string".')
    ] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option("--partition-by", help="day(ts), bucket(16, id), region…")
    ] = None,
    sort_by: Annotated[list[str] | None, typer.Option("--sort-by", help="id, ts desc…")] = None,
    properties: Annotated[list[str] | None, typer.Option("--property", help="key=value; may be repeated.")] = None,
    comment: Annotated[str | None, typer.Option("--comment", help="What the table is for.")] = None,
    row_keys: Annotated[
        list[str] | None, typer.Option("--row-keys", help="The columns that order the rows: id, ts…")
    ] = None,
    sort_keys: Annotated[
        list[str] | None, typer.Option("--sort-keys", help="The columns that order rows of equal row keys.")
    ] = None,
    split_points: SplitPoints = None,
    base64: Base64 = False,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="No error when it is there.")] = False,
) -> None:
    """Make an empty table."""
    from neve.services.specs import is_table_file

    if is_table_file(table):
        if schema or partition_by or sort_by or properties or comment or row_keys or sort_keys or split_points:
            raise InvalidInput(f"{table} already says what the table is", hint="change the file, or give a name")
    elif schema is None:
        raise InvalidInput(
            f"what columns should {table} have?",
            hint=f'{neve("table", "create", table)} --schema "id bigint not null, …"',
        )
    receipt = open_lake(create=True).tables.create(
        table,
        schema,
        partition_by=partition_by or (),
        sort_by=sort_by or (),
        properties=pairs(properties or []),
        comment=comment,
        row_keys=row_keys or (),
        sort_keys=sort_keys or (),
        split_points=read_text(split_points),
        base64=base64,
        if_not_exists=if_not_exists,
    )
    _emit(receipt, next_step=neve("table", "show", receipt.table))


@app.command("list", cls=Command)
def list_(
    namespace: Annotated[str | None, typer.Argument(help="Only this namespace and those below it.")] = None,
) -> None:
    """List tables by name."""
    first = 'no tables yet; make one: neve table create NAME --schema "id bigint not null, …"'
    _emit(open_lake().tables.list(namespace), empty=f"no tables in {namespace}" if namespace else first)


@app.command("show", cls=Command)
def show(table: Table) -> None:
    """Schema, layout, sizes, snapshots, properties and dependants."""
    _emit(open_lake().table(table).show())


@app.command("status", cls=Command)
def status(table: Table) -> None:
    """How the table is: sizes, small files, ingestions and compactions."""
    _emit(open_lake().table(table).status())


@app.command("health", cls=Command)
def health(table: Table) -> None:
    """How files and metadata are laid out: a score, what costs it points, and what helps most."""
    _emit(open_lake().table(table).health())


@app.command("history", cls=Command)
def history(table: Table) -> None:
    """Snapshots, newest first."""
    _emit(open_lake().table(table).history(), empty="no snapshots yet: nothing was written")


@app.command("files", cls=Command)
def files(
    table: Table,
    by_range: Annotated[
        bool, typer.Option("--by-range", help="Of a key-range table: how many files its ranges have.")
    ] = False,
) -> None:
    """Data and delete files of the current snapshot."""
    target = open_lake().table(table)
    _emit(target.range_files() if by_range else target.files(), empty="no files yet")


@app.command("partitions", cls=Command)
def partitions(table: Table) -> None:
    """Files, rows and bytes per partition; of a key-range table, all its ranges."""
    target = open_lake().table(table)
    _emit(target.ranges() if target.has_ranges() else target.partitions(), empty="no files yet")


@app.command("properties", cls=Command)
def properties_(table: Table) -> None:
    """The table's properties."""
    _emit(open_lake().table(table).properties(), empty="no properties")


@app.command("set", cls=Command)
def set_(table: Table, properties: Annotated[list[str], typer.Argument(metavar="KEY=VALUE…")]) -> None:
    """Set properties."""
    _emit(open_lake().table(table).set(pairs(properties)))


@app.command("unset", cls=Command)
def unset(table: Table, keys: Annotated[list[str], typer.Argument(metavar="KEY…")]) -> None:
    """Remove properties."""
    _emit(open_lake().table(table).unset(keys))


@app.command("alter", cls=Command)
def alter(
    table: Table,
    add: Annotated[list[str] | None, typer.Option("--add", help='"name type [first|after X|before X]"')] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="A column; a.b for a struct's field.")] = None,
    rename: Annotated[list[str] | None, typer.Option("--rename", help="old=new")] = None,
    move: Annotated[
        list[str] | None, typer.Option("--move", help='"name first", "name after X", "name before X"')
    ] = None,
    kind: Annotated[list[str] | None, typer.Option("--type", help="name=wider type: int→bigint, float→double…")] = None,
    comment: Annotated[list[str] | None, typer.Option("--comment", help="name=text")] = None,
    optional: Annotated[
        list[str] | None, typer.Option("--optional", help="A column that may be NULL from now on.")
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option("--partition-by", help="The new layout, '' for none; old files stay as they are."),
    ] = None,
    sort_by: Annotated[list[str] | None, typer.Option("--sort-by", help="The new order, '' for none.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Change columns, partitioning or sort order. All changes are one commit; no data is rewritten."""
    from neve.services.specs import alterations_from_words

    changes = alterations_from_words(
        add=add or [],
        drop=drop or [],
        rename=pairs(rename or []),
        move=move or [],
        types=pairs(kind or []),
        comments=pairs(comment or []),
        optional=optional or [],
        partition_by=partition_by,
        sort_by=sort_by,
    )
    _emit(open_lake().table(table).alter(changes, dry_run=dry_run))


@app.command("rename", cls=Command)
def rename(table: Table, new_name: Annotated[str, typer.Argument(metavar="NEW_NAME")]) -> None:
    """Rename a table; its data stays where it is."""
    _emit(open_lake().table(table).rename(new_name))


@app.command("delete", cls=Command)
def delete(
    table: Table,
    force: Annotated[bool, typer.Option("--force", help="No question and no trash: the data goes for ever.")] = False,
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Forget the table, leave its files.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete a table. It can be brought back until the trash period is over."""
    if force and keep_data:
        raise InvalidInput("--force removes the data and --keep-data keeps it: choose one")
    target = open_lake().table(table)
    plan = target.plan_drop(force=force, keep_data=keep_data)
    if dry_run:
        _emit(plan)
        return
    rows = plan.details["rows"]
    confirm(
        f"Delete {plan.table} with {f'{rows:,}' if isinstance(rows, int) else 'an unknown number of'} rows;"
        f" its data {plan.details['data']}.",
        yes=yes or force,
    )
    _emit(target.drop(force=force, keep_data=keep_data))


@app.command("undelete", cls=Command)
def undelete(
    table: Annotated[str, typer.Argument(metavar="TABLE")],
    new_name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Bring it back under another name.")
    ] = None,
) -> None:
    """Bring a deleted table back from the trash."""
    _emit(open_lake().tables.undelete(table, new_name=new_name))


@app.command("trash", cls=Command)
def trash() -> None:
    """Deleted tables that can still come back."""
    _emit(open_lake().tables.trash(), empty="the trash is empty")


@app.command("reinitialise", cls=Command)
def reinitialise(
    table: Table,
    delete_partitions: Annotated[
        bool, typer.Option("--delete-partitions", help="Make the key ranges one again.")
    ] = False,
    split_points: SplitPoints = None,
    base64: Base64 = False,
    ranges: Annotated[
        Path | None, typer.Option("--partitions", metavar="FILE", help="Ranges as export-partitions wrote them.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Take every row out of a table; layout and properties stay. Can be undone until snapshots expire."""
    target = open_lake().table(table)
    points, tree = read_text(split_points), read_text(ranges)
    empty = partial(
        target.reinitialise, delete_partitions=delete_partitions, split_points=points, base64=base64, partitions=tree
    )
    plan = empty(dry_run=True)
    if dry_run or plan.reason is not None:
        _emit(plan)
        return
    rows = plan.details["rows_deleted"]
    confirm(f"Take {f'{rows:,}' if isinstance(rows, int) else 'all'} rows out of {plan.table}.", yes=yes)
    _emit(empty())


@app.command("online", cls=Command)
def online(
    table: Annotated[str | None, typer.Argument(metavar="TABLE")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every table.")] = False,
) -> None:
    """Let scheduled jobs work on the table again."""
    _set_online(table, everything=everything, state=True)


@app.command("offline", cls=Command)
def offline(
    table: Annotated[str | None, typer.Argument(metavar="TABLE")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every table.")] = False,
) -> None:
    """Keep scheduled jobs away from the table; ingest and query go on."""
    _set_online(table, everything=everything, state=False)


def _set_online(table: str | None, *, everything: bool, state: bool) -> None:
    if (table is None) != everything:
        raise InvalidInput("give a table, or --all")
    lake = open_lake()
    if everything:
        _emit(lake.tables.set_all_online(online=state), empty="no tables yet")
    elif table is not None:
        target = lake.table(table)
        _emit(target.online() if state else target.offline())


@app.command("tag", cls=Command)
def tag(
    table: Table,
    name: Annotated[str | None, typer.Argument(metavar="TAG", help="Without one, the tags are listed.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="WHEN", help="Snapshot id, tag or time; else now.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the tag.")] = False,
) -> None:
    """Name a snapshot so that it is kept and can be queried."""
    target = open_lake().table(table)
    if name is None:
        _emit([row for row in target.references() if row.kind == "tag"], empty="no tags")
    else:
        _emit(target.delete_tag(name) if delete else target.tag(name, at=at))


@app.command("branches", cls=Command)
def branches(
    table: Table,
    name: Annotated[str | None, typer.Argument(metavar="BRANCH", help="Without one, the branches are listed.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="WHEN", help="Snapshot id, tag or time; else now.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the branch.")] = False,
) -> None:
    """List, make or delete branches."""
    target = open_lake().table(table)
    if name is None:
        _emit([row for row in target.references() if row.kind == "branch"], empty="no branches yet")
    else:
        _emit(target.delete_branch(name) if delete else target.branch(name, at=at))


@app.command("rollback", cls=Command)
def rollback(
    table: Table,
    to: Annotated[str, typer.Option("--to", metavar="WHEN", help="Snapshot id, tag or time.")],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Make an earlier snapshot the current one. Can itself be rolled back."""
    target = open_lake().table(table)
    plan = target.rollback(to, dry_run=True)
    if dry_run or plan.reason is not None:
        _emit(plan)
        return
    confirm(f"Roll {plan.table} back from snapshot {plan.snapshot_before} to {plan.snapshot_after}.", yes=yes)
    _emit(target.rollback(to))


@app.command("register", cls=Command)
def register(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    metadata_location: Annotated[str, typer.Argument(metavar="METADATA_LOCATION", help="Its ….metadata.json file.")],
) -> None:
    """Add a table that lies somewhere already; nothing is copied."""
    _emit(open_lake(create=True).tables.register(name, metadata_location))


@app.command("query", cls=Command)
def query(
    table: Table,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="The table goes by its short name.")],
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="WHEN", help="Snapshot id, tag or time.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most so many rows.")] = None,
) -> None:
    """Query one table."""
    from neve.cli.commands import emit_frame

    emit_frame(open_lake().table(table).query(sql, as_of=as_of), limit=limit, headline=True)


@app.command("export", cls=Command)
def export(
    table: Table,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A new or empty folder, or s3://bucket/prefix.")],
    kind: Annotated[
        str, typer.Option("--format", help="parquet; or csv: a header, UTC times, NULL empty and '' quoted.")
    ] = "parquet",
    where: Annotated[str | None, typer.Option("--where", metavar="SQL", help="Only rows for which this holds.")] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="WHEN", help="Snapshot id, tag or time.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier export, and nothing else.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Write the table's rows as plain files. The folder is complete, or not there."""
    target = open_lake().table(table)
    _emit(target.export(folder, format=kind, where=where, as_of=as_of, overwrite=overwrite, dry_run=dry_run))


@app.command("adopt", cls=Command)
def adopt(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Parquet files, flat or in key=value folders.")],
    name: Annotated[str, typer.Argument(metavar="NAME")],
    dry_run: DryRun = False,
) -> None:
    """Make a table of a folder of Parquet files. Nothing is copied; the files stay as they are."""
    receipt = open_lake(create=True).tables.adopt(folder, name, dry_run=dry_run)
    _emit(receipt, next_step=None if dry_run else neve("table", "show", receipt.table))
