"""Row-group copy: what comes out is what went in, by every reader, for every way of writing a file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.bags import bag
from tests.unit.copier_files import DELTA, KINDS, SPLIT, by_duckdb, copied, make_table, shape_of, write_all

from neve.errors import InvalidInput
from neve.files.copier import LocalSource, LocalTarget, Part, copy
from neve.files.copier.footer import column_of, read_footer
from neve.files.copier.indexes import IndexReader
from neve.files.copier.pages import DATA, DATA_V2, pages_of
from neve.files.copier.thrift import read_struct
from neve.files.copier.words import OFFSETS_NEST, Column, File, Group, Offsets, Page

WAYS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "dictionary": {"use_dictionary": True, "dictionary_pagesize_limit": 300},
    "delta": {"use_dictionary": False, "column_encoding": DELTA},
    "split": {"use_dictionary": False, "column_encoding": SPLIT},
    "version 2 pages": {"data_page_version": "2.0", "compression": "zstd"},
    "version 1": {"version": "1.0", "coerce_timestamps": "us", "allow_truncated_timestamps": True},
    "checksums": {"write_page_checksum": True},
    "no statistics": {"write_statistics": False},
    "no arrow schema": {"store_schema": False},
    "int96": {"use_deprecated_int96_timestamps": True},
    "page index": {"write_page_index": True, "data_page_size": 200},
}
WRITABLE_IN_VERSION_1 = tuple(name for name in KINDS if name != "unsigned")


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.slow
def test_every_codec(tmp_path: Path, codec: str) -> None:
    tables = [make_table(seed, 200) for seed in range(3)]
    files = write_all(tmp_path, tables, compression=codec, row_group_size=70)
    result = copied(files, tmp_path / "out.parquet")
    assert (result.rows, result.row_groups) == (600, 9)
    assert pq.read_table(tmp_path / "out.parquet").equals(pa.concat_tables(tables))
    assert bag(by_duckdb(tmp_path / "out.parquet")) == bag(by_duckdb(*files))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.slow
def test_every_way_of_writing(tmp_path: Path, way: str) -> None:
    kinds = WRITABLE_IN_VERSION_1 if way == "version 1" else tuple(KINDS)
    tables = [make_table(seed, 150, kinds) for seed in range(3)]
    files = write_all(tmp_path, tables, row_group_size=60, **WAYS[way])
    copied(files, tmp_path / "out.parquet")
    read = pq.ParquetFile(tmp_path / "out.parquet", page_checksum_verification=way == "checksums").read()
    assert read.equals(pa.concat_tables([pq.read_table(file) for file in files]))
    assert bag(by_duckdb(tmp_path / "out.parquet")) == bag(by_duckdb(*files))


def test_codecs_and_encodings_may_differ_from_file_to_file(tmp_path: Path) -> None:
    tables = [make_table(seed, 100) for seed in range(4)]
    for table, codec, way in zip(tables, ("none", "zstd", "gzip", "snappy"), ("plain", "delta", "split"), strict=False):
        pq.write_table(table, tmp_path / f"{codec}.parquet", **{**WAYS[way], "compression": codec})
    files = sorted(tmp_path.glob("*.parquet"))
    copied(files, tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").equals(pa.concat_tables([pq.read_table(file) for file in files]))
    assert bag(by_duckdb(tmp_path / "out.parquet")) == bag(by_duckdb(*files))
    assert shape_of(tmp_path / "out.parquet").codecs[0] == {"UNCOMPRESSED", "ZSTD", "GZIP"}


def test_required_columns_and_field_ids_stay(tmp_path: Path) -> None:
    tables = [make_table(seed, 80, nulls=0.0, ids=True) for seed in range(2)]
    files = write_all(tmp_path, tables)
    copied(files, tmp_path / "out.parquet")
    source, out = pq.ParquetFile(files[0]), pq.ParquetFile(tmp_path / "out.parquet")
    assert out.schema.equals(source.schema)
    assert out.schema_arrow.equals(source.schema_arrow, check_metadata=True)
    assert shape_of(tmp_path / "out.parquet").has_field_ids


def test_the_order_of_rows_stays_told(tmp_path: Path) -> None:
    order = [pq.SortingColumn(1, descending=True, nulls_first=False)]
    tables = [make_table(seed, 50, ("text", "number")).sort_by([("number", "descending")]) for seed in range(2)]
    files = write_all(tmp_path, tables, sorting_columns=order)
    copied(files, tmp_path / "out.parquet")
    metadata = pq.read_metadata(tmp_path / "out.parquet")
    assert [list(metadata.row_group(group).sorting_columns) for group in range(2)] == [order, order]


def test_chunks_move_byte_for_byte(tmp_path: Path) -> None:
    files = write_all(tmp_path, [make_table(seed, 300) for seed in range(2)], row_group_size=100)
    copied(files, tmp_path / "out.parquet")
    assert _chunk_bytes(tmp_path / "out.parquet") == [chunk for file in files for chunk in _chunk_bytes(file)]


def _chunk_bytes(file: Path) -> list[bytes]:
    data, metadata, chunks = file.read_bytes(), pq.read_metadata(file), []
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            start = column.dictionary_page_offset or column.data_page_offset
            chunks.append(data[start : start + column.total_compressed_size])
    return chunks


def test_statistics_and_all_that_pyarrow_tells_of_a_chunk_stay(tmp_path: Path) -> None:
    files = write_all(tmp_path, [make_table(seed, 300) for seed in range(2)], row_group_size=100)
    copied(files, tmp_path / "out.parquet")
    wanted = [chunk for file in files for chunk in _chunk_facts(file)]
    assert _chunk_facts(tmp_path / "out.parquet") == wanted


def _chunk_facts(file: Path) -> list[dict[str, Any]]:
    metadata, facts = pq.read_metadata(file), []
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            fact = metadata.row_group(group).column(index).to_dict()
            facts.append({key: value for key, value in fact.items() if "offset" not in key})
    return facts


@pytest.mark.parametrize("way", [{}, {"data_page_version": "2.0"}, {"use_dictionary": False}])
def test_the_page_index_points_at_the_pages(tmp_path: Path, way: dict[str, Any]) -> None:
    """The oracle is a walk over the pages themselves: each must be where the index says, with as many rows."""
    kinds = ("number", "text", "double", "list")
    files = write_all(
        tmp_path,
        [make_table(seed, 2000, kinds) for seed in range(2)],
        row_group_size=900,
        write_page_index=True,
        data_page_size=500,
        write_batch_size=50,
        **way,
    )
    copied(files, tmp_path / "out.parquet")
    walked = 0
    with LocalSource(tmp_path / "out.parquet") as source:
        tree = read_footer(source).tree
        assert tree is not None
        reader = IndexReader(source, tree)
        for group in tree.structs(File.ROW_GROUPS):
            for chunk in group.structs(Group.COLUMNS):
                index = reader.read(chunk, moved=0)
                assert index.column is not None
                assert index.offsets is not None
                held = read_struct(index.offsets, nest=OFFSETS_NEST)[0].structs(Offsets.PAGES)
                pages = [page for page in pages_of(source, column_of(chunk)) if page.kind in (DATA, DATA_V2)]
                assert [page.number(Page.OFFSET) for page in held] == [page.start for page in pages]
                assert [page.number(Page.SIZE) for page in held] == [page.end - page.start for page in pages]
                if column_of(chunk).binaries(Column.PATH)[0] != b"list":
                    firsts = [sum(page.values for page in pages[:number]) for number in range(len(pages))]
                    assert [page.number(Page.FIRST_ROW) for page in held] == firsts
                walked += len(pages)
    assert walked > 100


def test_filters_find_the_same_rows(tmp_path: Path) -> None:
    files = write_all(
        tmp_path,
        [pa.table({"k": pa.arange(n * 5000, (n + 1) * 5000), "v": pa.array([n] * 5000)}) for n in range(4)],
        row_group_size=1000,
        write_page_index=True,
        data_page_size=400,
    )
    copied(files, tmp_path / "out.parquet")
    for low in random.Random(5).sample(range(20_000), 20):
        wanted = list(range(low, min(low + 700, 20_000)))
        read = pq.read_table(tmp_path / "out.parquet", filters=[("k", ">=", low), ("k", "<", low + 700)])
        assert read["k"].to_pylist() == wanted
        with duckdb.connect() as connection:
            rows = connection.execute(
                f"SELECT k FROM '{tmp_path}/out.parquet' WHERE k BETWEEN ? AND ? ORDER BY k", [low, low + 699]
            ).fetchall()
        assert [row[0] for row in rows] == wanted


def test_bloom_filters_of_duckdb_move(tmp_path: Path) -> None:
    """DuckDB is asked of every row group whether it may hold a value: the answers for the copy are the sources'."""
    files = [tmp_path / f"{number}.parquet" for number in range(3)]
    with duckdb.connect() as connection:
        for number, file in enumerate(files):
            connection.execute(
                f"COPY (SELECT hash(i) % 1000 * 7 AS k, 'v' || (i % 500) AS s FROM range({number * 9000},"
                f" {number * 9000 + 9000}) r(i)) TO '{file}' (FORMAT parquet, ROW_GROUP_SIZE 3000)"
            )
        assert all(shape_of(file).bloom_filters for file in files)
        copied(files, tmp_path / "out.parquet")
        assert shape_of(tmp_path / "out.parquet").bloom_filters
        probes = [("k", value) for value in range(0, 70, 3)] + [("s", f"'v{value}'") for value in range(0, 900, 100)]
        answers = []
        for column, value in probes:
            wanted = [answer for file in files for answer in _probe(connection, file, column, value)]
            assert _probe(connection, tmp_path / "out.parquet", column, value) == wanted
            answers += wanted
        assert {True, False} == set(answers)


