"""Each file of a load is asked for the columns that it must have, by its footer or its header."""

from __future__ import annotations

from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from neve.catalog import Files
from neve.errors import ColumnNotFound, StorageError
from neve.model.dataset import SourceFormat
from neve.model.ingest import FileFormat, SourceFile
from neve.services.file_columns import refuse_incomplete
from neve.services.inspection import inspect

FORMATS: list[FileFormat] = ["csv", "parquet", "orc", "avro"]


def delivered(folder: Path, name: str, kind: FileFormat, *columns: str) -> SourceFile:
    path = folder / f"{name}.{kind}"
    table = pa.table({column: [1] for column in columns})
    match kind:
        case "csv":
            path.write_text(f"{','.join(columns)}\n{','.join('1' for _ in columns)}\n")
        case "json":
            path.write_text("{" + ", ".join(f'"{column}": 1' for column in columns) + "}\n")
        case "parquet":
            pq.write_table(table, path)
        case "orc":
            orc.write_table(table, path)
        case "avro":
            schema = {"type": "record", "name": "r", "fields": [{"name": column, "type": "long"} for column in columns]}
            with path.open("wb") as file:
                fastavro.writer(file, schema, table.to_pylist())
    return inspect(str(path), kind, Files(), SourceFormat())


@pytest.mark.parametrize("kind", FORMATS)
def test_the_file_that_lacks_a_column_is_named(tmp_path: Path, kind: FileFormat) -> None:
    files = [delivered(tmp_path, "a", kind, "id", "word"), delivered(tmp_path, "b", kind, "ID", "Other")]
    refuse_incomplete(Files(), files, ["id"])
    with pytest.raises(ColumnNotFound) as caught:
        refuse_incomplete(Files(), files, ["id", "word"])
    assert caught.value.message == f"{tmp_path}/b.{kind} has no column word, which other files of this load have"
    files.append(delivered(tmp_path, "c", kind, "word"))
    with pytest.raises(ColumnNotFound, match=r"b\..* has no column word, .*, and 1 other lacks columns"):
        refuse_incomplete(Files(), files, ["id", "word"])


def test_lines_of_json_name_no_columns(tmp_path: Path) -> None:
    files = [delivered(tmp_path, "a", "json", "id", "word"), delivered(tmp_path, "b", "json", "id")]
    refuse_incomplete(Files(), files, ["id", "word"])
    mixed = [*files, delivered(tmp_path, "c", "csv", "id")]
    with pytest.raises(ColumnNotFound, match=r"c\.csv has no column word"):
        refuse_incomplete(Files(), mixed, ["id", "word"])


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_a_file_that_is_none_is_named(tmp_path: Path, kind: FileFormat) -> None:
    whole = delivered(tmp_path, "a", kind, "id")
    (tmp_path / f"b.{kind}").write_bytes(b"no such file, but some text that is long enough")
    broken = inspect(f"{tmp_path}/b.{kind}", kind, Files(), SourceFormat())
    with pytest.raises(StorageError, match=rf"b\.{kind} is not a readable {kind} file"):
        refuse_incomplete(Files(), [whole, broken], ["id"])
