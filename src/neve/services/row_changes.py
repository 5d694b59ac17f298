"""What changed in a table between two snapshots, as rows with weights: look, plan, measure, and only then read.

Planning and measuring need no JVM, so whoever finds that nothing changed never starts Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING

from neve.errors import SnapshotNotFound, StorageError, Unsupported
from neve.model.changes import ChangeEstimate, ChangePlan, FileReads, Lineage, LiveFile, MeasuredChanges, Road
from neve.model.names import TableName
from neve.model.results import Reason
from neve.plan.changes import KEEP_LONGER, compared, plan_changes, settled
from neve.plan.file_changes import compare_files, estimate_reads, net_reads
from neve.plan.moments import find_snapshot
from neve.services.context import Context
from neve.services.positions import reads_of
from neve.services.readers import announce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.engine.changes.staged import StagedFiles

_FORMATS = {"parquet", "orc", "avro", "puffin"}


@dataclass
class RowChanges:
    """Changes that were planned and measured, to be read when wanted.

    `frame` may be read until `close`: staged files and temporary vectors live so long. `announced` ones are known to
    whoever expires snapshots from the first `frame` on; a refresh says so itself.
    """

    context: Context
    lineage: Lineage
    measured: MeasuredChanges
    announced: bool = False
    _readers: list[str] = field(default_factory=list)
    _staged: list[StagedFiles] = field(default_factory=list)

    @property
    def plan(self) -> ChangePlan:
        return self.measured.plan

    @property
    def estimate(self) -> ChangeEstimate:
        return self.measured.estimate

    @property
    def nothing(self) -> bool:
        """Whether no row changed, known without Spark; if not, they may still have changed in other columns only."""
        return self.plan.tier == "nothing"

    def frame(self, spark: SparkSession | None = None) -> DataFrame:
        """The net changes: the chosen columns and `_w`. Equal rows never carry both signs.

        Raises:
            Unsupported: the plan says why they cannot be read.
        """
        from neve.engine.changes.reading import read_compared, read_nothing, read_staged
        from neve.engine.changes.staged import StagedFiles

        if not self.plan.possible:
            raise Unsupported(self.plan.reason.detail)
        session = self.context.session.spark if spark is None else spark
        if self.nothing:
            return read_nothing(session, self.plan)
        if self.announced and not self._readers:
            self._readers.append(announce(self.context, self.lineage.facts, self.snapshots, purpose="changes"))
        if self.plan.tier == "compare":
            return read_compared(session, self.plan, self.lineage)
        staged = StagedFiles(session, self.plan)
        self._staged.append(staged)
        return read_staged(staged, self.measured)

    def close(self) -> None:
        while self._staged:
            self._staged.pop().close()
        while self._readers:
            self.context.store.readers.remove(self._readers.pop())

    @property
    def snapshots(self) -> list[int]:
        ends = [end for leg in self.plan.legs for end in (leg.since, leg.until)]
        return sorted({end for end in (*ends, self.plan.since, self.plan.until) if end is not None})

    def __enter__(self) -> RowChanges:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def changes_between(
    context: Context,
    name: TableName,
    *,
    since: str | None,
    until: str | None = None,
    columns: Sequence[str] | None = None,
    road: Road = "auto",
) -> RowChanges:
    """The changes between two moments as people name them; until now, if the later one is not named.

    Raises:
        SnapshotNotFound: there is no such snapshot, or it has expired.
        Unsupported: the columns cannot be compared.
    """
    lineage = context.catalog.lineage(name)
    later = lineage.facts.current_snapshot_id if until is None else _snapshot(lineage, until)
    earlier = None if since is None else _snapshot(lineage, since)
    plan = plan_changes(lineage, since=earlier, until=later, columns=columns, road=road)
    if not plan.possible:
        raise Unsupported(plan.reason.detail)
    found = _measured(context, lineage, plan, road=road)
    found.announced = True
    return found


def changes_since(
    context: Context,
    name: TableName,
    *,
    uuid: str | None,
    since: int | None,
    until: int | None,
    columns: Sequence[str] | None = None,
    road: Road = "auto",
) -> RowChanges:
    """The changes from a recorded frontier to a target snapshot: what a refresh asks for.

    What cannot be is no error here: the plan's tier is then "impossible" or "reinitialise", and its reason says why.
    """
    lineage = context.catalog.lineage(name)
    plan = plan_changes(lineage, since=since, until=until, columns=columns, uuid=uuid, road=road)
    return _measured(context, lineage, plan, road=road)


def _snapshot(lineage: Lineage, text: str) -> int:
    try:
        return find_snapshot(lineage.facts, text).id
    except SnapshotNotFound as exc:
        raise SnapshotNotFound(exc.message, hint=f"{exc.hint}; to have older ones, {KEEP_LONGER}") from exc


def _measured(context: Context, lineage: Lineage, plan: ChangePlan, *, road: Road) -> RowChanges:
    if plan.tier not in ("appends", "diff"):
        return RowChanges(context, lineage, MeasuredChanges(plan=plan, estimate=_whole(lineage, plan)))
    try:
        reads = _reads(context, lineage, plan)
        why = _why_general(lineage, plan, reads)
    except StorageError as exc:
        reads, why = FileReads(), Reason(code="unreadable_manifest", detail=exc.message)
    if why is not None:
        if road == "fast":
            raise Unsupported(f"cannot read only the files that changed: {why.detail}")
        plan = compared(plan, why)
        return RowChanges(context, lineage, MeasuredChanges(plan=plan, estimate=_whole(lineage, plan)))
    measured = MeasuredChanges(plan=settled(plan, reads), reads=reads, estimate=estimate_reads(reads))
    return RowChanges(context, lineage, measured)


def _reads(context: Context, lineage: Lineage, plan: ChangePlan) -> FileReads:
    """The files to read, from the manifests of the snapshots where legs begin and end."""
    catalog = context.catalog
    load = cache(catalog.manifest_files)
    unpartitioned = {spec for spec, sources in lineage.partition_sources.items() if not sources}
    found = []
    for leg in plan.legs:
        old = [] if leg.since is None else catalog.manifests(lineage.steps[leg.since])
        new = catalog.manifests(lineage.steps[leg.until])
        found.append(reads_of(catalog, compare_files(old, new, load=load, unpartitioned=unpartitioned)))
    return net_reads(found)


def _why_general(lineage: Lineage, plan: ChangePlan, reads: FileReads) -> Reason | None:
    """Why these files cannot be staged; None when they can."""
    there = {column.id for column in lineage.schemas[plan.schema_id]}
    whole = [file for read in (*reads.plus, *reads.minus) for file in (read.file, *read.deletes)]
    for file in (*whole, *(picked.file for picked in (*reads.picked_plus, *reads.picked_minus))):
        if why := _unstageable(file, sources=lineage.partition_sources[file.spec_id], there=there):
            return Reason(code="unstageable_file", detail=f"{file.path} {why}")
    return None


def _unstageable(file: LiveFile, *, sources: Sequence[int], there: set[int]) -> str | None:
    if file.encrypted:
        return "is encrypted"
    if file.format not in _FORMATS:
        return f"is of format {file.format}"
    if not there.issuperset(sources):
        return "is partitioned by a column that is gone"
    if any(isinstance(value, float) and not isfinite(value) for value in file.partition):
        return "has a partition value that JSON cannot say"
    return None


def _whole(lineage: Lineage, plan: ChangePlan) -> ChangeEstimate:
    """What comparing both snapshots would read, from their summaries."""
    if plan.tier != "compare":
        return ChangeEstimate()
    sides = [lineage.facts.snapshot(snapshot) for snapshot in (plan.since, plan.until) if snapshot is not None]
    found = [side for side in sides if side is not None]
    size = sum(side.total("files-size") for side in found)
    return ChangeEstimate(
        files=sum(side.total("data-files") for side in found),
        rows=sum(side.total("records") for side in found),
        bytes=size,
        row_bytes=size,
    )
