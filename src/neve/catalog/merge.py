"""A three-way merge of JSON, so that rewriting metadata never drops what the library in between does not know."""

from __future__ import annotations

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def merge(original: Json, before: Json, after: Json) -> Json:
    """`original` with the change from `before` to `after` made to it.

    `before` is how a library understood `original`, `after` what it made of it. Where it changed nothing, the original
    stands, unknown keys included.

    >>> merge({"a": 1, "unknown": 2}, {"a": 1}, {"a": 3})
    {'a': 3, 'unknown': 2}
    """
    if before == after:
        return original
    if isinstance(original, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _merge_objects(original, before, after)
    if isinstance(original, list) and isinstance(before, list) and isinstance(after, list):
        return _merge_lists(original, before, after)
    return after


def _merge_objects(original: dict[str, Json], before: dict[str, Json], after: dict[str, Json]) -> dict[str, Json]:
    kept = {key: value for key, value in original.items() if key in after or key not in before}
    changed = {
        key: merge(original[key], before[key], value) if key in original and key in before else value
        for key, value in after.items()
        if key not in before or before[key] != value
    }
    return kept | changed


def _merge_lists(original: list[Json], before: list[Json], after: list[Json]) -> list[Json]:
    """Items that were understood and left alone keep their original form; the rest is as it came out."""
    if len(original) != len(before):
        return after
    known = list(zip(before, original, strict=True))
    return [next((raw for understood, raw in known if understood == item), item) for item in after]
