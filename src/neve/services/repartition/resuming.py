"""How far a repartition has come: a note in the target, written by the same commits as the rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from neve.directory import Directory
from neve.errors import NotEmpty
from neve.plan.directories import Dataset
from neve.services.directories import open_parquet
from neve.services.repartition.request import RepartitionRequest

NOTE = "_repartition.json"


@dataclass(frozen=True, slots=True)
class Begun:
    """What a target holds already: so many parts, written by this run, whose name the files bear."""

    done: int
    run_id: str


def note_of(request: RepartitionRequest, dataset: Dataset, begun: Begun) -> bytes:
    words = {**_what(request, dataset), "how": _how(request), "run": begun.run_id, "done": begun.done}
    return json.dumps(words, ensure_ascii=False).encode()


def _what(request: RepartitionRequest, dataset: Dataset) -> dict[str, Any]:
    """What must be the same for a run to go on where another one stopped, or to start over."""
    return {
        "source": request.source,
        "columns": list(request.columns),
        "chunk_mb": request.chunk_mb,
        "files": [[footer.path, footer.bytes] for footer in dataset.footers],
    }


def _how(request: RepartitionRequest) -> dict[str, Any]:
    """What must be the same to go on: else a part of the files would not be as they were asked for."""
    return {
        "compression": request.compression,
        "sort_by": list(map(str, request.sort_by)),
        "validate": request.validate,
        "transform": None if request.transform is None else _digest(request.transform),
    }


def _digest(transform: object) -> str:
    """A function by its code, of this version of Python. "" for what holds more than code: no two of those are alike.

    The values of names outside of it are not looked at.
    """
    if not isinstance(transform, FunctionType) or transform.__closure__:
        return ""
    words = repr((_words(transform.__code__), transform.__defaults__, transform.__kwdefaults__))
    return hashlib.sha256(words.encode()).hexdigest()


def _words(const: object) -> object:
    """What stands in code: other code, and sets, which each process puts into an order of its own."""
    match const:
        case CodeType():
            return (const.co_code, const.co_names, const.co_varnames, *map(_words, const.co_consts))
        case frozenset():
            return sorted(map(repr, const))
        case _:
            return const


def check_target(request: RepartitionRequest, dataset: Dataset) -> Begun | None:
    """What the target holds of this repartition already.

    Raises:
        NotEmpty: it holds something else.
    """
    if not Path(request.target).is_dir():
        return None
    target = open_parquet(request.target)
    held = target.files()
    if not target.storage.exists(NOTE):
        if held:
            raise NotEmpty(f"{request.target} is not empty: it holds {held[0].path}", hint="choose a new folder")
        return None
    found = json.loads(target.storage.read(NOTE))
    begun, how = Begun(int(found.pop("done")), str(found.pop("run", ""))), found.pop("how", {})
    if found != _what(request, dataset):
        if {file.path: file.bytes for file in held} == {footer.path: footer.bytes for footer in dataset.footers}:
            raise NotEmpty(
                f"{request.source} holds the files of {request.target} already: a run that then died had swapped them",
                hint=f"nothing is left to do but to remove {request.target}",
            )
        raise NotEmpty(
            f"{request.target} holds an unfinished repartition of {found.get('source')} and not of this",
            hint="the source, its files or the partition columns are others: choose a new folder",
        )
    if request.resume:
        _refuse_other_ways(request, how)
    return begun


def _refuse_other_ways(request: RepartitionRequest, known: Mapping[str, object]) -> None:
    """One half of the files must not be made otherwise than the other."""
    if wrong := [name for name, value in _how(request).items() if value == "" or known.get(name, "") != value]:
        raise NotEmpty(
            f"{request.target} holds an unfinished repartition that was asked for otherwise, or cannot be told from it:"
            f" {', '.join(wrong)}",
            hint="ask as before, or start over with resume=False (--start-over); a transform_fn is told by its code"
            " alone: a function without values of another around it",
        )


def start_over(target: Directory, run_id: str) -> None:
    forget(target, run_id, [file.path for file in target.files()])


def forget(target: Directory, run_id: str, files: Sequence[str] = ()) -> None:
    """The source is dealt with, so nothing is left to resume."""
    with target.change(run_id) as change:
        for path in files:
            change.remove(path)
        change.note(NOTE, None)
