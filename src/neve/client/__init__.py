"""A service elsewhere: `Client(url, key)` answers as `Lake` does, and starts no JVM."""

from __future__ import annotations

from neve.client.client import Client

__all__ = ["Client"]
