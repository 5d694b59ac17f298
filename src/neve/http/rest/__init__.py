"""`/api/v1`: the product as REST over `neve.lake`. Bodies are those of the command line's `-o json`."""

from __future__ import annotations

from neve.http.rest.adding import add_rest

__all__ = ["add_rest"]
