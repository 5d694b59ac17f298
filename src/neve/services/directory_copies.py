"""Files of a plain folder into one, byte for byte: row groups are moved as they are, and only the footer is new."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from neve.catalog.files import Files
from neve.engine.parquet_tasks import RUN_KEY
from neve.model.copying import CopyOptions
from neve.plan.copying import MIN_ROW_GROUP_BYTES, can_copy
from neve.services.copies import FileCopy, make_copy
from neve.services.copy_tasks import MadeCopy, copy_by_tasks, executors_for
from neve.services.directories import Workplace

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


def copy_of(location: str, files: Sequence[str], address: str, *, run_id: str) -> FileCopy:
    """One file of several, which is read back before it counts."""
    sources = tuple(f"{location}/{path}" for path in files)
    return FileCopy(of=location, sources=sources, target=address, options=_options(run_id), proven=True)


def copy_all(work: Workplace, copies: Sequence[FileCopy], done: Callable[[int], None]) -> list[MadeCopy]:
    """Makes all copies: by Spark's executors where it has some, else in threads. `done` hears of each, in their order.

    Raises:
        CheckFailed: one does not hold what its sources do.
    """
    by_tasks = copy_by_tasks(executors_for(work), copies) if copies else []
    left = [copy for copy, made in zip(copies, by_tasks, strict=True) if made is None]
    results: list[MadeCopy] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        here = pool.map(_copy_here, left)
        for number, made in enumerate(by_tasks):
            results.append(next(here) if made is None else made)
            done(number)
    return results


def _copy_here(copy: FileCopy) -> MadeCopy:
    return MadeCopy(copy.target, make_copy(copy, Files()))


def _options(run_id: str) -> CopyOptions:
    return CopyOptions(ignore=frozenset({RUN_KEY}), put={RUN_KEY: run_id})
