"""Decisions about a table's life: the properties it starts with, what may be set, where it lies, who depends on it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from neve.errors import DependentsExist, InvalidInput, InvalidSchema, Refused, nearest
from neve.model.facts import TableFacts
from neve.model.ingest import is_hidden
from neve.model.merging import AGGREGATIONS, FILTERS, check_merging, merging_of
from neve.model.names import TableName, check_text
from neve.model.ranges import RANGE, SPLIT_THRESHOLD, parse_threshold, to_property, tree_of_points
from neve.model.specs import (
    RANGES,
    RESERVED_COLUMNS,
    ROW_KEYS,
    SORT_KEYS,
    AddColumn,
    Alteration,
    DropColumn,
    DropRequired,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetPartitioning,
    SetSortOrder,
    SetType,
    TableSpec,
    check_partition_names,
    find_column,
    walk,
)
from neve.model.types import Field, Primitive, Type
from neve.plan.property_values import check_value

FORMAT_VERSION = "format-version"
DEFINITION = "neve.dynamic"
STATE = "neve.dynamic.state"
SUSPENDED = "SUSPENDED"
SOURCES = "neve.sources"
DELETING = "neve.deleting"
_OWN = "neve."
_RESERVED = (
    "uuid",
    "location",
    "snapshot-count",
    "current-snapshot-id",
    "current-snapshot-summary",
    "current-snapshot-timestamp-ms",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
)
_VERBS = {"neve.online": "use `neve table online` and `neve table offline`"}
_ABOUT_COLUMNS = ("write.metadata.metrics.column.", "write.parquet.bloom-filter-enabled.column.")
_OF_RANGES = "ranges."
_RANGE_PROPERTIES = (SPLIT_THRESHOLD, FILTERS, AGGREGATIONS)
_WIDER = frozenset({("int", "long"), ("float", "double")})
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)\Z")
_SLUG = re.compile(r"[^a-z0-9_]+")
_SLUG_LENGTH = 40
_UNIQUE = re.compile(r"-[0-9a-f]{32}\Z|[-_][0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def first_properties(spec: TableSpec, defaults: Mapping[str, str]) -> dict[str, str]:
    """Defaults, then full statistics for the columns that locate rows, then what was asked for."""
    check_properties(spec.properties, creating=True)
    check_values(spec.properties)
    check_text(spec.comment or "", what="the comment")
    keys = [*(item.column for item in spec.partition_by), *(item.term.column for item in spec.sort_by)]
    metrics = {f"write.metadata.metrics.column.{key}": "full" for key in keys}
    comment = {"comment": spec.comment} if spec.comment else {}
    return {FORMAT_VERSION: "3", **defaults, **metrics, **comment, **_range_properties(spec), **spec.properties}


def _range_properties(spec: TableSpec) -> dict[str, str]:
    """The keys and ranges of a key-range table. Each range's rows go to one task, which sorts them."""
    if not spec.row_keys:
        return {}
    return {
        "write.distribution-mode": "hash",
        ROW_KEYS: json.dumps(spec.row_keys),
        SORT_KEYS: json.dumps(spec.sort_keys),
        RANGES: to_property(tree_of_points(spec.split_points, len(spec.row_keys))),
    }


def row_keys_of(facts: TableFacts) -> tuple[str, ...]:
    return tuple(map(str, json.loads(facts.properties.get(ROW_KEYS, "[]"))))


def check_properties(properties: Mapping[str, str], *, creating: bool = False) -> None:
    """Refuses keys that Iceberg or Névé keep for themselves."""
    for key, value in properties.items():
        if key != key.strip() or not key or not key.isprintable() or key.startswith("-") or "=" in key:
            raise InvalidInput(f"not a property name: {key!r}")
        check_text(value, what=f"the value of {key}")
        if key == SPLIT_THRESHOLD and value:
            parse_threshold(value)
        if key.startswith(_OF_RANGES) and key not in _RANGE_PROPERTIES:
            known = nearest(key, _RANGE_PROPERTIES) or f"there are: {', '.join(_RANGE_PROPERTIES)}"
            raise InvalidInput(f"no property {key}", hint=known)
        if key in _RESERVED:
            raise InvalidInput(f"the property {key} is Iceberg's own and cannot be set")
        if key.startswith(_OWN):
            raise InvalidInput(f"the property {key} is Névé's own and cannot be set", hint=_VERBS.get(key))
        if key == FORMAT_VERSION and (not creating or value not in ("2", "3")):
            raise InvalidInput(
                "format-version is 2 or 3, chosen when a table is created",
                hint="raise it with: neve sql --write \"ALTER TABLE … SET TBLPROPERTIES ('format-version'='3')\"",
            )


