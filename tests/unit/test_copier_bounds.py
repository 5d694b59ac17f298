"""The far ends: places beyond 4 GB, little memory for much data, and a search over random files."""

from __future__ import annotations

import os
import random
import tracemalloc
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from tests.spark.bags import bag
from tests.unit.copier_files import DELTA, KINDS, SPLIT, by_duckdb, copied, make_table, write_all

from neve.files.copier import ArrowSource, ArrowTarget, LocalSource, LocalTarget, Source, Target, copy, verify
from neve.files.copier.footer import chunk_range, column_of, read_footer
from neve.files.copier.indexes import IndexReader
from neve.files.copier.thrift import I32, I64, write_struct
from neve.files.copier.words import MAGIC, Chunk, Column, File, Group

FAR = 5 << 30
SEEDS = int(os.environ.get("NEVE_FUZZ_COPIER", "25"))


class FarTarget(LocalTarget):
    """Leaves a hole of 5 GB behind the first bytes: what comes next lies where 32 bits do not reach."""

    def write(self, data: bytes | memoryview) -> None:
        super().write(data)
        if self.position == len(MAGIC):
            self.flush()
            os.lseek(self.fd, FAR, os.SEEK_SET)
            self.position = FAR


@pytest.mark.slow
def test_places_beyond_32_bits(tmp_path: Path) -> None:
    """Into a far place, and from there back: both files are read by others, and the way back ends where it began."""
    tables = [make_table(seed, 300) for seed in range(2)]
    files = write_all(tmp_path, tables, row_group_size=100, write_page_index=True)
    copied(files, tmp_path / "near.parquet")
    with LocalSource(files[0]) as one, LocalSource(files[1]) as two, FarTarget(tmp_path / "far.parquet") as target:
        result = copy([one, two], target)
    assert min(result.split_offsets) == FAR
    assert pq.read_table(tmp_path / "far.parquet").equals(pa.concat_tables(tables))
    assert bag(by_duckdb(tmp_path / "far.parquet")) == bag(by_duckdb(*files))
    copied([tmp_path / "far.parquet"], tmp_path / "back.parquet")
    assert (tmp_path / "back.parquet").read_bytes() == (tmp_path / "near.parquet").read_bytes()
    (tmp_path / "far.parquet").unlink()


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.slow
def test_much_data_takes_little_memory(tmp_path: Path, *, remote: bool) -> None:
    rows = pa.array([random.Random(7).randbytes(1000)] * 50_000)
    table = pa.table({"b": rows, "c": rows})
    files = write_all(tmp_path, [table, table], use_dictionary=False, compression="none", row_group_size=50_000)
    assert sum(file.stat().st_size for file in files) > 200_000_000
    local = pafs.LocalFileSystem()
    sources: list[Source] = [ArrowSource(local, str(file)) if remote else LocalSource(file) for file in files]
    out = str(tmp_path / "out.parquet")
    tracemalloc.start()
    opened: Target = ArrowTarget(local, out) if remote else LocalTarget(out)
    with opened as target:
        copy(sources, target)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64_000_000
    assert pq.read_metadata(out).num_rows == 100_000
    for source in sources:
        source.close()


def test_gaps_between_columns_are_left_out(tmp_path: Path) -> None:
    """Older writers put a second copy of a column's metadata behind it, and alignment before it."""
    (file,) = write_all(tmp_path, [make_table(1, 200)], row_group_size=80, write_page_index=True)
    gapped = _with_gaps(file, tmp_path / "gapped.parquet")
    assert pq.read_table(gapped).equals(pq.read_table(file)), "this test's own file must be right"
    copied([gapped, file], tmp_path / "out.parquet")
    copied([file, file], tmp_path / "wanted.parquet")
    assert pq.read_table(tmp_path / "out.parquet").equals(pq.read_table(tmp_path / "wanted.parquet"))
    assert b"gapgap" not in (tmp_path / "out.parquet").read_bytes()


