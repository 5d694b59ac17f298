"""The data files of a table as bytes: where they are, how new ones are written, and what footers say of old ones."""

from __future__ import annotations

import os
import uuid
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from neve.catalog import Catalog
from neve.catalog.files import local_path
from neve.files.copier.lineage import ROW_ID_FIELD, SEQUENCE_FIELD, Lineage
from neve.files.encoding import Encoding, can_encode, encode
from neve.model.copying import CopyOptions, CopyResult, FileShape
from neve.model.facts import TableFacts
from neve.model.results import Reason
from neve.model.rewrites import Candidate, Group, TableFiles
from neve.plan.copying import copy_class
from neve.plan.provenance import ICEBERG_IGNORES
from neve.plan.rewrite_groups import Footers, for_spark
from neve.services.context import Context
from neve.services.copies import FileCopy, check_rows, make_copy, open_source, open_target

if TYPE_CHECKING:
    from neve.files.copier import Source, Target

READERS = 8
_LINEAGE = frozenset({ROW_ID_FIELD, SEQUENCE_FIELD})
_LINEAGE_VERSION = 3
_SCHEMA = "iceberg.schema"
_CODEC, _LEVEL = "write.parquet.compression-codec", "write.parquet.compression-level"
_ROW_GROUP = "write.parquet.row-group-size-bytes"
_ROW_GROUP_BYTES = 128 << 20
_TARGET = "write.target-file-size-bytes"
_MIB = 1024 * 1024
_CODECS = {
    "zstd": ("zstd", "ZSTD"),
    "snappy": ("snappy", "SNAPPY"),
    "gzip": ("gzip", "GZIP"),
    "lz4": ("lz4", "LZ4", "LZ4_RAW"),
    "lz4_raw": ("lz4", "LZ4", "LZ4_RAW"),
    "uncompressed": ("none", "UNCOMPRESSED"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How the files of a table are read and written. `codecs` are those that its properties ask for."""

    catalog: Catalog
    files: TableFiles
    encoding: Encoding | None
    codecs: frozenset[str]

    @property
    def lineage(self) -> bool:
        return self.files.facts.format_version >= _LINEAGE_VERSION

    @property
    def options(self) -> CopyOptions:
        return CopyOptions(ignore=ICEBERG_IGNORES, without=_LINEAGE if self.lineage else frozenset())

    def source(self, path: str) -> Source:
        return open_source(self.catalog.files, path)

    def target(self, path: str) -> Target:
        return open_target(self.catalog.files, path)

    def new_path(self, beside: str) -> str:
        """A path for a new file in the folder of another of its partition, where that is the table's own.

        A local folder is there then.
        """
        folder = beside.rpartition("/")[0]
        if not folder.startswith(f"{self.files.facts.location.rstrip('/')}/"):
            folder = f"{self.files.facts.location.rstrip('/')}/data"
        if (local := local_path(folder)) is not None:
            local.mkdir(parents=True, exist_ok=True)
        return f"{folder}/{uuid.uuid4()}-neve.parquet"


def writing_for(context: Context, files: TableFiles) -> Writing:
    """As the table's properties say, and Iceberg where they say nothing."""
    properties = files.facts.properties
    codec = _CODECS.get(properties.get(_CODEC, "zstd").lower())
    level, group = properties.get(_LEVEL, ""), properties.get(_ROW_GROUP, "")
    if codec is None:
        return Writing(catalog=context.catalog, files=files, encoding=None, codecs=frozenset())
    encoding = Encoding(
        codec=codec[0],
        level=int(level) if level.isdecimal() else None,
        row_group_bytes=int(group) if group.isdecimal() else _ROW_GROUP_BYTES,
    )
    return Writing(catalog=context.catalog, files=files, encoding=encoding, codecs=frozenset(codec[1:]))


def target_bytes(context: Context, facts: TableFacts) -> int:
    """The table's own target size, or the lake's where it has none that is a size."""
    given = facts.properties.get(_TARGET, "")
    own = int(given) if given.isdecimal() else 0
    return own or context.loaded.settings.write.target_file_size_mb * _MIB


# ------------------------------------------------------------------------------------------------------------- footers


def read_footers(writing: Writing, files: Sequence[Candidate]) -> Footers:
    """Reads the footers of all files that need not be left to Spark anyway."""
    spark = {
        file.path: reason
        for file in files
        if (reason := for_spark(file, spec_id=writing.files.spec_id, lineage=writing.lineage)) is not None
    }
    rest = [file.path for file in files if file.path not in spark]
    shapes = _inspect_all(writing, rest)
    for path, shape in list(shapes.items()):
        if reason := _unfit(shape, writing):
            spark[path] = reason
            del shapes[path]
    return Footers(spark=spark, shapes=shapes, encodable=_encodable(writing, shapes), options=writing.options)


def _inspect_all(writing: Writing, paths: Sequence[str]) -> dict[str, FileShape]:
    """Far files are asked at once; near ones are there sooner than threads take turns."""
    if all(local_path(path) is not None for path in paths):
        return {path: _inspect(writing, path) for path in paths}
    with ThreadPoolExecutor(READERS) as pool:
        return dict(zip(paths, pool.map(lambda path: _inspect(writing, path), paths), strict=True))


def _inspect(writing: Writing, path: str) -> FileShape:
    from neve.files.copier import inspect

    source = writing.source(path)
    try:
        return inspect(source)
    finally:
        source.close()


def _unfit(shape: FileShape, writing: Writing) -> Reason | None:
    if shape.problem is not None:
        return shape.problem
    if writing.lineage and not shape.has_field_ids:
        return Reason(code="no_field_ids", detail="it has columns without field ids")
    return None


def _encodable(writing: Writing, shapes: Mapping[str, FileShape]) -> frozenset[str]:
    """Asked once for all files that are alike."""
    asked: dict[Hashable, bool] = {}
    for path, shape in shapes.items():
        alike = copy_class(shape, writing.options)
        if alike not in asked:
            asked[alike] = _can_encode(writing, path, shape)
    return frozenset(path for path, shape in shapes.items() if asked[copy_class(shape, writing.options)])


def _can_encode(writing: Writing, path: str, shape: FileShape) -> bool:
    if writing.encoding is None or shape.bloom_filters:
        return False
    source = writing.source(path)
    try:
        return can_encode(source, shape, writing.encoding)
    finally:
        source.close()


# --------------------------------------------------------------------------------------------------------------- files


def write_group(
    writing: Writing, group: Group, shapes: Mapping[str, FileShape], path: str, pool: Executor
) -> CopyResult:
    """Writes the rows of a group's files into a new one, by copy or by encoding.

    Raises:
        CheckFailed: the rows are not as many as the table says; the file is gone again.
    """
    if group.mechanic != "encode" or writing.encoding is None:
        return make_copy(copy_of(writing, group, path), writing.catalog.files)
    files = [(partial(writing.source, file.path), shapes[file.path]) for file in group.files]
    lines, options = _lines(writing, group), CopyOptions(ignore=ICEBERG_IGNORES)
    with writing.target(path) as target:
        done = encode(files, target, lineage=lines, encoding=writing.encoding, options=options, pool=pool)
        check_rows(str(writing.files.facts.name), group.rows, done.rows)
    return done


def copy_of(writing: Writing, group: Group, path: str) -> FileCopy:
    """The copy of a group's row groups into a new file."""
    return FileCopy(
        of=str(writing.files.facts.name),
        sources=tuple(file.path for file in group.files),
        target=path,
        options=writing.options,
        rows=group.rows,
        lineage=_lines(writing, group),
    )


def _lines(writing: Writing, group: Group) -> tuple[Lineage, ...] | None:
    if not writing.lineage:
        return None
    return tuple(
        Lineage(first_row_id=file.entry.first_row_id or 0, sequence_number=file.entry.file.sequence)
        for file in group.files
    )


def cores() -> int:
    return os.cpu_count() or 1
