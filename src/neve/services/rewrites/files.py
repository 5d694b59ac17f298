"""The data files of a table as bytes: where they are, how new ones are written, and what footers say of old ones."""

from __future__ import annotations

import os
import uuid
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from neve.catalog import Catalog
from neve.catalog.files import local_path
from neve.errors import CheckFailed
from neve.files.copier.lineage import ROW_ID_FIELD, SEQUENCE_FIELD
from neve.files.encoding import Encoding, can_encode, encode
from neve.model.copying import CopyOptions, CopyResult, FileShape
from neve.model.facts import TableFacts
from neve.model.results import Reason
from neve.model.rewrites import Candidate, Group, TableFiles
from neve.plan.copying import copy_class
from neve.plan.provenance import ICEBERG_IGNORES
from neve.plan.rewrite_groups import Footers, for_spark
from neve.services.context import Context

if TYPE_CHECKING:
    from neve.files.copier import Lineage, Source, Target

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
        from neve.files.copier import ArrowSource, LocalSource

        if (local := local_path(path)) is not None:
            return LocalSource(local)
        filesystem, key = self.catalog.files.filesystem(path)
        return ArrowSource(filesystem, key)

    def target(self, path: str) -> Target:
        from neve.files.copier import ArrowTarget, LocalTarget

        if (local := local_path(path)) is not None:
            local.parent.mkdir(parents=True, exist_ok=True)
            return LocalTarget(local)
        filesystem, key = self.catalog.files.filesystem(path)
        return ArrowTarget(filesystem, key)

    def new_path(self, beside: str) -> str:
        """A path for a new file in the folder of another of its partition, where that is the table's own."""
        folder = beside.rpartition("/")[0]
        if not folder.startswith(f"{self.files.facts.location.rstrip('/')}/"):
            folder = f"{self.files.facts.location.rstrip('/')}/data"
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
    with writing.target(path) as target:
        lines = _lines(group) if writing.lineage else None
        if group.mechanic == "encode" and writing.encoding is not None:
            files = [(partial(writing.source, file.path), shapes[file.path]) for file in group.files]
            options = CopyOptions(ignore=ICEBERG_IGNORES)
            done = encode(files, target, lineage=lines, encoding=writing.encoding, options=options, pool=pool)
        else:
            done = _copied(writing, group, target, lines)
        if done.rows != group.rows:
            raise CheckFailed(
                f"{group.rows:,} rows of {writing.files.facts.name} came out as {done.rows:,}",
                hint="nothing was changed",
            )
        return done


def _copied(writing: Writing, group: Group, target: Target, lines: Sequence[Lineage] | None) -> CopyResult:
    from neve.files.copier import copy, lineage_columns

    with ExitStack() as stack:
        sources = []
        for file in group.files:
            sources.append(source := writing.source(file.path))
            stack.callback(source.close)
        extra = lineage_columns(lines) if lines is not None else ()
        return copy(sources, target, options=writing.options, extra_columns=extra)


def _lines(group: Group) -> list[Lineage]:
    from neve.files.copier import Lineage

    return [
        Lineage(first_row_id=file.entry.first_row_id or 0, sequence_number=file.entry.file.sequence)
        for file in group.files
    ]


def cores() -> int:
    return os.cpu_count() or 1
