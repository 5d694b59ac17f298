"""Options that every command takes, before or after its name, and the lake they lead to."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer.core import TyperCommand, TyperGroup

from neve.errors import InvalidInput, NeedsConfirmation, Refused, Unsupported

if TYPE_CHECKING:
    from neve.client import Client
    from neve.lake import Lake

Output = Literal["table", "json", "jsonl", "csv"]
OUTPUTS = ("table", "json", "jsonl", "csv")
KEY = "NEVE_KEY"
_GROUPS = {
    "": "status schedule sql compact",
    "namespace": "create list drop",
    "table": "create list show status health history files partitions properties set unset rename delete undelete trash"
    " online offline tag rollback compact get split",
    "dynamic": "create validate list show alter suspend resume refresh explain history graph drop",
    "runs": "list show cancel",
}
REMOTE = frozenset(f"{group} {name}".strip() for group, names in _GROUPS.items() for name in names.split())
"""The commands that a service does as well, with the same answer."""


@dataclass
class Options:
    """What the common options say; one per process."""

    lake: str | None = None
    profile: str | None = None
    output: Output = "table"
    debug: bool = False
    no_color: bool = False
    server: str | None = None

    @property
    def color(self) -> bool:
        return not self.no_color and not os.environ.get("NO_COLOR") and sys.stdout.isatty()


options = Options()


def say(text: str) -> None:
    """Talk goes to stderr; stdout is for data."""
    print(text, file=sys.stderr)  # noqa: T201


def tell(text: str) -> None:
    """Progress, for a person who reads at a terminal: a line that the next one replaces."""
    if sys.stderr.isatty() and options.output == "table":
        print(f"\r\033[K{text}", file=sys.stderr, end="\n" if text[-1] != "…" else "", flush=True)  # noqa: T201


def open_lake(*, create: bool = False) -> Lake:
    """The lake that the options, the environment or the working directory name; `create` makes one here if none is.

    With --server, the same behind a service: `Command` lets only those through that one can do.
    """
    if options.server is not None:
        return cast("Lake", open_remote())
    from neve.lake import Lake
    from neve.services.lakes import create_lake, locate_lake

    here = Path.cwd()
    if create and locate_lake(here, given=options.lake, env=os.environ) is None:
        create_lake(here, env=os.environ)
        say(f"made a lake here: {here}")
    return Lake(options.lake, profile=options.profile, tell=tell)


def open_remote() -> Client:
    """The service that --server names."""
    from neve.client import Client

    return Client(options.server or "", os.environ.get(KEY))


def confirm(question: str, *, yes: bool) -> None:
    """Goes on only when a person says so, now or by --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise NeedsConfirmation(question, hint="add --yes to go on without a question")
    if not typer.confirm(f"{question} Proceed?", err=True):
        raise Refused("nothing was changed")


def read_text(path: Path | None) -> str | None:
    """A file's text; None for no file."""
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidInput(f"cannot read {path}: {exc}") from exc


def pairs(words: list[str]) -> dict[str, str]:
    """`key=value` words as a mapping."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InvalidInput(f"not key=value: {word!r}")
        if key.strip() in found:
            raise InvalidInput(f"{key.strip()} is given twice")
        found[key.strip()] = value
    return found


def _remember(_: object, parameter: Any, value: Any) -> Any:
    """Keeps what a common option says, wherever on the line it stands."""
    if value not in (None, False):
        if parameter.name == "output" and value not in OUTPUTS:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(OUTPUTS)}")
        setattr(options, parameter.name, value)
    return value


def _declare(
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FORMAT", help="table, json, jsonl or csv.", callback=_remember),
    ] = None,
    lake: Annotated[
        str | None,
        typer.Option("--lake", metavar="DIR", help="The lake's folder; else the nearest upwards.", callback=_remember),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="Ask a `neve serve`; NEVE_KEY is the key.", callback=_remember),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="dev, staging or prod.", callback=_remember)
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours.", callback=_remember)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.", callback=_remember)] = False,
) -> None:
    """The common options, declared once; `Command` and `Group` add them to every command."""


@cache
def _common() -> list[Any]:
    declared = typer.Typer(add_completion=False)
    declared.command()(_declare)
    parameters = typer.main.get_command(declared).params
    for parameter in parameters:
        parameter.expose_value = False
    return parameters


class Command(TyperCommand):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, *_common()]

    def invoke(self, ctx: Any) -> Any:
        command = ctx.command_path.partition(" ")[2]
        if options.server is not None and command not in REMOTE:
            raise Unsupported(
                f"neve {command} is not done by a service", hint="do it on its machine, and leave --server out"
            )
        if options.server is not None and (options.lake or options.profile):
            raise InvalidInput("--server is a lake elsewhere: leave out --lake and --profile")
        return super().invoke(ctx)


class Group(TyperGroup):
    """Options may come before the command's name too; an unknown command names the nearest one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, *_common()]


def group(text: str) -> typer.Typer:
    """A Typer app whose help is plain and whose commands take the common options."""
    return typer.Typer(help=text, cls=Group, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
