"""What the tests of a lake look at and do by hand: rows without Spark, everything a lake holds, and command lines."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import select
import shlex
import sqlite3
import subprocess
import sys
import termios
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from neve.cli import options as cli_options
from neve.cli.app import run
from neve.lake import Lake, LakeTable
from neve.model.facts import TableFacts
from neve.model.names import TableName

V2 = {"format-version": "2"}
"""PyIceberg writes rows to format 2 only; so do the tests, having no Spark."""

Contents = dict[str, object]


@dataclass(frozen=True)
class Said:
    """What a command line said and how it ended."""

    code: int
    out: str
    err: str


Cli = Callable[..., Said]


def run_cli(capsys: pytest.CaptureFixture[str], *words: str) -> Said:
    """Runs a command line in this process, as if it were a new one."""
    fresh = cli_options.Options()
    for field in fresh.__dataclass_fields__:
        setattr(cli_options.options, field, getattr(fresh, field))
    capsys.readouterr()
    code = run(list(words))
    captured = capsys.readouterr()
    return Said(code, captured.out, captured.err)


def run_process(lake: Lake, *words: str, **environment: str) -> Said:
    """Runs a command line in a process of its own, without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "neve", *words],
        cwd=lake.root,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def at_terminal(lake: Lake, *words: str, answer: str, **environment: str) -> tuple[str, int]:
    """Runs a command at a terminal of its own, types an answer when asked; the screen and the exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "neve", *words],
        cwd=lake.root,
        env=os.environ | environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=_own_terminal,  # noqa: PLW1509 - nothing but two system calls
    )
    os.close(theirs)
    screen = ""
    while (chunk := _read(ours, answer if "[y/N]" in screen else "")) is not None:
        screen += chunk.decode(errors="replace")
        if "[y/N]" in screen and "[y/N]" not in screen.removesuffix(chunk.decode(errors="replace")):
            os.write(ours, answer.encode())
    os.close(ours)
    return screen, process.wait(timeout=60)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read(terminal: int, again: str) -> bytes | None:
    """What the screen shows next; None when the process has ended.

    Python can miss a Ctrl-C between two looks at its signals: like a person, press it `again`.
    """
    for _ in range(20):
        if select.select([terminal], [], [], 3)[0]:
            try:
                return os.read(terminal, 4096) or None
            except OSError:  # the other end is closed
                return None
        os.write(terminal, again.encode())
    raise AssertionError("nothing happened for a minute")


def undo_words(command: str | None) -> list[list[str]]:
    """The words of each command of an undo line, ready to run without a question."""
    assert command is not None
    lines: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word == "&&":
            lines.append([])
        else:
            lines[-1].append(word)
    assert all(line[0] == "neve" for line in lines)
    asks = ("delete", "rollback")
    return [[*line[1:], "--yes"] if line[2] in asks else line[1:] for line in lines]


def append(
    lake: Lake, name: str, rows: Sequence[Mapping[str, object]], *, summary: Mapping[str, str] | None = None
) -> int:
    """Appends rows in one commit; the snapshot that it made."""
    table = lake._context.catalog._backend.open_table(TableName.parse(name))
    content = pa.Table.from_pylist([dict(row) for row in rows], schema=table.schema().as_arrow())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Parquet writer option")  # PyIceberg's writer knows no row-group size
        table.append(content, snapshot_properties=dict(summary or {}))
    return current(lake, name)


def append_files(
    lake: Lake,
    name: str,
    partitions: Sequence[Mapping[str, object]],
    *,
    rows: int = 1,
    content: DataFileContent = DataFileContent.DATA,
) -> None:
    """Adds a file per partition, by metadata alone; values are raw ones, by partition field."""
    table = lake._context.catalog._backend.open_table(TableName.parse(name))
    fields = table.spec().fields
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        for number, values in enumerate(partitions):
            update.append_data_file(
                DataFile.from_args(
                    content=content,
                    file_path=f"{table.location()}/data/{uuid.uuid4().hex}.parquet",
                    file_format=FileFormat.PARQUET,
                    partition=Record(*(values[field.name] for field in fields)),
                    record_count=rows + number,
                    file_size_in_bytes=100 + number,
                    spec_id=table.spec().spec_id,
                )
            )


def put_statistics(lake: Lake, name: str, snapshot: int) -> None:
    """Statistics of the first column, in metadata alone, as if Spark had counted its distinct values."""
    sketch = {"type": "apache-datasketches-theta-v1", "snapshot-id": snapshot, "sequence-number": 1, "fields": [1]}
    file = {"statistics-path": "file:///nowhere", "file-size-in-bytes": 5, "file-footer-size-in-bytes": 1}
    told = {"snapshot-id": snapshot, **file, "blob-metadata": [{**sketch, "properties": {"ndv": "10"}}]}
    place = Path(facts(lake, name).metadata_location)
    place.write_text(json.dumps(json.loads(place.read_text()) | {"statistics": [told]}))


def current(lake: Lake, name: str) -> int:
    snapshot = facts(lake, name).current_snapshot_id
    assert snapshot is not None
    return snapshot


def facts(lake: Lake, name: str) -> TableFacts:
    return lake._context.catalog.facts(TableName.parse(name))


def make(lake: Lake, name: str = "t", schema: str = "id bigint, v string", *, rows: int = 0) -> LakeTable:
    """A table of format 2, with so many rows."""
    lake.tables.create(name, schema, properties=V2)
    if rows:
        append(lake, name, [{"id": number, "v": str(number)} for number in range(rows)])
    return lake.table(name)


def contents(lake: Lake, *, runs: bool = True) -> Contents:
    """All that a lake holds: the rows of both databases, and every other file by its hash."""
    found: Contents = {}
    for database in ("catalog.db", ".metadata.db"):
        found |= database_rows(lake.root / database, skip=() if runs else ("runs",))
    for path in sorted(lake.root.rglob("*")):
        if path.name.partition(".db")[0] in ("catalog", ".metadata"):
            continue
        found[str(path.relative_to(lake.root))] = (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        )
    return found


def database_rows(path: Path, *, skip: Sequence[str] = ()) -> Contents:
    with sqlite3.connect(path) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows: Contents = {
            f"{path.name}:{table}": sorted(connection.execute(f'SELECT * FROM "{table}"').fetchall(), key=repr)
            for table in tables
            if table not in skip
        }
    connection.close()
    return rows


def put_properties(lake: Lake, name: str, properties: Mapping[str, str]) -> None:
    """As another engine would: nobody looks at the values."""
    lake._context.catalog.set_properties(TableName.parse(name), put=properties)


def names(lake: Lake) -> list[str]:
    return [row.table for row in lake.tables.list()]


def log_ingestion(lake: Lake, table: str, date: str = "2024-01-01", rows: int = 3) -> None:
    """Writes a row of `ingestion_log` as an ingest would."""
    lake._context.store._database.write(
        "INSERT INTO ingestion_log (table_name, date, source_file, rows_ingested, status, ingested_at)"
        " VALUES (?, ?, 'in.csv', ?, 'success', '2026-11-16T01:28:49.123456Z')",
        table,
        date,
        rows,
    )


def check_healthy(lake: Lake) -> None:
    """Nothing that `doctor` finds in the lake itself is amiss."""
    amiss = [row for row in lake.doctor(spark=False) if row.state != "ok"]
    assert not amiss, amiss
