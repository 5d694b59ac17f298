"""Schemathesis against a live service: what our OpenAPI allows is asked, and answers must be as it says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def search(port: int, folder: Path, *words: str, without: Sequence[str] = ()) -> str:
    """Everything that it found wrong; empty when that is nothing. Tables are called `t` more often than by chance."""
    config = folder / "schemathesis.toml"
    config.write_text('[parameters]\n"path.table" = "t"\n')
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        *("--config-file", str(config), "run", f"http://127.0.0.1:{port}/openapi.json"),
        *("--checks", CHECKS, "--generation-deterministic", "--no-color", "--request-timeout", "120", *words),
        *(word for path in without for word in ("--exclude-path", path)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=1500, check=False)
    return "" if done.returncode == 0 else f"{done.stdout}\n{done.stderr}"
