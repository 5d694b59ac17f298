"""Columns that are stitched in, row lineage above all; and what a copy tells of its columns."""

from __future__ import annotations

import json
import random
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.unit.copier_files import KINDS, by_duckdb, copied, make_table, options, shape_of, write_all

from neve.errors import InvalidInput, Unsupported
from neve.files.copier import (
    ExtraColumn,
    Lineage,
    LocalSource,
    LocalTarget,
    Part,
    RowGroupAt,
    copy,
    lineage_columns,
    verify,
)
from neve.files.copier.lineage import ROW_ID, ROW_ID_FIELD, SEQUENCE, SEQUENCE_FIELD, lineage_schema
from neve.model.copying import ColumnMetrics
from neve.plan.provenance import ICEBERG_IGNORES

OTHERWISE = options(ignore=ICEBERG_IGNORES)
LINEAGE = [Lineage(first_row_id=1000, sequence_number=3), Lineage(first_row_id=50, sequence_number=4)]


def with_lineage(table: pa.Table, ids: list[int | None], sequences: list[int | None]) -> pa.Table:
    for name, number, values in ((ROW_ID, ROW_ID_FIELD, ids), (SEQUENCE, SEQUENCE_FIELD, sequences)):
        field = pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)})
        table = table.append_column(field, pa.array(values, pa.int64()))
    return table


def test_lineage_is_derived_where_the_files_do_not_hold_it(tmp_path: Path) -> None:
    tables = [make_table(seed, 250, ids=True) for seed in range(2)]
    files = write_all(tmp_path, tables, row_group_size=100, write_page_index=True)
    result = copied(files, tmp_path / "out.parquet", extra_columns=lineage_columns(LINEAGE))
    read = pq.read_table(tmp_path / "out.parquet")
    assert read.drop_columns([ROW_ID, SEQUENCE]).equals(pa.concat_tables(tables))
    assert read[ROW_ID].to_pylist() == [*range(1000, 1250), *range(50, 300)]
    assert read[SEQUENCE].to_pylist() == [3] * 250 + [4] * 250
    assert by_duckdb(tmp_path / "out.parquet")[ROW_ID].to_pylist() == read[ROW_ID].to_pylist()
    shape = shape_of(tmp_path / "out.parquet")
    assert [leaf.element.field_id for leaf in shape.leaves[-2:]] == [ROW_ID_FIELD, SEQUENCE_FIELD]
    assert shape.has_field_ids
    ids, sequence = result.columns[-2:]
    assert (ids.lower, ids.upper, ids.nulls) == (struct.pack("<q", 50), struct.pack("<q", 1249), 0)
    assert (sequence.lower, sequence.upper) == (struct.pack("<q", 3), struct.pack("<q", 4))


def test_lineage_is_small(tmp_path: Path) -> None:
    tables = [make_table(0, 1, ("number",), ids=True).take(pa.repeat(pa.scalar(0), 200_000))]
    files = write_all(tmp_path, tables, write_page_index=True)
    result = copied(files, tmp_path / "out.parquet", extra_columns=lineage_columns(LINEAGE[:1]))
    assert sum(column.size for column in result.columns[-2:]) < 0.06 * 200_000


@pytest.mark.parametrize("statistics", [True, False])
def test_lineage_in_a_file_wins_and_its_gaps_are_filled(tmp_path: Path, *, statistics: bool) -> None:
    """One file of each kind: none held, all NULL, all there, some there; in any mixture of row groups."""
    rng = random.Random(8)
    rows, tables = 90, []
    wanted_ids: list[int] = []
    wanted_sequences: list[int] = []
    plain = [make_table(seed, rows, ("number", "list"), ids=True) for seed in range(4)]
    lineage = [Lineage(first_row_id=n * 10_000, sequence_number=n + 5) for n in range(4)]
    for number, (table, held) in enumerate(zip(plain, (None, 0.0, 1.0, 0.5), strict=True)):
        derived = range(number * 10_000, number * 10_000 + rows)
        if held is None:
            tables.append(table)
            wanted_ids += derived
            wanted_sequences += [number + 5] * rows
            continue
        ids = [rng.randrange(10**6) if rng.random() < held else None for _ in range(rows)]
        sequences = [rng.randrange(9) if rng.random() < held else None for _ in range(rows)]
        tables.append(with_lineage(table, ids, sequences))
        wanted_ids += [value if one is None else one for one, value in zip(ids, derived, strict=True)]
        wanted_sequences += [number + 5 if one is None else one for one in sequences]
    files = write_all(tmp_path, tables, row_group_size=40, write_statistics=statistics)
    copied(files, tmp_path / "out.parquet", extra_columns=lineage_columns(lineage), options=OTHERWISE)
    read = pq.read_table(tmp_path / "out.parquet")
    assert read.column_names == ["number", "list", ROW_ID, SEQUENCE]
    assert read[ROW_ID].to_pylist() == wanted_ids
    assert read[SEQUENCE].to_pylist() == wanted_sequences
    assert read.select(["number", "list"]).equals(pa.concat_tables(plain))
    again = [Lineage(first_row_id=0, sequence_number=0)]
    copied([tmp_path / "out.parquet"], tmp_path / "again.parquet", extra_columns=lineage_columns(again))
    assert pq.read_table(tmp_path / "again.parquet").equals(read), "what is written out survives the next copy"


