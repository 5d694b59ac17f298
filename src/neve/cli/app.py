"""The root command, and the boundary where every error becomes a sentence and an exit code."""

from __future__ import annotations

import importlib
import io
import re
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from neve import __version__
from neve.cli.options import Command, group, options, say
from neve.errors import InvalidInput, NeveError

app = group("Névé: lakehouse tables that look after themselves.")
_INTERRUPTED = 130
_USAGE = 2
_JSON = re.compile(r"(?:^|\0)(?:-o\0?|--output[=\0])jsonl?(?:\0|$)")
"""JSON is asked for, in words with a zero between them."""


def _version(value: bool) -> None:
    if value:
        print(f"neve {__version__}")  # noqa: T201
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Névé: lakehouse tables that look after themselves."""


@app.command(cls=Command)
def init(
    folder: Annotated[Path, typer.Argument(help="Where the lake goes.")] = Path(),
    demo: Annotated[bool, typer.Option("--demo", help="Add a small example table with rows.")] = False,
) -> None:
    """Make a lake: neve.yaml, the catalog, the state database and the warehouse."""
    from neve.cli.commands import init_lake

    init_lake(folder, demo=demo)


@app.command(cls=Command)
def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended; fetch what is missing.")] = False,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Only the lake: no Java, no jars, no session.")] = False,
) -> None:
    """Check Java, jars, Spark, catalog, warehouse, state and disk, and say how to mend what is wrong."""
    from neve.cli.commands import run_doctor

    run_doctor(repair=repair, spark=not no_spark)


@app.command(cls=Command)
def status(
    check: Annotated[
        bool, typer.Option("--check", help="Exit 5 when a table shown is late, unhealthy or unreadable.")
    ] = False,
    late: Annotated[bool, typer.Option("--late", help="Only tables that are late.")] = False,
) -> None:
    """How all tables are: health, lag, small files and due work."""
    from neve.cli.commands import show_status

    show_status(check=check, late=late)


@app.command(cls=Command)
def schedule(
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="At another moment, such as 2026-11-16T12:00Z.")
    ] = (None),
) -> None:
    """What the worker would do now, when the rest is due, and what keeps it waiting. Changes nothing."""
    from neve.cli.worker import show_schedule

    show_schedule(at)


@app.command(cls=Command)
def worker(
    once: Annotated[
        bool, typer.Option("--once", help="Do all that is due now, and end. Exits 1 when some failed.")
    ] = False,
    slots: Annotated[int | None, typer.Option("--slots", min=1, help="Jobs at once; worker.slots by default.")] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--tables", metavar="NAME", help="Only these: names or patterns. May be repeated."),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"], typer.Option("--log-format", help="Lines for people, or JSON, on stderr.")
    ] = "text",
    metrics_file: Annotated[
        Path | None, typer.Option("--metrics-file", metavar="FILE", help="Keep Prometheus metrics in this file.")
    ] = None,
) -> None:
    """Refresh dynamic tables by their target lag, compact periods, load what landed. SIGTERM finishes what runs."""
    from neve.cli.worker import run_worker

    run_worker(once=once, slots=slots, tables=tables or (), log_format=log_format, metrics_file=metrics_file)


@app.command(cls=Command)
def serve(
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; others can reach it only with keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any that is free.")] = 8080,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Do due work too, as `neve worker` does.")
    ] = True,
) -> None:
    """Answer over HTTP, from one warm Spark session. SIGTERM finishes what runs."""
    from neve.cli.serve import run_server

    run_server(host=host, port=port, worker=worker)


@app.command(cls=Command)
def sql(
    text: Annotated[str | None, typer.Argument(metavar="SQL", help="One statement, or several with ; between.")] = None,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="A file of statements.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Let statements change the lake.")] = False,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="WHEN", help="Snapshot id, tag or time.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most so many rows.")] = None,
) -> None:
    """Run SQL on Spark and stream the rows of the last statement."""
    from neve.cli.commands import run_sql

    run_sql(text, file=file, write=write, as_of=as_of, limit=limit)


for _name, _help in {
    "table": "Tables: create, look, change, delete.",
    "namespace": "Namespaces that tables live in.",
    "config": "The settings and where each came from.",
    "parquet": "Plain folders of Parquet files: look, compact, repartition, repair, restore.",
    "dynamic": "Dynamic tables: declared by a query, kept equal to it.",
    "runs": "What was done, when, and how it ended.",
    "key": "Keys of the service: who may ask what.",
}.items():
    app.add_typer(importlib.import_module(f"neve.cli.{_name}").app, name=_name, help=_help)
for _name in ("ingest", "landing", "compact", "changes", "retention", "ranges"):
    importlib.import_module(f"neve.cli.{_name}")
app.command("compact", cls=Command)(importlib.import_module("neve.cli.compact").compact)
for _name in ("expire", "orphans", "manifests", "rewrite-deletes", "stats"):
    app.command(_name, cls=Command)(getattr(importlib.import_module("neve.cli.retention"), _name.replace("-", "_")))
for _name in ("delete", "update", "upsert", "dedupe"):
    app.command(_name, cls=Command)(getattr(importlib.import_module("neve.cli.rows"), _name))


def main() -> None:
    """The console script. What a terminal's encoding lacks is shown by its code, rather than fail after the deed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


@cache
def _tree() -> Any:
    """The commands as Typer builds them, once per process."""
    return typer.main.get_command(app)


def run(words: list[str]) -> int:
    """Runs a command line; the exit code."""
    try:
        result = _tree().main(args=words, prog_name="neve", standalone_mode=False)
    except NeveError as exc:
        _show(exc)
        return exc.exit_code
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        return _INTERRUPTED
    except SystemExit as exc:
        if not isinstance(exc.__context__, BrokenPipeError):
            raise
        return 0  # nobody reads on: Typer leaves so, and has made sure that nothing more is said
    except Exception as exc:  # noqa: BLE001 - the boundary: nothing leaves as a stack trace
        return _show_foreign(exc, words)
    if result == _INTERRUPTED:  # Typer makes of Ctrl-C an exit like any other
        say("interrupted")
    return result if isinstance(result, int) else 0


def _show(error: NeveError) -> None:
    from neve.cli.render import emit_error

    if options.debug:
        traceback.print_exception(error)
    emit_error(error)


def _show_foreign(error: Any, words: list[str]) -> int:
    if hasattr(error, "format_message") and hasattr(error, "show"):
        if _JSON.search("\0".join(words)):  # the line was left before its options were looked at
            options.output = "json"
            _show(InvalidInput(error.format_message(), hint="neve COMMAND --help shows what it takes"))
        else:
            error.show()
        return int(getattr(error, "exit_code", _USAGE))
    if options.debug:
        traceback.print_exception(error)
    say(f"✗ {type(error).__name__}: {error}")
    say("  this should not happen: run it again with --debug and report what it prints")
    return 1
