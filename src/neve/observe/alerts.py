"""Sending an alert: as JSON to a webhook, and to the standard input of a command."""

from __future__ import annotations

import json
import shlex
import subprocess
import urllib.request
from collections.abc import Mapping

from pydantic import JsonValue

TIMEOUT = 10.0
"""Seconds that a receiver has."""


def post(
    url: str, told: Mapping[str, JsonValue], *, headers: Mapping[str, str] | None = None, timeout: float = TIMEOUT
) -> None:
    """Raises OSError or ValueError when it was not taken."""
    body = json.dumps(told, ensure_ascii=False).encode()
    words = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data=body, headers=words)  # noqa: S310
    with urllib.request.urlopen(request, timeout=timeout):  # noqa: S310 - settings allow http and https alone
        pass


def call(command: str, alert: Mapping[str, JsonValue]) -> None:
    """Runs a command, without a shell, with the alert on its standard input; raises when it did not end well."""
    body = json.dumps(alert, ensure_ascii=False) + "\n"
    subprocess.run(shlex.split(command), input=body, text=True, timeout=TIMEOUT, check=True, stdout=subprocess.DEVNULL)
