"""QUERY and EXECUTE_SQL: rows as JSON."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from neve.errors import FileGone, InvalidInput, NeedsWrite, NeveError
from neve.model.changes import WEIGHT
from neve.model.facts import TableFacts
from neve.model.json_values import named_json
from neve.model.names import TableName
from neve.model.operation_answers import QueryAnswer, QueryMetadata
from neve.model.operations import MOST_ROWS, ExecuteSql, Query
from neve.model.types import Field, Primitive
from neve.plan.moments import find_snapshot
from neve.plan.records import typed
from neve.services.context import Context
from neve.services.queries import run_sql
from neve.services.readers import following
from neve.services.row_changes import changes_between
from neve.sql.cleaning.words import VARIABLE
from neve.sql.confining import confine
from neve.sql.joins import Side, joined, joined_columns
from neve.sql.records import RowSql
from neve.sql.statements import Statement, first_word, names_machine, read_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_READS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "EXPLAIN")
"""Not SET, which shows passwords of the catalog and the store, and changes how queries are computed."""

_PURPOSE = "a question to the service"
T = TypeVar("T")
_MORE = f"there are more rows than the {MOST_ROWS:,} that are answered: give limit and offset"
_UNSORTED = "without sort, rows have no order: another page may repeat or miss some"


def query(context: Context, request: Query) -> QueryAnswer:
    """One read of one snapshot, or of what changed between two. Raises TimedOut after `timeout_ms`."""
    facts = context.catalog.facts(request.name)
    warnings = [_UNSORTED] if request.offset and not request.sort else []
    began = time.monotonic()
    with deadline(context, request.timeout_ms):
        if request.explain:
            with _asked(context, facts, request) as frame:
                return _answer([], began, warnings, plan=_explained(frame))
        limit = request.limit or MOST_ROWS + 1
        records = read_whole(
            context, lambda: _asked(context, facts, request), lambda frame: _records(frame, limit=limit)
        )
    if request.limit is None and len(records) > MOST_ROWS:
        records, warnings = records[:MOST_ROWS], [*warnings, _MORE]
    return _answer(records, began, warnings)


def read_whole(
    context: Context, ask: Callable[[], AbstractContextManager[DataFrame]], read: Callable[[DataFrame], T]
) -> T:
    """What `read` makes of all rows of a question, whatever expires meanwhile.

    To tell expiry of every question would cost more than many questions do. So it is told when it has taken a file from
    under one, which is then asked anew: what is current from then on stays until it is answered.
    """
    from neve.engine.statements import snapshots_read

    with suppress(FileGone), ask() as frame:
        return read(frame)
    with ask() as frame:
        tables = snapshots_read(frame)
    with following(context, tables, purpose=_PURPOSE), ask() as frame:
        return read(frame)


def reads_table(context: Context, name: TableName, text: str) -> AbstractContextManager[DataFrame]:
    """A question about a table, by its text."""
    return nullcontext(run_sql(context, text, namespace=name.namespace))


@contextmanager
def _asked(context: Context, facts: TableFacts, request: Query) -> Iterator[DataFrame]:
    """The answer, not read yet."""
    if request.between_times is None:
        as_of = None if request.as_of is None else _snapshot(facts, str(request.as_of))
        text = _joined(context, facts, request) if request.join else _plain(facts, request)
        yield run_sql(context, text, as_of=as_of, namespace=request.name.namespace)
        return
    from neve.engine.records import asked_of
    from neve.engine.session import fresh_session

    since, until = map(str, request.between_times)
    names = [column.name for column in facts.columns]
    with changes_between(context, request.name, since=since, until=until, columns=names) as changes:
        frame = changes.frame(fresh_session(context.session.spark))
        rows = RowSql((*facts.columns, Field(WEIGHT, Primitive("long"))), typed)
        with asked_of(frame, lambda name: rows.select(name, request)) as found:
            yield found


def _plain(facts: TableFacts, request: Query) -> str:
    return RowSql(facts.columns, typed).select(request.name.sql, request)


def _joined(context: Context, facts: TableFacts, request: Query) -> str:
    names = [request.beside(join.table) for join in request.join]
    sides = [Side(name.sql, context.catalog.facts(name).columns) for name in names]
    base, joins = Side(request.name.sql, facts.columns), list(zip(request.join, sides, strict=True))
    rows = RowSql(joined_columns(base, joins), typed)
    return rows.select(joined(base, joins, include_deleted=request.include_deleted), request)


def execute_sql(context: Context, request: ExecuteSql, *, confined: bool = False) -> QueryAnswer:
    """One statement that reads; names without a namespace are those of the request.

    Confined, it is a query, and all that it reads are tables of the request's tenant.
    """
    statement = check_reads(request.sql)
    text = confine(statement.placed, request.place) if confined else request.sql
    within = request.tenant_id if confined else None
    began = time.monotonic()
    with deadline(context, request.timeout_ms):
        records = read_whole(
            context,
            lambda: nullcontext(
                run_sql(context, text, namespace=request.place, parameters=request.params, files=False, within=within)
            ),
            lambda frame: _records(frame, limit=MOST_ROWS + 1),
        )
    more = len(records) > MOST_ROWS
    return _answer(records[:MOST_ROWS], began, [_MORE] if more else [])


def check_reads(sql: str) -> Statement:
    """The one statement of a text, which only looks, and not at the machine.

    Raises:
        InvalidInput: there are several, or one that Spark would put a setting into.
        NeedsWrite: it is none that reads.
    """
    statement = one_statement(sql)
    if first_word(sql) not in _READS:
        raise NeedsWrite(
            f"sql: a statement that begins with {', '.join(_READS)} is taken",
            hint="use WRITE, UPDATE, DELETE, CREATE_TABLE…, or `neve sql` on the machine itself",
        )
    return statement


def is_taken(sql: str) -> bool:
    """Whether a service runs this for a reader: one statement that looks, and not at the machine."""
    try:
        check_reads(sql)
    except NeveError:
        return False
    return not names_machine(sql)


def one_statement(sql: str) -> Statement:
    """Raises InvalidInput for several, and for one that Spark would put a setting into."""
    statements = read_script(sql)
    if len(statements) != 1:
        raise InvalidInput("sql: one statement is taken at a time")
    if VARIABLE in sql:
        raise InvalidInput(
            f"sql: Spark would replace what follows {VARIABLE} by a setting of this machine", hint="give params"
        )
    return statements[0]


def _snapshot(facts: TableFacts, moment: str) -> str:
    """The snapshot that a time, a tag or an id means, by its id: what is read does not move meanwhile."""
    return str(find_snapshot(facts, moment).id)


def deadline(context: Context, milliseconds: int | None) -> Any:
    from neve.engine.deadlines import within

    return within(context.session.spark, None if milliseconds is None else milliseconds / 1000)


def _records(frame: DataFrame, *, limit: int) -> list[dict[str, Any]]:
    from neve.engine.statements import stream

    rows = stream(frame, limit=limit)
    return [named_json(rows.columns, row) for row in rows.stream]


def _explained(frame: DataFrame) -> str:
    from neve.engine.statements import explained

    return explained(frame)


def _answer(
    records: list[dict[str, Any]], began: float, warnings: list[str], *, plan: str | None = None
) -> QueryAnswer:
    metadata = QueryMetadata(
        row_count=len(records),
        execution_time_ms=round((time.monotonic() - began) * 1000, 2),
        query_id=uuid.uuid4().hex,
        warnings=warnings,
    )
    return QueryAnswer(records=records, query_metadata=metadata, plan=plan)
