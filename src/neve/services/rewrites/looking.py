"""What a compaction was asked for, the table's files as they are, and the plan that comes of both."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from neve.errors import InvalidInput
from neve.model.commands import neve
from neve.model.copying import FileShape
from neve.model.layout import SortField
from neve.model.names import TableName
from neve.model.results import Reason
from neve.model.rewrites import Group, RewritePlan, Strategy, TableFiles
from neve.plan.measures import small_file_bytes
from neve.plan.range_upkeep import aged_files, choose_in_ranges
from neve.plan.ranges import keys_of, need_keys, place_files
from neve.plan.rewrite_groups import Footers, assign
from neve.plan.rewrites import OLD_LAYOUT, SORTED, Chosen, RewriteRules, candidates, choose, take
from neve.plan.rows import sort_fields
from neve.services.context import Context
from neve.services.rewrites.files import Writing, read_footers, target_bytes, writing_for

ORDERED, ORDERED_FROM = "neve.ordered-by", "neve.ordered-from"
"""A snapshot says by them that its new files are in an order, and as of which sequence number they were chosen."""

_LEAST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRequest:
    """What was asked for; what is None comes from the table or the settings.

    `quiet` leaves partitions alone whose rows were changed so shortly ago, where a job on them would take long.
    """

    table: TableName
    strategy: Strategy = "binpack"
    by: tuple[str, ...] = ()
    target_file_size: int | None = None
    max_files: int | None = None
    force: bool = False
    where: str | None = None
    partition: Mapping[str, str] = field(default_factory=dict)
    quiet: timedelta | None = None
    expire_snapshots: bool = False
    snapshot_retention_hours: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """A table's files at one snapshot, and what is to become of them."""

    request: RewriteRequest
    files: TableFiles
    rules: RewriteRules
    plan: RewritePlan
    writing: Writing
    shapes: Mapping[str, FileShape]

    @property
    def sort_by(self) -> list[SortField]:
        return _sort_by(self.request, self.files)

    def order_summary(self, groups: Sequence[Group]) -> Mapping[str, str]:
        """What a commit says of these groups: rows of an older partitioning go among those of others."""
        current = self.files.facts.current
        if self.rules.strategy not in SORTED or current is None or any(group.reason == OLD_LAYOUT for group in groups):
            return {}
        return {ORDERED: _order_label(self.request, self.files), ORDERED_FROM: str(current.sequence_number)}


def look_at(context: Context, request: RewriteRequest) -> Look:
    """Reads the table's metadata, and the footers of files that may become fewer; Spark only for `where`."""
    files = context.catalog.table_files(request.table)
    writing = writing_for(context, files)
    rules = _rules(context, request, files, writing)
    return _planned(request, writing, rules, _chosen(context, files, rules))


def look_at_strays(context: Context, table: TableName) -> Look:
    """The files of a key-range table whose rows belong to other ranges than they lie in, and no others."""
    request, files = RewriteRequest(table=table), context.catalog.table_files(table)
    placed = place_files(files, need_keys(files.facts))
    writing = writing_for(context, files)
    strays = frozenset(each.file.path for each in placed if each.state != "in_place")
    rules = replace(_rules(context, request, files, writing), only=strays)
    return _planned(request, writing, rules, choose_in_ranges(placed, files.spec_id, rules))


def _chosen(context: Context, files: TableFiles, rules: RewriteRules) -> Chosen:
    if not rules.by_key:
        return choose(candidates(files), files.spec_id, rules)
    keys = need_keys(files.facts)
    aged = aged_files(files, keys.merging, context.clock())
    return choose_in_ranges(place_files(files, keys), files.spec_id, rules, aged=aged)


def look_at_some(context: Context, files: TableFiles, paths: Collection[str], reason: Reason) -> Look:
    """The same for files that somebody chose, which become as few as they can be in each partition."""
    request = RewriteRequest(table=files.facts.name)
    writing = writing_for(context, files)
    rules = replace(_rules(context, request, files, writing), unite=True)
    return _planned(request, writing, rules, take(candidates(files), files.spec_id, paths, reason))


def _planned(request: RewriteRequest, writing: Writing, rules: RewriteRules, chosen: Chosen) -> Look:
    footers = (
        Footers(spark={}, shapes={}, encodable=frozenset(), options=writing.options)
        if rules.sorts
        else read_footers(writing, [file for members, _ in chosen.work.values() for file in members])
    )
    return Look(request, writing.files, rules, assign(chosen, footers, rules), writing, footers.shapes)


