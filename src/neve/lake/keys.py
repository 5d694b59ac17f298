"""`lake.keys`: who may use the service."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from neve.model.keys import REQUESTS_PER_MINUTE, Caller, KeyRow, LogRecord, NewKey, Role
from neve.services import keys
from neve.services.context import Context

if TYPE_CHECKING:
    from neve.services.service_log import Log


class Keys:
    def __init__(self, context: Context) -> None:
        self._context = context

    def create(
        self,
        tenant: str | None,
        role: Role,
        *,
        label: str | None = None,
        expires: str | None = None,
        requests_per_minute: int | None = None,
    ) -> NewKey:
        """A key for a tenant, or with None for the whole lake.

        `expires` is a time, or how long from now (`90d`); requests are limited to 6,000 a minute unless given.
        """
        return keys.create_key(
            self._context,
            tenant=tenant,
            role=role,
            label=label,
            expires=expires,
            requests_per_minute=REQUESTS_PER_MINUTE if requests_per_minute is None else requests_per_minute,
        )

    def list(self) -> builtins.list[KeyRow]:
        return keys.list_keys(self._context)

    def revoke(self, key_id: str) -> KeyRow:
        return keys.revoke_key(self._context, key_id)

    def rotate(self, key_id: str, *, grace: str = "24h") -> NewKey:
        """A new key in the place of another, which ends after the grace."""
        return keys.rotate_key(self._context, key_id, grace=grace)

    def exist(self) -> bool:
        """Whether the lake has, or ever had, keys: then nobody is answered without one."""
        return self._context.store.keys.exist()

    def authenticate(self, authorization: str | None) -> Caller:
        """Who sends this `Authorization` header. Raises Unauthorized."""
        return keys.authenticate(self._context, authorization)

    def audit(
        self, *, key_id: str | None = None, tenant: str | None = None, limit: int = 50
    ) -> builtins.list[LogRecord]:
        """Who did what through the service, newest first."""
        return builtins.list(self._context.store.service_log.list(key_id=key_id, tenant=tenant, limit=limit))

    def log(self) -> Log:
        """Where the service writes down who did what."""
        from neve.services.service_log import Log

        return Log(self._context)
