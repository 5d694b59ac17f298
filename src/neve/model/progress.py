"""How far long work is, as one line for a person: a bar, what is done, and a guess at the time left."""

from __future__ import annotations

from datetime import timedelta

from neve.model.units import format_bytes, format_duration

_WIDTH = 20


def progress_line(what: str, done: int, total: int, *, seconds: float, bytes: bool = False) -> str:  # noqa: A002
    """Ends in `…`: the next line takes its place.

    >>> progress_line("compacting", 5, 20, seconds=10)
    'compacting █████░░░░░░░░░░░░░░░ 5 of 20, 30s left…'
    >>> progress_line("compacting", 0, 0, seconds=3)
    'compacting…'
    """
    if not total:
        return f"{what}…"
    filled = min(_WIDTH, _WIDTH * done // total)
    bar = "█" * filled + "░" * (_WIDTH - filled)
    shown, of = (format_bytes(done), format_bytes(total)) if bytes else (f"{done:,}", f"{total:,}")
    left = ""
    if 0 < done < total:
        left = f", {format_duration(timedelta(seconds=round(seconds * (total - done) / done)))} left"
    return f"{what} {bar} {shown} of {of}{left}…"
