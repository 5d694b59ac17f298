"""Net changes applied to a stored table, as one MERGE each, or the stored rows that they remove found out.

Names are quoted, so no text of a user is pasted in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from neve.model.names import quote

WEIGHT = "_w"
PLACE = "_neve_place"
PLACE_OF = "named_struct('file', _file, 'pos', _pos)"
"""Where a stored row lies."""
_MAP = "map<"
_MINUS, _ROW = "_neve_minus", "_neve_row"


def merge_keyed(table: str, changes: str, columns: Sequence[str], keys: Sequence[str]) -> str:
    """At most one stored row per key: it goes, is replaced, or comes; no keys means the one row of the table.

    A row to be replaced that is not there fails the statement.
    """
    names = [quote(name) for name in columns]
    row = ", ".join(f"'{index}', {name}" for index, name in enumerate(names))
    grouped = f" GROUP BY {', '.join(map(quote, keys))}" if keys else ""
    own = "".join(f"{quote(key)}, " for key in keys)
    source = (
        f"SELECT {own}first(CASE WHEN {WEIGHT} > 0 THEN named_struct({row}) END, true) AS {_ROW}, "  # noqa: S608
        f"count_if({WEIGHT} < 0) > 0 AS {_MINUS} FROM {changes}{grouped}"
    )
    same = " AND ".join(f"t.{quote(key)} <=> s.{quote(key)}" for key in keys) or "true"
    values = [f"s.{_ROW}.`{index}`" for index in range(len(names))]
    missing = f"CASE WHEN s.{_MINUS} THEN raise_error('a row to be replaced is not there') END"
    checked = [f"coalesce({missing}, {values[0]})", *values[1:]]
    updates = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    return (
        f"MERGE INTO {table} t USING ({source}) s ON {same} "  # noqa: S608
        f"WHEN MATCHED AND s.{_ROW} IS NULL THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {updates} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(checked)})"
    )


def merge_bag(table: str, changes: str, types: Mapping[str, str]) -> str:
    """Rows that go are found first, and are then known by their places: of equal rows any may go.

    `types` are the columns with Spark's names of their types. A row to be removed that is not there fails it.
    """
    names = [quote(name) for name in types]
    stored = f"SELECT {', '.join(names)}, {PLACE_OF} AS {PLACE} FROM {table}"  # noqa: S608
    equal = f"OVER (PARTITION BY {_values('s', types)}"
    found = (
        f"SELECT s.{WEIGHT}, t.{PLACE}, row_number() {equal} ORDER BY t.{PLACE}) AS nth, "  # noqa: S608
        f"count(t.{PLACE}) {equal}) AS held "
        f"FROM {changes} s LEFT JOIN ({stored}) t ON {_same(types)} WHERE s.{WEIGHT} < 0"
    )
    missing = f"CASE WHEN held + {WEIGHT} < 0 THEN raise_error('a row to be removed is not there') END"
    nothing = ", ".join(f"NULL AS {name}" for name in names)
    goes = f"SELECT {nothing}, coalesce({missing}, {PLACE}) AS {PLACE} FROM ({found}) WHERE nth <= -{WEIGHT}"  # noqa: S608
    comes = f"SELECT {', '.join(names)}, NULL AS {PLACE} FROM ({come_bag(changes, types)})"  # noqa: S608
    return (
        f"MERGE INTO {table} t USING ({comes} UNION ALL {goes}) s "  # noqa: S608
        f"ON t._file = s.{PLACE}.file AND t._pos = s.{PLACE}.pos "
        f"WHEN MATCHED THEN DELETE "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def find_bag(stored: str, changes: str, types: Mapping[str, str]) -> str:
    """The places of the stored rows that changes remove; of equal rows any may go. `stored` has the place of each."""
    found = (
        f"SELECT /*+ BROADCAST(s) */ s.{WEIGHT}, t.{PLACE}, "  # noqa: S608
        f"row_number() OVER (PARTITION BY {_values('s', types)} ORDER BY t.{PLACE}) AS nth "
        f"FROM {stored} t JOIN (SELECT * FROM {changes} WHERE {WEIGHT} < 0) s ON {_same(types)}"
    )
    return f"SELECT {PLACE} FROM ({found}) WHERE nth <= -{WEIGHT}"  # noqa: S608


def come_bag(changes: str, columns: Iterable[str]) -> str:
    """The rows that come, each as often as it does."""
    names = ", ".join(quote(name) for name in columns)
    often = f"explode(array_repeat(0, CAST({WEIGHT} AS INT)))"
    return f"SELECT {names} FROM (SELECT {names}, {often} FROM {changes} WHERE {WEIGHT} > 0)"  # noqa: S608


def _same(types: Mapping[str, str]) -> str:
    """Whether a stored row `t` and a change `s` are equal."""
    return " AND ".join(f"{_value('t', name, kind)} <=> {_value('s', name, kind)}" for name, kind in types.items())


def _values(side: str, types: Mapping[str, str]) -> str:
    return ", ".join(_value(side, name, kind) for name, kind in types.items())


def _value(side: str, name: str, kind: str) -> str:
    """A column as something that Spark can compare, which a map is not."""
    column = f"{side}.{quote(name)}"
    match kind.count(_MAP):
        case 0:
            return column
        case 1 if kind.startswith(_MAP):
            return f"sort_array(map_entries({column}))"
    return f"to_json(struct({column}))"
