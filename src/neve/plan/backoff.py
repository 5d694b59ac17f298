"""How long work that failed is left alone before it is tried again. Pure: chance comes from a seed."""

from __future__ import annotations

import hashlib
from datetime import timedelta

FIRST = timedelta(seconds=30)
LONGEST = timedelta(hours=1)
_DOUBLINGS = 7


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
