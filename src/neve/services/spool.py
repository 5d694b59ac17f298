"""Folders of the lake where files lie for a while; what nobody wants any more goes by its age."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from neve.services.context import Context

_UPLOADS = "uploads"
_LONGEST = timedelta(days=1)


def spool(context: Context, name: str, *, kept: timedelta) -> Path:
    """The folder, made if it was not there, without what is older than it is kept."""
    folder, now = context.loaded.root / ".neve" / name, context.clock()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for found in folder.iterdir():
        try:
            if now - datetime.fromtimestamp(found.stat().st_mtime, UTC) > kept:
                shutil.rmtree(found) if found.is_dir() else found.unlink()
        except FileNotFoundError:
            continue  # its run, or a rival, has removed it
    return folder


def uploads(context: Context) -> Path:
    """Where files that are sent lie until they are loaded."""
    return spool(context, _UPLOADS, kept=_LONGEST)
