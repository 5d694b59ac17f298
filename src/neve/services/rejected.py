"""Rejected rows beside the table that did not take them: written before a load is published, seen once it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from neve.engine.staging import Branch, pick, staged
from neve.model.ingest import rejected_name
from neve.model.names import TableName
from neve.services.context import Context
from neve.services.ledger import branch_of
from neve.services.look import RUN_ID

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from neve.engine.ingest import Tally, Work

Keep = Callable[["SparkSession", "Work", "Tally"], "Tally"]
"""Writes the rejected rows of a load, if it has any; the tally with their numbers for each rule and date."""


@contextmanager
def keeping_rejected(context: Context, table: TableName, run_id: str) -> Iterator[Keep]:
    """What is kept within is seen when the block ends, and gone when it fails."""
    with ExitStack() as stack:
        seen = []

        def keep(spark: SparkSession, work: Work, tally: Tally) -> Tally:
            from neve.engine.keeping import write_rejected
            from neve.services.columns import make_rejected_table

            if not tally.rows_rejected:
                return tally
            rejected = make_rejected_table(context, table)
            branch = stack.enter_context(staged(spark, rejected, branch_of(run_id), base=None))
            kept = write_rejected(spark, branch, work, tally, run_id=run_id, summary={RUN_ID: run_id})
            seen.append(partial(pick, spark, branch))
            return kept

        yield keep
        for show in seen:
            show()


def settle_rejected(context: Context, table: TableName, run_id: str, *, made: bool) -> None:
    """What a run whose process died kept is seen if its load is, and goes otherwise."""
    rejected, branch = rejected_name(table), branch_of(run_id)
    if not context.catalog.exists(rejected):
        return
    if not any(reference.name == branch for reference in context.catalog.facts(rejected).references):
        return
    if made:
        pick(context.session.spark, Branch(rejected, branch))
    else:
        context.catalog.remove_branch(rejected, branch)
