"""The columns that a single file says it has, by its footer or its header: no row of it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from neve.errors import StorageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def tells_columns(kind: str) -> bool:
    """Whether files of a format say what columns they have; lines of JSON do not.

    >>> tells_columns("orc"), tells_columns("json")
    (True, False)
    """
    return kind in _READERS


def columns_in(filesystem: FileSystem, path: str, kind: str) -> tuple[str, ...]:
    """The names of a file's columns, in its order; not the fields within them.

    Raises:
        StorageError: it cannot be read, or is no file of that format.
    """
    import pyarrow as pa

    try:
        with filesystem.open_input_file(path) as file:
            return tuple(str(name) for name in _READERS[kind](file))
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, KeyError, EOFError, IndexError) as exc:
        raise StorageError(
            f"{path} is not a readable {kind} file: {str(exc).splitlines()[0] if str(exc) else exc!r}",
            hint="mend it, or take it away",
        ) from exc


def _of_parquet(file: Any) -> list[str]:
    import pyarrow.parquet as pq

    names: list[str] = pq.read_schema(file).names
    return names


def _of_orc(file: Any) -> list[str]:
    from pyarrow.orc import ORCFile

    names: list[str] = ORCFile(file).schema.names
    return names


def _of_avro(file: Any) -> list[str]:
    import fastavro

    schema: Any = fastavro.block_reader(file).writer_schema
    return [field["name"] for field in schema["fields"]]


_READERS: Mapping[str, Callable[[Any], list[str]]] = {"parquet": _of_parquet, "orc": _of_orc, "avro": _of_avro}
