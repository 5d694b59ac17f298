"""How tests with random lives on Spark look for one that goes wrong: a few in `make test`, many in `make fuzz`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

SEARCHED = os.environ.get("FUZZ_SPARK")  # not NEVE_…: Névé refuses what it does not know
_PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


def lives(few: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test with so many `chance`s, or as many as `make fuzz` asks for.

    A life takes seconds, so one that went wrong is made shorter only where somebody searches.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        options: dict[str, Any] = {"phases": [*_PHASES, Phase.shrink] if SEARCHED else _PHASES}
        found = settings(max_examples=int(SEARCHED or few), suppress_health_check=list(HealthCheck), **options)
        return found(given(chance=st.randoms(use_true_random=False))(test))

    return decorate