def test_the_schema_that_iceberg_leaves_in_files_gets_the_lineage_columns_once() -> None:
    held = json.dumps({"type": "struct", "schema-id": 3, "fields": [{"id": 1, "name": "k", "type": "long"}]})
    told = json.loads(lineage_schema(held))
    assert [field["id"] for field in told["fields"]] == [1, ROW_ID_FIELD, SEQUENCE_FIELD]
    assert told["schema-id"] == 3
    assert lineage_schema(lineage_schema(held)) == lineage_schema(held)


def test_lineage_counts_rows_of_the_source_not_of_what_is_taken(tmp_path: Path) -> None:
    files = write_all(tmp_path, [make_table(1, 100, ("number",), ids=True)], row_group_size=30)
    with LocalSource(files[0]) as source, LocalTarget(tmp_path / "out.parquet") as target:
        copy([Part(source, (2, 0))], target, extra_columns=lineage_columns(LINEAGE[:1]))
    assert pq.read_table(tmp_path / "out.parquet")[ROW_ID].to_pylist() == [*range(1060, 1090), *range(1000, 1030)]


def test_files_without_field_ids_get_no_column_with_one(tmp_path: Path) -> None:
    """Iceberg would read such a file by field ids alone, and all its own columns as NULL."""
    files = write_all(tmp_path, [make_table(1, 10, ("number",))])
    with pytest.raises(Unsupported, match="without field ids"):
        copied(files, tmp_path / "out.parquet", extra_columns=lineage_columns(LINEAGE[:1]))


def test_a_column_of_that_name_or_of_another_type_is_refused(tmp_path: Path) -> None:
    table = make_table(1, 10, ("number",), ids=True)
    named = table.append_column(pa.field(ROW_ID, pa.int64(), metadata={"PARQUET:field_id": "7"}), pa.arange(0, 10))
    typed = table.append_column(
        pa.field(ROW_ID, pa.int32(), metadata={"PARQUET:field_id": str(ROW_ID_FIELD)}), pa.array(range(10), pa.int32())
    )
    for wrong, words in ((named, "without the field id"), (typed, "is optional INT32 field 2147483540, not")):
        pq.write_table(wrong, tmp_path / "wrong.parquet")
        with pytest.raises(Unsupported, match=words):
            copied([tmp_path / "wrong.parquet"], tmp_path / "out.parquet", extra_columns=lineage_columns(LINEAGE[:1]))


def test_any_column_can_be_stitched_in(tmp_path: Path) -> None:
    files = write_all(
        tmp_path, [make_table(seed, 60, ("number", "text"), ids=True) for seed in range(2)], row_group_size=25
    )

    def origin(at: RowGroupAt) -> pa.Array:
        return pa.array([f"{at.source}/{at.row_group}/{at.first_row + row}" for row in range(at.rows)])

    extra = ExtraColumn(name="origin", field_id=900, kind=pa.string(), values=origin, compression="zstd")
    copied(files, tmp_path / "out.parquet", extra_columns=[extra])
    read = pq.read_table(tmp_path / "out.parquet")["origin"].to_pylist()
    assert read == [f"{source}/{row // 25}/{row}" for source in range(2) for row in range(60)]
    assert by_duckdb(tmp_path / "out.parquet")["origin"].to_pylist() == read


def test_no_column_is_left_out_without_another_in_its_place(tmp_path: Path) -> None:
    files = write_all(tmp_path, [make_table(1, 10, ("number", "text"), ids=True)])
    with pytest.raises(InvalidInput, match="an extra column for each"):
        copied(files, tmp_path / "out.parquet", options=options(without=frozenset({1})))


@pytest.mark.parametrize("given", [None, pa.array([1, 2])])
def test_values_must_be_as_many_as_rows(tmp_path: Path, given: Any) -> None:
    files = write_all(tmp_path, [make_table(1, 10, ("number",), ids=True)])
    extra = ExtraColumn(name="x", field_id=900, kind=pa.int64(), values=lambda _: given)
    with pytest.raises(Unsupported, match="column x has no values for row group 0"):
        copied(files, tmp_path / "out.parquet", extra_columns=[extra])
    assert not (tmp_path / "out.parquet").exists()


