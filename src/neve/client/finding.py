"""The service that runs on this machine for a lake, if one does and lets us in."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from neve.client.wire import Wire
from neve.errors import NeveError
from neve.model.service import ServiceAddress, ServiceIdentity

_NEAR = ("http://127.0.0.1:", "http://localhost:", "http://[::1]:")
_PATIENCE = 1.0


def find_service(root: Path, key: str | None, *, version: str) -> str | None:
    """The address of a service for the lake of this folder, of this version of Névé, that answers at once."""
    try:
        url = ServiceAddress.model_validate_json(ServiceAddress.file(root).read_bytes()).url
        if not url.startswith(_NEAR):
            return None
        found = ServiceIdentity.model_validate(Wire(url, key, patience=_PATIENCE).ask("GET", "/service"))
    except (OSError, ValidationError, ValueError, NeveError):
        return None
    return url if (found.lake, found.version) == (str(root), version) else None
