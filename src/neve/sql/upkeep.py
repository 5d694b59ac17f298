"""Iceberg's own procedure that mends a layout, as a statement for `neve sql`."""

from __future__ import annotations

import json

from neve.model.names import CATALOG, TableName

_COMPACT = 'rewrite_data_files(table => {}, options => map("min-input-files", "2", "delete-file-threshold", "1"))'


def upkeep_call(table: TableName) -> str:
    r"""The statement; the name is a text in double quotes, so that a shell may have the single ones.

    >>> upkeep_call(TableName(("default",), 'a"b'))[:58]
    'CALL lake.system.rewrite_data_files(table => "`a\\"b`", opt'
    """
    return f"CALL {CATALOG}.system.{_COMPACT.format(json.dumps(table.short, ensure_ascii=False))}"
