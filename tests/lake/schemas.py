"""What OpenLineage's specification asks of an event: the fields that must be there, their kinds, and its facets'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

_SPEC = "https://openlineage.io/spec/"
_CORE = f"{_SPEC}2-0-2/OpenLineage.json#/$defs/"
_TYPES = {"START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"}
_FACETS: Mapping[str, Mapping[str, type]] = {
    "1-2-0/ParentRunFacet": {"run": dict, "job": dict},
    "1-0-1/ErrorMessageRunFacet": {"message": str, "programmingLanguage": str},
    "2-0-4/JobTypeJobFacet": {"processingType": str, "integration": str},
    "1-1-0/SQLJobFacet": {"query": str},
    "1-2-0/SchemaDatasetFacet": {},
    "1-0-1/DatasetVersionDatasetFacet": {"datasetVersion": str},
    "1-0-1/SymlinksDatasetFacet": {},
    "1-0-2/OutputStatisticsOutputDatasetFacet": {},
}
_OPTIONAL: Mapping[str, type] = {"rowCount": int, "size": int, "fileCount": int, "dialect": str, "jobType": str}
_LISTS = {"fields": {"name"}, "identifiers": {"namespace", "name", "type"}}


def check_event(event: Mapping[str, Any]) -> None:
    """The event itself, what it speaks of, and every facet in it."""
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert event["eventType"] in _TYPES
    assert ":" in event["producer"]
    assert event["schemaURL"] == f"{_CORE}RunEvent"
    _check_run(event["run"])
    for named in (event["job"], *event["inputs"], *event["outputs"]):
        _check_named(named)
    for facet in _facets(event):
        _check_facet(facet)


def _check_run(run: Mapping[str, Any]) -> None:
    assert str(UUID(run["runId"])) == run["runId"]


def _check_named(value: Mapping[str, Any]) -> None:
    assert all(isinstance(value[key], str) and value[key] for key in ("namespace", "name")), value


def _facets(value: Any) -> Iterator[Mapping[str, Any]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        yield from _facets(item)
    if isinstance(value, dict) and "_schemaURL" in value:
        yield value


def _check_facet(facet: Mapping[str, Any]) -> None:
    assert ":" in facet["_producer"]
    if facet["_schemaURL"] == f"{_CORE}RunFacet":  # one of our own
        return
    address, _, name = facet["_schemaURL"].removeprefix(f"{_SPEC}facets/").partition(".json#/$defs/")
    assert address.rpartition("/")[2] == name
    for key, kind in _FACETS[address].items():
        assert isinstance(facet[key], kind), (key, facet)
    for key, kind in _OPTIONAL.items():
        assert isinstance(facet.get(key, kind()), kind), (key, facet)
    for key, wanted in _LISTS.items():
        assert all(wanted <= item.keys() for item in facet.get(key, [])), (key, facet)
    if name == "ParentRunFacet":
        _check_run(facet["run"])
        _check_named(facet["job"])
