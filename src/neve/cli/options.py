"""Options that every command takes, before or after its name, and the lake they lead to."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer.core import TyperCommand, TyperGroup

from neve import __version__
from neve.errors import InvalidInput, NeedsConfirmation, Refused, Unsupported
from neve.model.environment import ENV_KEY, ENV_SERVER

if TYPE_CHECKING:
    from neve.client import Client
    from neve.lake import Lake

Output = Literal["table", "json", "jsonl", "csv"]
OUTPUTS = ("table", "json", "jsonl", "csv")
OFF = "off"
_QUOTED = re.compile(r"\s*`(?P<column>(?:[^`]|``)+)`\s*=(?P<value>.*)", re.DOTALL)
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

WARM = frozenset(
    ("sql", "compact", "table compact", "table get", "dynamic create", "dynamic validate", "dynamic refresh")
)
"""Those of them that need Spark: a service that runs for the lake has it warm, and is asked without --server too."""


@dataclass
class Options:
    """What the common options say; one per process."""

    lake: str | None = None
    profile: str | None = None
    output: Output = "table"
    debug: bool = False
    no_color: bool = False
    server: str | None = None
    found: bool = False
    """Whether `server` was not given, but found in the lake."""

    @property
    def color(self) -> bool:
        return not self.no_color and not os.environ.get("NO_COLOR") and sys.stdout.isatty()


options = Options()


def say(text: str) -> None:
    """Talk goes to stderr; stdout is for data."""
    print(text, file=sys.stderr)  # noqa: T201


def warn(text: str) -> None:
    """What a person should know, whether or not progress is shown."""
    say(f"! {text}")


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
    return Lake(options.lake, profile=options.profile, tell=tell, speak=warn)


def open_remote() -> Client:
    """The service that --server names, or that was found."""
    from neve.client import Client

    return Client(options.server or "", os.environ.get(ENV_KEY))


def _leave_server() -> None:
    """What a service that was found does not do is done here."""
    options.server, options.found = None, False


def _find_server(words: Mapping[str, Any]) -> None:
    """The service that runs for the lake, for a command with these words.

    What is given with this call alone keeps the work here: settings, and tables by their files.
    """
    from neve.config.given import read_env
    from neve.model.service import ServiceAddress
    from neve.services.lakes import locate_lake

    root = locate_lake(Path.cwd(), given=options.lake, env=os.environ)
    if root is None or not ServiceAddress.file(root).is_file() or options.profile or read_env(os.environ):
        return
    from neve.client.finding import find_service
    from neve.services.specs import is_table_file

    if not any(is_table_file(word) for word in words.values() if isinstance(word, str)):
        options.server = find_service(root, os.environ.get(ENV_KEY), version=__version__)
        options.found = options.server is not None


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


def assignments(words: list[str]) -> dict[str, str]:
    """`column=text` words as a mapping. A column may stand in backticks, as in SQL.

    >>> assignments(["a = b", "`c=``d`=1"])
    {'a': ' b', 'c=`d': '1'}
    """
    quoted = [_QUOTED.fullmatch(word) for word in words]
    found = pairs([word for word, match in zip(words, quoted, strict=True) if match is None])
    for match in filter(None, quoted):
        if (column := match["column"].replace("``", "`")) in found:
            raise InvalidInput(f"{column} is given twice")
        found[column] = match["value"]
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
        typer.Option(
            "--server",
            metavar="URL|off",
            envvar=ENV_SERVER,
            show_envvar=False,
            help="Ask this `neve serve`, with NEVE_KEY; off asks none, not even the one of this lake.",
            callback=_remember,
        ),
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
        if options.server == OFF:
            _leave_server()
            return super().invoke(ctx)
        if options.server is None:
            return self._invoke_near(ctx, command)
        if command not in REMOTE:
            raise Unsupported(
                f"neve {command} is not done by a service", hint="do it on its machine, and leave --server out"
            )
        if options.lake or options.profile:
            raise InvalidInput("--server is a lake elsewhere: leave out --lake and --profile")
        return super().invoke(ctx)

    def _invoke_near(self, ctx: Any, command: str) -> Any:
        """In the lake here; by its service if one runs that can do this."""
        if command in WARM:
            _find_server(ctx.params)
        try:
            return super().invoke(ctx)
        except Unsupported:
            if not options.found:
                raise
        _leave_server()
        return super().invoke(ctx)


class Group(TyperGroup):
    """Options may come before the command's name too; an unknown command names the nearest one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, *_common()]


def group(text: str) -> typer.Typer:
    """A Typer app whose help is plain and whose commands take the common options."""
    return typer.Typer(help=text, cls=Group, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
