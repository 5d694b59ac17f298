"""How the result of a query follows from changes of its sources: analysis, derivation, explanation. Pure text work.

`analyse` understands a query and says what cannot follow changes and why; `derive` writes the net changes of its result
as Spark SQL over the sources' changes, old and new contents, and the stored table; `full` writes the result itself.
"""

from __future__ import annotations

from neve.sql.delta.analysis import Analysis, OutputColumn, Source, analyse
from neve.sql.delta.binding.context import Schema
from neve.sql.delta.clock import Moments
from neve.sql.delta.derive import KNOWN_TEXTS, DeltaQuery, derive, full
from neve.sql.delta.equivalence import equivalent
from neve.sql.delta.explain import explain
from neve.sql.delta.operators import Version
from neve.sql.delta.script import Read
from neve.sql.delta.shape import Apply
from neve.sql.delta.steps import Intermediate, Stepwise, stepwise

__all__ = [
    "KNOWN_TEXTS",
    "Analysis",
    "Apply",
    "DeltaQuery",
    "Intermediate",
    "Moments",
    "OutputColumn",
    "Read",
    "Schema",
    "Source",
    "Stepwise",
    "Version",
    "analyse",
    "derive",
    "equivalent",
    "explain",
    "full",
    "stepwise",
]
