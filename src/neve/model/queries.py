"""The parts of which document 003 makes a question about rows: filters, projections, aggregations, order."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Operator = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "like"]
Function = Literal["count", "sum", "avg", "min", "max", "median", "percentile"]
Unit = Literal["year", "quarter", "month", "week", "day", "hour", "minute", "second"]
Extract = Literal["year", "quarter", "month", "week", "day", "dayofweek", "doy", "hour", "minute", "second"]
Name = Annotated[str, Field(min_length=1)]


class Words(BaseModel):
    """What crosses the wire: unknown words are refused, never passed over."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Filter(Words):
    """A condition on one field; `address.state` is a field of a struct. NULL is asked for by `eq` or `ne` null."""

    field: Name
    operator: Operator
    value: Any

    @model_validator(mode="after")
    def _fits(self) -> Filter:
        if self.operator == "in" and not (isinstance(self.value, list) and self.value and None not in self.value):
            raise ValueError("`in` takes a list of values, none of them null")
        if self.value is None and self.operator not in ("eq", "ne"):
            raise ValueError(f"null does not go with `{self.operator}`: use eq or ne")
        if self.operator == "like" and not isinstance(self.value, str):
            raise ValueError("`like` takes a pattern, with % and _")
        return self


class Substring(Words):
    start: int = Field(ge=1, description="the first character is 1")
    length: int | None = Field(None, ge=0)


class Projection(Words):
    """A field of the answer; what is asked of its value is done in the order of these words."""

    field: Name
    alias: Name | None = None
    trim: bool = False
    lower: bool = False
    upper: bool = False
    substring: Substring | None = None
    date_trunc: Unit | None = None
    date_format: Name | None = Field(None, description="a pattern such as yyyy-MM")
    extract: Extract | None = None
    cast: Name | None = Field(None, description="a type, such as string or decimal(10,2)")

    @property
    def name(self) -> str:
        return self.alias or self.field


class Aggregation(Words):
    """`field` may be left out, or *, to count rows."""

    function: Function
    field: Name | None = None
    alias: Name | None = None
    distinct: bool = False
    percentile_value: float | None = Field(None, ge=0, le=1)

    @property
    def name(self) -> str:
        return self.alias or (self.function if self.counts_rows else f"{self.function}_{self.field}")

    @property
    def counts_rows(self) -> bool:
        return self.field in (None, "*")

    @model_validator(mode="after")
    def _fits(self) -> Aggregation:
        if self.counts_rows and (self.function != "count" or self.distinct):
            raise ValueError("needs a field" if self.function != "count" else "distinct needs a field")
        if (self.function == "percentile") != (self.percentile_value is not None):
            raise ValueError("percentile_value, from 0 to 1, goes with percentile, and only with it")
        if self.distinct and self.function in ("median", "percentile"):
            raise ValueError(f"distinct does not go with {self.function}")
        return self


class Sort(Words):
    field: Name
    order: Literal["asc", "desc"] = "asc"
    nulls_first: bool | None = None


class JoinOn(Words):
    """How rows of two tables match; `left_field` may be one of a table that was joined before: `orders.id`."""

    left_field: Name
    right_field: Name
    operator: Literal["eq", "ne", "gt", "gte", "lt", "lte"] = "eq"


class Join(Words):
    """Another table of the same namespace; its fields are answered, and asked for, behind its alias."""

    table: Name
    alias: Name | None = None
    type: Literal["inner", "left", "right", "full", "cross"] = "inner"
    on: list[JoinOn] = Field([])

    @property
    def name(self) -> str:
        return self.alias or self.table

    @model_validator(mode="after")
    def _fits(self) -> Join:
        if (self.type == "cross") != (not self.on):
            raise ValueError("`on` says how rows match; a cross join takes none")
        return self
