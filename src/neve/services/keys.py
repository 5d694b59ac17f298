"""Keys of the service: made, listed, revoked, replaced; and who asks, by the key that they bring."""

from __future__ import annotations

import hmac
from datetime import datetime

from neve.errors import Conflict, InvalidInput, NotFound, Unauthorized
from neve.model.keys import KEYLESS, Caller, KeyRecord, KeyRow, NewKey, Role, digest_of, key_id_of, make_key
from neve.model.names import CATALOG, check_part
from neve.model.units import parse_duration
from neve.plan.moments import parse_time
from neve.services.context import Context

_NOBODY = digest_of("")
_SCHEME = "bearer"
_HOW = "send the header Authorization: Bearer KEY; `neve key create` makes one"


def create_key(
    context: Context,
    *,
    tenant: str | None,
    role: Role,
    label: str | None = None,
    expires: str | None = None,
    requests_per_minute: int,
) -> NewKey:
    """A new key; this is the only time that it is seen."""
    if requests_per_minute < 1:
        raise InvalidInput("a key that may ask less than once a minute is of no use", hint="give 1 or more")
    now = context.clock()
    record, key = _made(
        context,
        tenant=None if tenant is None else check_tenant(tenant),
        role=role,
        label=label,
        requests_per_minute=requests_per_minute,
        created_at=now,
        expires_at=None if expires is None else _end(expires, now),
    )
    return _new(record, key, now)


def check_tenant(name: str) -> str:
    """The name itself, or the reason why no tenant can have it."""
    if name == CATALOG or "${" in name:
        raise InvalidInput(f"no tenant can be called {name}", hint="use letters, digits, _ or -")
    return check_part(name, what="tenant")


def list_keys(context: Context) -> list[KeyRow]:
    now = context.clock()
    return [_row(record, now) for record in context.store.keys.list()]


def revoke_key(context: Context, key_id: str) -> KeyRow:
    """From the next request on it is worth nothing. Revoking twice is no error."""
    found = _found(context, key_id)
    now = context.clock()
    context.store.keys.revoke(found.key_id, now)
    return _row(_found(context, key_id), now)


def rotate_key(context: Context, key_id: str, *, grace: str) -> NewKey:
    """A new key that may do the same; the old one ends after the grace, in which its users take the new one."""
    old = _found(context, key_id)
    now = context.clock()
    if old.state(now) != "active":
        raise Conflict(f"the key {key_id} is {old.state(now)} already", hint="make a new one: neve key create")
    end = now + parse_duration(grace)
    with context.store.transaction():
        record, key = _made(
            context,
            tenant=old.tenant,
            role=old.role,
            label=old.label,
            requests_per_minute=old.requests_per_minute,
            created_at=now,
            expires_at=None if old.expires_at is None else now + (old.expires_at - old.created_at),
        )
        context.store.keys.expire(old.key_id, end)
    return _new(record, key, now)


def authenticate(context: Context, header: str | None) -> Caller:
    """Who sends this `Authorization` header. Without one, only where the lake never had keys.

    Raises:
        Unauthorized: no key, or none that is worth anything.
    """
    if header is None:
        if context.store.keys.exist():
            raise Unauthorized("this service wants a key", hint=_HOW)
        return KEYLESS
    scheme, _, given = header.partition(" ")
    key_id = key_id_of(given.strip()) if scheme.lower() == _SCHEME else None
    record = None if key_id is None else context.store.keys.get(key_id)
    # A key that is not there is compared too: how long an answer takes tells nothing.
    is_same = hmac.compare_digest(digest_of(given.strip()), _NOBODY if record is None else record.digest)
    if record is None or not is_same:
        raise Unauthorized("this key is not known here", hint=_HOW)
    if (state := record.state(context.clock())) != "active":
        raise Unauthorized(f"the key {record.key_id} is {state}", hint="ask whoever gave it to you for a new one")
    return Caller(record.key_id, record.tenant, record.role, record.requests_per_minute)


def _made(context: Context, **words: object) -> tuple[KeyRecord, str]:
    key_id, key = make_key(context.entropy)
    record = KeyRecord.model_validate({"key_id": key_id, "digest": digest_of(key), **words})
    context.store.keys.add(record)
    return record, key


def _found(context: Context, key_id: str) -> KeyRecord:
    if (record := context.store.keys.get(key_id)) is None:
        raise NotFound(f"there is no key {key_id}", hint="neve key list shows them")
    return record


def _end(text: str, now: datetime) -> datetime:
    """A moment, or how long from now."""
    moment = parse_time(text)
    end = now + parse_duration(text) if moment is None else moment
    if end <= now:
        raise InvalidInput(f"{text} is over already", hint="give a time to come, such as 90d or 2027-01-01T00:00Z")
    return end


def _row(record: KeyRecord, now: datetime) -> KeyRow:
    return KeyRow.model_validate(_shown(record, now))


def _new(record: KeyRecord, key: str, now: datetime) -> NewKey:
    return NewKey.model_validate({**_shown(record, now), "key": key})


def _shown(record: KeyRecord, now: datetime) -> dict[str, object]:
    return record.model_dump(exclude={"digest"}) | {"state": record.state(now)}