def test_schemas_are_compared_without_the_columns_that_are_replaced(tmp_path: Path) -> None:
    tables = [make_table(seed, 10, ("number",), ids=True) for seed in range(2)]
    files = write_all(tmp_path, [tables[0], with_lineage(tables[1], [*range(10)], [1] * 10)], store_schema=False)
    with pytest.raises(Unsupported, match="column _row_id is in one of them only"):
        copied(files, tmp_path / "out.parquet")
    copied(files, tmp_path / "out.parquet", extra_columns=lineage_columns(LINEAGE))
    assert pq.read_table(tmp_path / "out.parquet")[ROW_ID].to_pylist() == [*range(1000, 1010), *range(10)]


FORMS = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}


@pytest.mark.parametrize("seed", range(4))
def test_metrics_are_those_of_the_rows(tmp_path: Path, seed: int) -> None:
    """The oracle counts and compares the rows themselves."""
    kinds = tuple(name for name in KINDS if name not in ("flag", "unsigned", "list", "map", "struct", "deep", "id"))
    tables = [make_table(seed * 10 + n, 80, kinds, nulls=0.3) for n in range(3)]
    tables[1] = tables[1].set_column(0, "small", pa.nulls(80, pa.int8()))
    files = write_all(tmp_path, tables, row_group_size=30)
    result = copied(files, tmp_path / "out.parquet")
    rows = pa.concat_tables(tables)
    sizes = [pq.read_metadata(file) for file in files]
    for index, column in enumerate(result.columns):
        values = rows.column(index)
        assert (column.values, column.nulls) == (240, values.null_count)
        assert column.size == sum(
            metadata.row_group(group).column(index).total_compressed_size
            for metadata in sizes
            for group in range(metadata.num_row_groups)
        )
        assert (_value(column, column.lower), _value(column, column.upper)) == _bounds(values), column


def _bounds(values: pa.ChunkedArray) -> tuple[Any, Any]:
    held = [value for value in values.to_pylist() if value is not None]
    if pa.types.is_string(values.type):
        held = [value.encode() for value in held]
    elif pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        wide = pa.int32() if pa.types.is_date(values.type) else pa.int64()
        held = [value for value in values.cast(wide).to_pylist() if value is not None]
    elif pa.types.is_decimal(values.type):
        held = [int(value.scaleb(values.type.scale)) for value in held]
    return min(held), max(held)


def _value(column: ColumnMetrics, bound: bytes | None) -> Any:
    assert bound is not None
    if column.physical in FORMS:
        return struct.unpack(FORMS[column.physical], bound)[0]
    return int.from_bytes(bound, "big", signed=True) if column.logical.startswith("decimal") else bound


def test_bounds_are_left_out_where_they_are_not_known(tmp_path: Path) -> None:
    nan = float("nan")
    tables = [
        pa.table({"f": pa.array(values, pa.float64()), "n": pa.nulls(2, pa.int32())})
        for values in ([1.0, 2.0], [nan, nan], [-0.0, 0.0])
    ]
    files = write_all(tmp_path, tables)
    pq.write_table(tables[0], tmp_path / "bare.parquet", write_statistics=False)
    ((known, empty), (unknown, bare)) = (
        copied([files[0], files[2]], tmp_path / "known.parquet").columns,
        copied([files[0], tmp_path / "bare.parquet"], tmp_path / "unknown.parquet").columns,
    )
    assert (known.lower, known.upper) == (struct.pack("<d", -0.0), struct.pack("<d", 2.0))
    assert (empty.nulls, empty.lower, empty.upper) == (4, None, None)
    assert (unknown.nulls, unknown.lower, unknown.upper, bare.nulls) == (None, None, None, None)
    mixed = copied([files[0], files[1]], tmp_path / "nan.parquet").columns[0]
    assert mixed.lower in (None, struct.pack("<d", 1.0))


def test_split_offsets_are_where_row_groups_start(tmp_path: Path) -> None:
    files = write_all(tmp_path, [make_table(seed, 90) for seed in range(2)], row_group_size=40)
    result = copied(files, tmp_path / "out.parquet")
    metadata = pq.read_metadata(tmp_path / "out.parquet")
    starts = []
    for group in range(metadata.num_row_groups):
        columns = [metadata.row_group(group).column(index) for index in range(metadata.num_columns)]
        starts.append(min(column.dictionary_page_offset or column.data_page_offset for column in columns))
    assert list(result.split_offsets) == starts
    assert result.row_groups == len(starts) == metadata.num_row_groups
    assert pc.all(pc.greater(pa.array(starts[1:]), pa.array(starts[:-1]))).as_py()


def test_verify_passes_over_the_columns_that_were_added(tmp_path: Path) -> None:
    files = write_all(tmp_path, [make_table(seed, 50, ids=True) for seed in range(2)])
    copied(files, tmp_path / "out.parquet", extra_columns=lineage_columns(LINEAGE))
    with ExitStack() as stack:
        sources = [stack.enter_context(LocalSource(file)) for file in files]
        assert verify(sources, stack.enter_context(LocalSource(tmp_path / "out.parquet")), depth="rows") is None
