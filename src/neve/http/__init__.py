"""The service: HTTP over one open lake. `neve.cli` imports it only to serve."""

from __future__ import annotations

from neve.http.app import create_app

__all__ = ["create_app"]
