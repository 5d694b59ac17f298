"""The footer of an output, made of those of its sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from neve.files.copier.elements import schema_list
from neve.files.copier.extra import ExtraColumn
from neve.files.copier.footer import Footer
from neve.files.copier.metadata import arrow_schema
from neve.files.copier.thrift import BINARY, I32, I64, STRUCT, Struct, write_struct
from neve.files.copier.words import File, Group, Node, Pair
from neve.model.copying import ARROW_SCHEMA, CopyOptions
from neve.plan.provenance import merged_metadata, merged_writer

_EMPTY = b"\x00"
_TYPE_ORDER = 1


def compose_footer(
    footers: Sequence[Footer], groups: Sequence[Struct], options: CopyOptions, extras: Sequence[ExtraColumn]
) -> bytes:
    """The footer for row groups that are in place. Schema and orders are the first source's, all being alike."""
    first = footers[0].tree or Struct()
    shapes = [footer.shape for footer in footers]
    tree = Struct({File.SCHEMA: first[File.SCHEMA]})
    if options.without:
        tree.put_structs(File.SCHEMA, _schema(first, options, extras))
    tree.put(File.VERSION, I32, max(shape.version for shape in shapes))
    tree.put(File.ROWS, I64, sum(group.number(Group.ROWS) for group in groups))
    tree.put_structs(File.ROW_GROUPS, groups)
    if metadata := _metadata(footers, options, extras):
        tree.put_structs(File.METADATA, (_pair(key, value) for key, value in metadata.items()))
    if (writer := merged_writer(shapes)) is not None:
        tree.put(File.CREATED_BY, BINARY, writer.encode())
    if File.COLUMN_ORDERS in first:
        tree.put_structs(File.COLUMN_ORDERS, _orders(footers[0], options, extras))
    return write_struct(tree)


def _schema(tree: Struct, options: CopyOptions, extras: Sequence[ExtraColumn]) -> Iterable[Struct]:
    root, *nodes = schema_list(tree.raw(File.SCHEMA) or b"")
    kept = [node for node in nodes if node.integer(Node.FIELD_ID) not in options.without]
    root.put(Node.CHILDREN, I32, root.number(Node.CHILDREN) - len(nodes) + len(kept) + len(extras))
    return [root, *kept, *(extra.node for extra in extras)]


def _orders(footer: Footer, options: CopyOptions, extras: Sequence[ExtraColumn]) -> Iterable[Struct]:
    orders = (footer.tree or Struct()).structs(File.COLUMN_ORDERS)
    kept = [
        order
        for order, leaf in zip(orders, footer.shape.leaves, strict=True)
        if leaf.element.field_id not in options.without
    ]
    return [*kept, *(Struct({_TYPE_ORDER: (STRUCT, _EMPTY)}) for _ in extras)]


def _metadata(
    footers: Sequence[Footer], options: CopyOptions, extras: Sequence[ExtraColumn]
) -> Mapping[str, str | None]:
    merged = merged_metadata([footer.shape for footer in footers], options)
    if ARROW_SCHEMA not in merged or ARROW_SCHEMA in options.put:
        return merged
    pairs = (footers[0].tree or Struct()).structs(File.METADATA)
    first = next(pair.binary(Pair.VALUE) for pair in pairs if pair.binary(Pair.KEY) == ARROW_SCHEMA.encode())
    told = arrow_schema((first or b"").decode(), merged, options.put, [extra.field for extra in extras])
    return {**merged, ARROW_SCHEMA: told} if told else {key: merged[key] for key in merged if key != ARROW_SCHEMA}


def _pair(key: str, value: str | None) -> Struct:
    pair = Struct({Pair.KEY: (BINARY, key.encode())})
    if value is not None:
        pair.put(Pair.VALUE, BINARY, value.encode())
    return pair
