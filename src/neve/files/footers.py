"""The files of a folder, and what their footers say; single columns are read only where a footer does not decide."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.errors import NotFound, Refused, StorageError, Unsupported
from neve.files.types import field_ids, fields_of, leaf_type
from neve.plan.adopt import Footer
from neve.plan.folders import is_ignored

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_READERS = 16
_UNREADABLE_CODECS = ("BROTLI", "LZO")


def list_files(filesystem: FileSystem, root: str, *, location: str, local: bool) -> dict[str, int]:
    """The size of each file below a folder by relative path, sorted; what readers pass over is left out.

    Raises:
        NotFound: there is no such folder.
        Refused: it holds a name that cannot be followed or opened.
    """
    from pyarrow.fs import FileType

    if filesystem.get_file_info(root).type != FileType.Directory:
        raise NotFound(f"no folder {location}")
    try:
        return dict(sorted(_walk(filesystem, root, "", local=local)))
    except UnicodeDecodeError as exc:
        raise Refused(f"{location} holds a file whose name is not UTF-8") from exc
    except OSError as exc:
        raise StorageError(f"cannot list {location}: {exc}") from exc


def _walk(filesystem: FileSystem, folder: str, prefix: str, *, local: bool) -> Iterator[tuple[str, int]]:
    from pyarrow.fs import FileSelector, FileType

    for info in filesystem.get_file_info(FileSelector(folder)):
        name = posixpath.basename(info.path)
        if is_ignored(name):
            continue
        if info.type != FileType.Directory:
            _check_name(prefix + name, local=local)
            yield prefix + name, info.size
        elif local and Path(info.path).is_symlink():
            raise Refused(f"{prefix}{name} is a link to a folder", hint="adopt the folder that it leads to")
        else:
            yield from _walk(filesystem, info.path, f"{prefix}{name}/", local=local)


def _check_name(path: str, *, local: bool) -> None:
    """Hadoop keeps a checksum beside a local file, and cannot name it when the file's name holds a colon."""
    if local and ":" in posixpath.basename(path):
        raise Refused(f"{path}: Spark cannot open a file with `:` in its name", hint="rename the file")


def read_footers(filesystem: FileSystem, root: str, files: dict[str, int], keys: Collection[str]) -> list[Footer]:
    """The footers of files below a folder, in the order given. `keys` are the columns whose statistics matter."""

    def read(entry: tuple[str, int]) -> Footer:
        return _read_footer(filesystem, root, entry, keys)

    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read, files.items()))


def _read_footer(filesystem: FileSystem, root: str, entry: tuple[str, int], keys: Collection[str]) -> Footer:
    path, size = entry
    with _opened(filesystem, root, path) as file:
        metadata, arrow, schema = file.metadata, file.schema_arrow, file.schema
        _check_codecs(metadata, path)
        leaves = [schema.column(index) for index in range(len(schema))]
        kinds = iter([_leaf(leaf) for leaf in leaves])
        columns = fields_of(arrow, kinds, file=path)
        if next(kinds, None) is not None:
            raise Unsupported(f"{path}: its columns cannot be told apart")
        return Footer(
            path=path,
            bytes=size,
            rows=metadata.num_rows,
            columns=columns,
            ids=field_ids(arrow),
            constants=dict(_constants(metadata, keys)),
            vectorised=all(_is_vectorised(chunk) for chunk in _chunks(metadata)),
        )


def column_names(filesystem: FileSystem, root: str, paths: Sequence[str]) -> set[str]:
    """The columns of all these files together; not the fields within them."""

    def read(path: str) -> list[str]:
        with _opened(filesystem, root, path) as file:
            return [str(name) for name in file.schema_arrow.names]

    with ThreadPoolExecutor(_READERS) as pool:
        return {name for names in pool.map(read, paths) for name in names}


def file_metadata(filesystem: FileSystem, root: str, path: str) -> dict[str, str]:
    """The key-value pairs of a file's footer."""
    with _opened(filesystem, root, path) as file:
        pairs = file.metadata.metadata or {}
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in pairs.items()}


def distinct_values(filesystem: FileSystem, root: str, path: str, column: str) -> Iterator[object]:
    """The values of one column, NULL included; a value may come more than once."""
    with _opened(filesystem, root, path) as file:
        for batch in file.iter_batches(columns=[column]):
            yield from batch.column(0).unique().to_pylist()


def _opened(filesystem: FileSystem, root: str, path: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(filesystem.open_input_file(f"{root}/{path}"))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise Refused(
            f"{path} is not a readable Parquet file: {str(exc).splitlines()[0]}", hint="mend it, or take it away"
        ) from exc
    except OSError as exc:
        raise Refused(f"{path} cannot be read: {str(exc).splitlines()[0]}", hint="mend it, or take it away") from exc


def _leaf(column: Any) -> tuple[Any, str]:
    logical = json.loads(column.logical_type.to_json())
    words = f"{column.physical_type} {column.logical_type}".removesuffix(" None")
    return leaf_type(column.physical_type, logical, length=column.length), words


def _chunks(metadata: Any) -> Iterator[Any]:
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            yield metadata.row_group(group).column(column)


def _check_codecs(metadata: Any, path: str) -> None:
    for chunk in _chunks(metadata):
        if chunk.compression in _UNREADABLE_CODECS:
            raise Unsupported(f"{path} is packed with {chunk.compression}, which Spark cannot unpack")


def _is_vectorised(chunk: Any) -> bool:
    """Iceberg's fast reader fails on booleans in run lengths, the way of version 2 data pages."""
    return bool(chunk.physical_type != "BOOLEAN" or "PLAIN" in chunk.encodings)


def _constants(metadata: Any, keys: Collection[str]) -> Iterator[tuple[str, object]]:
    for key in keys:
        values = [_constant(chunk) for chunk in _chunks(metadata) if chunk.path_in_schema == key]
        if values and values[0] is not _SEVERAL and _all_same(values):
            yield key, values[0]


_SEVERAL = object()


def _constant(chunk: Any) -> object:
    """The one value that statistics prove a column chunk to hold. Bounds may be cut short, but then they differ."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return _SEVERAL
    if statistics.null_count == chunk.num_values:
        return None
    if statistics.null_count or not statistics.has_min_max or statistics.min != statistics.max:
        return _SEVERAL
    return statistics.min


def _all_same(values: Sequence[object]) -> bool:
    return all(value is not _SEVERAL and value == values[0] for value in values)
