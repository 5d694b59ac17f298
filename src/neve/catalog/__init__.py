"""The catalog and its tables without a JVM: names, facts, files, and metadata commits."""

from __future__ import annotations

from neve.catalog.catalog import Catalog, open_catalog
from neve.catalog.files import Files

__all__ = ["Catalog", "Files", "open_catalog"]
