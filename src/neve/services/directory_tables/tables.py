"""Finding, making and forgetting directory tables. What they are lies in the registry, what they hold in the folder."""

from __future__ import annotations

import gzip
import io
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from neve.catalog.files import canonical_folder, local_path
from neve.directory import Directory, Seen, open_directory
from neve.errors import AlreadyExists, ConfigError, NeveError, NotFound, Refused, TableNotFound, Unsupported
from neve.model.commands import neve
from neve.model.directories import DataFile
from neve.model.directory_tables import FileFormat, Ledger, LedgerColumn, PlainFile, Shape, read_ledger
from neve.model.ingest import INGEST_DATE
from neve.model.names import TableName
from neve.model.results import Reason, Receipt
from neve.model.runs import RegisteredTable
from neve.model.tablefile import TableFile
from neve.model.types import Field, spelled
from neve.plan.directory_tables import check_names, day_files, folder_columns, folder_values
from neve.services.context import Context
from neve.services.descriptions import describe, made_as
from neve.services.directory_tables.locks import LeaseLock
from neve.services.landing import check_reach
from neve.services.registry import forget_row, is_taken
from neve.services.runs import receipt_of, recorded
from neve.services.specs import load_table_file


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryTable:
    """A directory table as its file describes it."""

    name: TableName
    uuid: str
    location: str
    described: TableFile
    config_path: Path | None

    @property
    def format(self) -> FileFormat:
        return "csv" if self.described.storage.format == "csv" else "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What the folder of a table holds at one moment."""

    ledger: Ledger
    files: Sequence[DataFile]


def find(context: Context, name: TableName, file: Path | None = None) -> DirectoryTable | None:
    """The directory table of a name, as its file describes it now; None when the name is not one's.

    Raises:
        Refused: the file describes another folder or layout than the table has.
        StoreError: what the state database says of the table cannot be understood.
    """
    table = find_as_made(context, name)
    given = None if table is None else describe(context, name, file)
    if table is None or given is None:
        return table
    _check_same(context, name, table.described, given)
    return replace(table, described=given, config_path=file or table.config_path)


def find_as_made(context: Context, name: TableName) -> DirectoryTable | None:
    """The same, as its file described it when it was made: enough to list or settle it, whatever the file says."""
    known, described = context.store.registry.get(name.short), made_as(context, name)
    if known is None or described is None:
        return None
    return DirectoryTable(
        name=name,
        uuid=known.table_uuid,
        location=known.base_path,
        described=described,
        config_path=Path(known.config_path) if known.config_path else None,
    )


def all_directories(context: Context, *, as_made: bool = False) -> list[DirectoryTable]:
    """Every directory table, in the order of their names; one that cannot be read is told, and hides no other."""
    readable = []
    for _, found in _look_at_all(context, find_as_made if as_made else find):
        if isinstance(found, NeveError):
            context.warn(found.message)
        else:
            readable.append(found)
    return readable


def damaged_directories(context: Context) -> dict[TableName, NeveError]:
    """Directory tables of which the registry says what cannot be understood, and why."""
    looked_at = _look_at_all(context, find_as_made)
    return {name: found for name, found in looked_at if isinstance(found, NeveError)}


def _look_at_all(
    context: Context, look: Callable[[Context, TableName], DirectoryTable | None]
) -> Iterator[tuple[TableName, DirectoryTable | NeveError]]:
    for row in context.store.registry.list():
        if row.format == "iceberg":
            continue
        if (name := _spoken(row.table_name)) is None:
            context.warn(f"table_registry has a table that nobody can ask for: {row.table_name!r}")
            continue
        try:
            found = look(context, name)
        except NeveError as exc:
            yield name, exc
            continue
        if found is not None:  # a rival may forget it while we look
            yield name, found


def _spoken(text: str) -> TableName | None:
    """The name under which the registry keeps a table; None where it keeps none so."""
    try:
        name = TableName.parse(text)
    except NeveError:
        return None
    return name if name.short == text else None


