"""Statements that change rows, with places for a condition and values that Spark fills in as trees."""

from __future__ import annotations

from collections.abc import Sequence

from neve.model.names import quote


def delete_frame(table: str) -> str:
    """A DELETE whose condition is to be filled in.

    >>> delete_frame("`t`")
    'DELETE FROM `t` WHERE true'
    """
    return f"DELETE FROM {table} WHERE true"  # noqa: S608


def update_frame(table: str, columns: Sequence[str]) -> str:
    """An UPDATE whose values and condition are to be filled in, the values in the order of the columns.

    >>> update_frame("`t`", ["a", "b"])
    'UPDATE `t` SET `a` = NULL, `b` = NULL WHERE true'
    """
    assigned = ", ".join(f"{quote(column)} = NULL" for column in columns)
    return f"UPDATE {table} SET {assigned} WHERE true"  # noqa: S608
