"""Files of a plain folder into one, byte for byte: row groups are moved as they are, and only the footer is new."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack

from neve.engine.parquet_tasks import RUN_KEY
from neve.errors import CheckFailed
from neve.model.copying import CopyOptions
from neve.plan.copying import MIN_ROW_GROUP_BYTES, can_copy

_WORDS = {"none": "UNCOMPRESSED", "lz4": "LZ4_RAW"}
"""Codecs that Parquet calls otherwise than pyarrow; its own LZ4 is an older one, which is not written any more."""


def can_copy_files(location: str, files: Sequence[str], *, codec: str, most_rows: int | None = None) -> bool:
    """Whether row groups can be moved as they are, and are worth keeping: large, of this codec, none of more rows."""
    from neve.files.copier import LocalSource, inspect

    wanted = _WORDS.get(codec, codec.upper())
    shapes = [inspect(LocalSource(f"{location}/{path}")) for path in files]
    groups = [group for shape in shapes for group in shape.row_groups if group.rows]
    codecs = {codec for shape in shapes for per_column in shape.codecs for codec in per_column}
    return (
        bool(groups)
        and sum(group.bytes for group in groups) / len(groups) >= MIN_ROW_GROUP_BYTES
        and (most_rows is None or max(group.rows for group in groups) <= most_rows)
        and codecs <= {wanted}
        and can_copy(shapes, _options("")) is None
    )


def copy_files(location: str, files: Sequence[str], address: str, *, run_id: str) -> int:
    """Makes one file of several, reads back what it holds, and gives its size.

    Raises:
        CheckFailed: it does not hold what its sources do.
    """
    from neve.files.copier import LocalSource, LocalTarget, copy, verify

    with ExitStack() as stack:
        sources = [stack.enter_context(LocalSource(f"{location}/{path}")) for path in files]
        with LocalTarget(address, sync=True) as target:
            copy(sources, target, options=_options(run_id))
        reason = verify(sources, stack.enter_context(LocalSource(address)), depth="pages")
        if reason is not None:
            raise CheckFailed(f"a copy of {files[0]} and others is wrong: {reason.detail}", hint="nothing was changed")
    return os.stat(address).st_size  # noqa: PTH116


def _options(run_id: str) -> CopyOptions:
    return CopyOptions(ignore=frozenset({RUN_KEY}), put={RUN_KEY: run_id})
