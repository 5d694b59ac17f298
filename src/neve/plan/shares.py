"""Work in parts of about the same size. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def in_shares(items: Sequence[T], sizes: Sequence[int], shares: int) -> list[list[T]]:
    """Items in their order, in so many shares of about the same size, or fewer.

    >>> in_shares("abcd", [1, 1, 1, 3], 2), in_shares("ab", [0, 0], 3)
    ([['a', 'b', 'c'], ['d']], [['a'], ['b']])
    """
    parts: list[list[T]] = [[] for _ in range(shares)]
    whole, before = sum(sizes) + len(sizes), 0
    for item, size in zip(items, sizes, strict=True):
        parts[before * shares // whole].append(item)
        before += size + 1
    return [part for part in parts if part]
