"""Rows as one Parquet file of an Iceberg table, and what a manifest says of it. No JVM.

Names, ids, types and order of columns are those that Iceberg's own writer gives them, so that such files and Spark's
are alike to readers and to compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from neve.model.appends import FieldJson
from neve.model.rewrites import FileMetrics
from neve.plan.appends import codec_of, kept_metrics, leaves, stored_name
from neve.plan.value_bounds import value_bounds

Row = Mapping[str, Any]
Convert = Callable[[Any], Any]
_FIELD_ID = "PARQUET:field_id"
_LEVEL = "write.parquet.compression-level"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    content: bytes
    rows: int
    metrics: FileMetrics
    split_offsets: tuple[int, ...]


def row_file(fields: Sequence[FieldJson], rows: Sequence[Row], properties: Mapping[str, str]) -> RowFile:
    """Rows of typed values (`plan.records`), in their order. `properties` are the table's."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([_arrow_field(field["id"], field["name"], field["type"], field["required"]) for field in fields])
    arrays = [
        pa.array(_converted(field["type"], [row.get(field["name"]) for row in rows]), arrow.type)
        for field, arrow in zip(fields, schema, strict=True)
    ]
    level = properties.get(_LEVEL, "")
    sink, footers = pa.BufferOutputStream(), list[Any]()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema),
        sink,
        row_group_size=max(len(rows), 1),
        compression=codec_of(properties),
        compression_level=int(level) if level.isdecimal() else None,
        store_schema=False,
        store_decimal_as_integer=True,
        write_page_index=True,
        metadata_collector=footers,
    )
    group = footers[0].row_group(0)
    return RowFile(
        content=sink.getvalue().to_pybytes(),
        rows=len(rows),
        metrics=_metrics(fields, rows, group, properties),
        split_offsets=(_offset(group.column(0)),),
    )


def _offset(column: Any) -> int:
    """Where a column begins."""
    found = column.dictionary_page_offset if column.has_dictionary_page else None
    return int(column.data_page_offset if found is None else found)


# -------------------------------------------------------------------------------------------------------------- columns


def _arrow_field(number: int, name: str, kind: Any, required: bool) -> Any:
    import pyarrow as pa

    return pa.field(stored_name(name), _arrow_type(kind), nullable=not required, metadata={_FIELD_ID: str(number)})


def _arrow_type(kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(kind, str):
        return _arrow_primitive(kind)
    match kind["type"]:
        case "struct":
            return pa.struct([_arrow_field(it["id"], it["name"], it["type"], it["required"]) for it in kind["fields"]])
        case "list":
            return pa.list_(_arrow_field(kind["element-id"], "element", kind["element"], kind["element-required"]))
        case _:
            key = _arrow_field(kind["key-id"], "key", kind["key"], required=True)
            return pa.map_(key, _arrow_field(kind["value-id"], "value", kind["value"], kind["value-required"]))


def _arrow_primitive(kind: str) -> Any:
    import pyarrow as pa

    word, _, rest = kind.rstrip("])").partition("(" if kind.startswith("decimal") else "[")
    sizes = [int(size) for size in rest.split(",")] if rest else []
    known: dict[str, Callable[[], Any]] = {
        "boolean": pa.bool_,
        "int": pa.int32,
        "long": pa.int64,
        "float": pa.float32,
        "double": pa.float64,
        "string": pa.string,
        "binary": pa.binary,
        "date": pa.date32,
        "timestamp": lambda: pa.timestamp("us"),
        "timestamptz": lambda: pa.timestamp("us", tz="UTC"),
        "decimal": lambda: pa.decimal128(*sizes),
        "fixed": lambda: pa.binary(*sizes),
    }
    return known[word]()


def _converted(kind: Any, values: list[Any]) -> list[Any]:
    convert = _converter(kind)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _converter(kind: Any) -> Convert | None:
    """From our values to those that Arrow takes: a map is a list of pairs, a struct has the names of the file."""
    if isinstance(kind, str):
        return None
    match kind["type"]:
        case "struct":
            inner = [(it["name"], stored_name(it["name"]), _maybe(_converter(it["type"]))) for it in kind["fields"]]
            return lambda value: {stored: convert(value.get(name)) for name, stored, convert in inner}
        case "list":
            element = _maybe(_converter(kind["element"]))
            return lambda value: [element(item) for item in value]
        case _:
            key, item = _maybe(_converter(kind["key"])), _maybe(_converter(kind["value"]))
            return lambda value: [(key(name), item(held)) for name, held in value.items()]


def _maybe(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


# -------------------------------------------------------------------------------------------------------------- metrics


def _metrics(
    fields: Sequence[FieldJson], rows: Sequence[Row], group: Any, properties: Mapping[str, str]
) -> FileMetrics:
    """Sizes and counts are those of the footer; it knows neither bounds that are cut nor what is no number."""
    held = dict(_values(fields, rows))
    sizes, counts, nulls, nans = (dict[int, int]() for _ in range(4))
    lower, upper = dict[int, bytes](), dict[int, bytes]()
    for place, leaf in enumerate(leaves(fields)):
        counted, length = kept_metrics(properties, leaf.path)
        column = group.column(place)
        sizes[leaf.id] = column.total_compressed_size
        if not counted or leaf.repeated:
            continue
        counts[leaf.id] = column.num_values
        nulls[leaf.id] = column.statistics.null_count
        if leaf.type in ("float", "double"):
            nans[leaf.id] = sum(map(isnan, held[leaf.id]))
        if length != 0:
            for side, bound in zip((lower, upper), value_bounds(leaf.type, held[leaf.id], length), strict=True):
                if bound is not None:
                    side[leaf.id] = bound
    return FileMetrics(sizes=sizes, values=counts, nulls=nulls, nans=nans, lower=lower, upper=upper)


def _values(fields: Sequence[FieldJson], rows: Sequence[Row]) -> Iterator[tuple[int, list[Any]]]:
    """What columns hold that is not NULL, by their ids; lists and maps are left out, whose values have no range."""
    for field in fields:
        there = [value for row in rows if (value := row.get(field["name"])) is not None]
        kind = field["type"]
        if isinstance(kind, str):
            yield field["id"], there
        elif kind["type"] == "struct":
            yield from _values(kind["fields"], there)
