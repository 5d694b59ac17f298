"""Words for rows that are put into a table as a file that this process writes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from neve.model.facts import TableFacts

FieldJson = Mapping[str, Any]
"""A field of an Iceberg schema, in Iceberg's JSON: with the id by which files know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTarget:
    """What a writer of new rows knows of a table; `spec` are the fields that it is partitioned by now.

    Rows made for it fit as long as its `standing` is the same.
    """

    facts: TableFacts
    schema_id: int
    spec_id: int
    spec: tuple[FieldJson, ...]
    fields: tuple[FieldJson, ...]

    @property
    def standing(self) -> Standing:
        return Standing(
            uuid=self.facts.uuid,
            schema_id=self.schema_id,
            spec_id=self.spec_id,
            properties=self.facts.properties,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What of a table decides how rows are written: as long as it stays, what was made for the table fits."""

    uuid: str
    schema_id: int
    spec_id: int
    properties: Mapping[str, str]

    @property
    def key(self) -> Hashable:
        """The same for the same standing."""
        return self.uuid, self.schema_id, self.spec_id, tuple(sorted(self.properties.items()))
