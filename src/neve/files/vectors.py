"""Positions of deleted rows: deletion vectors (format 3) and files of position deletes (format 2), without a JVM.

A vector on disk is a length, a magic number, a 64-bit roaring bitmap and a checksum of the two before it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from neve.errors import StorageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyroaring import BitMap64

_MAGIC = bytes.fromhex("d1d33964")
_NUMBER = 4


def decode_vector(blob: bytes, *, where: str) -> BitMap64:
    """The positions that a vector marks."""
    from pyroaring import BitMap64

    body, checksum = blob[_NUMBER:-_NUMBER], blob[-_NUMBER:]
    if int.from_bytes(blob[:_NUMBER], "big") != len(body) or body[:_NUMBER] != _MAGIC:
        raise StorageError(f"{where} is not a deletion vector")
    if zlib.crc32(body).to_bytes(_NUMBER, "big") != checksum:
        raise StorageError(f"{where} is damaged: its checksum does not fit")
    try:
        return BitMap64.deserialize(body[_NUMBER:])
    except (ValueError, OverflowError) as exc:
        raise StorageError(f"{where} is not a deletion vector: {exc}") from exc


def encode_vector(positions: BitMap64) -> bytes:
    """A vector that marks the positions."""
    body = _MAGIC + positions.serialize()
    return len(body).to_bytes(_NUMBER, "big") + body + zlib.crc32(body).to_bytes(_NUMBER, "big")


def all_but(rows: int, positions: BitMap64) -> BitMap64:
    """Every position of a file of so many rows, but these."""
    from pyroaring import BitMap64

    rest = BitMap64(range(rows)) - positions
    rest.run_optimize()
    return rest


def read_position_deletes(filesystem: FileSystem, path: str) -> dict[str, BitMap64]:
    """The positions that a Parquet file of position deletes names, by data file."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyroaring import BitMap64

    try:
        table = pq.read_table(path, columns=["file_path", "pos"], filesystem=filesystem)
    except (OSError, ValueError, pa.ArrowException) as exc:
        raise StorageError(f"cannot read the position deletes in {path}: {exc}") from exc
    grouped = table.group_by("file_path").aggregate([("pos", "list")])
    return {
        file: BitMap64(positions)
        for file, positions in zip(grouped["file_path"].to_pylist(), grouped["pos_list"].to_pylist(), strict=True)
    }
