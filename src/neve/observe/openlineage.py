"""Events by OpenLineage's specification: which run of which job read and wrote what. Pure.

A run has one START and one COMPLETE, FAIL or ABORT. Our run ids are 128 bits, and so are the UUIDs that the
specification wants: the same number, written otherwise. Column lineage is not told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from neve.model.runs import run_uuid

EventType = Literal["START", "COMPLETE", "FAIL", "ABORT"]
Facet = dict[str, JsonValue]

_PRODUCER = "urn:neve:openlineage"
_SPEC = "https://openlineage.io/spec/"
_CORE = f"{_SPEC}2-0-2/OpenLineage.json#/$defs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A table or a file. `columns` are names with types; figures are those of what a run wrote."""

    namespace: str
    name: str
    columns: Sequence[tuple[str, str]] = ()
    version: str | None = None
    location: tuple[str, str] | None = None
    """Namespace and name of the folder that the table lies in, by which other tools may know it."""
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A run of a job; a `parent` is the run and job that it is a part of."""

    run_id: str
    namespace: str
    name: str
    kind: str
    query: str | None = None
    parent: tuple[str, str] | None = None


def as_event(
    kind: EventType,
    at: datetime,
    work: Work,
    *,
    inputs: Sequence[Dataset] = (),
    outputs: Sequence[Dataset] = (),
    error: str | None = None,
) -> dict[str, JsonValue]:
    """One event, as it is sent."""
    return {
        "eventType": kind,
        "eventTime": at.isoformat(),
        "producer": _PRODUCER,
        "schemaURL": f"{_CORE}RunEvent",
        "run": {"runId": run_uuid(work.run_id), "facets": _run_facets(work, error)},
        "job": {"namespace": work.namespace, "name": work.name, "facets": _job_facets(work)},
        "inputs": [_dataset(item) for item in inputs],
        "outputs": [_dataset(item) | _written(item) for item in outputs],
    }


def _run_facets(work: Work, error: str | None) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {
        "neve_run": {"_producer": _PRODUCER, "_schemaURL": f"{_CORE}RunFacet", "runId": work.run_id}
    }
    if work.parent is not None:
        run_id, name = work.parent
        job: Facet = {"namespace": work.namespace, "name": name}
        found["parent"] = _facet("1-2-0/ParentRunFacet", run={"runId": run_uuid(run_id)}, job=job)
    if error is not None:
        found["errorMessage"] = _facet("1-0-1/ErrorMessageRunFacet", message=error, programmingLanguage="python")
    return found


def _job_facets(work: Work) -> dict[str, JsonValue]:
    kind = work.kind.upper()
    found: dict[str, JsonValue] = {
        "jobType": _facet("2-0-4/JobTypeJobFacet", processingType="BATCH", integration="NEVE", jobType=kind)
    }
    if work.query is not None:
        found["sql"] = _facet("1-1-0/SQLJobFacet", query=work.query, dialect="spark")
    return found


def _dataset(item: Dataset) -> dict[str, JsonValue]:
    facets: dict[str, JsonValue] = {}
    if item.columns:
        fields: list[JsonValue] = [{"name": name, "type": kind} for name, kind in item.columns]
        facets["schema"] = _facet("1-2-0/SchemaDatasetFacet", fields=fields)
    if item.version is not None:
        facets["version"] = _facet("1-0-1/DatasetVersionDatasetFacet", datasetVersion=item.version)
    if item.location is not None:
        namespace, name = item.location
        known: list[JsonValue] = [{"namespace": namespace, "name": name, "type": "LOCATION"}]
        facets["symlinks"] = _facet("1-0-1/SymlinksDatasetFacet", identifiers=known)
    return {"namespace": item.namespace, "name": item.name, "facets": facets}


def _written(item: Dataset) -> dict[str, JsonValue]:
    figures: Mapping[str, int | None] = {"rowCount": item.rows, "size": item.bytes, "fileCount": item.files}
    known: Facet = {name: value for name, value in figures.items() if value is not None}
    return (
        {"outputFacets": {"outputStatistics": _facet("1-0-2/OutputStatisticsOutputDatasetFacet", **known)}}
        if known
        else {}
    )


def _facet(schema: str, **fields: JsonValue) -> Facet:
    _, name = schema.split("/")
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}facets/{schema}.json#/$defs/{name}", **fields}
