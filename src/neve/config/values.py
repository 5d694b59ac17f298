"""The kinds of value that a setting may hold, and how each is read from YAML, the environment or a flag.

For a setting that may be unset, empty text unsets it.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, SecretStr, StringConstraints

from neve.config.secrets import mask_properties, mask_url
from neve.errors import InvalidInput
from neve.model.units import format_duration, parse_duration


def _as_text(value: object) -> object:
    """Numbers and booleans of YAML back to how they were written."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _empty_as_none(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def _as_duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    try:
        return parse_duration(str(_as_text(value)))
    except InvalidInput as exc:
        raise ValueError(exc.message) from exc


def _refuse_boolean(value: object) -> object:
    """Pydantic would read `true` as 1."""
    return str(value).lower() if isinstance(value, bool) else value


def _check_memory(value: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,8}[kmgt]b?", value, re.IGNORECASE):
        raise ValueError("must be a whole number and a unit as Spark writes them, such as 4g or 512m")
    return value


def _check_warehouse(value: str) -> str:
    scheme, separator, rest = value.partition("://")
    if separator and (scheme != "s3" or rest.startswith("/") or not rest):
        raise ValueError("must be a path, or s3://bucket/prefix")
    return value


def _check_state_uri(value: str) -> str:
    if not value.startswith(("postgresql://", "sqlite:///")):
        raise ValueError("must start with postgresql:// or sqlite:///")
    return value


def _check_endpoint(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://")
    return value


def _check_orphan_age(value: timedelta) -> timedelta:
    if value < timedelta(days=1):
        raise ValueError("must be 24h or more: younger files may belong to a write that has not been committed yet")
    return value


def _check_webhook(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://")
    return value


def _check_coordinate(value: str) -> str:
    if not re.fullmatch(r"[^\s:,]+:[^\s:,]+:[^\s:,]+", value):
        raise ValueError("must be Maven coordinates, as group:artifact:version")
    return value


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), BeforeValidator(_as_text)]
OptionalText = Annotated[Text | None, BeforeValidator(_empty_as_none)]
OptionalSecret = Annotated[Annotated[SecretStr, BeforeValidator(_as_text)] | None, BeforeValidator(_empty_as_none)]
OptionalWebhook = Annotated[
    Annotated[SecretStr, BeforeValidator(_as_text), AfterValidator(_check_webhook)] | None,
    BeforeValidator(_empty_as_none),
]

Url = Annotated[Text, PlainSerializer(mask_url, return_type=str, when_used="json")]
OptionalUrl = Annotated[Url | None, BeforeValidator(_empty_as_none)]
OptionalStateUri = Annotated[Annotated[Url, AfterValidator(_check_state_uri)] | None, BeforeValidator(_empty_as_none)]
OptionalEndpoint = Annotated[Annotated[Url, AfterValidator(_check_endpoint)] | None, BeforeValidator(_empty_as_none)]
Warehouse = Annotated[Url, AfterValidator(_check_warehouse)]

Count = Annotated[int, Field(gt=0), BeforeValidator(_refuse_boolean)]
CountOrZero = Annotated[int, Field(ge=0), BeforeValidator(_refuse_boolean)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_refuse_boolean)]
OptionalCount = Annotated[Count | None, BeforeValidator(_empty_as_none)]
OptionalMemory = Annotated[Annotated[Text, AfterValidator(_check_memory)] | None, BeforeValidator(_empty_as_none)]
Duration = Annotated[
    timedelta,
    Field(ge=timedelta(0)),
    BeforeValidator(_as_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
]
OrphanAge = Annotated[Duration, AfterValidator(_check_orphan_age)]

PositiveDuration = Annotated[Duration, Field(gt=timedelta(0))]

Packages = tuple[Annotated[Text, AfterValidator(_check_coordinate)], ...]
Properties = Annotated[
    dict[str, Annotated[str, BeforeValidator(_as_text)]],
    PlainSerializer(mask_properties, return_type=dict[str, str], when_used="json"),
]
