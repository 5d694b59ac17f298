"""Commands that Névé tells a person to type: quoted so that a shell passes every name on unchanged."""

from __future__ import annotations

import shlex


def neve(*words: str) -> str:
    """A `neve` command line.

    >>> neve("table", "undelete", "default.`a b`")
    "neve table undelete 'default.`a b`'"
    """
    return shlex.join(("neve", *words))