def _rules(context: Context, request: RewriteRequest, files: TableFiles, writing: Writing) -> RewriteRules:
    settings = context.loaded.settings.compaction
    target = request.target_file_size or target_bytes(context, files.facts)
    if target < _LEAST_BYTES:
        raise InvalidInput("a target file size is at least 1MB")
    _check_order(request, files)
    return RewriteRules(
        strategy=request.strategy,
        target_bytes=target,
        small_bytes=small_file_bytes(settings.small_file_threshold_mb, target),
        min_files=settings.min_files_to_compact,
        max_files=request.max_files,
        force=request.force,
        codecs=writing.codecs,
        sorted_from=_sorted_from(request, files),
        heat=_heat(context, request, files),
        only=_only(context, request, files),
        by_key=keys_of(files.facts) is not None,
    )


# --------------------------------------------------------------------------------------------------------------- order


def _check_order(request: RewriteRequest, files: TableFiles) -> None:
    if request.strategy in SORTED and keys_of(files.facts) is not None:
        raise InvalidInput(
            f"{request.table} lies in key ranges, so its rows are in the order of its keys", hint="leave --strategy out"
        )
    if request.strategy not in SORTED:
        if request.by:
            raise InvalidInput("--by is for the strategies sort, zorder and hilbert", hint="add --strategy sort")
        return
    if request.by or (request.strategy == "sort" and files.facts.sort_by):
        _sort_by(request, files)
        return
    lacks = f"{request.table} has no sort order" if request.strategy == "sort" else f"{request.strategy} needs columns"
    command = neve("compact", request.table.short, "--strategy", request.strategy)
    raise InvalidInput(lacks, hint=f"name them: {command} --by a,b")


def _sort_by(request: RewriteRequest, files: TableFiles) -> list[SortField]:
    """The columns that were named; none where the table's own order counts."""
    fields = sort_fields([column.name for column in files.facts.columns], request.by, where=str(request.table))
    if request.strategy != "sort" and any(field.descending for field in fields):
        raise InvalidInput(
            f"{request.strategy} weaves columns together and has no direction", hint="name columns alone"
        )
    return fields


def _order_label(request: RewriteRequest, files: TableFiles) -> str:
    terms = _sort_by(request, files) or files.facts.sort_by
    return f"{request.strategy}({', '.join(map(str, terms))})"


def _sorted_from(request: RewriteRequest, files: TableFiles) -> dict[int, int]:
    """For each commit whose files are in this order: when they were chosen. Those of format 1 have no numbers."""
    if request.strategy not in SORTED:
        return {}
    wanted = _order_label(request, files)
    return {
        step.sequence_number: int(step.summary[ORDERED_FROM])
        for step in files.facts.ancestors()
        if step.summary.get(ORDERED) == wanted and step.sequence_number and ORDERED_FROM in step.summary
    }


# -------------------------------------------------------------------------------------------------------------- filters


def _only(context: Context, request: RewriteRequest, files: TableFiles) -> frozenset[str] | None:
    """The files that `partition` and `where` leave, by their paths; None for all."""
    if not request.partition and request.where is None:
        return None
    wanted = {name: None if value == "null" else value for name, value in request.partition.items()}
    _check_partition(request, files)
    found = {
        entry.path for entry in files.data if all(entry.place.get(name) == value for name, value in wanted.items())
    }
    if request.where is not None:
        from neve.engine.rewrites import matching_files

        found &= matching_files(context.session.spark, request.table, request.where)
    return frozenset(found)


def _check_partition(request: RewriteRequest, files: TableFiles) -> None:
    names = {name for entry in files.data for name in entry.place}
    for name in request.partition:
        if files.data and name not in names:
            known = f"it has: {', '.join(sorted(names))}" if names else "it has no partitions"
            raise InvalidInput(f"{request.table} has no partition field {name}", hint=known)


def _heat(context: Context, request: RewriteRequest, files: TableFiles) -> frozenset[int]:
    """The commits that changed rows and are too young to be followed by a long job. Format 1 does not number them."""
    if request.quiet is None:
        return frozenset()
    until = context.clock() - request.quiet
    young = (step for step in files.facts.ancestors() if step.at > until and step.operation in ("delete", "overwrite"))
    return frozenset(step.sequence_number for step in young if step.sequence_number)
