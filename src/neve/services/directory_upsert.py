"""Upsert into a plain folder: rows by key, updated wherever their old copy lies, or inserted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.errors import InvalidSchema, NotFound
from neve.model.directories import RowStats
from neve.model.names import shown
from neve.plan.directories import Dataset, Group
from neve.plan.rows import NEW_ROWS, UpsertColumns, check_on_duplicate, find_names, sort_fields, upsert_columns
from neve.services.directories import Workplace, gone_if_refused
from neve.services.directory_rows import How, Prepared, change_rows

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
    check_on_duplicate(on_duplicate)
    if how.dry_run and not Path(location).expanduser().is_dir():
        raise NotFound(f"no folder {location}", hint="without --dry-run, an upsert makes it")

    with ExitStack() as stack:

        def prepare(dataset: Dataset) -> Prepared:
            from neve.engine.parquet_files import work_session
            from neve.engine.row_input import as_frame

            session = work_session(work.spark, dataset)
            frame, ordered = stack.enter_context(as_frame(session, new_data))
            names = [name for name in frame.columns if not name.startswith("_neve_")]
            target = dataset if dataset.footers else _new_dataset(location, frame, names, partition_cols or ())
            columns = upsert_columns(
                names,
                target.names,
                where=location,
                key_cols=key_cols,
                update_cols=update_cols,
                hint="repartition with a transform that adds them",
            )
            _check_partitioning(target, names, target.keys if partition_cols is None else partition_cols)
            order = sort_fields(names, order_by, where=NEW_ROWS)
            return _prepared(session, frame, target, columns, ordered=ordered, on_duplicate=on_duplicate, order=order)

        plan: dict[str, Any] = {"keys": list(key_cols), "update": None if update_cols is None else list(update_cols)}
        with gone_if_refused(location):
            return change_rows(work, location, "parquet upsert", prepare, how=how, plan=plan, create=True)


def _prepared(
    session: Any,
    frame: DataFrame,
    dataset: Dataset,
    columns: UpsertColumns,
    *,
    ordered: bool,
    on_duplicate: str,
    order: Sequence[Any],
) -> Prepared:
    from neve.engine.parquet_files import spark_schema
    from neve.engine.row_input import prepare_input
    from neve.engine.upserts import count_groups, inserted_rows, match_rows, relevant_groups

    keys, schema = columns.keys, spark_schema(dataset.columns)
    given = prepare_input(frame, schema, keys, ordered=ordered, on_duplicate=on_duplicate, order_by=order)
    selected = _where_keys_lie(
        dataset, keys, relevant_groups(given, dataset, keys) if len(dataset.folders) > 1 else None
    )
    if not selected.footers or not given.rows:
        rows = inserted_rows(given.frame, dataset)
        groups = count_groups(rows, dataset)
        return Prepared(
            session=session, dataset=dataset, selected=selected, work=None, inserts=rows, insert_groups=groups
        )
    matched = match_rows(session, given, selected, keys, columns.update)
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
    keys = find_names(names, partition_cols, where=NEW_ROWS, what="the partitioning")
    dataset = Dataset(location, (), columns, keys)
    _ = dataset.types  # refuses partition columns whose values no folder can name
    return dataset


def _check_partitioning(dataset: Dataset, names: Sequence[str], partition_cols: Sequence[str]) -> None:
    find_names(names, partition_cols, where=NEW_ROWS, what="the partitioning")
    if {name.casefold() for name in partition_cols} != {name.casefold() for name in dataset.keys}:
        raise InvalidSchema(
            f"{dataset.location} is partitioned by {', '.join(map(shown, dataset.keys)) or 'nothing'}, "
            f"not by {', '.join(map(shown, partition_cols)) or 'nothing'}",
            hint="give the partition columns that it has, or repartition it",
        )
