"""Checks over all cleaned rows: one aggregate each, all in one pass, judged without an engine.

A ratio comes back as `[part, whole]`, two counts, so that a limit in percent is judged exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne

from sqlglot import exp

from neve.errors import InvalidSchema
from neve.model.dataset import Dataset, Metric, Severity, ValidationEntry
from neve.model.dataset import Scalar as Value
from neve.model.names import quote
from neve.model.types import Field, Primitive, Type
from neve.model.units import Limit
from neve.sql.cleaning.casts import is_number, is_text, read_type
from neve.sql.cleaning.expressions import Reference, parse_scalar
from neve.sql.cleaning.literals import read_day, read_moment, read_number
from neve.sql.cleaning.select import find_field
from neve.sql.cleaning.words import Sql, call, name

Threshold = Decimal | date | datetime | str
_COMPARE = {"=": eq, "!=": ne, ">": gt, "<": lt, ">=": ge, "<=": le}
_RATIOS = ("null_ratio", "uniqueness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """One check. `expression` aggregates the cleaned rows; the rest says what its result must be."""

    name: str
    severity: Severity
    expression: str
    metric: Metric | None
    """None for a rule: then the result is [rows that break it, all rows], and `limit` how many may."""
    limit: Limit
    operator: str = ""
    threshold: Threshold = ""

    @property
    def sql(self) -> str:
        """An item of the SELECT list that runs all checks at once, under the check's name."""
        return f"{self.expression} AS {name(self.name).sql('spark')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A check that failed."""

    name: str
    severity: Severity
    message: str


def build_validations(config: Dataset, columns: Sequence[Field] | None = None) -> tuple[Validation, ...]:
    """The checks of a file. `columns` are the cleaned ones, `Cleaning.columns`; without them, what the file says.

    Raises:
        ColumnNotFound: a check names a column that is not there.
        InvalidInput: a rule that is not one scalar expression, a metric or threshold that does not suit its column.
    """
    known = _declared(config) if columns is None else columns
    return tuple(_build(entry, known, where=f"validations[{i}]") for i, entry in enumerate(config.validations))


def judge(validations: Sequence[Validation], values: Mapping[str, object]) -> list[Finding]:
    """The checks that fail, given the result of each by name. Where there is no value to compare, a check fails."""
    messages = [(check, _broken(check, values[check.name])) for check in validations]
    return [
        Finding(name=check.name, severity=check.severity, message=message) for check, message in messages if message
    ]


def _declared(config: Dataset) -> list[Field]:
    return [
        Field(entry.name, Primitive("string") if entry.type is None else read_type(entry.type, where=entry.name))
        for entry in config.columns
    ]


def _build(entry: ValidationEntry, columns: Sequence[Field], *, where: str) -> Validation:
    if entry.metric is None:
        return Validation(
            name=entry.title,
            severity=entry.severity,
            expression=_rule(entry.rule or "", columns, where=where),
            metric=None,
            limit=entry.limit,
        )
    field = None if entry.column is None else find_field(entry.column, columns, where=where)
    assert entry.threshold is not None  # noqa: S101 - the model sees to it
    return Validation(
        name=entry.title,
        severity=entry.severity,
        expression=_aggregate(entry.metric, field, where=where).sql("spark"),
        metric=entry.metric,
        limit=Limit(count=0),
        operator=str(entry.operator),
        threshold=_threshold(entry.metric, entry.threshold, field, where=where),
    )


def _rule(text: str, columns: Sequence[Field], *, where: str) -> str:
    def resolve(reference: Reference) -> str:
        if reference.raw:
            raise InvalidSchema(f"{where}: a rule reads cleaned rows; source.{reference.column} is not in them")
        return quote(find_field(reference.column, columns, where=where).name)

    rule = parse_scalar(text, where=where).render(resolve)
    breaks = exp.not_(call("COALESCE", rule, exp.false()))
    return _share(call("COUNT_IF", breaks), call("COUNT", exp.Star())).sql("spark")


def _aggregate(metric: Metric, field: Field | None, *, where: str) -> Sql:
    if field is None:
        return call("COUNT", exp.Star())
    column = name(field.name)
    distinct = exp.Count(this=exp.Distinct(expressions=[column]))
    match metric:
        case "null_ratio":
            return _share(call("COUNT_IF", column.is_(exp.null())), call("COUNT", exp.Star()))
        case "uniqueness":
            return _share(distinct, call("COUNT", column.copy()))
        case "distinct_count":
            return distinct
        case "sum" if not is_number(field.type):
            raise InvalidSchema(f"{where}: sum adds numbers, and {field.name} is {field.type}")
        case _:
            return call(metric.upper(), column)


def _share(part: Sql, whole: Sql) -> Sql:
    return call("ARRAY", part, whole)


def _threshold(metric: Metric, value: Value, field: Field | None, *, where: str) -> Threshold:
    where = f"{where}: threshold"
    kind: Type | None = field.type if field is not None and metric in {"min", "max"} else None
    if kind is None or is_number(kind):
        return read_number(value, where=where)
    if kind == Primitive("date"):
        return read_day(value, where=where)
    if kind in {Primitive("timestamp"), Primitive("timestamptz")}:
        return _zoned(read_moment(value, zoned=kind == Primitive("timestamptz"), where=where))
    if is_text(kind) and isinstance(value, str):
        return value
    raise InvalidSchema(f"{where}: {value!r} cannot be compared with a column of type {kind}")


def _broken(check: Validation, value: object) -> str | None:
    """What is wrong, or None."""
    if check.metric is None:
        failing, rows = _counts(value)
        if check.limit.allows(failing=failing, rows=rows):
            return None
        return f"{failing:,} of {rows:,} rows break it; at most {check.limit} may"
    observed = _ratio(check.metric, value) if check.metric in _RATIOS else _observed(value)
    if observed is None:
        return f"there is no value for {check.metric}; it must be {check.operator} {check.threshold}"
    if _COMPARE[check.operator](observed, check.threshold):
        return None
    return f"{check.metric} is {_shown(observed)}; it must be {check.operator} {_shown(check.threshold)}"


def _counts(value: object) -> tuple[int, int]:
    if isinstance(value, Sequence) and len(value) == 2:
        part, whole = value
        return int(part), int(whole)
    raise TypeError(f"two counts are needed, not {value!r}")


def _ratio(metric: Metric, value: object) -> Decimal:
    """Of no rows, nothing is NULL and all is unique."""
    part, whole = _counts(value)
    if whole == 0:
        return Decimal(metric == "uniqueness")
    return Decimal(part) / Decimal(whole)


def _observed(value: object) -> Threshold | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case int() | float() | Decimal():
            return Decimal(str(value))
        case datetime():
            return _zoned(value)
        case date() | str():
            return value
        case _:
            raise TypeError(f"not a value that can be compared: {value!r}")


def _zoned(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _shown(value: Threshold) -> str:
    if isinstance(value, Decimal):
        return f"{float(value):.6g}" if value != value.to_integral_value() else f"{value:f}"
    return str(value)
