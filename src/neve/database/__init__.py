"""A relational database by plain DB-API: SQLite or PostgreSQL, one SQL text. The store and the catalog share it."""

from __future__ import annotations

from neve.database.database import Database, open_database
from neve.database.driver import Answer, Row, Value

__all__ = ["Answer", "Database", "Row", "Value", "open_database"]
