"""`neve key …`"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from neve.cli.options import Command, group, open_lake
from neve.errors import InvalidInput

app = group("Keys of the service: who may ask what.")
_SEND = "send it as the header Authorization: Bearer KEY; it is not shown again"
Key = Annotated[str, typer.Argument(metavar="KEY_ID", help="The id of a key, as `neve key list` shows it.")]


@app.command("create", cls=Command)
def create(
    role: Annotated[
        Literal["reader", "writer", "admin"],
        typer.Option("--role", help="reader asks; writer changes rows too; admin drops tables too."),
    ],
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Whose tables it is for.")] = None,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="For the whole lake, as its operator.")] = False,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="WHEN", help="90d, or 2027-01-01T00:00Z; never unless given.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="What it is for, for people.")] = None,
    rate: Annotated[
        int | None, typer.Option("--rate", metavar="N", min=1, help="Requests a minute, at most; 6,000 unless given.")
    ] = None,
) -> None:
    """Make a key. It is shown this once; the lake keeps a digest of it."""
    from neve.cli.render import emit

    if (tenant is None) != all_tenants:
        raise InvalidInput("name a tenant, or give --all-tenants", hint="neve key create --tenant acme --role reader")
    made = open_lake(create=True).keys.create(tenant, role, label=label, expires=expires, requests_per_minute=rate)
    emit(made, next_step=_SEND)


@app.command("list", cls=Command)
def list_() -> None:
    """Every key, with its state; never the key itself."""
    from neve.cli.render import emit

    emit(open_lake().keys.list(), empty="no keys: the service answers this machine alone")


@app.command("revoke", cls=Command)
def revoke(key_id: Key) -> None:
    """Make a key worthless, from the next request on."""
    from neve.cli.render import emit

    emit(open_lake().keys.revoke(key_id))


@app.command("rotate", cls=Command)
def rotate(
    key_id: Key,
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="How long the old key is still good; 0 ends it now.")
    ] = "24h",
) -> None:
    """Make a key that may do the same, and let the old one end."""
    from neve.cli.render import emit

    made = open_lake().keys.rotate(key_id, grace=grace)
    emit(made, next_step=_SEND)


@app.command("audit", cls=Command)
def audit(
    key_id: Annotated[str | None, typer.Option("--key", metavar="KEY_ID", help="Only of this key.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Only of this tenant's keys.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
) -> None:
    """Who did what through the service, newest first."""
    from neve.cli.render import emit

    found = open_lake().keys.audit(key_id=key_id, tenant=tenant, limit=limit)
    emit(found, empty="nobody has used a key yet")
