"""A Parquet schema in words, so that two files can be compared node by node and a difference can be told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from neve.files.copier.thrift import FLAT, LIST, Malformed, Nest, Struct, read_struct, write_struct
from neve.files.copier.words import PHYSICAL, REPETITIONS, Node
from neve.model.copying import Element, Leaf

_UNITS = {1: "millis", 2: "micros", 3: "nanos"}
_TIME_NEST: Nest = {2: FLAT}
_LOGICAL_NEST: Nest = {5: FLAT, 7: _TIME_NEST, 8: _TIME_NEST, 10: FLAT}
_PLAIN_LOGICAL = {
    1: "string",
    2: "map",
    3: "list",
    4: "enum",
    6: "date",
    11: "unknown",
    12: "json",
    13: "bson",
    14: "uuid",
    15: "float16",
}
_CONVERTED = {0: "string", 1: "map", 3: "list", 4: "enum", 6: "date", 19: "json", 20: "bson"} | {
    number: f"int({bits}, {sign})"
    for first, sign in ((11, "unsigned"), (15, "signed"))
    for number, bits in enumerate((8, 16, 32, 64), start=first)
}
_CONVERTED_DECIMAL = 5
_EMPTY = b"\x00"


def schema_list(data: bytes) -> list[Struct]:
    """The elements of a schema as they stand in a footer, the root first."""
    holder, end = read_struct(bytes([1 << 4 | LIST]) + data + _EMPTY, nest={1: FLAT})
    if end != len(data) + 2:
        raise Malformed("the schema has bytes too many")
    return holder.structs(1)


@lru_cache(maxsize=256)
def read_schema(data: bytes) -> tuple[tuple[Element, ...], tuple[Leaf, ...]]:
    """The elements of a schema below the root, and those of them that hold values; many files share one schema."""
    nodes = schema_list(data)
    if not nodes:
        raise Malformed("the schema is empty")
    elements = tuple(element_of(node) for node in nodes[1:])
    rest = iter(elements)
    leaves = tuple(_leaves(rest, nodes[0].integer(Node.CHILDREN) or 0))
    if next(rest, None) is not None:
        raise Malformed("the schema has columns that belong nowhere")
    return elements, leaves


def _leaves(
    rest: Iterator[Element], children: int, above: tuple[str, ...] = (), *, repeated: bool = False
) -> Iterator[Leaf]:
    for _ in range(children):
        element = next(rest, None)
        if element is None:
            raise Malformed("the schema ends too soon")
        path, several = (*above, element.name), repeated or element.repetition == "repeated"
        if element.physical is None:
            yield from _leaves(rest, element.children, path, repeated=several)
        else:
            yield Leaf(path=path, element=element, repeated=several)


def element_of(node: Struct) -> Element:
    """A schema element with its meaning in words."""
    physical = node.integer(Node.TYPE)
    children = node.integer(Node.CHILDREN) or 0
    if physical is None and not children:
        raise Malformed("a group of the schema has no columns")
    return Element(
        name=_text(node.binary(Node.NAME)),
        physical=None if physical is None else _named(PHYSICAL, physical, "type"),
        length=node.integer(Node.LENGTH) or 0,
        repetition=_named(REPETITIONS, node.number(Node.REPETITION), "repetition"),
        children=0 if physical is not None else children,
        logical=_logical(node),
        field_id=node.integer(Node.FIELD_ID),
        unknown=_unknown(node),
    )


def _text(name: bytes | None) -> str:
    if name is None:
        raise Malformed("a column has no name")
    return text_of(name)


def text_of(value: bytes) -> str:
    """Parquet's strings are UTF-8; we do not guess at others."""
    try:
        return value.decode()
    except UnicodeDecodeError as exc:
        raise Malformed("a name or text is not UTF-8") from exc


def _named(names: Sequence[str], number: int, what: str) -> str:
    if not 0 <= number < len(names):
        raise Malformed(f"{what} {number} is not known")
    return names[number]


def _unknown(node: Struct) -> bytes:
    unknown = Struct({field: held for field, held in node.items() if field not in set(Node)})
    return write_struct(unknown) if unknown else b""


def _logical(node: Struct) -> str:
    raw = node.raw(Node.LOGICAL)
    if raw is not None:
        return _logical_word(raw)
    converted = node.integer(Node.CONVERTED)
    if converted is None:
        return ""
    if converted == _CONVERTED_DECIMAL:
        return f"decimal({node.integer(Node.PRECISION) or 0}, {node.integer(Node.SCALE) or 0})"
    # Times are no part of this: DuckDB reads a time zone from the newer way to write them only.
    return _CONVERTED.get(converted, f"converted {converted}")


def _logical_word(raw: bytes) -> str:
    """A word for each meaning; one that is new to us is its own bytes, which only equal the same meaning."""
    logical, _ = read_struct(raw, nest=_LOGICAL_NEST)
    if len(logical) != 1:
        raise Malformed("a column has several meanings")
    (kind,) = logical
    word = None
    if kind in _PLAIN_LOGICAL and logical.raw(kind) == _EMPTY:
        word = _PLAIN_LOGICAL[kind]
    elif kind == 5:
        word = _decimal_word(logical.struct(kind))
    elif kind in (7, 8):
        word = _time_word("time" if kind == 7 else "timestamp", logical.struct(kind))
    elif kind == 10:
        word = _integer_word(logical.struct(kind))
    return word or f"logical {raw.hex()}"


def _decimal_word(held: Struct | None) -> str | None:
    if held is None or set(held) != {1, 2}:
        return None
    return f"decimal({held.number(2)}, {held.number(1)})"


def _time_word(name: str, held: Struct | None) -> str | None:
    unit = held.struct(2) if held is not None else None
    if held is None or unit is None or set(held) != {1, 2} or len(unit) != 1:
        return None
    (number,) = unit
    if number not in _UNITS or unit.raw(number) != _EMPTY:
        return None
    return f"{name}({_UNITS[number]}, {'utc' if held.boolean(1) else 'local'})"


def _integer_word(held: Struct | None) -> str | None:
    if held is None or set(held) != {1, 2}:
        return None
    return f"int({held.number(1)}, {'signed' if held.boolean(2) else 'unsigned'})"
