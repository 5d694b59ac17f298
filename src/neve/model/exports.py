"""Exports that wait to be fetched from the service."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel, ConfigDict


class Export(BaseModel):
    """What lies in the folder of an export, beside its rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: str | None
    filename: str
    header: str
    """The first line, with its end; empty where none was wanted."""

    rows: int
    expires_at: AwareDatetime
