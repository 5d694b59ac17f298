"""What a table should be, from a file or from flags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from neve.documents import load_document, parse_document
from neve.errors import ConfigError, InvalidSchema, NeveError
from neve.model.dataset import Dataset
from neve.model.ingest import INGEST_DATE
from neve.model.layout import Transform, parse_sort_field, parse_transform, split_list
from neve.model.names import TableName, check_part
from neve.model.specs import (
    AddColumn,
    Alteration,
    DropColumn,
    DropRequired,
    MoveColumn,
    Position,
    RenameColumn,
    SetComment,
    SetPartitioning,
    SetSortOrder,
    SetType,
    TableSpec,
    check_spec,
    find_column,
)
from neve.model.splits import Key, check_encoded, key_type, parse_points
from neve.model.tablefile import ColumnEntry, SchemaFile, StorageSection, TableFile
from neve.model.types import Field, Primitive

_YAML = (".yaml", ".yml")
INGEST_COLUMN = Field(INGEST_DATE, Primitive("date"), False, "the date of the delivery")
_PLACE = re.compile(
    r"\s+(?:(?P<first>first)|(?P<side>after|before)\s+(?P<other>`[^`]+`|[^\s`'\"]+))\s*\Z", re.IGNORECASE
)


def is_table_file(text: str) -> bool:
    """Whether TABLE on a command line is a file rather than a name."""
    return text.endswith(_YAML)


def name_in_file(path: Path) -> TableName:
    """The table that a file describes."""
    return TableName.parse(parse_document(load_document(path), TableFile).name)


def load_table_file(path: Path) -> TableFile:
    return parse_document(load_document(path), TableFile)


def load_dataset(path: Path) -> Dataset:
    """A cleaning file. Raises ConfigError with file, line and key for whatever is wrong."""
    return parse_document(load_document(path), Dataset)


def spec_from_file(path: Path, *, root: Path, warehouse: str) -> TableSpec:
    """The Iceberg table that a file describes. Raises ConfigError with file, line and key for whatever is wrong."""
    table = load_table_file(path)
    _check_storage(path, table.storage, root, warehouse)
    _refuse_names(path, table)
    ingested = is_ingested(table)
    if not table.columns and not ingested:
        raise ConfigError(f"{path} columns: this key is needed", hint="list them, such as columns: {id: bigint}")
    try:
        columns = _columns(table.columns) or (_dataset_columns(path, table, root) if ingested else ())
        if ingested:
            columns = (*columns, INGEST_COLUMN)
        keys = tuple(table.row_keys)
        spec = TableSpec(
            name=TableName.parse(table.name),
            columns=columns,
            partition_by=tuple(map(parse_transform, table.partition_by))
            or ((Transform(INGEST_DATE, "month"),) if ingested and not keys else ()),
            sort_by=tuple(map(parse_sort_field, table.sort_by)),
            properties=table.properties,
            comment=table.description,
            row_keys=keys,
            sort_keys=tuple(table.sort_keys),
            split_points=_points(columns, keys, _split_file(path, table, root), encoded=table.split_points_base64),
        )
        check_spec(spec)
    except ConfigError:
        raise
    except NeveError as exc:
        raise ConfigError(f"{path}: {exc.message}", hint=exc.hint) from exc
    return spec


def is_ingested(table: TableFile) -> bool:
    """Whether a file describes a table that is filled by date: it has a section about that."""
    return not {"storage", "partitioning", "compaction", "ingestion", "schema_changes"}.isdisjoint(
        table.model_fields_set
    )


def dataset_path(path: Path, table: TableFile, root: Path) -> Path | None:
    """The cleaning file that a table's file names: from the lake's folder, from beside the file, or from here."""
    if table.ingestion.dataset_config is None:
        return None
    return _named_file(path, "ingestion.dataset_config", table.ingestion.dataset_config, root)


def _split_file(path: Path, table: TableFile, root: Path) -> str | None:
    if table.split_points is None:
        return None
    return _named_file(path, "split_points", table.split_points, root).read_text(encoding="utf-8")


def _named_file(path: Path, key: str, text: str, root: Path) -> Path:
    named = Path(text).expanduser()
    places = [named] if named.is_absolute() else [root / named, path.parent / named, path.parent / named.name]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ConfigError(f"{path}: {key}: no file {named}", hint="paths start at the lake's folder")
    return found


def _dataset_columns(path: Path, table: TableFile, root: Path) -> tuple[Field, ...]:
    from neve.sql.columns import parse_type

    named = dataset_path(path, table, root)
    if named is None:
        return ()
    return tuple(
        Field(column.name, parse_type(column.type or "string"), column.name in table.row_keys, None)
        for column in load_dataset(named).columns
    )


def _check_storage(path: Path, storage: StorageSection, root: Path, warehouse: str) -> None:
    """An Iceberg table lies in the warehouse; a file may say so, and not otherwise."""
    kind = "s3" if warehouse.startswith("s3") else "local"
    if "type" in storage.model_fields_set and storage.type != kind:
        raise ConfigError(
            f"{path}: storage.type: {storage.type}, but an Iceberg table lies in the lake's warehouse, {warehouse}",
            hint="set storage.format: parquet (or csv) for a plain folder there, or change warehouse in neve.yaml",
        )
    if storage.base_path is None:
        return
    named = storage.base_path if kind == "s3" else str((root / Path(storage.base_path).expanduser()).resolve())
    if not f"{warehouse}/".startswith(f"{named.rstrip('/')}/"):
        raise ConfigError(
            f"{path}: storage.base_path: {storage.base_path}, but a table of storage.format iceberg (the default) lies"
            f" in the lake's warehouse, {warehouse}",
            hint="set storage.format: parquet (or csv) for a plain folder there, or leave base_path out",
        )


def _refuse_names(path: Path, table: TableFile) -> None:
    if idle := table.directory_only_keys():
        raise ConfigError(
            f"{path}: {', '.join(idle)}: a table of storage.format iceberg (the default) names its files itself",
            hint="set storage.format: parquet (or csv) for a plain folder, or leave these keys out",
        )


def spec_from_words(
    name: str,
    schema: str,
    *,
    partition_by: Sequence[str] = (),
    sort_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    comment: str | None = None,
    row_keys: Sequence[str] = (),
    sort_keys: Sequence[str] = (),
    split_points: str | None = None,
    encoded: bool = False,
) -> TableSpec:
    """From the words of a command line; `schema` is a YAML file or column definitions."""
    columns = columns_from_words(schema)
    keys = tuple(key for text in row_keys for key in split_list(text))
    spec = TableSpec(
        name=TableName.parse(name),
        columns=columns,
        partition_by=tuple(parse_transform(item) for text in partition_by for item in split_list(text)),
        sort_by=tuple(parse_sort_field(item) for text in sort_by for item in split_list(text)),
        properties=dict(properties or {}),
        comment=comment,
        row_keys=keys,
        sort_keys=tuple(key for text in sort_keys for key in split_list(text)),
        split_points=_points(columns, keys, split_points, encoded=encoded),
    )
    check_spec(spec)
    return spec


def _points(columns: tuple[Field, ...], keys: tuple[str, ...], text: str | None, *, encoded: bool) -> tuple[Key, ...]:
    check_encoded(text, encoded=encoded)
    if text is None:
        return ()
    if not keys:
        raise InvalidSchema("split points divide the first row key, and there is none", hint="give --row-keys")
    return parse_points(text, key_type(find_column(columns, keys[0])), encoded=encoded)


def columns_from_words(schema: str) -> tuple[Field, ...]:
    from neve.sql.columns import parse_columns

    if schema.endswith(_YAML):
        return _columns(parse_document(load_document(Path(schema)), SchemaFile).columns)
    return parse_columns(schema)


def _columns(entries: Sequence[ColumnEntry]) -> tuple[Field, ...]:
    from neve.sql.columns import parse_type

    return tuple(
        Field(check_part(entry.name, what="column"), parse_type(entry.type), entry.required, entry.comment)
        for entry in entries
    )


def alterations_from_words(
    *,
    add: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    move: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    comments: Mapping[str, str] | None = None,
    optional: Sequence[str] = (),
    partition_by: Sequence[str] | None = None,
    sort_by: Sequence[str] | None = None,
) -> list[Alteration]:
    """The alterations that the words of a command line ask for."""
    from neve.sql.columns import parse_type

    changes: list[Alteration] = [_addition(text) for text in add]
    changes += [DropColumn(path) for path in drop]
    changes += [RenameColumn(path, check_part(new, what="column")) for path, new in (rename or {}).items()]
    changes += [MoveColumn(*_placed(text)) for text in move]
    changes += [SetType(path, parse_type(text)) for path, text in (types or {}).items()]
    changes += [SetComment(path, text) for path, text in (comments or {}).items()]
    changes += [DropRequired(path) for path in optional]
    if partition_by is not None:
        changes.append(SetPartitioning(tuple(parse_transform(item) for t in partition_by for item in split_list(t))))
    if sort_by is not None:
        changes.append(SetSortOrder(tuple(parse_sort_field(item) for text in sort_by for item in split_list(text))))
    return changes


def _addition(text: str) -> AddColumn:
    from neve.sql.columns import parse_column

    match = _PLACE.search(text)
    definition = text[: match.start()] if match else text
    path, _, rest = definition.strip().partition(" ")
    if path.startswith("`"):
        return AddColumn("", parse_column(definition), None if match is None else _position(match))
    parent, _, name = path.rpartition(".")
    return AddColumn(parent, parse_column(f"{name} {rest}"), None if match is None else _position(match))


def _placed(text: str) -> tuple[str, Position]:
    match = _PLACE.search(text)
    if match is None:
        raise InvalidSchema(f"where should {text!r} go?", hint='write "name first", "name after X" or "name before X"')
    return text[: match.start()].strip().strip("`"), _position(match)


def _position(match: re.Match[str]) -> Position:
    side = match["first"] or match["side"]
    if side.lower() == "first":
        return Position(side="first")
    return Position(side="after" if side.lower() == "after" else "before", column=match["other"].strip("`"))