def create(context: Context, path: Path, *, if_not_exists: bool = False) -> Receipt:
    """Makes the folder that a file describes, or takes over one with files that fit its patterns."""
    described = load_table_file(path)
    name = TableName.parse(described.name)
    if is_taken(context, name):
        if not if_not_exists:
            raise AlreadyExists(f"{name} already exists", hint="neve table list shows what there is")
        reason = Reason(code="already_exists", detail=f"{name} already exists")
        return Receipt(run_id=None, action="create", table=str(name), reason=reason)
    location = place(context, described)
    _check_free(context, location)
    columns = declared_columns(described)
    check_names(described, [column.name for column in columns])
    with recorded(context, "create", name, plan={"base_path": location, "config_path": str(path)}) as run:
        directory = open_table(context, location, described, create=True)
        ledger = _ledger(location, directory.look())
        if ledger is None:
            ledger = Ledger(uuid=str(uuid.uuid4()), columns=entries(columns))
            with directory.change(run.run_id) as change:
                change.write_ledger(ledger.to_bytes())
        register(
            context,
            DirectoryTable(name=name, uuid=ledger.uuid, location=location, described=described, config_path=path),
        )
        run.details["base_path"] = location
        run.undo = neve("table", "delete", name.short)
    return receipt_of(run)


def register(context: Context, table: DirectoryTable) -> None:
    now = context.clock()
    context.catalog.ensure_namespace(table.name.namespace)
    context.store.registry.put(
        RegisteredTable(
            table_name=table.name.short,
            config_path=None if table.config_path is None else str(table.config_path.absolute()),
            base_path=table.location,
            created_at=now,
            updated_at=now,
            table_uuid=table.uuid,
            format=table.format,
            config=table.described.model_dump(mode="json", by_alias=True, exclude_unset=True),
        )
    )


def forget(context: Context, name: TableName, *, force: bool, dry_run: bool) -> Receipt:
    """Takes the table out of the lake, whatever became of its file; its folder is the user's and stays."""
    known = context.store.registry.get(name.short)
    if known is None:
        raise TableNotFound(f"no table {name}", hint="see what there is: neve table list")
    if force:
        raise Unsupported(
            f"--force would remove {known.base_path}, a folder of yours",
            hint=f"neve table delete {name.short} leaves it; remove the folder yourself",
        )
    details: dict[str, JsonValue] = {"rows": None, "data": f"stays in {known.base_path}"}
    if dry_run:
        return Receipt(run_id=None, action="delete", table=str(name), dry_run=True, details=details)
    with recorded(context, "delete", name) as run:
        forget_row(context, name.short, known.table_uuid)
        run.details = details
        run.undo = None if known.config_path is None else neve("table", "create", known.config_path)
    return receipt_of(run)


def open_table(context: Context, location: str, described: TableFile, *, create: bool = False) -> Directory:
    """The folder; what a process that died had begun in it is ended first."""
    kind: FileFormat = "csv" if described.storage.format == "csv" else "parquet"
    lock = LeaseLock(context, location) if described.storage.type == "s3" else None
    return open_directory(location, context.loaded, format=kind, lock=lock, create=create)


def contents(context: Context, table: DirectoryTable) -> Contents:
    """What the folder holds now."""
    try:
        return contents_of(table, open_table(context, table.location, table.described))
    except NotFound as exc:
        words = neve("table", "delete", table.name.short)
        raise NotFound(
            f"{exc.message}, where the rows of {table.name} lie", hint=f"bring it back, or forget the table: {words}"
        ) from exc


def contents_of(table: DirectoryTable, directory: Directory) -> Contents:
    seen = directory.look()
    return Contents(ledger=_ledger(directory.location, seen) or Ledger(uuid=table.uuid), files=seen.files)


def place(context: Context, described: TableFile) -> str:
    """Where a table's folder lies: a relative path starts at the lake's folder."""
    path = described.storage.base_path or ""
    if described.storage.type == "s3":
        check_reach(context, path)
        return path.rstrip("/")
    return str((context.loaded.root / Path(path).expanduser()).resolve())


def declared_columns(described: TableFile) -> tuple[Field, ...]:
    """The columns that a table's file lists."""
    from neve.sql.columns import parse_type

    return tuple(
        Field(entry.name, parse_type(entry.type), entry.required, entry.comment) for entry in described.columns
    )


def columns_of(table: DirectoryTable, ledger: Ledger) -> tuple[LedgerColumn, ...]:
    """The columns that the ledger has, and those that only folders of files name that somebody else put there."""
    held = {column.name.casefold() for column in ledger.columns}
    folders = [column for column in folder_columns(table.described) if column.name.casefold() not in held]
    return (*ledger.columns, *(LedgerColumn(name=column.name, type=column.type) for column in folders))


