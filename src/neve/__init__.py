"""Névé: lakehouse tables that look after themselves, on PySpark and Apache Iceberg."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.lake import Lake

__all__ = ["Lake", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Opens `neve.lake` only when it is asked for: `neve --help` and `import neve` stay light."""
    if name == "Lake":
        from neve.lake import Lake

        return Lake
    raise AttributeError(f"module 'neve' has no attribute {name!r}")
