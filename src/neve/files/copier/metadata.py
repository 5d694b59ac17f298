"""Two keys of a file's metadata that count rows, brought to a form that does not.

pandas writes the length of its index into its own key, and pyarrow a second time into ARROW:schema: kept as they are,
no two files would agree, and the output would speak of one source's rows.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from neve.model.copying import ARROW_SCHEMA, PANDAS


@lru_cache(maxsize=256)
def settled(key: str, value: str | None) -> str | None:
    """A value of a file's metadata without what depends on the rows; one that cannot be read stays as it is."""
    if value is None:
        return None
    if key == ARROW_SCHEMA:
        return _without_metadata(value)
    return _without_range(value) if key == PANDAS else value


def _without_metadata(value: str) -> str:
    schema = _decoded(value)
    return value if schema is None else _encoded(schema.remove_metadata())


def _decoded(value: str) -> Any | None:
    import pyarrow as pa

    try:
        return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(value, validate=True)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, binascii.Error, OSError):
        return None


def _encoded(schema: Any) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _without_range(value: str) -> str:
    try:
        held = json.loads(value)
    except ValueError:
        return value
    if not isinstance(held, dict) or not isinstance(held.get("index_columns"), list):
        return value
    named = [column for column in held["index_columns"] if isinstance(column, str)]
    rest = {key: inner for key, inner in held.items() if key != "creator"}
    return json.dumps({**rest, "index_columns": named})


def arrow_schema(
    first: str, metadata: Mapping[str, str | None], put: Iterable[str], added: Sequence[Any]
) -> str | None:
    """An output's ARROW:schema, from the one of its first source: with the output's metadata, and fields added.

    pyarrow shows the metadata that stands in here, not the file's own. None where it cannot be read: pyarrow does
    without.
    """
    schema = _decoded(first)
    if schema is None:
        return None
    for field in added:
        index = schema.get_field_index(field.name)
        schema = (schema if index < 0 else schema.remove(index)).append(field)
    shown = [*(key.decode() for key in schema.metadata or ()), *put]
    return _encoded(schema.with_metadata({key: held for key in shown if (held := metadata.get(key)) is not None}))
