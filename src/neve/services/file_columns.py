"""Whether each file of a load has the columns that all of them must have."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from neve.catalog import Files
from neve.errors import ColumnNotFound
from neve.files.headers import columns_in, tells_columns
from neve.model.ingest import SourceFile

_READERS = 16


def refuse_incomplete(files: Files, load: Collection[SourceFile], needed: Collection[str]) -> None:
    """Refuses a load some file of which lacks a column that others have: each is judged by itself.

    Lines of JSON say no columns but those that have values, so files of them are judged together alone.

    Raises:
        ColumnNotFound: the first file that lacks a column, and which.
    """
    judged = [file for file in load if file.header is not None or tells_columns(file.format)]
    if len(load) == 1 or not needed:
        return
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(lambda file: _names(files, file), judged)
        lacking = {
            file.path: [name for name in needed if name.casefold() not in names]
            for file, names in zip(judged, found, strict=True)
        }
    lacking = {path: names for path, names in lacking.items() if names}
    if lacking:
        path, names = next(iter(lacking.items()))
        others = len(lacking) - 1
        more = f", and {others:,} other{'s lack' if others > 1 else ' lacks'} columns" if others else ""
        raise ColumnNotFound(
            f"{path} has no column {', '.join(names)}, which other files of this load have{more}",
            hint="have it delivered again, or set missing_columns: null",
        )


def _names(files: Files, file: SourceFile) -> set[str]:
    names = columns_in(*files.filesystem(file.path), file.format) if file.header is None else file.header
    return {name.casefold() for name in names}
