"""What a query reads, by Spark's own word: the last check before a tenant's query is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from neve.engine.errors import translated
from neve.errors import Forbidden
from neve.model.names import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HARMLESS = frozenset({"LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "UnionLoopRef"})
"""Leaves of a plan that read nothing that is stored."""

_PLAIN = "BaseTable"
"""Iceberg's class of a table itself; its metadata tables, which tell of files, have others."""

_FOR_ROWS = "RowLevelOperationTable"
"""Spark's class around a table whose rows a DELETE, UPDATE or MERGE changes."""

_WRITES = {
    "AppendData": ("table",),
    "WriteDelta": ("table", "originalTable"),
    "ReplaceData": ("table", "originalTable"),
    "DeleteFromTable": (),  # of whole files; its target is a leaf
}
"""Plans that change rows once they are analysed, and where they keep what they write to, if that is no leaf."""


def check_within(frame: DataFrame, tenant: str) -> None:
    """Raises Forbidden unless all that the query would read are tables of this tenant's namespaces.

    The query is analysed, and has not been run.
    """
    with translated():
        _check_leaves(cast(Any, frame)._jdf.queryExecution().analyzed(), tenant)


def check_change_within(plan: Any, tenant: str) -> None:
    """The same for the analysed plan of a statement that changes rows: what it writes to is the tenant's, too."""
    with translated():
        kind = plan.getClass().getSimpleName()
        if kind not in _WRITES:
            raise Forbidden(f"this is not known to change tables of the tenant {tenant} alone")
        _check_leaves(plan, tenant)
        written = [getattr(plan, name)() for name in _WRITES[kind]]
        if not all(_is_own(each, tenant) for each in written):
            raise Forbidden(f"this would write to more than tables of the tenant {tenant}")


def _check_leaves(whole: Any, tenant: str) -> None:
    within = whole.subqueriesAll()
    for plan in (whole, *(within.apply(index) for index in range(within.size()))):
        leaves = plan.collectLeaves()
        for index in range(leaves.size()):
            if not _is_own(leaves.apply(index), tenant):
                raise Forbidden(f"this would read more than tables of the tenant {tenant}")


def _is_own(leaf: Any, tenant: str) -> bool:
    kind = leaf.getClass().getSimpleName()
    if kind in _HARMLESS:
        return True
    if kind != "DataSourceV2Relation" or not (leaf.catalog().isDefined() and leaf.identifier().isDefined()):
        return False
    namespace = tuple(leaf.identifier().get().namespace())
    table = leaf.table()
    if table.getClass().getSimpleName() == _FOR_ROWS:
        table = table.table()
    return bool(
        leaf.catalog().get().name() == CATALOG
        and len(namespace) == 2
        and namespace[0] == tenant
        and table.getClass().getSimpleName() == "SparkTable"
        and table.table().getClass().getSimpleName() == _PLAIN
    )
