"""The general road as SQL: both snapshots read by time travel, each through the later schema, and netted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from sqlglot import exp

from neve.model.changes import WEIGHT, Column
from neve.model.names import TableName, quote
from neve.model.types import IcebergJson, Primitive, from_iceberg

_IN_SPARK = {"uuid": "string"}


def sides_sql(
    table: TableName,
    columns: Sequence[Column],
    *,
    old: tuple[int, Sequence[Column]] | None,
    new: tuple[int, Sequence[Column]],
) -> str:
    """The rows of two snapshots with their weights, each given with the schema that time travel shows it in."""
    came = _side(table, columns, *new, weight=1)
    return came if old is None else f"{came} UNION ALL {_side(table, columns, *old, weight=-1)}"


def nothing_sql(columns: Sequence[Column]) -> str:
    """No rows, in the shape of changes."""
    items = [f"CAST(NULL AS {_spark_type(column.type)}) AS {quote(column.name)}" for column in columns]
    return f"SELECT {', '.join([*items, f'CAST(0 AS BIGINT) AS {quote(WEIGHT)}'])} WHERE false"


def weighted(columns: Sequence[Column], weight: int) -> list[str]:
    """The select list of rows that carry the later schema already."""
    return [*(quote(column.name) for column in columns), f"CAST({weight} AS BIGINT) AS {quote(WEIGHT)}"]


def _side(table: TableName, columns: Sequence[Column], snapshot: int, schema: Sequence[Column], *, weight: int) -> str:
    there = {column.id: column for column in schema}
    items = [f"{_column(column, there.get(column.id))} AS {quote(column.name)}" for column in columns]
    items.append(f"CAST({weight} AS BIGINT) AS {quote(WEIGHT)}")
    return f"SELECT {', '.join(items)} FROM {table.sql} VERSION AS OF {snapshot}"  # noqa: S608 - quoted


def _column(later: Column, earlier: Column | None) -> str:
    """A column of the later schema, out of the column of the earlier one that has its field id."""
    if earlier is None:
        return _missing(later.type, later.default)
    return _Reshape().value(quote(earlier.name), earlier.type, later.type)


def _missing(kind: IcebergJson, default: IcebergJson | None) -> str:
    if default is None:
        return f"CAST(NULL AS {_spark_type(kind)})"
    if kind == "binary" or str(kind).startswith("fixed"):
        return f"X'{default}'"
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return f"CAST({exp.Literal.string(text).sql('spark')} AS {_spark_type(kind)})"


def _spark_type(kind: IcebergJson) -> str:
    found = from_iceberg(kind)
    if isinstance(found, Primitive) and found.name.startswith("fixed"):
        return "binary"
    return _IN_SPARK.get(str(found), str(found))


class _Reshape:
    """Expressions that give a value the shape of a later type, part by part by field id."""

    def __init__(self) -> None:
        self._names = count()

    def value(self, text: str, earlier: Any, later: Any) -> str:
        if earlier == later:
            return text
        if isinstance(earlier, str) or isinstance(later, str):
            return f"CAST({text} AS {_spark_type(later)})"
        match later["type"]:
            case "struct":
                return self._struct(text, earlier["fields"], later["fields"])
            case "list":
                name = self._name()
                return f"transform({text}, {name} -> {self.value(name, earlier['element'], later['element'])})"
            case _:
                return self._map(text, earlier, later)

    def _struct(self, text: str, earlier: Sequence[Mapping[str, Any]], later: Sequence[Mapping[str, Any]]) -> str:
        there = {field["id"]: field for field in earlier}
        parts = []
        for field in later:
            old = there.get(field["id"])
            if old is None:
                value = _missing(field["type"], field.get("initial-default"))
            else:
                value = self.value(f"{text}.{quote(old['name'])}", old["type"], field["type"])
            parts += [exp.Literal.string(field["name"]).sql("spark"), value]
        return f"IF({text} IS NULL, NULL, named_struct({', '.join(parts)}))"

    def _map(self, text: str, earlier: Mapping[str, Any], later: Mapping[str, Any]) -> str:
        name = self._name()
        key = self.value(f"{name}.key", earlier["key"], later["key"])
        value = self.value(f"{name}.value", earlier["value"], later["value"])
        return f"map_from_entries(transform(map_entries({text}), {name} -> struct({key}, {value})))"

    def _name(self) -> str:
        return f"_neve_{next(self._names)}"