def check_values(properties: Mapping[str, str]) -> None:
    """Refuses values that Iceberg could not read."""
    for key, value in properties.items():
        check_value(key, value)


def table_location(warehouse: str, name: TableName, unique: str) -> str:
    """A folder that no other table ever had or will have, whatever either is called.

    >>> table_location("/w", TableName.parse("raw.sales"), "0f3a")
    '/w/raw_sales-0f3a'
    """
    slug = _SLUG.sub("_", "_".join((*name.namespace, name.name)).lower()).strip("_")[:_SLUG_LENGTH]
    return f"{warehouse}/{slug or 'table'}-{unique}"


def folder_of(metadata_location: str) -> str:
    """The folder of the table that a metadata file belongs to, as far as its path tells."""
    return metadata_location.rsplit("/metadata/", 1)[0]


def owns_location(location: str, warehouse: str) -> bool:
    """Whether a table's folder was made by a catalog of this lake, so that deleting the table may remove it.

    >>> owns_location("/w/t-" + "0" * 32, "/w"), owns_location("/w/../t-" + "0" * 32, "/w"), owns_location("/w/t", "/w")
    (True, False, False)
    """
    root = warehouse.rstrip("/") + "/"
    parts = location.removeprefix(root).split("/")
    inside = location.startswith(root) and not {"", ".", ".."} & set(parts)
    return inside and _UNIQUE.search(parts[-1]) is not None


def overlap(folder: str, other: str) -> bool:
    """Whether one of two places lies in the other, so that removing `folder` would touch what is in `other`.

    `other` is a folder, or a table's metadata file, which stands for the whole folder of its table.
    """
    place = folder_of(other)
    return place == folder or place.startswith(f"{folder}/") or folder.startswith(f"{place}/")


def sources_of(facts: TableFacts) -> tuple[str, ...]:
    """The tables that a dynamic table reads; none for any other table."""
    text = facts.properties.get(SOURCES)
    return tuple(map(str, json.loads(text))) if text else ()


def is_dynamic_table(facts: TableFacts) -> bool:
    return DEFINITION in facts.properties


def is_suspended(facts: TableFacts) -> bool:
    return facts.properties.get(STATE) == SUSPENDED


def refuse_dynamic(facts: TableFacts, *, verb: str, instead: str) -> None:
    """Keeps users from changing what a query alone decides."""
    if is_dynamic_table(facts):
        raise Refused(f"cannot {verb} {facts.name}: it is a dynamic table, kept equal to its query", hint=instead)


def dependants(name: TableName, tables: Iterable[TableFacts]) -> list[TableName]:
    """The dynamic tables that read a table."""
    return [facts.name for facts in tables if str(name) in sources_of(facts)]


def refuse_with_dependants(name: TableName, dependants: Sequence[TableName], *, verb: str) -> None:
    if dependants:
        names = ", ".join(other.short for other in dependants)
        raise DependentsExist(f"cannot {verb} {name}: {names} depends on it", hint=f"drop those first: {names}")


