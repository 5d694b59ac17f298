"""Nested values in another form."""

from __future__ import annotations

from neve.model.names import quote
from neve.model.types import ListOf, MapOf, Struct, Type, spelled


def reshape(value: str, found: Type, wanted: Type, depth: int = 0) -> str:
    """A value of one type as one of another that holds it: fields in its order, NULL for those that are lacking.

    >>> from neve.model.types import Field, Primitive
    >>> one = Struct((Field("a", Primitive("int")),))
    >>> two = Struct((Field("b", Primitive("int")), Field("A", Primitive("long"))))
    >>> reshape("`s`", ListOf(one), ListOf(two))
    'transform(`s`, e0 -> if(e0 IS NULL, NULL, struct(CAST(NULL AS int) AS `b`, CAST(e0.`a` AS bigint) AS `A`)))'
    """
    if spelled(found) == spelled(wanted):
        return value
    match found, wanted:
        case Struct(), Struct():
            there = {field.name.casefold(): field for field in found.fields}
            parts = []
            for field in wanted.fields:
                held = there.get(field.name.casefold())
                part = (
                    f"CAST(NULL AS {spelled(field.type)})"
                    if held is None
                    else reshape(f"{value}.{quote(held.name)}", held.type, field.type, depth)
                )
                parts.append(f"{part} AS {quote(field.name)}")
            return f"if({value} IS NULL, NULL, struct({', '.join(parts)}))"
        case ListOf(), ListOf():
            each = f"e{depth}"
            return f"transform({value}, {each} -> {reshape(each, found.element, wanted.element, depth + 1)})"
        case MapOf(), MapOf():
            key, each = f"k{depth}", f"e{depth}"
            inner = reshape(each, found.value, wanted.value, depth + 1)
            return f"transform_values({value}, ({key}, {each}) -> {inner})"
        case _:
            return f"CAST({value} AS {spelled(wanted)})"
