"""Plain folders of Parquet or CSV files that any tool can read, changed crash-safely; no JVM."""

from __future__ import annotations

from neve.directory.change import Change
from neve.directory.directory import Directory, Seen, open_directory
from neve.directory.journal import KEPT, LEDGER, SOURCES
from neve.directory.locks import Lock

__all__ = ["KEPT", "LEDGER", "SOURCES", "Change", "Directory", "Lock", "Seen", "open_directory"]
