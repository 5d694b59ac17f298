"""Row lineage of Iceberg's format 3, told in the file itself: rows that move keep their id and the time they changed.

Iceberg derives both from a file's metadata where the file does not hold them. A file made of several has one entry
only, so the values must be written out: the rules and how they were proven are in tests/spark/test_copier_spark.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from neve.files.copier.extra import ExtraColumn, RowGroupAt

ROW_ID = "_row_id"
ROW_ID_FIELD = 2_147_483_540
SEQUENCE = "_last_updated_sequence_number"
SEQUENCE_FIELD = 2_147_483_539


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What the table's metadata says of a source file; the sequence number is that of its *data*."""

    first_row_id: int
    sequence_number: int


def lineage_columns(files: Sequence[Lineage]) -> tuple[ExtraColumn, ExtraColumn]:
    """The two lineage columns of an output, with what is known of each source, in the sources' order."""
    import pyarrow as pa

    def row_ids(at: RowGroupAt) -> Any:
        first = files[at.source].first_row_id + at.first_row
        return pa.arange(first, first + at.rows)

    def sequence(at: RowGroupAt) -> Any:
        return pa.repeat(pa.scalar(files[at.source].sequence_number, pa.int64()), at.rows)

    return (
        ExtraColumn(
            name=ROW_ID,
            field_id=ROW_ID_FIELD,
            kind=pa.int64(),
            values=_where_absent(row_ids),
            encoding="DELTA_BINARY_PACKED",
        ),
        ExtraColumn(name=SEQUENCE, field_id=SEQUENCE_FIELD, kind=pa.int64(), values=_where_absent(sequence)),
    )


def lineage_schema(held: str) -> str:
    """The `iceberg.schema` of an output, from the one of its sources: with the lineage columns, once."""
    schema = json.loads(held)
    ids = {field["id"] for field in schema["fields"]}
    schema["fields"] += [
        {"id": number, "name": name, "required": False, "type": "long"}
        for name, number in ((ROW_ID, ROW_ID_FIELD), (SEQUENCE, SEQUENCE_FIELD))
        if number not in ids
    ]
    return json.dumps(schema, separators=(",", ":"))


def _where_absent(derived: Callable[[RowGroupAt], Any]) -> Callable[[RowGroupAt], Any | None]:
    """A value in the file wins; NULL, and a column that is not there, stand for the derived value."""

    def values(at: RowGroupAt) -> Any | None:
        import pyarrow.compute as pc

        if at.held is None or at.held.nulls == at.rows:
            return derived(at)
        if at.held.nulls == 0:
            return None
        return pc.coalesce(at.held.read(), derived(at))

    return values
