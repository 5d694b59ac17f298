"""Iceberg's own procedures that mend a layout, as statements for `neve sql`."""

from __future__ import annotations

import json
from typing import Literal

from neve.model.names import CATALOG, TableName

Upkeep = Literal["compact", "expire", "manifests"]
_CALLS: dict[Upkeep, str] = {
    "compact": 'rewrite_data_files(table => {}, options => map("min-input-files", "2", "delete-file-threshold", "1"))',
    "expire": "expire_snapshots({})",
    "manifests": "rewrite_manifests({})",
}


def upkeep_call(kind: Upkeep, table: TableName) -> str:
    r"""The statement; the name is a text in double quotes, so that a shell may have the single ones.

    >>> upkeep_call("expire", TableName(("default",), 'a"b'))
    'CALL lake.system.expire_snapshots("`a\\"b`")'
    """
    return f"CALL {CATALOG}.system.{_CALLS[kind].format(json.dumps(table.short, ensure_ascii=False))}"
