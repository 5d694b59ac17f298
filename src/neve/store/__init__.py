"""The state database: SQLite beside the lake, or PostgreSQL. Only this package knows that there are two kinds."""

from __future__ import annotations

from neve.store.store import Store

__all__ = ["Store"]
