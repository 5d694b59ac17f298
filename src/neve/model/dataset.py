"""The file that says how rows are cleaned on their way in: `neve table ingest … --dataset-config sales_clean.yaml`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from neve.errors import InvalidName
from neve.model.names import check_part
from neve.model.tablefile import FileModel, Text
from neve.model.timeformat import spark_format
from neve.model.units import Limit

PASSED_THROUGH = ("_source_file", "_source_line", "_ingest_date")
"""Columns that the reader adds to every raw row, and that cleaning hands on untouched."""
CORRUPT = "_neve_corrupt"
"""One more of them, which no expression sees: the text of a line that is no row."""

OWN_PREFIX = "_neve"
Scalar = bool | int | float | str
Transform = Literal["trim", "ltrim", "rtrim", "upper", "lower", "title", "collapse_spaces", "null_if_empty"]
Comparison = Literal["=", "!=", ">", "<", ">=", "<="]
Operator = Literal[
    "=",
    "!=",
    ">",
    "<",
    ">=",
    "<=",
    "in",
    "not_in",
    "like",
    "not_like",
    "between",
    "is_null",
    "is_not_null",
    "not_empty",
]
Metric = Literal["row_count", "null_ratio", "uniqueness", "min", "max", "sum", "distinct_count"]
Severity = Literal["warn", "error"]

_ALIASES = {"==": "=", "<>": "!="}
_WITHOUT_VALUE = ("is_null", "is_not_null", "not_empty")
_BINARY_FORMATS = ("parquet", "orc", "avro")
_TEXT_OPTIONS = ("delimiter", "header", "quote", "escape", "encoding", "null_value", "multiline")
_CSV_OPTIONS = ("delimiter", "header", "quote", "escape", "null_value")
Item = TypeVar("Item")


def _unmet(key: str | int, sentence: str) -> PydanticCustomError:
    """What `neve.documents.unmet` raises; that room lies above this one. The key may also be the index of an item."""
    return PydanticCustomError("unmet", "{sentence}", {"key": key, "sentence": sentence})


def _as_operator(value: object) -> object:
    if not isinstance(value, str):
        return value
    word = "_".join(value.lower().split())
    return _ALIASES.get(word, word)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_scalars(value: object) -> object:
    """A clear word for what a union of plain types would report branch by branch."""
    items = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(item, bool | int | float | str) for item in items):
        raise ValueError("must be a number, a text, true or false, or a list of these")
    return tuple(items) if isinstance(value, list | tuple) else value


def _as_scalar(value: object) -> object:
    if not isinstance(value, bool | int | float | str | None):
        raise ValueError("must be a number, a text, true or false")  # noqa: TRY004 - what pydantic listens for
    return value


def _as_missing(value: object) -> object:
    return "null" if value is None else value  # `missing_columns: null` is no text in YAML


def _as_tab(value: object) -> object:
    return "\t" if value == "\\t" else value


def _checked_name(value: str) -> str:
    try:
        check_part(value, what="column")
    except InvalidName as exc:
        raise ValueError(exc.message) from exc
    if is_own_name(value):
        raise ValueError(f"{value!r} is a name that Névé keeps for itself")
    return value


def is_own_name(name: str) -> bool:
    """Whether a column of this name would meet one that Névé adds by itself."""
    folded = name.casefold()
    return folded in PASSED_THROUGH or folded.startswith(OWN_PREFIX)


def _filled(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _one_character(value: str) -> str:
    if len(value) != 1:
        raise ValueError("must be one character")
    return value


def _date_format(value: str) -> str:
    return spark_format(value, time=False)


def _timestamp_format(value: str) -> str:
    return spark_format(value, time=True)


ColumnName = Annotated[Text, AfterValidator(_checked_name)]
FilledText = Annotated[Text, AfterValidator(_filled)]
OneCharacter = Annotated[Text, AfterValidator(_one_character)]


class DatasetColumn(FileModel):
    """One column of the cleaned rows: source or expression, then transforms, then the type, then the default."""

    name: ColumnName
    source: FilledText | None = None
    expression: FilledText | None = None
    type: FilledText | None = None
    transform: Annotated[tuple[Transform, ...], BeforeValidator(_as_list)] = ()
    default: Annotated[Scalar | None, BeforeValidator(_as_scalar)] = None
    allow_null: bool = True

    @model_validator(mode="after")
    def _goes_together(self) -> DatasetColumn:
        if self.expression is not None and self.source is not None:
            raise _unmet("expression", "a column has a source or an expression, not both")
        if self.expression is not None and self.type is None:
            raise _unmet("type", "a column with an expression needs a type")
        return self


class Filter(FileModel):
    """What a cleaned row must satisfy. A NULL fails it, unless `allow_null`."""

    column: FilledText
    operator: Annotated[Operator, BeforeValidator(_as_operator)]
    value: Annotated[Scalar | tuple[Scalar, ...] | None, BeforeValidator(_as_scalars)] = None
    allow_null: bool = False

    @model_validator(mode="after")
    def _goes_together(self) -> Filter:
        if self.operator in _WITHOUT_VALUE:
            if self.value is not None:
                raise _unmet("value", f"{self.operator} takes no value")
            if self.operator != "not_empty" and "allow_null" in self.model_fields_set:
                raise _unmet("allow_null", f"{self.operator} says by itself what becomes of a NULL")
            return self
        if self.value is None:
            raise _unmet("value", f"{self.operator} needs a value; for a NULL write is_null or is_not_null")
        self._check_shape(self.value)
        return self

    def _check_shape(self, value: Scalar | tuple[Scalar, ...]) -> None:
        if self.operator in {"in", "not_in"}:
            if not isinstance(value, tuple) or not value:
                raise _unmet("value", f"{self.operator} needs a list with at least one value")
        elif self.operator == "between":
            if not isinstance(value, tuple) or len(value) != 2:
                raise _unmet("value", "between needs a list of two values, the lowest and the highest")
        elif isinstance(value, tuple):
            raise _unmet("value", f"{self.operator} needs one value, not a list")
        elif self.operator in {"like", "not_like"} and not isinstance(value, str):
            raise _unmet("value", f"{self.operator} needs a text with % or _ in it")

    @property
    def title(self) -> str:
        """The filter in words, as counts and reports show it."""
        match self.value:
            case None:
                said = ""
            case (low, high) if self.operator == "between":
                said = f" {_shown(low)} and {_shown(high)}"
            case tuple(values):
                said = f" ({', '.join(map(_shown, values))})"
            case value:
                said = f" {_shown(value)}"
        return _short(f"{self.column} {self.operator}{said}")


class ValidationEntry(FileModel):
    """A check of all cleaned rows together: a rule for each row, or a figure over all of them."""

    name: FilledText | None = None
    severity: Severity = "error"
    rule: FilledText | None = None
    max_failing: Text | None = None
    metric: Metric | None = None
    column: FilledText | None = None
    operator: Annotated[Comparison, BeforeValidator(_as_operator)] | None = None
    threshold: Annotated[Scalar | None, BeforeValidator(_as_scalar)] = None

    @field_validator("max_failing")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None:
            Limit.parse(value)
        return value

    @model_validator(mode="after")
    def _goes_together(self) -> ValidationEntry:
        if (self.rule is None) == (self.metric is None):
            raise _unmet("rule" if self.metric is None else "metric", "a validation has either a rule or a metric")
        stray = ("column", "operator", "threshold") if self.metric is None else ("max_failing",)
        for key in stray:
            if getattr(self, key) is not None:
                raise _unmet(key, f"does not go with a {'rule' if self.metric is None else 'metric'}")
        if self.metric is not None:
            self._check_metric(self.metric)
        return self

    def _check_metric(self, metric: Metric) -> None:
        if metric == "row_count" and self.column is not None:
            raise _unmet("column", "row_count counts rows, not the values of a column")
        if metric != "row_count" and self.column is None:
            raise _unmet("column", f"{metric} needs a column")
        for key in ("operator", "threshold"):
            if getattr(self, key) is None:
                raise _unmet(key, "a metric needs an operator and a threshold")

    @property
    def limit(self) -> Limit:
        """How many rows may break the rule: none, when the file does not say."""
        return Limit.parse(0 if self.max_failing is None else self.max_failing)

    @property
    def title(self) -> str:
        """The name, or what is checked in words."""
        if self.name is not None:
            return self.name
        if self.rule is not None:
            return _short(" ".join(self.rule.split()))
        of = "" if self.column is None else f"({self.column})"
        return _short(f"{self.metric}{of} {self.operator} {_shown(self.threshold)}")


class SourceFormat(FileModel):
    """How the files are written. What is left out is decided by the file's name and the reader's defaults.

    `date_format` and `timestamp_format` are kept as Spark reads them, in whichever words they were written.
    """

    format: Literal["csv", "json", "parquet", "orc", "avro"] | None = None
    delimiter: Annotated[str, BeforeValidator(_as_tab), Field(min_length=1)] | None = None
    header: bool | None = None
    quote: OneCharacter | None = None
    escape: OneCharacter | None = None
    encoding: FilledText | None = None
    null_value: Text | None = None
    date_format: Annotated[FilledText, AfterValidator(_date_format)] | None = None
    timestamp_format: Annotated[FilledText, AfterValidator(_timestamp_format)] | None = None
    multiline: bool | None = None

    @model_validator(mode="after")
    def _goes_together(self) -> SourceFormat:
        strays: tuple[str, ...] = ()
        if self.format in _BINARY_FORMATS:
            strays = _TEXT_OPTIONS
        elif self.format == "json":
            strays = _CSV_OPTIONS
        for key in strays:
            if getattr(self, key) is not None:
                raise _unmet(key, f"means nothing for {self.format} files")
        return self

    def delimiter_of(self, path: str) -> str:
        """What stands between the values of a csv file: as it is said, else as the file's name tells.

        >>> SourceFormat().delimiter_of("a.tsv.d/b.csv"), SourceFormat().delimiter_of("b.TSV.gz")
        (',', '\\t')
        """
        tabs = path.lower().removesuffix(".gz").endswith(".tsv")
        return self.delimiter or ("\t" if tabs else ",")


class Dataset(FileModel):
    """A whole cleaning file. Without columns, all columns of the source pass as they are."""

    name: FilledText
    description: str | None = None
    source: SourceFormat = SourceFormat()
    columns: tuple[DatasetColumn, ...] = ()
    missing_columns: Annotated[Literal["null", "error"], BeforeValidator(_as_missing)] = "error"
    filters: tuple[Filter, ...] = ()
    order_by: Annotated[tuple[FilledText, ...], BeforeValidator(_as_list)] = ()
    validations: tuple[ValidationEntry, ...] = ()

    @field_validator("columns")
    @classmethod
    def _columns_differ(cls, columns: tuple[DatasetColumn, ...]) -> tuple[DatasetColumn, ...]:
        for index, (first, column) in _repeated(columns, [c.name.casefold() for c in columns]):
            raise _unmet(index, f"there is a column {column.name} already: columns[{first}]")
        return columns

    @field_validator("filters")
    @classmethod
    def _filters_differ(cls, filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
        for index, (first, one) in _repeated(filters, [(f.column.casefold(), f.operator, f.value) for f in filters]):
            raise _unmet(index, f"there is a filter {one.title} already: filters[{first}]")
        return filters

    @field_validator("validations")
    @classmethod
    def _validations_differ(cls, validations: tuple[ValidationEntry, ...]) -> tuple[ValidationEntry, ...]:
        for index, (first, one) in _repeated(validations, [v.title.casefold() for v in validations]):
            raise _unmet(index, f"there is a validation {one.title!r} already: validations[{first}]")
        return validations


def _repeated(items: Sequence[Item], keys: Iterable[object]) -> Iterable[tuple[int, tuple[int, Item]]]:
    """Each item whose key came before: its index, then the index of the first one, and itself."""
    first: dict[object, int] = {}
    for index, (item, key) in enumerate(zip(items, keys, strict=True)):
        if first.setdefault(key, index) != index:
            yield index, (first[key], item)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _short(text: str, limit: int = 100) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
