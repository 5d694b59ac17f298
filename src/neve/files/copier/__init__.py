"""Row-group copy: one Parquet file out of several, byte for byte, without decoding a value.

    with LocalSource(a) as one, LocalSource(b) as other, LocalTarget(out, sync=True) as target:
        result = copy([one, other], target)

`inspect` reads what a file is made of, `can_copy` and `plan_copy` (neve.plan.copying) decide, `copy` moves, `verify`
proves. What is not known for sure is refused with a reason, and is for an engine that decodes.
"""

from __future__ import annotations

from neve.files.copier.copying import Part, copy
from neve.files.copier.ends import ArrowSource, ArrowTarget, LocalSource, LocalTarget, MemorySource, Source, Target
from neve.files.copier.extra import ExtraColumn, Held, RowGroupAt
from neve.files.copier.footer import inspect
from neve.files.copier.lineage import Lineage, lineage_columns, lineage_schema
from neve.files.copier.verify import content_hash, verify

__all__ = [
    "ArrowSource",
    "ArrowTarget",
    "ExtraColumn",
    "Held",
    "Lineage",
    "LocalSource",
    "LocalTarget",
    "MemorySource",
    "Part",
    "RowGroupAt",
    "Source",
    "Target",
    "content_hash",
    "copy",
    "inspect",
    "lineage_columns",
    "lineage_schema",
    "verify",
]