def shape_of(context: Context, table: DirectoryTable, ledger: Ledger) -> Shape:
    """How the rows of a table lie in its files."""
    from neve.sql.columns import parse_type

    return Shape(
        format=table.format,
        columns=tuple(Field(column.name, parse_type(column.type)) for column in columns_of(table, ledger)),
        codec=context.loaded.settings.write.compression_codec,
    )


def plain_files(
    context: Context, table: DirectoryTable, found: Contents, paths: Sequence[str] | None = None
) -> list[PlainFile]:
    """The files, or some of them, as Spark is to read them."""
    known = {day.path: day.date for day in day_files(table.described, found.files, found.ledger)}
    wanted = [file.path for file in found.files] if paths is None else list(paths)
    return [
        PlainFile(
            path=f"{table.location}/{path}",
            columns=_header(context, f"{table.location}/{path}") if table.format == "csv" else (),
            day=known.get(path),
            folders=tuple(folder_values(table.described, known[path]).items()) if path in known else (),
        )
        for path in wanted
    ]


def check_columns(context: Context, table: DirectoryTable, files: Sequence[PlainFile], shape: Shape) -> None:
    """Before rows of files are written anew: whoever wrote these files, no column of theirs may be left out.

    Raises:
        Refused: they have columns that the table does not know.
    """
    known = {name.casefold() for name in shape.names}
    unknown = sorted(name for name in _columns_in(context, table, files) if name.casefold() not in known)
    if unknown:
        raise Refused(
            f"files that somebody else wrote have columns that {table.name} does not know, and would lose:"
            f" {', '.join(unknown)}",
            hint="load these files by `neve table ingest`, or take the columns out of them",
        )


def _columns_in(context: Context, table: DirectoryTable, files: Sequence[PlainFile]) -> set[str]:
    from neve.files.footers import column_names

    if table.format == "csv":
        return {name for file in files for name in file.columns}
    filesystem, root = context.catalog.files.filesystem(table.location)
    return column_names(filesystem, root, [file.path.removeprefix(f"{table.location}/") for file in files])


def _header(context: Context, path: str) -> tuple[str, ...]:
    import csv

    with (
        context.catalog.files.open(path) as file,
        gzip.open(file) if path.endswith(".gz") else file as plain,
        io.TextIOWrapper(plain, encoding="utf-8", newline="") as text,
    ):
        return tuple(next(csv.reader(text), ()))


def _ledger(location: str, seen: Seen) -> Ledger | None:
    return None if seen.ledger is None else read_ledger(seen.ledger, where=f"the ledger of {location}")


def entries(columns: Sequence[Field]) -> tuple[LedgerColumn, ...]:
    """Columns as the ledger writes them."""
    return tuple(
        LedgerColumn(name=column.name, type=spelled(column.type)) for column in columns if column.name != INGEST_DATE
    )


def _check_free(context: Context, location: str) -> None:
    """One folder, one table: neither another directory table nor an Iceberg one may lie in it."""
    here = canonical_folder(location) + "/"
    for row in context.store.registry.list():
        there = canonical_folder(row.base_path) + "/"
        if here.startswith(there) or there.startswith(here):
            raise Refused(
                f"{location} is the folder of {row.table_name}, or lies in it, or around it",
                hint="give storage.base_path a folder of its own",
            )
    warehouse = canonical_folder(context.loaded.warehouse_location) + "/"
    if here.startswith(warehouse) or warehouse.startswith(here):
        raise Refused(
            f"{location} is the lake's warehouse, or lies in it, or around it: files of its tables would count as rows",
            hint="give storage.base_path a folder of its own",
        )
    if (path := local_path(location)) is not None and path.is_file():
        raise ConfigError(f"storage.base_path: {location} is a file")


def _check_same(context: Context, name: TableName, held: TableFile, given: TableFile) -> None:
    moved = held.storage.type != given.storage.type
    pairs = {
        "storage.format": (held.storage.format, given.storage.format),
        "storage.base_path": (place(context, held), given.storage.base_path if moved else place(context, given)),
        "partitioning.pattern": (held.day_pattern, given.day_pattern),
        "partitioning.date_format": (held.date_format, given.date_format),
    }
    for key, (was, now) in pairs.items():
        if was != now:
            raise Refused(
                f"{name} has {key} {was}, and the file says {now}",
                hint=f"change the file back, or make the table anew: {neve('table', 'delete', name.short)}",
            )