def _with_gaps(file: Path, out: Path) -> Path:
    """The same chunks in reverse order with bytes of no meaning in between, and the page indexes last."""
    data, moved = bytearray(MAGIC), []
    with LocalSource(file) as source:
        tree = read_footer(source).tree
        assert tree is not None
        reader = IndexReader(source, tree)
        for group in tree.structs(File.ROW_GROUPS):
            for chunk in reversed(group.structs(Group.COLUMNS)):
                span = chunk_range(column_of(chunk))
                data += b"gap" * 5
                by = len(data) - span.start
                moved.append((chunk, reader.read(chunk, moved=by)))
                data += source.read_at(span.start, span.end - span.start)
                for place in (Column.DATA_PAGE, Column.DICTIONARY_PAGE):
                    if old := column_of(chunk).integer(place):
                        column_of(chunk).put(place, I64, old + by)
    for chunk, index in moved:
        assert index.offsets is not None
        assert index.column is not None
        chunk.put(Chunk.OFFSET_INDEX, I64, len(data))
        chunk.put(Chunk.OFFSET_INDEX_LENGTH, I32, len(index.offsets))
        data += index.offsets + b"gap"
        chunk.put(Chunk.COLUMN_INDEX, I64, len(data))
        data += index.column + b"gap"
    footer = write_struct(tree)
    out.write_bytes(bytes(data) + footer + len(footer).to_bytes(4, "little") + MAGIC)
    return out


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.slow
def test_random_files(tmp_path: Path, seed: int) -> None:
    """Random columns, writers and ways of writing: rows, statistics and readers' answers are those of the sources."""
    rng = random.Random(seed)
    kinds = rng.sample(sorted(KINDS), rng.randint(1, 8))
    nulls = rng.choice([0.0, 0.2, 1.0])
    files = []
    writer = rng.choice([_by_pyarrow, _by_pyarrow, _by_duckdb])
    for number in range(rng.randint(1, 5)):
        table = make_table(seed * 100 + number, rng.choice([0, 1, 30, 400]), kinds, nulls=nulls)
        files.append(tmp_path / f"{number}.parquet")
        writer(rng, table, files[-1])
    out = tmp_path / "out.parquet"
    result = copied(files, out)
    wanted = pa.concat_tables([pq.read_table(file) for file in files])
    assert result.rows == wanted.num_rows
    assert pq.read_table(out).equals(wanted)
    assert bag(by_duckdb(out)) == bag(by_duckdb(*files))
    assert _statistics(out) == [held for file in files for held in _statistics(file)]
    sources: list[Source] = [LocalSource(file) for file in files]
    with LocalSource(out) as target:
        assert verify(sources, target, depth="rows") is None
    for source in sources:
        source.close()


def _by_pyarrow(rng: random.Random, table: pa.Table, file: Path) -> None:
    encodings = rng.choice([None, None, DELTA, SPLIT])
    held = {name: how for name, how in (encodings or {}).items() if name in table.column_names}
    bloom = [name for name in ("number", "large", "text", "blob") if name in table.column_names and rng.random() < 0.5]
    how: dict[str, Any] = {
        "compression": rng.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
        "row_group_size": rng.choice([1, 7, 100, 1000]),
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "data_page_size": rng.choice([100, 1000, 1 << 20]),
        "write_batch_size": rng.choice([1, 10, 1024]),
        "write_page_index": rng.random() < 0.6,
        "write_page_checksum": rng.random() < 0.3,
        "write_statistics": rng.random() < 0.8,
        "use_dictionary": not held and rng.random() < 0.6,
        "column_encoding": held or None,
        "bloom_filter_options": {name: {"ndv": 100} for name in bloom} or None,
    }
    pq.write_table(table, file, **how)


def _by_duckdb(rng: random.Random, table: pa.Table, file: Path) -> None:
    """Not in version 2 where a column is unsigned: pyarrow cannot read how DuckDB 2.0 packs its differences."""
    codec = rng.choice(["uncompressed", "snappy", "gzip", "zstd", "lz4_raw", "brotli"])
    version = "v1" if "unsigned" in table.column_names else rng.choice(["v1", "v2"])
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("rows", table)
        connection.execute(
            f"COPY rows TO '{file}' (FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version},"
            f" ROW_GROUP_SIZE {rng.choice([2048, 100_000])})"
        )


def _statistics(file: Path) -> list[str]:
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    return [
        str(group.column(index).statistics and group.column(index).statistics.to_dict())
        for group in groups
        for index in range(metadata.num_columns)
        if group.num_rows
    ]
