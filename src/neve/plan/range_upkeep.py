"""Upkeep of key ranges: which files move to the ranges of their rows, and which ranges are to be divided. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from neve.model.facts import TableFacts
from neve.model.results import Reason
from neve.model.rewrites import Candidate
from neve.model.units import counted, format_count
from neve.plan.ranges import PlacedFile, RangeReport
from neve.plan.rewrites import OUT_OF_RANGE, Chosen, RewriteRules, choose
from neve.plan.schedule import Job

_DIVIDED = Reason(code=OUT_OF_RANGE, detail="their range was divided since they were written")
_ELSEWHERE = Reason(code=OUT_OF_RANGE, detail="they were written without a range, or for another one")


def choose_in_ranges(placed: Sequence[PlacedFile], spec_id: int, rules: RewriteRules) -> Chosen:
    """Files whose rows belong to other ranges are all worth rewriting; of the others, what is for any table.

    Those of a range that was divided go by themselves, as they may be large; the rest together, so that few files come
    of it.
    """
    chosen = choose([each.file for each in placed if each.state == "in_place"], spec_id, rules)
    strays: dict[tuple[str, Reason], list[Candidate]] = defaultdict(list)
    for each in placed:
        if each.state != "in_place" and (rules.only is None or each.file.path in rules.only):
            strays[_stray(each)].append(each.file)
    moved = {label: (tuple(files), reason) for (label, reason), files in strays.items()}
    return Chosen(work={**chosen.work, **moved}, left=chosen.left)


def _stray(each: PlacedFile) -> tuple[str, Reason]:
    if each.state == "of_parent":
        return each.file.partition, _DIVIDED
    return "other ranges", _ELSEWHERE


def plan_range_jobs(facts: TableFacts, report: RangeReport, compaction: Job) -> list[Job]:
    """What is due on a key-range table; `compaction` is what would be if it were like any other."""
    return [_compaction(facts, report.placed, compaction), _split(facts, report)]


def _compaction(facts: TableFacts, placed: Sequence[PlacedFile], job: Job) -> Job:
    strays = sum(each.state != "in_place" for each in placed)
    if job.due or job.reason.code in ("offline", "disabled") or not strays:
        return job
    detail = f"{counted(strays, 'file')} with rows of other ranges"
    return Job(table=facts.name, action=job.action, reason=Reason(code=OUT_OF_RANGE, detail=detail), due=True)


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
