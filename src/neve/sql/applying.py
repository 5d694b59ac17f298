"""Net changes applied to a stored table, as one MERGE each, or the stored rows that they remove found out.

Names are quoted, so no text of a user is pasted in.
"""

from __future__ import annotations

from collections.abc import Sequence

from neve.model.names import quote

WEIGHT = "_w"
HASH, ORDINAL = "_neve_hash", "_neve_ordinal"
PLACE, HELD = "_neve_place", "_neve_held"
_MINUS, _ROW, _GOES = "_neve_minus", "_neve_row", "_neve_goes"


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


def merge_bag(table: str, hashed: str, columns: Sequence[str]) -> str:
    """Equal rows are numbered: those that go have the highest numbers, those that come go on counting.

    `hashed` are the changes with the hash of each row. A row to be removed that is not there fails the statement.
    """
    names = [quote(name) for name in columns]
    same = _same(names)
    listed = ", ".join(f"s.{name}" for name in names)
    counted = (
        f"SELECT {listed}, s.{HASH}, first(s.{WEIGHT}) AS {WEIGHT}, count(t.{HASH}) AS held "  # noqa: S608
        f"FROM {hashed} s LEFT JOIN {table} t ON {same} GROUP BY {listed}, s.{HASH}"
    )
    numbers = (
        f"CASE WHEN held + {WEIGHT} < 0 THEN raise_error('a row to be removed is not there') "
        f"WHEN {WEIGHT} > 0 THEN sequence(held + 1, held + {WEIGHT}) ELSE sequence(held + {WEIGHT} + 1, held) END"
    )
    source = (
        f"SELECT {', '.join(names)}, {HASH}, explode(transform({numbers}, n -> CAST(n AS INT))) AS {ORDINAL}, "  # noqa: S608
        f"{WEIGHT} < 0 AS {_GOES} FROM ({counted})"
    )
    every = [*names, HASH, ORDINAL]
    missing = f"CASE WHEN s.{_GOES} THEN raise_error('a row to be removed is not there') END"
    values = [*(f"s.{name}" for name in (*names, HASH)), f"coalesce({missing}, s.{ORDINAL})"]
    return (
        f"MERGE INTO {table} t USING ({source}) s ON {same} AND t.{ORDINAL} = s.{ORDINAL} "  # noqa: S608
        f"WHEN MATCHED AND s.{_GOES} THEN DELETE "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(every)}) VALUES ({', '.join(values)})"
    )


def find_bag(stored: str, hashed: str, columns: Sequence[str]) -> str:
    """The stored rows that changes remove, with their places, and how many stored rows each change is equal to.

    `stored` has the place of each row. Of equal rows those with the highest numbers go; a change that adds rows to
    equal ones gives one row, for their count alone.
    """
    names = [quote(name) for name in columns]
    listed = ", ".join([*(f"s.{name}" for name in names), f"s.{HASH}"])
    found = (
        f"SELECT /*+ BROADCAST(s) */ {listed}, s.{WEIGHT}, t.{PLACE}, count(*) OVER (PARTITION BY {listed}) AS {HELD}, "  # noqa: S608
        f"row_number() OVER (PARTITION BY {listed} ORDER BY t.{ORDINAL} DESC) AS nth "
        f"FROM {stored} t JOIN {hashed} s ON {_same(names)}"
    )
    return f"SELECT * FROM ({found}) WHERE nth <= greatest(-{WEIGHT}, 1)"  # noqa: S608


def number_bag(hashed: str, found: str | None, columns: Sequence[str]) -> str:
    """The rows that come, with their numbers: they go on counting where equal rows were found."""
    names = [quote(name) for name in columns]
    listed = ", ".join([*(f"s.{name}" for name in names), f"s.{HASH}"])
    if found is None:
        counted = f"SELECT {listed}, s.{WEIGHT}, 0L AS {HELD} FROM {hashed} s WHERE s.{WEIGHT} > 0"  # noqa: S608
    else:
        counted = (
            f"SELECT /*+ MERGE(t) */ {listed}, s.{WEIGHT}, coalesce(t.{HELD}, 0L) AS {HELD} FROM {hashed} s "  # noqa: S608
            f"LEFT JOIN (SELECT * FROM {found} WHERE {WEIGHT} > 0) t ON {_same(names)} WHERE s.{WEIGHT} > 0"
        )
    numbers = f"transform(sequence({HELD} + 1, {HELD} + {WEIGHT}), n -> CAST(n AS INT))"
    return f"SELECT {', '.join(names)}, {HASH}, explode({numbers}) AS {ORDINAL} FROM ({counted})"  # noqa: S608


def _same(names: Sequence[str]) -> str:
    """Whether a stored row `t` and a change `s` are equal; `names` are quoted."""
    return " AND ".join([f"t.{HASH} = s.{HASH}", *(f"t.{name} <=> s.{name}" for name in names)])
