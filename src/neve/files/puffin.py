"""Puffin files that hold deletion vectors, as the Iceberg specification lays them out; without a JVM."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.files.vectors import encode_vector

if TYPE_CHECKING:
    from pyroaring import BitMap64

_MAGIC = b"PFA1"
_NUMBER = 4
_POSITION_FIELD = 2_147_483_645  # the reserved id of a row's position
_INHERITED = -1  # snapshot and sequence number are those of the commit


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a vector lies in its file."""

    offset: int
    size: int


def vectors_file(vectors: Sequence[tuple[str, BitMap64]]) -> tuple[bytes, list[Placed]]:
    """A file with a vector for each data file, and where each lies in it."""
    content, places, blobs = bytearray(_MAGIC), [], []
    for path, positions in vectors:
        blob = encode_vector(positions)
        place = Placed(len(content), len(blob))
        content += blob
        places.append(place)
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_POSITION_FIELD],
                "snapshot-id": _INHERITED,
                "sequence-number": _INHERITED,
                "offset": place.offset,
                "length": place.size,
                "properties": {"referenced-data-file": path, "cardinality": str(len(positions))},
            }
        )
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "neve"}}).encode()
    no_flags = bytes(_NUMBER)
    content += _MAGIC + footer + len(footer).to_bytes(_NUMBER, "little") + no_flags + _MAGIC
    return bytes(content), places