def check_alterations(facts: TableFacts, alterations: Sequence[Alteration], used_to_partition: frozenset[str]) -> None:
    """Refuses, before anything is touched, what would leave the table unreadable or the change half made."""
    if not alterations:
        raise InvalidInput("nothing to alter", hint="see: neve table alter --help")
    additions = {
        f"{change.path}.{change.column.name}".lstrip(".") for change in alterations if isinstance(change, AddColumn)
    }
    for change in alterations:
        match change:
            case AddColumn(path, column, _):
                _check_addition(facts, path, column)
            case RenameColumn(path, new_name):
                find_column(facts.columns, path)
                _refuse_taken(facts, _renamed(path, new_name), but=path)
                _refuse_reserved(new_name if "." not in path else "")
            case DropColumn(path):
                _check_place(facts, path)
                _refuse_used(facts, path, used_to_partition)
            case SetPartitioning(transforms):
                known = _check_terms(facts, alterations, [item.column for item in transforms])
                check_partition_names(transforms, known)
            case SetSortOrder(fields):
                _check_terms(facts, alterations, [item.term.column for item in fields])
            case SetType(path, kind):
                _check_widening(path, find_column(facts.columns, path).type, kind)
            case MoveColumn(path, _) if path in additions:
                pass
            case SetComment(path, comment):
                find_column(facts.columns, path)
                check_text(comment, what=f"the comment of {path}")
            case _:
                find_column(facts.columns, change.path)
    _keep_ranges(facts, alterations)
    dropped = {change.path for change in alterations if isinstance(change, DropColumn)}
    added = any(isinstance(change, AddColumn) and not change.path for change in alterations)
    if not added and dropped.issuperset(column.name for column in facts.columns):
        raise InvalidSchema("a table needs at least one column")


def _keep_ranges(facts: TableFacts, alterations: Sequence[Alteration]) -> None:
    """Keeps what a key-range table rests on: its layout, its column for the range, and keys that are never NULL."""
    keys = row_keys_of(facts)
    for change in alterations if keys else ():
        match change:
            case SetPartitioning() | SetSortOrder():
                raise InvalidSchema(
                    f"{facts.name} lies in key ranges, which say how its rows are partitioned and sorted"
                )
            case DropRequired(path) if path in keys:
                raise InvalidSchema(f"{path} is a row key and may not be NULL")
            case RenameColumn(path, _) | DropColumn(path) if path == RANGE:
                raise InvalidSchema(f"{RANGE} says which key range a row was written for: it stays")
            case _:
                _keep_merging(facts, change)


def _keep_merging(facts: TableFacts, change: Alteration) -> None:
    """Keeps the columns that filters and aggregations name, and an aggregation for each value."""
    merging = merging_of(facts.properties)
    if merging is None:
        return
    match change:
        case RenameColumn(path, _) | DropColumn(path) if path in merging.columns:
            name, key = path, FILTERS if any(item.column == path for item in merging.age_offs) else AGGREGATIONS
        case AddColumn("", column, _) if merging.aggregations and not is_hidden(column.name):
            name, key = column.name, AGGREGATIONS
        case _:
            return
    raise InvalidSchema(
        f"{key} of {facts.name} would not fit {name} any more",
        hint=f"first: neve table unset {facts.name.short} {key}; then alter it, and set it again",
    )


def check_range_properties(columns: Sequence[Field], properties: Mapping[str, str], keys: Sequence[str]) -> None:
    """Refuses properties of key ranges for a table that has no row keys, or whose columns they do not fit."""
    if not keys and (given := [key for key in properties if key.startswith(_OF_RANGES)]):
        raise InvalidInput(f"{given[0]} is for tables with row keys", hint="create it with --row-keys")
    merging = merging_of(properties)
    if merging is not None:
        check_merging(merging, [column for column in columns if not is_hidden(column.name)], keys)


def keep_key_metrics(facts: TableFacts, changed: Iterable[str]) -> None:
    """Refuses to change how exactly manifests know the row keys: where a file lies is told by that."""
    held = {f"{_ABOUT_COLUMNS[0]}{key}" for key in row_keys_of(facts)}
    if found := sorted(held & set(changed)):
        raise InvalidInput(f"{found[0]} stays full: readers find rows by what manifests say of row keys")


def _check_widening(path: str, old: Type, new: Type) -> None:
    """Iceberg reads old files by the new type, so only types that hold every old value unchanged are let through."""
    if holds_all_of(new, old):
        return
    raise InvalidSchema(
        f"{path} cannot change from {old} to {new}",
        hint="a type can only widen: int to bigint, float to double, decimal(p,s) to decimal(more,s)",
    )


