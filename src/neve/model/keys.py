"""Keys of the service: who asks, for which tenant, and how much they may.

A key is `neve_<id>_<secret>`. The id is no secret: it names the key in lists and logs. What is kept of the rest is
a digest, and 256 random bits need no slower one than SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import AwareDatetime

from neve.model.results import Answer
from neve.model.runs import CROCKFORD, Record

Role = Literal["reader", "writer", "admin"]
ROLES: tuple[Role, ...] = ("reader", "writer", "admin")
"""Each may do what those before it may."""

KeyState = Literal["active", "expired", "revoked"]
REQUESTS_PER_MINUTE = 6000
_ID_LENGTH = 10
_SECRET_BYTES = 32
_KEY = re.compile(rf"neve_([{CROCKFORD.lower()}]{{{_ID_LENGTH}}})_[A-Za-z0-9_-]{{43}}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Without a tenant, all of the lake is meant; without a key, whoever is on this machine."""

    key_id: str | None
    tenant: str | None
    role: Role
    requests_per_minute: int = REQUESTS_PER_MINUTE

    def may(self, role: Role) -> bool:
        """Whether this role's work is within theirs.

        >>> Caller("k", "acme", "writer").may("reader"), Caller("k", "acme", "writer").may("admin")
        (True, False)
        """
        return ROLES.index(role) <= ROLES.index(self.role)


KEYLESS = Caller(None, None, "admin")
"""Whoever is on the machine itself, as long as the lake has no keys."""


class KeyRecord(Record):
    """A key as it is kept: `digest` stands for the key itself, which is nowhere."""

    key_id: str
    digest: str
    tenant: str | None = None
    role: Role
    label: str | None = None
    requests_per_minute: int
    created_at: AwareDatetime
    expires_at: AwareDatetime | None = None
    revoked_at: AwareDatetime | None = None

    def state(self, now: AwareDatetime) -> KeyState:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"


class KeyRow(Answer):
    """A key in a list. A `tenant` of None is a key for the whole lake."""

    key_id: str
    tenant: str | None
    role: Role
    state: KeyState
    label: str | None
    requests_per_minute: int
    created_at: AwareDatetime
    expires_at: AwareDatetime | None
    revoked_at: AwareDatetime | None


class NewKey(KeyRow):
    """A key that was just made; `key` is shown this once."""

    key: str


class LogRecord(Record):
    """Who did what through the service, and how it was answered."""

    id: int | None = None
    at: AwareDatetime
    key_id: str
    tenant: str | None
    role: Role
    action: str
    target: str | None
    status: int
    code: str | None
    request_id: str
    address: str
    duration_ms: int


def make_key(entropy: Callable[[int], bytes]) -> tuple[str, str]:
    """A new key: its id, and the whole of it.

    >>> make_key(bytes)
    ('0000000000', 'neve_0000000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA')
    """
    letters = CROCKFORD.lower()
    key_id = "".join(letters[byte & 31] for byte in entropy(_ID_LENGTH))
    secret = base64.urlsafe_b64encode(entropy(_SECRET_BYTES)).decode().rstrip("=")
    return key_id, f"neve_{key_id}_{secret}"


def key_id_of(key: str) -> str | None:
    """The id in a key; None for what is no key.

    >>> key_id_of("neve_0123456789_" + "A" * 43), key_id_of("neve_0123456789_A")
    ('0123456789', None)
    """
    match = _KEY.match(key)
    return None if match is None else match[1]


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
