"""Other processes for tests: some die at a given moment, some all do something to one lake at the same moment.

They are forked from a server that does nothing to a lake and has one thread, so forking it is safe, and each starts
with every module loaded. A process that is to die is killed at its nth effect: whatever the outside can see, such as a
transaction's COMMIT, a file written, a file removed. It dies right before one, which is right after the one before it;
or half-way through a file.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

KILLED = -signal.SIGKILL
MODULES = (
    "neve.catalog.alter", "neve.catalog.commits", "neve.lake", "neve.services.doctor", "neve.services.repair",
    "neve.store", "psycopg", "pyiceberg.table.update.snapshot", "tests.lake.lakes",
)  # fmt: skip


class Processes:
    """The server, seen from a test."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.lake.processes"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def kill_at(self, effects: int, lake: Path, deed: Sequence[str]) -> int:
        """Does a deed in a new process that dies at its nth effect; how it ended: 0, or KILLED."""
        return int(self._ask("kill", effects, str(lake), list(deed)))

    def compete(self, lake: Path, deeds: Sequence[Sequence[Sequence[str]]]) -> list[list[str]]:
        """Does lists of deeds in as many processes, all begun at once; `done` or the error's name for each deed."""
        environment = {key: value for key, value in os.environ.items() if key.startswith("NEVE_")}
        answer: list[list[str]] = json.loads(self._ask("compete", str(lake), list(deeds), environment))
        return answer

    def _ask(self, *request: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


# --------------------------------------------------------------------------------- what happens in the server and below


def serve() -> None:
    for module in MODULES:
        importlib.import_module(module)
    verbs: dict[str, Callable[..., object]] = {"kill": kill_at, "compete": compete}
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        sys.stdout.write(f"{json.dumps(verbs[verb](*arguments))}\n")
        sys.stdout.flush()


def kill_at(effects: int, lake: str, deed: Sequence[str]) -> int:
    from neve.lake import Lake

    child = os.fork()
    if child == 0:
        die_at(effects)
        with Lake(lake) as opened:
            do(opened, *deed)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def compete(lake: str, deeds: Sequence[Sequence[Sequence[str]]], environment: Mapping[str, str]) -> list[list[str]]:
    os.environ.update(environment)
    start, go = os.pipe()
    ready, say_ready = os.pipe()
    outcomes = []
    for own in deeds:
        outcome, tell = os.pipe()
        if os.fork() == 0:
            os.close(go)
            os.write(tell, json.dumps(rival(lake, own, start, say_ready)).encode())
            os._exit(0)
        os.close(tell)
        outcomes.append(outcome)
    for _ in deeds:
        os.read(ready, 1)
    os.close(go)  # the reading end of each rival sees the end of the pipe: they all start
    found = [json.loads(read_all(outcome)) for outcome in outcomes]
    for _ in deeds:
        os.wait()
    for end in (start, ready, say_ready, *outcomes):
        os.close(end)
    for key in environment:
        del os.environ[key]
    return found


def rival(lake: str, deeds: Sequence[Sequence[str]], start: int, say_ready: int) -> list[str]:
    from neve.errors import NeveError
    from neve.lake import Lake

    try:
        with Lake(lake) as opened:
            opened.tables.list()
            os.write(say_ready, b".")
            os.read(start, 1)
            outcomes = []
            for deed in deeds:
                try:
                    do(opened, *deed)
                except NeveError as exc:
                    outcomes.append(f"{type(exc).__name__} {exc}")
                else:
                    outcomes.append("done")
            return outcomes
    except Exception as exc:  # noqa: BLE001 - the test shall see it
        os.write(say_ready, b".")
        return [f"{type(exc).__name__}: {exc}"]


def read_all(end: int) -> bytes:
    found = b""
    while chunk := os.read(end, 4096):
        found += chunk
    return found


def do(lake: Any, verb: str, *words: str) -> None:
    """A verb of the life of a table, by the words of these tests."""
    from tests.lake.lakes import append

    deeds: dict[str, Callable[..., object]] = {
        "create": lambda name: lake.tables.create(name, "id bigint, v string", properties={"format-version": "2"}),
        "rename": lambda old, new: lake.table(old).rename(new),
        "delete": lambda name: lake.table(name).drop(),
        "force": lambda name: lake.table(name).drop(force=True),
        "forget": lambda name: lake.table(name).drop(keep_data=True),
        "undelete": lambda name, new: lake.tables.undelete(name, new_name=new),
        "register": lake.tables.register,
        "set": lambda name: lake.table(name).set({"killed": "yes"}),
        "put": lambda name, key: lake.table(name).set({key: "x"}),
        "append": lambda name: append(lake, name, [{"id": 99, "v": "rival"}]),
        "tag": lambda name, label: lake.table(name).tag(label),
        "namespace": lake.namespaces.create,
        "expire": lambda name: lake.table(name).expire(older_than="0"),
    }
    deeds[verb](*words)


def die_at(effects: int) -> None:
    """Makes this process die at its nth effect from now."""
    from neve.catalog.files import Files
    from neve.database.sqlite import SQLite

    left = effects

    def effect() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(call: Callable[..., Any], *, when: Callable[..., bool]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **more: Any) -> Any:
            if when(*arguments):
                effect()
            return call(*arguments, **more)

        return wrapped

    write_new = Files.write_new

    def write_half(self: Files, location: str, content: bytes) -> None:
        effect()
        if left == 1:
            path = Path(location)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content[: len(content) // 2])
        effect()
        write_new(self, location, content)

    SQLite.execute = before(SQLite.execute, when=lambda _, sql, *__: sql == "COMMIT")  # type: ignore[method-assign]
    Files.write_new = write_half  # type: ignore[method-assign]
    Path.unlink = before(Path.unlink, when=lambda *_: True)  # type: ignore[method-assign]
    shutil.rmtree = before(shutil.rmtree, when=lambda *_: True)  # type: ignore[assignment]


if __name__ == "__main__":
    serve()