def _probe(connection: duckdb.DuckDBPyConnection, file: Path, column: str, value: object) -> list[bool]:
    rows = connection.execute(f"FROM parquet_bloom_probe('{file}', '{column}', {value}) ORDER BY row_group_id")
    return [bool(row[2]) for row in rows.fetchall()]


def test_bloom_filters_and_page_indexes_of_pyarrow_move_together(tmp_path: Path) -> None:
    tables = [make_table(seed, 400, ("number", "text")) for seed in range(2)]
    how: dict[str, Any] = {"bloom_filter_options": {"number": {"ndv": 400, "fpp": 0.01}}, "write_page_index": True}
    files = write_all(tmp_path, tables, row_group_size=150, **how)
    copied(files, tmp_path / "out.parquet")
    assert shape_of(tmp_path / "out.parquet").bloom_filters
    with duckdb.connect() as connection:
        for value in tables[0]["number"].to_pylist()[:20]:
            wanted = [answer for file in files for answer in _probe(connection, file, "number", value or 0)]
            assert _probe(connection, tmp_path / "out.parquet", "number", value or 0) == wanted
    assert pq.read_table(tmp_path / "out.parquet").equals(pa.concat_tables(tables))


def test_empty_files_and_empty_row_groups_vanish(tmp_path: Path) -> None:
    table = make_table(1, 50)
    with pq.ParquetWriter(tmp_path / "0.parquet", table.schema) as writer:
        writer.write_table(table.slice(0, 0), row_group_size=10)
        writer.write_table(table)
        writer.write_table(table.slice(0, 0))
    pq.write_table(table.slice(0, 0), tmp_path / "1.parquet")
    files = [tmp_path / "1.parquet", tmp_path / "0.parquet", tmp_path / "1.parquet"]
    assert len(shape_of(tmp_path / "0.parquet").row_groups) > 1, "an empty row group is what this test is for"
    result = copied(files, tmp_path / "out.parquet")
    assert (result.rows, result.row_groups) == (50, 1)
    assert pq.read_table(tmp_path / "out.parquet").equals(table)


