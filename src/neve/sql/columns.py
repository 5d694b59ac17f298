"""Column definitions and type words, read with sqlglot: `id bigint not null, tags array<string> comment 'x'`."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from neve.errors import InvalidSchema, nearest
from neve.model.layout import split_list
from neve.model.names import check_part
from neve.model.types import Field, ListOf, MapOf, Primitive, Struct, Type

logging.getLogger("sqlglot").setLevel(logging.ERROR)

_T = exp.DataType.Type
_WORDS = {
    _T.BOOLEAN: "boolean",
    _T.TINYINT: "int",
    _T.SMALLINT: "int",
    _T.INT: "int",
    _T.BIGINT: "long",
    _T.FLOAT: "float",
    _T.DOUBLE: "double",
    _T.DATE: "date",
    _T.TIMESTAMP: "timestamptz",
    _T.TIMESTAMPTZ: "timestamptz",
    _T.TIMESTAMPLTZ: "timestamptz",
    _T.TIMESTAMPNTZ: "timestamp",
    _T.DATETIME: "timestamp",
    _T.TEXT: "string",
    _T.VARCHAR: "string",
    _T.NVARCHAR: "string",
    _T.CHAR: "string",
    _T.NCHAR: "string",
    _T.BINARY: "binary",
    _T.VARBINARY: "binary",
}
_NAMES = ("boolean", "int", "bigint", "float", "double", "decimal(p,s)", "date", "timestamp", "timestamp_ntz", "string")
_HINT = f"known types: {', '.join(_NAMES)}, binary, array<…>, map<…,…>, struct<name:type,…>"
_DEFINITION = re.compile(r"(?:`(?P<quoted>[^`]+)`|(?P<plain>[^\s`,]+))\s+(?P<rest>.+)\Z", re.DOTALL)
_DEFINITION_HINT = "write \"name type [not null] [comment '…']\""
_MAX_PRECISION = 38
_DIGITS = re.compile(r"[0-9]{1,4}\Z")


def parse_type(text: str) -> Type:
    """A type word of Spark, ANSI or DuckDB.

    >>> str(parse_type("VARCHAR(20)")), str(parse_type("struct<a:int,b:array<decimal(10,2)>>"))
    ('string', 'struct<a:int,b:array<decimal(10,2)>>')
    """
    definition = _definition(text)
    if definition is None or definition.kind is None or definition.constraints:
        raise _unknown(text)
    return _type(definition.kind, text)


def parse_columns(text: str) -> tuple[Field, ...]:
    """Column definitions as they stand between the brackets of CREATE TABLE."""
    return tuple(parse_column(item) for item in split_list(text))


def parse_column(text: str) -> Field:
    """One definition: a name, a type, and NOT NULL or COMMENT if wanted.

    >>> parse_column("`order` int not null comment 'its number'").required
    True
    """
    match = _DEFINITION.match(text.strip())
    if match is None:
        raise InvalidSchema(f"not a column definition: {text!r}", hint=_DEFINITION_HINT)
    name = check_part(match["quoted"] or match["plain"], what="column")
    definition = _definition(match["rest"], column=name)
    if definition is None:
        raise InvalidSchema(f"not a column definition: {text!r}", hint=_DEFINITION_HINT)
    return _field(name, definition, match["rest"])


def _definition(text: str, *, column: str | None = None) -> exp.ColumnDef | None:
    """What stands behind a column's name, read as part of a statement: DataType.build alone lets too much through."""
    try:
        return _only_column(sqlglot.parse(f"CREATE TABLE t (c {text}\n)", read="spark"))
    except SqlglotError as exc:
        raise _unknown(text, column=column) from exc


def _only_column(statements: Sequence[object]) -> exp.ColumnDef | None:
    """The one column of a lone CREATE TABLE that says nothing else: text cannot smuggle in a clause or a statement."""
    create = statements[0]
    if len(statements) != 1 or not isinstance(create, exp.Create) or not isinstance(create.this, exp.Schema):
        return None
    says_more = any(value for key, value in create.args.items() if key not in ("this", "kind"))
    columns = create.this.expressions
    column = columns[0] if len(columns) == 1 and not says_more else None
    return column if isinstance(column, exp.ColumnDef) and column.kind is not None else None


def _field(name: str, definition: exp.ColumnDef, text: str) -> Field:
    required, comment = False, None
    for constraint in definition.constraints:
        match constraint.kind:
            case exp.NotNullColumnConstraint() as not_null:
                required = not not_null.args.get("allow_null")
            case exp.CommentColumnConstraint(this=this):
                comment = this.name
            case _:
                raise InvalidSchema(
                    f"column {name}: {constraint.sql('spark')} is not supported",
                    hint="a column takes a type, NOT NULL and COMMENT",
                )
    assert definition.kind is not None  # noqa: S101 - seen to by _only_column
    return Field(name, _type(definition.kind, text), required, comment)


def _type(kind: exp.DataType, text: str) -> Type:
    inner = kind.expressions
    match kind.this:
        case _T.ARRAY | _T.LIST if len(inner) == 1:
            return ListOf(_type(inner[0], text))
        case _T.MAP if len(inner) == 2:
            return MapOf(_type(inner[0], text), _type(inner[1], text))
        case _T.STRUCT if inner and all(isinstance(field, exp.ColumnDef) for field in inner):
            return Struct(tuple(_field(check_part(field.name, what="column"), field, text) for field in inner))
        case _T.DECIMAL | _T.DECIMAL32 | _T.DECIMAL64 | _T.DECIMAL128:
            return _decimal([size.name for size in inner], text)
        case word if word in _WORDS:
            return Primitive(_WORDS[word])
        case _:
            raise _unknown(text)


def _decimal(sizes: list[str], text: str) -> Primitive:
    if len(sizes) > 2 or not all(_DIGITS.match(size) for size in sizes):
        raise _unknown(text)
    precision, scale = ([*map(int, sizes), 0, 0])[:2] if sizes else (10, 0)
    if not 0 <= scale <= precision <= _MAX_PRECISION or precision == 0:
        raise InvalidSchema(
            f"{text}: a decimal has 1 to {_MAX_PRECISION} digits, and no more after the point than in all"
        )
    return Primitive(f"decimal({precision}, {scale})")


def _unknown(text: str, *, column: str | None = None) -> InvalidSchema:
    where = "" if column is None else f"column {column}: "
    return InvalidSchema(f"{where}unknown type {text!r}", hint=nearest(text, _NAMES) or _HINT)
