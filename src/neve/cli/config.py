"""`neve config …`"""

from __future__ import annotations

from neve.cli.options import Command, group, open_lake

app = group("The settings and where each came from.")


@app.callback()
def config() -> None:
    """The settings and where each came from."""


@app.command("show", cls=Command)
def show() -> None:
    """Every setting, its value and its source. Secrets are never shown."""
    from neve.cli.render import emit
    from neve.config import render_settings

    emit(render_settings(open_lake().loaded_settings))
