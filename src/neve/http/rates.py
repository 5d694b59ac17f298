"""How often each key may ask: a bucket that fills as time goes by, and holds a minute's worth."""

from __future__ import annotations

import math
import threading

from neve.errors import TooManyRequests

_MINUTE = 60.0


class Rates:
    """The buckets of one process. Every process of a lake counts for itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, key_id: str, *, per_minute: int, now: float) -> None:
        """Counts a request at `now`, in seconds of any clock that only goes forward.

        Raises:
            TooManyRequests: the bucket is empty; it says when to come again.
        """
        with self._lock:
            left, before = self._left.get(key_id, (float(per_minute), now))
            left = min(float(per_minute), left + (now - before) * per_minute / _MINUTE)
            if left >= 1:
                self._left[key_id] = (left - 1, now)
                return
            self._left[key_id] = (left, now)
        wait = max(1, math.ceil((1 - left) * _MINUTE / per_minute))
        raise TooManyRequests(
            f"this key may ask {per_minute:,} times a minute", hint=f"try again in {wait} s", retry_after=wait
        )
