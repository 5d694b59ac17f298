"""Small files decoded and encoded into one: its row groups are as large as asked for, packed, and fit in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neve.files import encoding
from neve.files.copier import LocalSource, LocalTarget, inspect
from neve.files.encoding import Encoding, encode
from neve.model.copying import CopyOptions

ROWS = 10_000


def encoded(folder: Path, columns: list[pa.Array], *, row_group_bytes: int) -> pq.ParquetFile:
    """Files of one column each, as one file."""
    files = []
    for number, column in enumerate(columns):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({"a": column}), path, compression="zstd", use_dictionary=False)
        files.append((partial(LocalSource, path), inspect(LocalSource(path))))
    how = Encoding(codec="zstd", level=None, row_group_bytes=row_group_bytes)
    with ThreadPoolExecutor(2) as pool, LocalTarget(folder / "all.parquet") as target:
        encode(files, target, lineage=None, encoding=how, options=CopyOptions(), pool=pool)
    found = pq.ParquetFile(folder / "all.parquet")
    assert found.read().column("a").combine_chunks() == pa.concat_arrays(columns)
    return found


def test_row_groups_are_as_large_as_asked_for_once_packed(tmp_path: Path) -> None:
    random = Random(1)
    columns = [pa.array([random.randrange(4096) for _ in range(ROWS)], pa.int64()) for _ in range(30)]
    found = encoded(tmp_path, columns, row_group_bytes=100_000)
    sizes = [found.metadata.row_group(number).column(0) for number in range(found.num_row_groups)]
    packed = [size.total_compressed_size for size in sizes]
    assert len(packed) > 2
    assert all(60_000 < size <= 110_000 for size in packed[:-1])
    assert all(size.total_uncompressed_size > 200_000 for size in sizes[:-1])


def test_rows_that_pack_well_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_MOST_UNPACKED", 400_000)
    columns = [pa.array([number] * ROWS, pa.int64()) for number in range(12)]
    found = encoded(tmp_path, columns, row_group_bytes=200_000)
    assert [found.metadata.row_group(number).num_rows for number in range(found.num_row_groups)] == [4 * ROWS] * 3


def test_larger_row_groups_are_made_where_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_MOST_UNPACKED", 400_000)
    columns = [pa.array([number] * ROWS, pa.int64()) for number in range(12)]
    assert encoded(tmp_path, columns, row_group_bytes=8 << 20).num_row_groups == 1
