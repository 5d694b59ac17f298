"""What files say of their making, and what one file made of several may say: its writer and its metadata.

Readers act on both. They mistrust the statistics of writers that had a bug, by name and version; and Spark moves dates
between calendars by a key in the metadata. So files go together only where every reader treats them alike, and the
output says what keeps it so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from neve.model.copying import ARROW_SCHEMA, PANDAS, CopyOptions, FileShape

ICEBERG_IGNORES = frozenset({ARROW_SCHEMA, PANDAS, "iceberg.schema", "org.apache.spark.sql.parquet.row.metadata"})
"""What may differ in files of an Iceberg table: it reads them by field ids and its own schema, and by none of these."""

OWN_WRITER = "neve version 1.0 (build row-group-copy)"
SPARK_VERSION = "org.apache.spark.version"
_SPARK_LEGACY = ("org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96", "org.apache.spark.timeZone")
_WRITER = re.compile(r"(?P<name>.+?)\s+version\s+v?(?P<version>[0-9]+(?:\.[0-9]+){0,2})")
_TRUSTED = {
    "parquet-mr": (1, 10, 0),
    "parquet-cpp-arrow": (3, 0, 0),
    "parquet-rs": (10, 0, 0),
    "DuckDB": (0, 9, 0),
    "neve": (0, 0, 0),
}
_TRUSTED_WITHOUT_VERSION = ("Polars",)
_CALENDAR_FROM = ((3, 0, 0), (3, 1, 0))


def writer_class(shape: FileShape) -> str:
    """Files of one class may share an output: any writers that no reader mistrusts, or else the very same one.

    What an INT96 means depends on who wrote it, so there the writer counts by name.

    >>> writer_class(FileShape(path="a", bytes=1, created_by="parquet-mr version 1.16.0 (build x)"))
    'trusted'
    >>> writer_class(FileShape(path="a", bytes=1, created_by="parquet-mr version 1.6.0"))
    'parquet-mr version 1.6.0'
    """
    name = _trusted(shape.created_by)
    if name is None:
        return shape.created_by or ""
    return name if any(leaf.element.physical == "INT96" for leaf in shape.leaves) else "trusted"


def is_trusted(created_by: str | None) -> bool:
    """Whether the writer is known to fill column chunks exactly as its footers say; some once did not.

    >>> is_trusted("parquet-cpp version 1.2.0"), is_trusted("DuckDB version v1.4.0 (build x)"), is_trusted(None)
    (False, True, False)
    """
    return _trusted(created_by) is not None


def merged_writer(shapes: Sequence[FileShape]) -> str | None:
    """Who made the output, as its readers shall see it: the oldest version of the one writer, or Névé for several."""
    writers = {shape.created_by for shape in shapes if shape.created_by is not None}
    if not writers:
        return None
    if len({_trusted(writer) for writer in writers}) > 1:
        return OWN_WRITER
    return min(writers, key=lambda writer: (_version(writer), writer))


def _trusted(created_by: str | None) -> str | None:
    if created_by is None or created_by in _TRUSTED_WITHOUT_VERSION:
        return created_by
    found = _WRITER.match(created_by)
    name = found["name"] if found else None
    if name not in _TRUSTED or _version(created_by) < _TRUSTED[name]:
        return None
    return name


def _version(text: str) -> tuple[int, ...]:
    found = _WRITER.match(text) or _WRITER.match(f"any version {text}")
    numbers = [int(number) for number in found["version"].split(".")] if found else []
    return tuple([*numbers, 0, 0, 0][:3])


def metadata_class(shape: FileShape, options: CopyOptions) -> tuple[tuple[str, str | None], ...]:
    """The metadata that must be the same in all sources of an output; an unknown key might change what rows mean."""
    passed = options.ignore | options.put.keys() | {SPARK_VERSION, *_SPARK_LEGACY}
    held = {key: value for key, value in shape.metadata.items() if key not in passed}
    return tuple(sorted({**held, **_calendar(shape)}.items()))


def _calendar(shape: FileShape) -> Mapping[str, str | None]:
    """How Spark reads the file's dates: by its own rules, by those of before 3.0 and 3.1, or by the session's."""
    if not any(_tells_time(leaf.element.logical, leaf.element.physical) for leaf in shape.leaves):
        return {}
    version = shape.metadata.get(SPARK_VERSION)
    if version is None:
        return {SPARK_VERSION: "none"}
    legacy = {key: shape.metadata[key] for key in _SPARK_LEGACY if key in shape.metadata}
    return {SPARK_VERSION: str([_version(version) >= start for start in _CALENDAR_FROM]), **legacy}


def _tells_time(logical: str, physical: str | None) -> bool:
    return physical == "INT96" or logical == "date" or logical.startswith(("timestamp", "converted"))


def merged_metadata(shapes: Sequence[FileShape], options: CopyOptions) -> dict[str, str | None]:
    """The metadata of an output: what its sources agree on, with what was asked for in its place.

    >>> one = FileShape(path="a", bytes=1, metadata={"by": "x", SPARK_VERSION: "4.1.4"})
    >>> merged_metadata([one, FileShape(path="b", bytes=1, metadata={SPARK_VERSION: "4.0.0"})], CopyOptions())
    {'org.apache.spark.version': '4.0.0'}
    """
    merged: dict[str, str | None] = {}
    for key, value in shapes[0].metadata.items() if shapes else ():
        held = [shape.metadata.get(key, _ABSENT) for shape in shapes]
        if key == SPARK_VERSION and _ABSENT not in held:
            merged[key] = min((str(version) for version in held), key=_version)
        elif all(other == value for other in held):
            merged[key] = value
    return {**merged, **options.put}


_ABSENT = "\0absent"
