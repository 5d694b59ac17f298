"""Upkeep of key ranges: which files move to the ranges of their rows, and which ranges are to be divided. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from neve.model.bounds import comparable
from neve.model.facts import TableFacts
from neve.model.merging import AgeOff, Merging
from neve.model.results import Reason
from neve.model.rewrites import Candidate, DataEntry, TableFiles
from neve.model.units import counted, format_count
from neve.plan.ranges import PlacedFile, RangeReport
from neve.plan.rewrites import AGED, OUT_OF_RANGE, Chosen, RewriteRules, choose
from neve.plan.schedule import Job

PATIENCE = timedelta(days=1)
"""Rows that became too old in this time wait for the next ones, so that a worker does not rewrite a file all day."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIVIDED = Reason(code=OUT_OF_RANGE, detail="their range was divided since they were written")
_AGED = Reason(code=AGED, detail="they hold rows that are too old")
_ELSEWHERE = Reason(code=OUT_OF_RANGE, detail="they were written without a range, or for another one")


def choose_in_ranges(
    placed: Sequence[PlacedFile], spec_id: int, rules: RewriteRules, *, aged: Collection[str] = ()
) -> Chosen:
    """Files whose rows belong to other ranges are all worth rewriting, and those with `aged` rows; of the others, what
    is for any table.

    Those of a range that was divided go by themselves, as they may be large; the rest together, so that few files come
    of it.
    """
    strays: dict[tuple[str, Reason], list[Candidate]] = defaultdict(list)
    for each in placed:
        wanted = each.state != "in_place" or each.file.path in aged
        if wanted and (rules.only is None or each.file.path in rules.only):
            strays[_stray(each)].append(each.file)
    taken = {file.path for files in strays.values() for file in files}
    rest = [each.file for each in placed if each.file.path not in taken]
    chosen = choose(rest, spec_id, rules)
    moved = {label: (tuple(files), reason) for (label, reason), files in strays.items()}
    return Chosen(work={**chosen.work, **moved}, left=chosen.left)


def _stray(each: PlacedFile) -> tuple[str, Reason]:
    if each.state == "in_place":
        return f"{each.file.partition}, aged", _AGED
    if each.state == "of_parent":
        return each.file.partition, _DIVIDED
    return "other ranges", _ELSEWHERE


def aged_files(files: TableFiles, merging: Merging | None, now: datetime) -> frozenset[str]:
    """Files that hold rows which a filter drops, as far as manifests tell: new ones would tell no more."""
    if merging is None:
        return frozenset()
    return frozenset(
        entry.path for item in merging.age_offs for entry in files.data if _is_aged(entry, files, item, now)
    )


def _is_aged(entry: DataEntry, files: TableFiles, item: AgeOff, now: datetime) -> bool:
    column = files.ids[item.column]
    least = comparable(files.types[column], entry.metrics.lower.get(column))
    if entry.metrics.nulls.get(column, 0):
        return True
    if least is None or isinstance(least, bytes):
        return False
    since = now - timedelta(days=item.days) - _EPOCH
    return least < (since.days if files.types[column] == "date" else since // timedelta(microseconds=1))


def plan_range_jobs(
    facts: TableFacts, report: RangeReport, compaction: Job, *, aged: Collection[str] = ()
) -> list[Job]:
    """What is due on a key-range table; `compaction` is what would be if it were like any other."""
    return [_compaction(facts, report.placed, compaction, aged), _split(facts, report)]


def _compaction(facts: TableFacts, placed: Sequence[PlacedFile], job: Job, aged: Collection[str]) -> Job:
    strays = sum(each.state != "in_place" for each in placed)
    if job.due or job.reason.code in ("offline", "disabled") or not (strays or aged):
        return job
    reason = Reason(code=OUT_OF_RANGE, detail=f"{counted(strays, 'file')} with rows of other ranges")
    if not strays:
        reason = Reason(code=AGED, detail=f"{counted(len(aged), 'file')} with rows that are too old")
    return Job(table=facts.name, action=job.action, reason=reason, due=True)


def _split(facts: TableFacts, report: RangeReport) -> Job:
    def job(code: str, detail: str, *, due: bool = False) -> Job:
        return Job(table=facts.name, action="split", reason=Reason(code=code, detail=detail), due=due)

    if not facts.online:
        return job("offline", "the table is offline: scheduled jobs leave it alone")
    full, threshold = full_ranges(report), format_count(report.keys.threshold)
    if not full:
        return job("small_ranges", f"no range has {threshold} rows, when it is divided")
    return job("full_ranges", f"{counted(len(full), 'range')} of {threshold} rows or more", due=True)


def full_ranges(report: RangeReport) -> list[int]:
    """The leaves that are to be divided: rows that wait in ranges above them do not count yet."""
    return [row.range for row in report.rows() if row.will_be_split and row.range is not None]
