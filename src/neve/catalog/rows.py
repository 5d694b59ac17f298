"""The two tables of an Iceberg SQL catalog, shared with Spark's JDBC catalog: names → where the current metadata lies.

Every change is one conditional statement, so of two rivals one wins and the other is told.
"""

from __future__ import annotations

from neve.database import Database
from neve.errors import AlreadyExists
from neve.model.names import CATALOG, Namespace, TableName

_TABLES = """CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL,
    table_namespace VARCHAR(255) NOT NULL,
    table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000),
    previous_metadata_location VARCHAR(1000),
    iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name))"""
_NAMESPACES = """CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    property_key VARCHAR(255),
    property_value VARCHAR(1000),
    PRIMARY KEY (catalog_name, namespace, property_key))"""
_IS_TABLE = "(iceberg_type = 'TABLE' OR iceberg_type IS NULL)"
_ONE = f"catalog_name = '{CATALOG}' AND table_namespace = ? AND table_name = ?"


class _MovedOn(Exception):
    """Undoes the half of an exchange that was made."""


class CatalogRows:
    """Reads and changes of the catalog's rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ensure_tables(self) -> None:
        """Makes the catalog's tables, in the form that Iceberg calls V1, when they are not there."""
        if self._database.has_table("iceberg_tables") and self._database.has_table("iceberg_namespace_properties"):
            return
        with self._database.transaction():
            self._database.lock_schema()
            self._database.write(_TABLES)
            self._database.write(_NAMESPACES)

    def namespaces(self) -> list[Namespace]:
        """Every namespace, the ones in between included, sorted."""
        rows = self._database.read(
            f"SELECT namespace AS name FROM iceberg_namespace_properties WHERE catalog_name = '{CATALOG}' "  # noqa: S608
            f"UNION SELECT table_namespace AS name FROM iceberg_tables WHERE catalog_name = '{CATALOG}'"
        )
        full = [tuple(str(row["name"]).split(".")) for row in rows]
        return sorted({parts[:depth] for parts in full for depth in range(1, len(parts) + 1)})

    def tables(self) -> list[tuple[TableName, str]]:
        """Every table with its metadata's location, sorted by name."""
        rows = self._database.read(
            "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables "  # noqa: S608
            f"WHERE catalog_name = '{CATALOG}' AND {_IS_TABLE}"
        )
        return sorted(
            (TableName(tuple(str(row["table_namespace"]).split(".")), str(row["table_name"])), _text(row))
            for row in rows
        )

    def metadata_location(self, name: TableName) -> str | None:
        rows = self._database.read(
            f"SELECT metadata_location FROM iceberg_tables WHERE {_ONE} AND {_IS_TABLE}",  # noqa: S608
            *_key(name),
        )
        return _text(rows[0]) if rows else None

    def insert(self, name: TableName, metadata_location: str) -> None:
        try:
            self._database.write(
                "INSERT INTO iceberg_tables "
                "(catalog_name, table_namespace, table_name, metadata_location, iceberg_type) "
                "VALUES (?, ?, ?, ?, 'TABLE')",
                CATALOG,
                *_key(name),
                metadata_location,
            )
        except AlreadyExists as exc:
            raise AlreadyExists(f"table {name} already exists", hint="choose another name, or delete it first") from exc

    def replace(self, name: TableName, *, expected: str, location: str) -> bool:
        """Compare and swap: points the table at new metadata if it still points at the expected one."""
        changed = self._database.write(
            f"UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? "  # noqa: S608
            f"WHERE {_ONE} AND metadata_location = ?",
            location,
            expected,
            *_key(name),
            expected,
        )
        return changed == 1

    def rename(self, old: TableName, new: TableName, *, expected: str) -> bool:
        """False when the old name is gone, or points at other metadata than expected."""
        try:
            changed = self._database.write(
                "UPDATE iceberg_tables SET table_namespace = ?, table_name = ? "  # noqa: S608
                f"WHERE {_ONE} AND COALESCE(metadata_location, '') = ?",
                *_key(new),
                *_key(old),
                expected,
            )
        except AlreadyExists as exc:
            raise AlreadyExists(f"table {new} already exists", hint="choose another name, or delete it first") from exc
        return changed == 1

    def supersede(self, name: TableName, aside: TableName, *, expected: str) -> bool:
        """The row of `aside` gives its metadata to `name` and goes; nothing happens when `name` has moved on."""
        with self._database.transaction():
            location = self.metadata_location(aside)
            if location is None or not self.replace(name, expected=expected, location=location):
                return False
            return self.delete(aside, expected=location)

    def exchange(self, one: TableName, other: TableName, *, expected: tuple[str, str]) -> bool:
        """Two rows change metadata; nothing happens when one of them has moved on."""
        mine, theirs = expected
        try:
            with self._database.transaction():
                if not self.replace(one, expected=mine, location=theirs):
                    return False
                if not self.replace(other, expected=theirs, location=mine):
                    raise _MovedOn
        except _MovedOn:
            return False
        return True

    def delete(self, name: TableName, *, expected: str) -> bool:
        """False when there is no such table, or it points at other metadata than expected."""
        sql = f"DELETE FROM iceberg_tables WHERE {_ONE} AND COALESCE(metadata_location, '') = ?"  # noqa: S608
        return self._database.write(sql, *_key(name), expected) == 1

    def add_namespace(self, namespace: Namespace) -> bool:
        """False when it is there already."""
        try:
            self._database.write(
                "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value) "
                "VALUES (?, ?, 'exists', 'true')",
                CATALOG,
                ".".join(namespace),
            )
        except AlreadyExists:
            return False
        return True

    def drop_namespace(self, namespace: Namespace) -> bool:
        """Drops it if it holds no table; false when it holds one, or none such exists. One transaction."""
        text = ".".join(namespace)
        with self._database.transaction():
            held = self._database.read(
                f"SELECT 1 AS held FROM iceberg_tables WHERE catalog_name = '{CATALOG}' AND table_namespace = ?",  # noqa: S608
                text,
            )
            return not held and bool(
                self._database.write(
                    f"DELETE FROM iceberg_namespace_properties WHERE catalog_name = '{CATALOG}' AND namespace = ?",  # noqa: S608
                    text,
                )
            )

    def close(self) -> None:
        self._database.close()


def _key(name: TableName) -> tuple[str, str]:
    return ".".join(name.namespace), name.name


def _text(row: object) -> str:
    location = row["metadata_location"] if hasattr(row, "__getitem__") else None
    return "" if location is None else str(location)
