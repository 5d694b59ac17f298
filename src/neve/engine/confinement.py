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


def check_within(frame: DataFrame, tenant: str) -> None:
    """Raises Forbidden unless all that the query would read are tables of this tenant's namespaces.

    The query is analysed, and has not been run.
    """
    with translated():
        whole = cast(Any, frame)._jdf.queryExecution().analyzed()
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
    return bool(
        leaf.catalog().get().name() == CATALOG
        and len(namespace) == 2
        and namespace[0] == tenant
        and table.getClass().getSimpleName() == "SparkTable"
        and table.table().getClass().getSimpleName() == _PLAIN
    )
