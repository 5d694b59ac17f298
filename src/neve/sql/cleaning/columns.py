"""Cleaned columns, each from a raw one or from an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from neve.errors import ColumnNotFound, InvalidName, InvalidSchema, nearest
from neve.model.dataset import PASSED_THROUGH, Dataset, DatasetColumn, SourceFormat, is_own_name
from neve.model.dataset import Transform as Word
from neve.model.names import check_part, quote, shown
from neve.model.types import Field, Primitive, Type
from neve.sql.cleaning.casts import FLOATING, SafeCast, is_text, read_type, safe_cast
from neve.sql.cleaning.expressions import Reference, parse_scalar
from neve.sql.cleaning.literals import default_literal
from neve.sql.cleaning.words import Sql, call, cast, name, text, when

_STRING, _BINARY = Primitive("string"), Primitive("binary")
_TRANSFORMS: Mapping[Word, Callable[[Sql], Sql]] = {
    "trim": lambda value: call("TRIM", value),
    "ltrim": lambda value: call("LTRIM", value),
    "rtrim": lambda value: call("RTRIM", value),
    "upper": lambda value: call("UPPER", value),
    "lower": lambda value: call("LOWER", value),
    "title": lambda value: call("INITCAP", value),
    "collapse_spaces": lambda value: call("REGEXP_REPLACE", value, text(r"\s+"), text(" ")),
    "null_if_empty": lambda value: call("NULLIF", value, text("")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanColumn:
    """A cleaned column. `cast` reads the stored input, and `attempt` if there is one, which is stored before.

    Without a cast the input is the value already.
    """

    field: Field
    input: Sql
    attempt: Sql | None = None
    cast: Sql | None = None
    default: Sql | None = None
    computed: bool = False

    @property
    def stored_input(self) -> str:
        return _stored_input(self.field.name)

    @property
    def stored_attempt(self) -> str:
        return _stored_attempt(self.field.name)

    @property
    def stored_cast(self) -> str:
        return f"_neve_as_{self.field.name}"

    @property
    def value(self) -> Sql:
        """The cleaned value, once input and cast are stored."""
        stored = name(self.stored_input if self.cast is None else self.stored_cast)
        return stored if self.default is None else call("COALESCE", stored, self.default.copy())

    @property
    def broken_cast(self) -> Sql | None:
        """Whether there was something to cast and nothing came of it; NULL counts as no. None: no cast can fail."""
        if self.cast is None:
            return None
        given = call("TRIM", name(self.stored_input))
        if self.field.type in {Primitive(word) for word in FLOATING}:
            was_given: Sql = exp.not_(exp.In(this=call("LOWER", given), expressions=[text(""), text("nan")]))
        else:
            was_given = exp.NEQ(this=given, expression=text(""))
        return exp.and_(name(self.stored_cast).is_(exp.null()), was_given)  # the rarer one first


class RawColumns:
    """The columns of the source by folded name, and what has been asked of them so far.

    Those that the reader adds to every row may be among them, and are not counted in.
    """

    def __init__(self, columns: Sequence[str | Field]) -> None:
        self._columns: dict[str, tuple[str, Type | None]] = {}
        self._read: set[str] = set()
        self._needed: set[str] = set()
        self._missed: dict[str, None] = {}
        for column in columns:
            self._add(*((column, None) if isinstance(column, str) else (column.name, column.type)))
        for column in PASSED_THROUGH:
            self._columns.pop(column, None)
        if not self._columns:
            raise InvalidSchema("the source has no columns")

    @property
    def names(self) -> list[str]:
        return [known for known, _ in self._columns.values()]

    @property
    def unused(self) -> tuple[str, ...]:
        return tuple(known for known in self.names if known not in self._read)

    @property
    def missed(self) -> tuple[str, ...]:
        return tuple(self._missed)

    @property
    def needed(self) -> tuple[str, ...]:
        return tuple(known for known in self.names if known in self._needed)

    def find(self, wanted: str, *, needed: bool) -> tuple[str, Type | None] | None:
        """Name and type of a column, the case of its name aside; no type when it is not known.

        `needed` says that the source is refused without it.
        """
        found = self._columns.get(wanted.casefold())
        if found is None:
            self._missed[wanted] = None
        else:
            self._read.add(found[0])
            self._needed |= {found[0]} if needed else set()
        return found

    def unknown(self, wanted: str, *, where: str) -> ColumnNotFound:
        known = self.names
        listed = f"it has {', '.join(map(shown, known[:20]))}{', …' if known[20:] else ''}"
        return ColumnNotFound(f"{where}: the source has no column {wanted!r}", hint=nearest(wanted, known) or listed)

    def _add(self, column: str, kind: Type | None) -> None:
        folded = column.casefold()
        if is_own_name(column) and folded not in PASSED_THROUGH:
            raise InvalidName(
                f"the source has a column {column!r}, a name that Névé keeps for itself", hint="rename it in the source"
            )
        if same := self._columns.get(folded):
            raise InvalidName(f"the source has two columns of one name, but for its case: {same[0]!r} and {column!r}")
        self._columns[folded] = (column, kind)


def build_columns(dataset: Dataset, raw: RawColumns) -> list[CleanColumn]:
    """The cleaned columns in the order of the file, or of the source when the file names none."""
    entries = dataset.columns or [DatasetColumn(name=check_part(known, what="column")) for known in raw.names]
    places = [f"columns[{index}] {entry.name}" for index, entry in enumerate(entries)]
    built = {
        entry.name: _plain(entry, dataset, raw, where=where)
        for entry, where in zip(entries, places, strict=True)
        if entry.expression is None
    }
    plain = {column.casefold(): value for column, value in built.items()}
    for entry, where in zip(entries, places, strict=True):
        if entry.expression is not None:
            built[entry.name] = _computed(entry, entry.expression, dataset, raw, plain, where=where)
    return [built[entry.name] for entry in entries]


def _plain(entry: DatasetColumn, dataset: Dataset, raw: RawColumns, *, where: str) -> CleanColumn:
    wanted = entry.source or entry.name
    needed = entry.default is None and dataset.missing_columns == "error"
    found = raw.find(wanted, needed=needed)
    if found is None:
        if needed:
            raise raw.unknown(wanted, where=where)
        return _absent(entry, where=where)
    column, kind = found
    value: Sql = name(column)
    if kind is None or (entry.transform and not is_text(kind)):
        value, kind = cast(value, _STRING), _STRING
    target = kind if entry.type is None else read_type(entry.type, where=where)
    value = _transformed(value, entry)
    if target == kind:
        drop_nan = entry.type is not None and kind in {Primitive(word) for word in FLOATING}
        value = when(call("ISNAN", value), exp.null(), value.copy()) if drop_nan else value
        return _column(entry, target, value, None, where=where)
    written = dataset.source if is_text(kind) else None
    as_text = value if is_text(kind) else cast(value, _STRING)
    return _from_text(entry, target, as_text, written, where=where)


def _absent(entry: DatasetColumn, *, where: str) -> CleanColumn:
    target = _STRING if entry.type is None else read_type(entry.type, where=where)
    return _column(entry, target, cast(exp.null(), target), None, where=where)


def _computed(
    entry: DatasetColumn,
    expression: str,
    dataset: Dataset,
    raw: RawColumns,
    plain: Mapping[str, CleanColumn],
    *,
    where: str,
) -> CleanColumn:
    def resolve(reference: Reference) -> str:
        folded = reference.column.casefold()
        if not reference.raw and folded in plain:
            return plain[folded].value.sql("spark")
        if not reference.raw and folded in PASSED_THROUGH:
            return quote(folded)
        needed = dataset.missing_columns == "error"
        found = raw.find(reference.column, needed=needed)
        if found is not None:
            return quote(stored_raw(found[0]))
        if any(folded == other.name.casefold() for other in dataset.columns):
            raise ColumnNotFound(
                f"{where}: {reference.column!r} has an expression itself, which another expression cannot read",
                hint="write that expression out here",
            )
        if needed:
            raise raw.unknown(reference.column, where=where)
        return "CAST(NULL AS STRING)"

    target = read_type(entry.type or "", where=where)
    value = parse_scalar(expression, where=where).render(resolve)
    as_text = _transformed(cast(value, _STRING), entry)
    return replace(_from_text(entry, target, as_text, None, where=where), computed=True)


def _from_text(
    entry: DatasetColumn, target: Type, value: Sql, written: SourceFormat | None, *, where: str
) -> CleanColumn:
    """From text to the type; `written` says how the source writes dates and times, when the text is the source's."""
    assert isinstance(target, Primitive)  # noqa: S101 - it came from read_type
    if is_text(target):
        return _column(entry, target, value, None, where=where)
    if target == _BINARY:
        return _column(entry, target, cast(value, target), None, where=where)
    read = safe_cast(
        name(_stored_input(entry.name)),
        name(_stored_attempt(entry.name)),
        target,
        date_format=None if written is None else written.date_format,
        timestamp_format=None if written is None else written.timestamp_format,
    )
    return _column(entry, target, value, read, where=where)


def _column(entry: DatasetColumn, kind: Type, value: Sql, read: SafeCast | None, *, where: str) -> CleanColumn:
    default = None if entry.default is None else default_literal(entry.default, kind, where=f"{where}: default")
    field = Field(entry.name, kind, required=not entry.allow_null)
    if read is None:
        return CleanColumn(field=field, input=value, default=default)
    return CleanColumn(field=field, input=value, attempt=read.attempt, cast=read.value, default=default)


def _transformed(value: Sql, entry: DatasetColumn) -> Sql:
    for word in entry.transform:
        value = _TRANSFORMS[word](value)
    return value


def stored_raw(column: str) -> str:
    return f"_neve_of_{column}"


def _stored_input(column: str) -> str:
    return f"_neve_in_{column}"


def _stored_attempt(column: str) -> str:
    return f"_neve_try_{column}"
