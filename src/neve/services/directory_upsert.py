"""Upsert into a plain folder: rows by key, updated wherever their old copy lies, or inserted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.errors import InvalidInput, InvalidSchema, NotFound
from neve.model.directories import RowStats
from neve.model.names import shown
from neve.plan.directories import Dataset, Group, find_names
from neve.services.directories import Workplace
from neve.services.directory_rows import How, Prepared, change_rows, sort_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def upsert_rows(
    work: Workplace,
    location: str,
    new_data: Any,
    *,
    key_cols: Sequence[str],
    partition_cols: Sequence[str] | None,
    update_cols: Sequence[str] | None,
    on_duplicate: str,
    order_by: Sequence[str],
    how: How,
) -> RowStats:
    """Rows with a known key get the new values of `update_cols`; the others are inserted.

    Without `partition_cols` the folder's own partitioning is meant.

    Raises:
        Refused: the input holds a key twice, unless the last one is asked for.
        ColumnNotFound: a key, partition or update column is missing.
        InvalidSchema: the input has columns that the folder lacks, or the folder is partitioned otherwise.
    """
    if on_duplicate not in ("refuse", "last"):
        raise InvalidInput(f"on_duplicate is refuse or last, not {on_duplicate!r}")
    if how.dry_run and not Path(location).expanduser().is_dir():
        raise NotFound(f"no folder {location}", hint="without --dry-run, an upsert makes it")

    with ExitStack() as stack:

        def prepare(dataset: Dataset) -> Prepared:
            from neve.engine.parquet_files import work_session
            from neve.engine.upserts import as_frame

            session = work_session(work.spark, dataset)
            frame, ordered = stack.enter_context(as_frame(session, new_data))
            names = [name for name in frame.columns if not name.startswith("_neve_")]
            target = dataset if dataset.footers else _new_dataset(location, frame, names, partition_cols or ())
            keys = _check(target, names, key_cols, target.keys if partition_cols is None else partition_cols)
            update = _update_columns(names, update_cols, keys, target)
            order = sort_fields(names, order_by, "the new rows")
            return _prepared(
                session, frame, target, keys, update, ordered=ordered, on_duplicate=on_duplicate, order=order
            )

        plan: dict[str, Any] = {"keys": list(key_cols), "update": None if update_cols is None else list(update_cols)}
        return change_rows(work, location, "parquet upsert", prepare, how=how, plan=plan, create=True)


def _prepared(
    session: Any,
    frame: DataFrame,
    dataset: Dataset,
    keys: Sequence[str],
    update: Sequence[str],
    *,
    ordered: bool,
    on_duplicate: str,
    order: Sequence[Any],
) -> Prepared:
    from neve.engine.upserts import (
        count_groups,
        inserted_rows,
        match_rows,
        prepare_input,
        relevant_groups,
    )

    given = prepare_input(session, frame, dataset, keys, ordered=ordered, on_duplicate=on_duplicate, order_by=order)
    selected = _where_keys_lie(
        dataset, keys, relevant_groups(given, dataset, keys) if len(dataset.folders) > 1 else None
    )
    if not selected.footers or not given.rows:
        rows = inserted_rows(given.frame, dataset)
        groups = count_groups(rows, dataset)
        return Prepared(
            session=session, dataset=dataset, selected=selected, work=None, inserts=rows, insert_groups=groups
        )
    matched = match_rows(session, given, selected, keys, update)
    rows = inserted_rows(matched.inserts, dataset)
    return Prepared(
        session=session,
        dataset=dataset,
        selected=selected,
        work=matched.work,
        outline=matched.outline,
        inserts=rows,
        insert_groups=count_groups(rows, dataset),
    )


def _where_keys_lie(dataset: Dataset, keys: Sequence[str], groups: set[Group] | None) -> Dataset:
    """Only the folders that can hold the keys, when partition columns are part of the key."""
    if groups is None:
        return dataset
    named = [key in keys for key in dataset.keys]
    seen = {path: tuple(v if n else None for v, n in zip(g, named, strict=True)) for path, g in dataset.groups.items()}
    return dataset.only([path for path, group in seen.items() if group in groups])


def _new_dataset(location: str, frame: DataFrame, names: Sequence[str], partition_cols: Sequence[str]) -> Dataset:
    """The first rows of a folder say what its columns are."""
    from neve.model.types import Field
    from neve.sql.columns import parse_type

    columns = tuple(Field(name, parse_type(frame.schema[name].dataType.simpleString())) for name in names)
    keys = find_names(names, partition_cols, where="the new rows", what="the partitioning")
    dataset = Dataset(location, (), columns, keys)
    _ = dataset.types  # refuses partition columns whose values no folder can name
    return dataset


def _check(
    dataset: Dataset, names: Sequence[str], key_cols: Sequence[str], partition_cols: Sequence[str]
) -> tuple[str, ...]:
    if isinstance(key_cols, str) or not key_cols:
        raise InvalidInput("key columns are a list of names", hint='key_cols=["id"]')
    find_names(names, [*key_cols], where="the new rows", what="the key")
    find_names(names, partition_cols, where="the new rows", what="the partitioning")
    keys = find_names(dataset.names, key_cols, where=dataset.location, what="the key")
    known = {name.casefold() for name in dataset.names}
    if extra := [name for name in names if name.casefold() not in known]:
        raise InvalidSchema(
            f"the new rows have columns that {dataset.location} lacks: {', '.join(map(shown, extra))}",
            hint="leave them out, or repartition with a transform that adds them",
        )
    if {name.casefold() for name in partition_cols} != {name.casefold() for name in dataset.keys}:
        raise InvalidSchema(
            f"{dataset.location} is partitioned by {', '.join(map(shown, dataset.keys)) or 'nothing'}, "
            f"not by {', '.join(map(shown, partition_cols)) or 'nothing'}",
            hint="give the partition columns that it has, or repartition it",
        )
    return keys


def _update_columns(
    names: Sequence[str], update_cols: Sequence[str] | None, keys: Sequence[str], dataset: Dataset
) -> tuple[str, ...]:
    if update_cols is None:
        update = find_names(dataset.names, names, where=dataset.location, what="the new rows")
        return tuple(name for name in update if name not in keys)
    find_names(names, update_cols, where="the new rows", what="update_cols")
    update = find_names(dataset.names, update_cols, where=dataset.location, what="update_cols")
    if both := [name for name in update if name in keys]:
        raise InvalidInput(f"{', '.join(map(shown, both))} is part of the key, and a key is not updated")
    return update
