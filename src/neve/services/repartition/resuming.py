"""How far a repartition has come: a note in the target, written by the same commits as the rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neve.directory import Directory
from neve.errors import NotEmpty
from neve.plan.directories import Dataset
from neve.services.directories import open_parquet
from neve.services.repartition.request import RepartitionRequest

NOTE = "_repartition.json"


def note_of(request: RepartitionRequest, dataset: Dataset, done: int) -> bytes:
    return json.dumps({**_identity(request, dataset), "done": done}, ensure_ascii=False).encode()


def _identity(request: RepartitionRequest, dataset: Dataset) -> dict[str, Any]:
    """What must be the same for a run to go on where another one stopped."""
    return {
        "source": request.source,
        "columns": list(request.columns),
        "chunk_mb": request.chunk_mb,
        "files": [[footer.path, footer.bytes] for footer in dataset.footers],
    }


def check_target(request: RepartitionRequest, dataset: Dataset) -> int:
    """How many parts the target holds already.

    Raises:
        NotEmpty: it holds something else.
    """
    if not Path(request.target).is_dir():
        return 0
    target = open_parquet(request.target)
    held = target.files()
    if not target.storage.exists(NOTE):
        if held:
            raise NotEmpty(f"{request.target} is not empty: it holds {held[0].path}", hint="choose a new folder")
        return 0
    found = json.loads(target.storage.read(NOTE))
    done = int(found.pop("done"))
    if found != _identity(request, dataset):
        if {file.path: file.bytes for file in held} == {footer.path: footer.bytes for footer in dataset.footers}:
            raise NotEmpty(
                f"{request.source} holds the files of {request.target} already: a run that then died had swapped them",
                hint=f"nothing is left to do but to remove {request.target}",
            )
        raise NotEmpty(
            f"{request.target} holds an unfinished repartition of {found.get('source')} and not of this",
            hint="the source, its files or the partition columns are others: choose a new folder",
        )
    return done


def start_over(target: Directory, run_id: str) -> None:
    forget(target, run_id, [file.path for file in target.files()])


def forget(target: Directory, run_id: str, files: Sequence[str] = ()) -> None:
    """The source is dealt with, so nothing is left to resume."""
    with target.change(run_id) as change:
        for path in files:
            change.remove(path)
        change.note(NOTE, None)
