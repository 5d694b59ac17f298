"""Variables of the environment that say where a lake is, and set nothing in it."""

from __future__ import annotations

ENV_LAKE, ENV_SERVER, ENV_KEY = "NEVE_LAKE", "NEVE_SERVER", "NEVE_KEY"
WHERE = (ENV_LAKE, ENV_SERVER, ENV_KEY)