def holds_all_of(new: Type, old: Type) -> bool:
    """Whether a type holds every value of another one unchanged."""
    return old == new or (isinstance(old, Primitive) and isinstance(new, Primitive) and _widens(old, new))


def _widens(old: Primitive, new: Primitive) -> bool:
    if (old.name, new.name) in _WIDER:
        return True
    before, after = _DECIMAL.match(old.name), _DECIMAL.match(new.name)
    return before is not None and after is not None and int(before[1]) <= int(after[1]) and before[2] == after[2]


def follow_columns(properties: Mapping[str, str], alterations: Sequence[Alteration]) -> dict[str, str]:
    """The properties after an alteration: those about a column follow its name, and go when it goes.

    Iceberg refuses later changes of a table whose properties speak of a column that is not there.
    """
    found = dict(properties)
    for change in alterations:
        if isinstance(change, RenameColumn | DropColumn):
            new = _renamed(change.path, change.new_name) if isinstance(change, RenameColumn) else None
            found = {
                moved: value for key, value in found.items() if (moved := _follow(key, change.path, new)) is not None
            }
    renamed = {
        change.path: _renamed(change.path, change.new_name)
        for change in alterations
        if isinstance(change, RenameColumn)
    }
    for keys in (ROW_KEYS, SORT_KEYS):
        if keys in found:
            found[keys] = json.dumps([renamed.get(key, key) for key in json.loads(found[keys])])
    return found


def _follow(key: str, path: str, new: str | None) -> str | None:
    """A property's key after its column was renamed; None when the column went."""
    prefix = next((prefix for prefix in _ABOUT_COLUMNS if key.startswith(prefix)), None)
    column = key.removeprefix(prefix or "")
    if prefix is None or not f"{column}.".startswith(f"{path}."):
        return key
    return None if new is None else f"{prefix}{new}{column.removeprefix(path)}"


def _renamed(path: str, new_name: str) -> str:
    return ".".join([*path.split(".")[:-1], new_name])


def _check_addition(facts: TableFacts, parent: str, column: Field) -> None:
    full = f"{parent}.{column.name}" if parent else column.name
    if parent:
        _check_place(facts, parent)
    _refuse_taken(facts, full)
    _refuse_reserved(column.name if not parent else "")
    if column.required:
        raise InvalidSchema(f"a column added to a table cannot be NOT NULL: {full}", hint="add it as nullable")


def _check_place(facts: TableFacts, path: str) -> None:
    """A column, or a field at any depth, inside lists and maps too."""
    if path not in dict(walk(facts.columns, into_lists=True)):
        find_column(facts.columns, path)


def _refuse_reserved(name: str) -> None:
    if name.lower() in RESERVED_COLUMNS:
        raise InvalidSchema(f"{name} is the name of a metadata column", hint="choose another name")


def _refuse_taken(facts: TableFacts, full: str, *, but: str | None = None) -> None:
    if any(known.lower() == full.lower() for known, _ in walk(facts.columns, into_lists=True) if known != but):
        raise InvalidSchema(f"{facts.name} already has a column {full}", hint="Spark SQL does not tell cases apart")


def _refuse_used(facts: TableFacts, path: str, used_to_partition: frozenset[str]) -> None:
    sorted_by = {item.term.column for item in facts.sort_by}
    keys = frozenset(row_keys_of(facts))
    for used, verb in ((used_to_partition, "partitions"), (sorted_by, "sorts"), (keys, "is a row key of")):
        if any(column == path or column.startswith(f"{path}.") for column in used):
            raise InvalidSchema(
                f"{path} {verb} the table and cannot be dropped", hint="its values can be set to NULL instead"
            )


def _check_terms(facts: TableFacts, alterations: Sequence[Alteration], terms: list[str]) -> set[str]:
    renamed = {
        change.path: _renamed(change.path, change.new_name)
        for change in alterations
        if isinstance(change, RenameColumn)
    }
    known = {renamed.get(path, path) for path, _ in walk(facts.columns)}
    known |= {change.column.name for change in alterations if isinstance(change, AddColumn) and not change.path}
    for term in terms:
        if term not in known:
            raise InvalidSchema(f"no column {term}", hint=nearest(term, known))
    return known
