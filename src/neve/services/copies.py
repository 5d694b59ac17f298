"""Files that become one, byte for byte: told so plainly that any process can do it that sees them.

Row groups move as they are, and only the footer is new (neve.files.copier). Spark's workers import this module, so it
must stay light.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.catalog.files import Files, local_path
from neve.errors import CheckFailed
from neve.files.copier.lineage import Lineage
from neve.model.copying import CopyOptions, CopyResult

if TYPE_CHECKING:
    from neve.files.copier import Source, Target

_UNCHANGED = "nothing was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCopy:
    """What is to be copied, and where to. `rows` are as many as must come out, where that is known.

    `lineage` is that of each source, to be told in the new file. A copy that is `proven` is on the disk, and every page
    of it was walked. `s3` holds pyarrow's S3FileSystem arguments, which are nothing to show.
    """

    of: str
    sources: tuple[str, ...]
    target: str
    options: CopyOptions
    rows: int | None = None
    lineage: tuple[Lineage, ...] | None = None
    proven: bool = False
    s3: Mapping[str, str | bool] = field(default_factory=dict, repr=False)


def open_source(files: Files, path: str) -> Source:
    from neve.files.copier import ArrowSource, LocalSource

    if (local := local_path(path)) is not None:
        return LocalSource(local)
    filesystem, key = files.filesystem(path)
    return ArrowSource(filesystem, key)


def open_target(files: Files, path: str, *, sync: bool = False) -> Target:
    from neve.files.copier import ArrowTarget, LocalTarget

    if (local := local_path(path)) is not None:
        return LocalTarget(local, sync=sync)
    filesystem, key = files.filesystem(path)
    return ArrowTarget(filesystem, key)


def make_copy(copy: FileCopy, files: Files) -> CopyResult:
    """Makes one file of several. Nothing is written before all sources are there.

    Raises:
        CheckFailed: it does not hold what its sources do, or not as many rows as it must.
    """
    from neve.files.copier import copy as copy_groups
    from neve.files.copier import lineage_columns

    with ExitStack() as stack:
        sources: list[Source] = []
        for path in copy.sources:
            sources.append(source := open_source(files, path))
            stack.callback(source.close)
        extra = () if copy.lineage is None else lineage_columns(copy.lineage)
        with open_target(files, copy.target, sync=copy.proven) as target:
            result = copy_groups(sources, target, options=copy.options, extra_columns=extra)
            if copy.rows is not None:
                check_rows(copy.of, copy.rows, result.rows)
        if copy.proven:
            _prove(copy, sources, files)
        return result


def check_rows(of: str, wanted: int, found: int) -> None:
    if found != wanted:
        raise CheckFailed(f"{wanted:,} rows of {of} came out as {found:,}", hint=_UNCHANGED)


def _prove(copy: FileCopy, sources: Sequence[Source], files: Files) -> None:
    from neve.files.copier import verify

    made = open_source(files, copy.target)
    try:
        reason = verify(sources, made, depth="pages")
    finally:
        made.close()
    if reason is not None:
        raise CheckFailed(f"a copy of {copy.sources[0]} and others is wrong: {reason.detail}", hint=_UNCHANGED)