def test_only_empty_files_make_an_empty_file(tmp_path: Path) -> None:
    files = write_all(tmp_path, [make_table(1, 0), make_table(2, 0)])
    result = copied(files, tmp_path / "out.parquet")
    assert (result.rows, result.row_groups, result.split_offsets) == (0, 0, ())
    assert pq.read_table(tmp_path / "out.parquet").equals(make_table(1, 0))
    assert by_duckdb(tmp_path / "out.parquet").num_rows == 0


@pytest.mark.slow
def test_many_row_groups(tmp_path: Path) -> None:
    table = pa.table({"k": pa.arange(0, 900), "s": [f"s{number % 7}" for number in range(900)]})
    files = write_all(tmp_path, [table, table], row_group_size=3)
    result = copied(files, tmp_path / "out.parquet")
    assert result.row_groups == 600
    assert pq.read_table(tmp_path / "out.parquet").equals(pa.concat_tables([table, table]))
    assert bag(by_duckdb(tmp_path / "out.parquet")) == bag(by_duckdb(*files))


def test_chosen_row_groups(tmp_path: Path) -> None:
    table = pa.table({"k": pa.arange(0, 40)})
    (file,) = write_all(tmp_path, [table], row_group_size=10)
    with LocalSource(file) as source, LocalTarget(tmp_path / "out.parquet") as target:
        result = copy([Part(source, (3, 1)), Part(source, ())], target)
    assert result.row_groups == 2
    read = pq.read_table(tmp_path / "out.parquet")["k"].to_pylist()
    assert read == [*range(30, 40), *range(10, 20)]


@pytest.mark.parametrize("chosen", [(0, 0), (4,), (-1,)])
def test_a_row_group_is_taken_once_and_exists(tmp_path: Path, chosen: tuple[int, ...]) -> None:
    (file,) = write_all(tmp_path, [pa.table({"k": pa.arange(0, 40)})], row_group_size=10)
    with LocalSource(file) as source, pytest.raises(InvalidInput), LocalTarget(tmp_path / "out.parquet") as target:
        copy([Part(source, chosen)], target)


def test_a_copy_of_a_copy_and_a_copy_of_one_file(tmp_path: Path) -> None:
    tables = [make_table(seed, 120) for seed in range(2)]
    files = write_all(tmp_path, tables, write_page_index=True)
    copied(files, tmp_path / "first.parquet")
    copied([tmp_path / "first.parquet", files[0]], tmp_path / "second.parquet")
    copied([tmp_path / "second.parquet"], tmp_path / "third.parquet")
    assert pq.read_table(tmp_path / "third.parquet").equals(pa.concat_tables([*tables, tables[0]]))
    assert (tmp_path / "third.parquet").read_bytes() == (tmp_path / "second.parquet").read_bytes()
