"""`lake.tables`: making tables and finding them."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import InvalidInput
from neve.model.names import TableName, parse_namespace
from neve.model.results import (
    Receipt,
    TableSummary,
    TrashRow,
)
from neve.services import adopt, changes, look, specs, trash
from neve.services.context import Context
from neve.services.directory_tables import look as directory_look
from neve.services.directory_tables import tables as directory_tables

if TYPE_CHECKING:
    pass


class Tables:
    def __init__(self, context: Context) -> None:
        self._context = context

    def list(self, namespace: str | None = None) -> list[TableSummary]:
        """Every table, or those in a namespace and below it, sorted by name."""
        chosen = None if namespace is None else parse_namespace(namespace)
        found = [
            *look.list_tables(self._context, chosen),
            *directory_look.list_directories(self._context, chosen),
        ]
        return sorted(found, key=lambda row: TableName.parse(row.table))

    def create(
        self,
        name: str,
        schema: str | None = None,
        *,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        row_keys: Sequence[str] = (),
        sort_keys: Sequence[str] = (),
        split_points: str | None = None,
        base64: bool = False,
        if_not_exists: bool = False,
    ) -> Receipt:
        """`name` is a name, or a YAML file that holds all the rest."""
        if schema is None:
            if any((partition_by, sort_by, properties, comment, row_keys, sort_keys, split_points, base64)):
                raise InvalidInput(f"{name} already says what the table is", hint="change the file, or give a schema")
            if specs.load_table_file(Path(name)).storage.format != "iceberg":
                return directory_tables.create(self._context, Path(name), if_not_exists=if_not_exists)
            loaded = self._context.loaded
            spec = specs.spec_from_file(Path(name), root=loaded.root, warehouse=loaded.warehouse_location)
            return changes.create_table(
                self._context, spec, if_not_exists=if_not_exists, config_path=str(Path(name).absolute())
            )
        spec = specs.spec_from_words(
            name,
            schema,
            partition_by=partition_by,
            sort_by=sort_by,
            properties=properties,
            comment=comment,
            row_keys=row_keys,
            sort_keys=sort_keys,
            split_points=split_points,
            encoded=base64,
        )
        return changes.create_table(self._context, spec, if_not_exists=if_not_exists)

    def estimate_splits(
        self,
        *sources: str | Path,
        key: str,
        leaves: int,
        type: str = "string",  # noqa: A002 - the word that users say
        base64: bool = False,
    ) -> str:
        """The text of a split file that divides the keys of some files into so many ranges, about even."""
        from neve.services.ranges.estimating import estimate_splits

        return estimate_splits(
            self._context, [str(source) for source in sources], key=key, key_type=type, leaves=leaves, encoded=base64
        )

    def register(self, name: str, metadata_location: str) -> Receipt:
        return changes.register_table(self._context, TableName.parse(name), metadata_location)

    def adopt(self, folder: str | Path, name: str, *, dry_run: bool = False) -> Receipt:
        """An existing Parquet folder becomes a table; its files stay where they are, and as they are."""
        return adopt.adopt_folder(self._context, str(folder), TableName.parse(name), dry_run=dry_run)

    def undelete(self, name: str, *, new_name: str | None = None) -> Receipt:
        target = None if new_name is None else TableName.parse(new_name)
        return trash.undelete_table(self._context, TableName.parse(name), new_name=target)

    def trash(self) -> builtins.list[TrashRow]:
        return trash.list_trash(self._context)

    def set_all_online(self, *, online: bool) -> builtins.list[Receipt]:
        return [changes.set_online(self._context, name, online=online) for name in self._context.catalog.tables()]
