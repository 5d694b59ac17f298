"""The file that describes a table: `neve table create sales.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from neve.errors import NeveError
from neve.model.batching import Age, BatchLimits
from neve.model.patterns import DATE_FORMAT, format_pattern, has_date, match_pattern, pattern_kind
from neve.model.periods import Period, PeriodKind, period_of
from neve.model.runs import TableFormat
from neve.model.units import Limit

Strategy = Literal["weekly", "monthly", "quarterly", "yearly", "hierarchical"]
Expected = Literal["any", "complete"]

_LEVELS: dict[Strategy, tuple[PeriodKind, ...]] = {
    "weekly": ("week",),
    "monthly": ("month",),
    "quarterly": ("quarter",),
    "yearly": ("year",),
    "hierarchical": ("month", "year"),
}
_OUTPUTS: dict[PeriodKind, str] = {
    "week": "{year}-W{week}",
    "month": "{year}-{month}",
    "quarter": "{year}-Q{quarter}",
    "year": "{year}",
}
_FLAT, _HIVE = "{date}", "year={year}/month={month}/day={day}/data"
_ENDINGS: dict[TableFormat, str] = {"iceberg": ".parquet", "parquet": ".parquet", "csv": ".csv"}
_NOT_IN_NAMES = re.compile(r"[\\:*?\[\]{}\x00-\x1f\x7f]")  # a reader that globs, or Hadoop, would trip over them
_SAMPLE = date(2024, 1, 31)
_CHECKED_YEARS = range(1990, 2061)
_LONGEST_DELAY = 3660


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_columns(value: object) -> object:
    """Columns may be a list of mappings, or one mapping of name to type."""
    if isinstance(value, dict):
        return [{"name": name, **(kind if isinstance(kind, dict) else {"type": kind})} for name, kind in value.items()]
    return value


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _as_word(value: object) -> object:
    """YAML reads a plain `null` as no value at all."""
    return "null" if value is None else value


def _check_cron(text: str) -> str:
    if len(text.split()) != 5:
        raise ValueError("must be five cron fields, minute hour day month weekday, such as '0 3 1 * *'")
    try:
        next(CronSim(text, datetime(2024, 1, 1, tzinfo=UTC)))
    except (CronSimError, ValueError) as exc:
        raise ValueError(f"not a cron expression: {str(exc).lower()}") from exc
    except StopIteration:
        raise ValueError("this time never comes") from None
    return text


def _check_limit(text: str) -> str:
    Limit.parse(text)
    return text


Texts = Annotated[list[str], BeforeValidator(_as_list)]
Text = Annotated[str, BeforeValidator(_as_text)]
Name = Annotated[str, Field(min_length=1)]
Cron = Annotated[str, AfterValidator(_check_cron)]
RejectLimit = Annotated[Text, AfterValidator(_check_limit)]


class FileModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ColumnEntry(FileModel):
    name: Text
    type: str
    required: bool = False
    comment: str | None = None


Columns = Annotated[list[ColumnEntry], BeforeValidator(_as_columns)]


class SchemaFile(FileModel):
    """Columns alone: what `--schema schema.yaml` reads."""

    columns: Columns = Field(min_length=1)


class StorageSection(FileModel):
    """Where the table lies. `type` follows from `base_path` when it is not given."""

    type: Literal["local", "s3"] = "local"
    base_path: Name | None = None
    format: TableFormat = "iceberg"

    @model_validator(mode="before")
    @classmethod
    def _type_from_path(cls, data: object) -> object:
        if isinstance(data, dict) and "type" not in data and str(data.get("base_path")).startswith("s3://"):
            return {**data, "type": "s3"}
        return data

    @model_validator(mode="after")
    def _path_goes_with_type(self) -> StorageSection:
        if self.base_path is None and self.format != "iceberg":
            raise _unmet("base_path", f"a {self.format} directory needs storage.base_path")
        scheme = re.match(r"\w+://", self.base_path or "")
        if self.base_path is not None and (scheme[0] if scheme else "") != ("s3://" if self.type == "s3" else ""):
            expected = "s3://bucket/folder" if self.type == "s3" else "a plain path"
            raise _unmet("base_path", f"storage of type {self.type} needs {expected}, not {self.base_path!r}")
        return self


class PartitioningSection(FileModel):
    """How the days of a directory table are named. `strategy` follows from `pattern` when it is not given."""

    strategy: Literal["flat", "hive"] = "flat"
    pattern: Name | None = None
    date_format: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _strategy_from_pattern(cls, data: object) -> object:
        if isinstance(data, dict) and "strategy" not in data and "=" in str(data.get("pattern")).rpartition("/")[0]:
            return {**data, "strategy": "hive"}
        return data

    @model_validator(mode="after")
    def _names_days(self) -> PartitioningSection:
        if self.pattern is None:
            return self
        if _kind(self.pattern, self.date_format, key="pattern") != "day":
            raise _unmet("pattern", f"{self.pattern!r} gives several days one file; name the day, as in {_FLAT}")
        name = _sample(self.pattern, self.date_format, key="pattern")
        folders = name.split("/")[:-1]
        if self.strategy == "flat" and folders:
            raise _unmet("pattern", "strategy flat has no folders; set strategy: hive, or leave the folders out")
        if self.strategy == "hive" and not (folders and all(re.fullmatch(r"[^=]+=[^=]+", step) for step in folders)):
            raise _unmet("pattern", f"strategy hive needs folders of key=value, such as {_HIVE}.parquet")
        return self


class TriggerSection(FileModel):
    """When periods are compacted. A schedule alone means `type: schedule`; beside `type: manual` it rests."""

    type: Literal["manual", "schedule"] = "manual"
    schedule: Cron | None = None
    delay_days: int = Field(default=0, ge=0, le=_LONGEST_DELAY)

    @model_validator(mode="before")
    @classmethod
    def _type_from_schedule(cls, data: object) -> object:
        if isinstance(data, dict) and "type" not in data and data.get("schedule") is not None:
            return {**data, "type": "schedule"}
        return data

    @model_validator(mode="after")
    def _has_schedule(self) -> TriggerSection:
        if self.type == "schedule" and self.schedule is None:
            raise _unmet("schedule", "type schedule needs a cron expression, such as '0 3 1 * *'")
        return self


class StrategySection(FileModel):
    """What day files become. `hierarchical` makes months of days, named by `output_pattern`, and years of months."""

    type: Strategy = "monthly"
    output_pattern: Name | None = None
    yearly_output_pattern: Name | None = None
    delete_source: bool = False
    lookback_months: int | None = Field(default=None, ge=1, le=1200)
    expected: Expected = "any"

    @model_validator(mode="after")
    def _patterns_go_with_type(self) -> StrategySection:
        if self.yearly_output_pattern is not None and self.type != "hierarchical":
            raise _unmet("yearly_output_pattern", "only strategy hierarchical has it; use output_pattern")
        for key, level, pattern in self.patterns():
            _check_level(self.type, level, pattern, None, key=key)
        return self

    def patterns(self) -> list[tuple[str, PeriodKind, str]]:
        """The patterns that were given: key, kind of period, pattern."""
        levels = _LEVELS[self.type]
        given = (
            ("output_pattern", levels[0], self.output_pattern),
            ("yearly_output_pattern", levels[-1], self.yearly_output_pattern),
        )
        return [(key, level, pattern) for key, level, pattern in given if pattern is not None]


class CompactionSection(FileModel):
    enabled: bool = True
    trigger: TriggerSection = TriggerSection()
    strategy: StrategySection = StrategySection()


class LandingSection(FileModel):
    """A folder that the worker watches for this table. A file is complete when it is unchanged for `settle`."""

    folder: Name
    date_from_name: Name
    settle: Age = timedelta(seconds=5)

    @model_validator(mode="after")
    def _names_days(self) -> LandingSection:
        if (kind := _kind(self.date_from_name, None, key="date_from_name")) != "day":
            example = "sales_{date}.csv"
            raise _unmet("date_from_name", f"{self.date_from_name!r} names a {kind}, not a day: {example}")
        return self


class IngestionSection(FileModel):
    """How days come in. A column that a file lacks becomes NULL, or the file is refused."""

    dataset_config: Name | None = None
    missing_columns: Annotated[Literal["null", "refuse"], BeforeValidator(_as_word)] = "null"
    max_rejected: RejectLimit | None = None
    batch: BatchLimits = BatchLimits()
    landing: LandingSection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodSpec:
    """How a table's days are compacted into periods, with every default filled in.

    `outputs` names the file of each kind of period, shorter kinds first; `schedule` is None for a manual trigger.
    """

    outputs: Mapping[PeriodKind, str]
    date_format: str = DATE_FORMAT
    enabled: bool = True
    schedule: str | None = None
    delay_days: int = 0
    delete_source: bool = False
    lookback_months: int | None = None
    expected: Expected = "any"


class TableFile(SchemaFile):
    """A whole table. Without columns, they come from the dataset that is ingested, or from the first file."""

    name: Text
    description: str | None = None
    columns: Columns = []
    partition_by: Texts = []
    sort_by: Texts = []
    row_keys: Texts = []
    sort_keys: Texts = []
    split_points: Name | None = None
    split_points_base64: bool = False
    properties: dict[str, Text] = {}
    storage: StorageSection = StorageSection()
    partitioning: PartitioningSection = PartitioningSection()
    compaction: CompactionSection = CompactionSection()
    ingestion: IngestionSection = IngestionSection()
    schema_changes: Literal["strict", "evolve"] = Field(default="strict", alias="schema")

    @property
    def date_format(self) -> str:
        return self.partitioning.date_format or DATE_FORMAT

    @property
    def day_pattern(self) -> str:
        """What the file of a day is called, below the base path."""
        name = _HIVE if self.partitioning.strategy == "hive" else _FLAT
        return self.partitioning.pattern or f"{name}{_ENDINGS[self.storage.format]}"

    def period_spec(self) -> PeriodSpec:
        trigger, strategy = self.compaction.trigger, self.compaction.strategy
        given = {level: pattern for _, level, pattern in strategy.patterns()}
        ending = _ENDINGS[self.storage.format]
        return PeriodSpec(
            outputs={level: given.get(level, f"{_OUTPUTS[level]}{ending}") for level in _LEVELS[strategy.type]},
            date_format=self.date_format,
            enabled=self.compaction.enabled,
            schedule=trigger.schedule if trigger.type == "schedule" else None,
            delay_days=trigger.delay_days,
            delete_source=strategy.delete_source,
            lookback_months=strategy.lookback_months,
            expected=strategy.expected,
        )

    def directory_only_keys(self) -> list[str]:
        """The keys given here that mean nothing to an Iceberg table, which names its files itself."""
        given = {"strategy": self.partitioning.strategy == "hive", "pattern": self.partitioning.pattern is not None}
        keys = [f"partitioning.{key}" for key, is_given in given.items() if is_given]
        return keys + [f"compaction.strategy.{key}" for key, _, _ in self.compaction.strategy.patterns()]

    @model_validator(mode="after")
    def _sections_go_together(self) -> TableFile:
        if self.split_points_base64 and self.split_points is None:
            raise _unmet("split_points_base64", "says how split_points are written, and there are none")
        if self.storage.format != "iceberg":
            self._check_directory()
        self._check_outputs()
        return self

    def _check_directory(self) -> None:
        for key in (
            "partition_by",
            "sort_by",
            "row_keys",
            "sort_keys",
            "split_points",
            "split_points_base64",
            "properties",
        ):
            if getattr(self, key):
                raise _unmet(key, f"is for Iceberg tables; a {self.storage.format} directory has partitioning.pattern")
        ending = _ENDINGS[self.storage.format]
        patterns = [("partitioning", self.day_pattern)]
        patterns += [("compaction", pattern) for pattern in self.period_spec().outputs.values()]
        for key, pattern in patterns:
            if not pattern.endswith(ending):
                raise _unmet(key, f"the name {pattern!r} must end with {ending}, as storage.format says")

    def _check_outputs(self) -> None:
        outputs = self.period_spec().outputs
        for level, pattern in outputs.items():
            _check_level(self.compaction.strategy.type, level, pattern, self.date_format, key="compaction")
        if self.partitioning.date_format and not any(map(has_date, (self.day_pattern, *outputs.values()))):
            raise _unmet("partitioning", "date_format is for {date}, which no pattern here has")
        names = {"day": self.day_pattern, **outputs}
        for level, pattern in outputs.items():
            for other in (name for kind, name in names.items() if kind != level):
                if clash := _clash(level, pattern, other, self.date_format):
                    raise _unmet("compaction", f"{clash!r} could be a name of {pattern!r} and of {other!r}")


def _check_level(strategy: Strategy, level: PeriodKind, pattern: str, date_format: str | None, *, key: str) -> None:
    """An output names periods of its level, or, with `{date}`, the first day of each."""
    kind = _kind(pattern, date_format, key=key)
    if kind != level and not (kind == "day" and has_date(pattern)):
        raise _unmet(key, f"{pattern!r} names a {kind}, but strategy {strategy} makes a {level}: {_OUTPUTS[level]}")
    _sample(pattern, date_format, key=key)


def _kind(pattern: str, date_format: str | None, *, key: str) -> PeriodKind:
    try:
        return pattern_kind(pattern, date_format or DATE_FORMAT)
    except NeveError as exc:
        raise _unmet(key, exc.message if exc.hint is None else f"{exc.message}; {exc.hint}") from exc


def _sample(pattern: str, date_format: str | None, *, key: str) -> str:
    """One name of a pattern, once it is safe below a folder and seen by whoever reads the folder."""
    name = format_pattern(pattern, _SAMPLE, date_format or DATE_FORMAT)
    if found := _NOT_IN_NAMES.search(name):
        raise _unmet(key, f"no file should be called {name!r}, because of {found[0]!r}")
    for step in name.split("/"):
        if step in {"", ".", ".."}:
            raise _unmet(key, f"{name!r} does not stay below the table's folder")
        if step.startswith((".", "_")):
            raise _unmet(key, f"readers pass over names like {step!r}, which start with . or _")
    return name


def _clash(level: PeriodKind, pattern: str, other: str, date_format: str) -> str | None:
    for period in _periods(level):
        name = format_pattern(pattern, period, date_format)
        if match_pattern(other, name, date_format) is not None:
            return name
    return None


def _periods(kind: PeriodKind) -> list[Period]:
    found = [period_of(date(_CHECKED_YEARS.start, 1, 1), kind)]
    while found[-1].last.year < _CHECKED_YEARS.stop:
        found.append(found[-1].next())
    return found


def _unmet(key: str, sentence: str) -> PydanticCustomError:
    """As `neve.documents.unmet`, which lies above this room: an error at a key of the section that is checked."""
    return PydanticCustomError("unmet", "{sentence}", {"key": key, "sentence": sentence})
