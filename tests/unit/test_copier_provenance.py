"""Files of several writers, with metadata of their own: what may go together, and what the output then says."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.copier_files import copied, first_column, make_table, options, rewritten, shape_of, write_all

from neve.errors import Unsupported
from neve.files.copier.elements import schema_list
from neve.files.copier.thrift import BINARY, I64, Struct
from neve.files.copier.words import Column, File, Node
from neve.plan.copying import can_copy
from neve.plan.provenance import OWN_WRITER

SPARK = "org.apache.spark.version"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_all(tmp_path, [make_table(1, 60, ("number", "text", "day"))], row_group_size=20)[0]


def by(writer: str) -> Callable[[Struct], None]:
    return lambda tree: tree.put(File.CREATED_BY, BINARY, writer.encode())


@pytest.mark.parametrize(
    ("writers", "merged"),
    [
        (("parquet-mr version 1.16.0 (build a)", "parquet-mr version 1.9.0"), None),
        (("parquet-mr version 1.16.0 (build a)", "parquet-mr version 1.13.1"), "parquet-mr version 1.13.1"),
        (("parquet-mr version 1.10.0", "parquet-cpp-arrow version 26.0.1"), OWN_WRITER),
        (("DuckDB version v1.4.0 (build x)", "Polars"), OWN_WRITER),
        (("parquet-mr version 1.6.0", "parquet-mr version 1.6.0"), "parquet-mr version 1.6.0"),
        (("parquet-mr version 1.6.0", "parquet-mr version 1.7.0"), None),
        (("somebody", "parquet-mr version 1.16.0"), None),
    ],
)
def test_writers(tmp_path: Path, file: Path, writers: tuple[str, str], merged: str | None) -> None:
    """Readers mistrust what some writers wrote, by their names: the output must not look more trustworthy."""
    files = [rewritten(file, by(writer)) for writer in writers]
    reason = can_copy([shape_of(one) for one in files])
    if merged is None:
        assert reason is not None
        assert reason.code == "writer_differs"
    else:
        copied(files, tmp_path / "out.parquet")
        assert pq.read_metadata(tmp_path / "out.parquet").created_by == merged


def test_a_writer_that_left_bytes_out_of_its_lengths(tmp_path: Path, file: Path) -> None:
    """As parquet-cpp did before 1.3: readers that know it by name read on, a copy must not cut the bytes off."""

    def shorten(tree: Struct) -> None:
        by("parquet-cpp version 1.2.0")(tree)
        first_column(tree).put(Column.COMPRESSED, I64, first_column(tree).number(Column.COMPRESSED) - 14)

    with pytest.raises(Unsupported, match=r"ends too soon|reaches beyond|values"):
        copied([rewritten(file, shorten)], tmp_path / "out.parquet")
    copied([rewritten(file, by("parquet-cpp version 1.2.0"))], tmp_path / "out.parquet")


def with_metadata(folder: Path, name: str, metadata: dict[str, str], *, arrow: bool = True) -> Path:
    """With `arrow`, as pyarrow writes metadata: once by itself, and once within ARROW:schema."""
    table = make_table(1, 20, ("number", "day")).replace_schema_metadata(metadata if arrow else None)
    with pq.ParquetWriter(folder / name, table.schema, store_schema=arrow) as writer:
        writer.write_table(table)
        if not arrow:
            writer.add_key_value_metadata(metadata)
    return folder / name


def test_metadata_that_differs_is_refused_unless_it_may(tmp_path: Path) -> None:
    files = [with_metadata(tmp_path, f"{n}.parquet", {"geo": f"box {n}", "same": "yes"}) for n in range(2)]
    with pytest.raises(Unsupported, match="metadata differs in geo"):
        copied(files, tmp_path / "out.parquet")
    copied(files, tmp_path / "out.parquet", options=options(ignore=frozenset({"geo"}), put={"made": "here"}))
    read = pq.read_schema(tmp_path / "out.parquet").metadata
    assert read == {b"same": b"yes", b"made": b"here"}


def test_a_key_in_one_file_only_is_a_difference(tmp_path: Path) -> None:
    files = [with_metadata(tmp_path, "0.parquet", {"geo": "box"}), with_metadata(tmp_path, "1.parquet", {})]
    with pytest.raises(Unsupported, match="metadata differs in geo"):
        copied(files, tmp_path / "out.parquet")


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        ({SPARK: "4.1.4"}, {SPARK: "3.5.0"}, "3.5.0"),
        ({SPARK: "4.1.4"}, {SPARK: "3.0.3"}, None),
        ({SPARK: "4.1.4"}, {}, None),
        ({SPARK: "4.1.4"}, {SPARK: "4.1.4", "org.apache.spark.legacyDateTime": ""}, None),
    ],
)
def test_dates_of_two_calendars_do_not_mix(
    tmp_path: Path, one: dict[str, str], other: dict[str, str], kept: str | None
) -> None:
    files = [with_metadata(tmp_path, f"{n}.parquet", held, arrow=False) for n, held in enumerate((one, other))]
    if kept is None:
        with pytest.raises(Unsupported, match=r"org\.apache\.spark"):
            copied(files, tmp_path / "out.parquet")
    else:
        copied(files, tmp_path / "out.parquet")
        assert pq.read_metadata(tmp_path / "out.parquet").metadata[SPARK.encode()] == kept.encode()


def test_the_index_of_pandas_does_not_count_the_rows_of_one_source(tmp_path: Path) -> None:
    """As pandas writes it: the range of its index stands in its own key, and within ARROW:schema once more."""

    def pandas(rows: int) -> pa.Table:
        index = {"kind": "range", "name": None, "start": 0, "stop": rows, "step": 1}
        held = {"index_columns": [index], "columns": [], "creator": {"version": str(rows)}, "pandas_version": "3.0.0"}
        return pa.table({"k": pa.arange(0, rows)}).replace_schema_metadata({"pandas": json.dumps(held)})

    files = write_all(tmp_path, [pandas(10), pandas(20)])
    copied(files, tmp_path / "out.parquet")
    read = pq.read_schema(tmp_path / "out.parquet")
    assert json.loads(read.metadata[b"pandas"])["index_columns"] == []
    assert b"stop" not in base64.b64decode(pq.read_metadata(tmp_path / "out.parquet").metadata[b"ARROW:schema"])


def test_types_that_only_arrow_knows_stay_or_are_refused(tmp_path: Path) -> None:
    lengths = [pa.table({"d": pa.array([n], pa.duration("us"))}) for n in range(2)]
    files = write_all(tmp_path, lengths)
    copied(files, tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").equals(pa.concat_tables(lengths))
    pq.write_table(pa.table({"d": pa.array([1], pa.int64())}), tmp_path / "plain.parquet")
    with pytest.raises(Unsupported, match="ARROW:schema"):
        copied([files[0], tmp_path / "plain.parquet"], tmp_path / "no.parquet")


def test_an_older_way_to_write_the_same_type_is_the_same(tmp_path: Path) -> None:
    """Arrow's format 1.0 and 2.6 differ in how they write a meaning, not in the meaning."""
    table = make_table(1, 20, ("text", "money", "list", "map", "small"))
    pq.write_table(table, tmp_path / "0.parquet", version="1.0")
    pq.write_table(table, tmp_path / "1.parquet", version="2.6")

    def strip(tree: Struct) -> None:
        nodes = schema_list(tree.raw(File.SCHEMA) or b"")
        for node in nodes:
            node.drop(Node.LOGICAL)
        tree.put_structs(File.SCHEMA, nodes)

    old = rewritten(tmp_path / "0.parquet", strip)
    copied([old, tmp_path / "1.parquet"], tmp_path / "out.parquet")
    copied([tmp_path / "1.parquet", old], tmp_path / "turned.parquet")
    for out in ("out.parquet", "turned.parquet"):
        assert pq.read_table(tmp_path / out).equals(pa.concat_tables([table, table]))
