"""The service: HTTP over one open lake. `neve.cli` imports it only to serve."""

from __future__ import annotations

from neve.http.app import create_app
from neve.http.lambdas import lambda_handler

__all__ = ["create_app", "lambda_handler"]
