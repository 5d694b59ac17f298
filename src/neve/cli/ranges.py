"""`neve table export-splits` and the other commands for key ranges."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from neve.cli.options import Command, open_lake, open_remote, options
from neve.cli.table import Base64, DryRun, Table, app
from neve.errors import InvalidInput


class _Pairs(Command):
    """Takes two values each time `--range` is given: Typer knows no option that does, so both become one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words, joined = list(args), []
        options = {option for parameter in self.params for option in parameter.opts}
        while words:
            joined.append(word := words.pop(0))
            if word == "--range" and len(words) > 1:
                pair = [words.pop(0), words.pop(0)]
                if found := options.intersection(bound.partition("=")[0] for bound in pair):
                    raise InvalidInput(f"--range takes two values, and {min(found)} is an option", hint=_TWO)
                joined.append(json.dumps(pair))
        return super().parse_args(ctx, joined)


_TWO = "write --range LOW HIGH; '' has no end"


def _pair(text: str) -> tuple[str, str]:
    try:
        low, high = json.loads(text)
    except (ValueError, TypeError) as exc:  # one value, which may be a number
        raise InvalidInput("--range takes two values", hint=_TWO) from exc
    return low, high


@app.command("get", cls=_Pairs)
def get(
    table: Table,
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="KEY", help="A row key; commas between several. May be repeated."),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="LOW HIGH", help="From LOW to below HIGH; '' has no end. May be repeated."),
    ] = None,
    exclude_low: Annotated[bool, typer.Option("--exclude-low", help="Ranges begin after LOW.")] = False,
    include_high: Annotated[bool, typer.Option("--include-high", help="Ranges hold HIGH too.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say which ranges and files would be read; no Spark.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most so many rows.")] = None,
) -> None:
    """Rows by their row keys, in key order; only files that may hold them are read."""
    from neve.cli.commands import emit_frame, emit_rows
    from neve.cli.render import emit
    from neve.model.rest import KeyWords
    from neve.services.ranges.reading import asked_in_words

    pairs = [_pair(text) for text in ranges or ()]
    if (exclude_low or include_high) and not pairs:
        raise InvalidInput("--exclude-low and --include-high are for --range", hint="give one, or leave them out")
    words = KeyWords(keys=[*(keys or ())], ranges=[*pairs], exclude_low=exclude_low, include_high=include_high)
    if options.server is not None:
        there = open_remote().table(table)
        if explain:
            emit(there.explain_read(words))
        else:
            emit_rows(lambda most: there.read(words, limit=most), limit=limit)
        return
    target, asked = open_lake().table(table), asked_in_words(words)
    if explain:
        emit(target.explain_read(asked))
    else:
        emit_frame(target.read(asked), limit=limit)


@app.command("split", cls=Command)
def split(
    table: Table,
    range_id: Annotated[
        int | None, typer.Option("--range", metavar="ID", help="This range, however few rows it has.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="KEY", help="With --range: where; else at the median.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Divide the key ranges that have `ranges.split-threshold` rows or more, and move their rows."""
    from neve.cli.render import emit

    emit(open_lake().table(table).split(range_id, at=at, dry_run=dry_run))


@app.command("estimate-splits", cls=Command)
def estimate_splits(
    sources: Annotated[list[str], typer.Argument(metavar="SAMPLE…", help="Files, folders, patterns.")],
    key: Annotated[str, typer.Option("--key", metavar="COLUMN", help="The column that is the first row key.")],
    leaves: Annotated[int, typer.Option("--leaves", metavar="N", min=1, help="How many ranges there should be.")],
    type: Annotated[str, typer.Option("--type", help="int, bigint, string or binary.")] = "string",  # noqa: A002
    base64: Base64 = False,
) -> None:
    """Print split points that divide the keys of some files evenly, as `--split-points` reads them."""
    lake = open_lake()
    typer.echo(lake.tables.estimate_splits(*sources, key=key, leaves=leaves, type=type, base64=base64), nl=False)


@app.command("export-splits", cls=Command)
def export_splits(table: Table, base64: Base64 = False) -> None:
    """Print the split points of a key-range table, as `--split-points` reads them."""
    text = open_lake().table(table).export_splits(base64=base64)
    typer.echo(text, nl=False)


@app.command("export-partitions", cls=Command)
def export_partitions(table: Table) -> None:
    """Print the key ranges as JSON lines, ids and all, as `reinitialise --partitions` reads them."""
    for line in open_lake().table(table).export_partitions():
        typer.echo(line.model_dump_json())
