"""`neve expire`, `orphans`, `manifests`, `rewrite-deletes` and `stats`, also as `neve table …`."""

from __future__ import annotations

from typing import Annotated

import typer

from neve.cli.options import Command, confirm, open_lake
from neve.cli.table import DryRun, Table, Yes, app
from neve.model.units import parse_duration


@app.command("expire", cls=Command)
def expire(
    table: Table,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Keep snapshots younger than this, such as 5d.")
    ] = None,
    retention_hours: Annotated[
        float | None, typer.Option("--retention-hours", metavar="N", min=0, help="The same in hours.")
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option("--keep-last", metavar="N", help="Keep the newest N of each branch, however old.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove snapshots that nobody needs any more, and the files that only they hold. It cannot be undone."""
    from neve.cli.render import emit

    target = open_lake(create=True).table(table)
    asked = {
        "older_than": None if older_than is None else parse_duration(older_than),
        "retention_hours": retention_hours,
        "keep_last": keep_last,
    }
    if not dry_run and target.expiry_keeps_less(**asked) and not yes:  # type: ignore[arg-type]
        plan = target.expire(**asked, dry_run=True)  # type: ignore[arg-type]
        if not plan.expired:
            emit(plan.model_copy(update={"dry_run": False}))
            return
        confirm(
            f"Remove {len(plan.expired):,} snapshots of {plan.table} for ever: less is kept than its policy says.",
            yes=False,
        )
    emit(target.expire(**asked, dry_run=dry_run))  # type: ignore[arg-type]
