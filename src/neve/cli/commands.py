"""The commands at the root: init, doctor, status, sql."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from neve.cli.options import open_lake, open_remote, options, read_text, say
from neve.cli.render import emit, emit_stream
from neve.errors import CheckFailed, InvalidInput, Unsupported
from neve.model.commands import neve
from neve.model.health import STATES, StatusRow
from neve.model.results import LakeRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from neve.client.wire import RemoteRows

SHOWN_ROWS = 100
_NAMED = 5


def init_lake(folder: Path, *, demo: bool) -> None:
    from neve.services.lakes import create_lake

    loaded = create_lake(folder, env=os.environ)
    say(f"✓ lake in {loaded.root}: neve.yaml, catalog.db, .metadata.db, {loaded.settings.warehouse}/")
    options.lake = str(loaded.root)
    if demo:
        emit(open_lake().make_demo(), next_step='neve sql "SELECT region, sum(quantity) FROM sales GROUP BY region"')
        return
    say('Next: neve table create sales --schema "id bigint not null, amount decimal(10,2), at timestamp"')
    if options.output != "table":
        emit(LakeRow(lake=str(loaded.root), warehouse=loaded.warehouse_location))


def run_doctor(*, repair: bool, spark: bool = True) -> None:
    from neve.services.doctor import examine_machine
    from neve.services.lakes import locate_lake

    if spark and locate_lake(Path.cwd(), given=options.lake, env=os.environ) is None:
        rows = examine_machine(env=os.environ, repair=repair)
    else:
        rows = open_lake().doctor(repair=repair, spark=spark)
    emit(rows)
    failed = [row.check for row in rows if row.state == "failed"]
    if failed:
        raise CheckFailed(f"{len(failed)} of {len(rows)} checks failed: {', '.join(failed)}")


def show_status(*, check: bool, late: bool) -> None:
    rows = open_lake().status(late=late)
    emit(rows, empty="no table is late" if late else "no tables yet")
    if rows and options.output == "table":
        say(_tally(rows))
        if (worst := min(rows, key=_urgency)).next_command:
            say(f"Next: {worst.next_command}")
    amiss = [row.table for row in rows if row.amiss]
    if check and amiss:
        named = ", ".join(amiss[:_NAMED]) + (" …" if len(amiss) > _NAMED else "")
        raise CheckFailed(
            f"{len(amiss):,} of {len(rows):,} tables are late or unhealthy: {named}",
            hint=f"see why: {neve('table', 'health', amiss[0])}",
        )


def _urgency(row: StatusRow) -> tuple[bool, bool, int]:
    """Late tables first, then those with the lowest score; those that nothing can be done for last."""
    return row.next_command is None, not row.late, row.score or 0


def _tally(rows: Sequence[StatusRow]) -> str:
    """Such as `1 late, 2 unhealthy, 9 healthy`; each table counts once."""
    counts = Counter("late" if row.late else row.state for row in rows)
    return ", ".join(f"{counts[word]:,} {word}" for word in ("late", *STATES) if counts[word])


def run_sql(text: str | None, *, file: Path | None, write: bool, as_of: str | None, limit: int | None) -> None:
    if (text is None) == (file is None):
        raise InvalidInput("give either SQL text or -f FILE", hint='neve sql "SELECT 1"')
    asked = text or read_text(file) or ""
    if options.server is not None:
        _emit_remote(asked, write=write, as_of=as_of, limit=limit)
        return
    emit_frame(open_lake(create=write).sql(asked, write=write, as_of=as_of), limit=limit)


def _emit_remote(text: str, *, write: bool, as_of: str | None, limit: int | None) -> None:
    from neve.services.operations.asking import is_taken

    if write or (options.found and not is_taken(text)):
        raise Unsupported("a service takes SQL that reads", hint="do it on its machine, and leave --server out")
    emit_rows(lambda most: open_remote().rows(text, as_of=as_of, limit=most), limit=limit)


def emit_rows(ask: Callable[[int | None], RemoteRows], *, limit: int | None) -> None:
    """Rows that a service answers with, of which at most so many are asked for."""
    shown = SHOWN_ROWS if limit is None and options.output == "table" else None
    rows = ask(limit if shown is None else shown + 1)
    first = next(rows, None)
    found = rows if first is None else chain([first], rows)
    emit_stream(rows.columns or [*(first or {})], (list(row.values()) for row in found), shown=shown)
    sys.stdout.flush()


def emit_frame(frame: DataFrame, *, limit: int | None, headline: bool = False) -> None:
    """Streams a query's rows to stdout."""
    from neve.engine.statements import stream

    if not frame.columns:
        say("done")
        return
    shown = SHOWN_ROWS if limit is None and options.output == "table" else None
    rows = stream(frame, limit=limit if shown is None else shown + 1)
    emit_stream(rows.columns, rows.stream, shown=shown, headline=headline)
    sys.stdout.flush()
