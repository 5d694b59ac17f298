"""How long work that failed is left alone before it is tried again. Pure: chance comes from a seed."""

from __future__ import annotations

import hashlib
from datetime import timedelta

FIRST = timedelta(seconds=30)
LONGEST = timedelta(hours=1)
_DOUBLINGS = 7


COMMIT_ATTEMPTS = 10
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0


def commit_wait(attempt: int, chance: float) -> float:
    """Seconds before a commit that lost to a rival is tried once more: up to 0.2, doubled each time up to 30.

    `chance` from 0 to 1 is the part of it that is waited, so that rivals do not meet again.

    >>> [round(commit_wait(attempt, 0.5), 1) for attempt in range(COMMIT_ATTEMPTS - 1)]
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0]
    """
    return min(_FIRST_WAIT * 2.0**attempt, _LONGEST_WAIT) * chance


def pause(failures: int, seed: str) -> timedelta:
    """Half a minute, doubled with each failure up to an hour, of which up to a half is left out by chance.

    Tables that failed together, because storage was away say, so come back one by one. The same seed and count always
    give the same pause, whichever worker asks.

    >>> pause(1, "sales"), pause(8, "sales")
    (datetime.timedelta(seconds=23, microseconds=762000), datetime.timedelta(seconds=3118, microseconds=765000))
    """
    if failures < 1:
        raise ValueError("nothing has failed")
    whole = min(FIRST * 2 ** min(failures - 1, _DOUBLINGS), LONGEST)
    digest = hashlib.sha256(f"{seed}:{failures}".encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    return timedelta(milliseconds=round(whole / timedelta(milliseconds=1) * (1 - share / 2)))
