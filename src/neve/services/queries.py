"""SQL over the lake: reads as they are, writes only when asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from neve.errors import InvalidInput, InvalidName, InvalidQuery, NeedsWrite, NeveError, TableNotFound, Unsupported
from neve.model.ingest import is_hidden
from neve.model.merging import MERGED
from neve.model.names import CATALOG, DEFAULT_NAMESPACE, Namespace, TableName, quote, split_name
from neve.plan.moments import parse_time
from neve.plan.ranges import keys_of
from neve.plan.tables import refuse_dynamic, refuse_with_dependants
from neve.services.context import Context
from neve.services.directory_tables.tables import find
from neve.services.look import dependants_of
from neve.services.readers import hold
from neve.services.registry import is_directory
from neve.services.runs import recorded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.engine.statements import Parameters
    from neve.sql.statements import Moment, Statement

_TRAVELS = re.compile(r"\bAS\s+OF\b", re.IGNORECASE)
"""What may read an older snapshot: expiry has to hear of it."""


def run_sql(
    context: Context,
    text: str,
    *,
    write: bool = False,
    as_of: str | None = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    parameters: Parameters = (),
    files: bool = True,
    within: str | None = None,
) -> DataFrame:
    """Runs a script; the result of its last statement. The whole script is refused before any of it runs.

    `parameters` are values for `?` in their order, or for `:name`; without `files`, a path is no table and no Java is
    called; `within` is the tenant whose tables alone may be read.

    Raises:
        Forbidden: a statement would read other tables than those of `within`.
        NeedsWrite: a statement would change something and `write` is false.
        InvalidQuery: a statement cannot be parsed.
    """
    from neve.sql.statements import read_script

    statements = read_script(text)
    if not statements:
        raise InvalidInput("there is no SQL to run", hint='write it in quotes: neve sql "SELECT 1"')
    from neve.sql.dynamic import is_dynamic

    if any(is_dynamic(statement.text) for statement in statements):
        return _run_dynamic(context, statements, write=write)
    from neve.engine.session import fresh_session
    from neve.engine.statements import close_off, use_namespace, writes

    spark = fresh_session(context.session.spark)
    if not files:
        close_off(spark)
    writing = [statement for statement in statements if writes(spark, statement.placed)]
    if writing and not write:
        raise NeedsWrite(f"this would change the lake: {_short(writing[0].text)}", hint="add --write to let it")
    if writing and as_of is not None:
        raise InvalidInput("a statement that writes cannot be run as of an earlier time")
    for statement in writing:
        refuse_dynamic_targets(context, spark, statement.placed, namespace)
        _refuse_removal(context, spark, statement.placed, namespace)
    texts = [statement.placed if as_of is None else _placed_as_of(statement, as_of) for statement in statements]
    use_namespace(spark, namespace)
    try:
        frames = [
            _run(context, spark, statement, text, writes=statement in writing, parameters=parameters)
            for statement, text in zip(statements, texts, strict=True)
        ]
    except TableNotFound as exc:
        raise _with_nearest(context, exc, spark) from exc
    if within is not None:
        from neve.engine.confinement import check_within

        check_within(frames[-1], within)
    if statements[-1] in writing:
        return frames[-1]
    if _TRAVELS.search(texts[-1]):
        from neve.engine.statements import snapshots_read

        hold(context, {name: read for name, read in snapshots_read(frames[-1]).items() if context.catalog.exists(name)})
    return _without_hidden(frames[-1], text)


def _run_dynamic(context: Context, statements: Sequence[Statement], *, write: bool) -> DataFrame:
    """Statements about dynamic tables: what they answer, as rows of JSON beside the table's name."""
    from neve.services.dynamic.statements import carry_out, changes_something
    from neve.sql.dynamic import is_dynamic, parse_dynamic

    if other := [statement for statement in statements if not is_dynamic(statement.text)]:
        raise InvalidQuery(
            f"line {other[0].line}, column {other[0].column}: {_short(other[0].text)} stands among statements about "
            "dynamic tables",
            hint="run it by itself; or has a ; ended a query too early?",
        )
    asked = [parse_dynamic(statement.placed) for statement in statements]
    changing = [statement.text for statement, each in zip(statements, asked, strict=True) if changes_something(each)]
    if changing and not write:
        raise NeedsWrite(f"this would change the lake: {_short(changing[0])}", hint="add --write to let it")
    answers = [answer for statement in asked for answer in carry_out(context, statement)]
    rows = [(getattr(answer, "table", ""), answer.model_dump_json()) for answer in answers]
    return context.session.spark.createDataFrame(rows, "table string, answer string")


def _without_hidden(frame: DataFrame, text: str) -> DataFrame:
    """`SELECT *` shows what a table is about: columns of Névé's own are there when the query names them."""
    asked = text.casefold()
    hidden = [name for name in frame.columns if is_hidden(name) and name.casefold() not in asked]
    return frame.drop(*hidden) if len(hidden) < len(frame.columns) else frame


def _placed_as_of(statement: Statement, moment: str) -> str:
    from neve.sql.statements import as_of

    return as_of(statement.placed, _moment(moment))


def _run(
    context: Context, spark: SparkSession, statement: Statement, text: str, *, writes: bool, parameters: Parameters = ()
) -> DataFrame:
    from neve.engine.statements import run

    if not writes:
        try:
            return run(spark, text, parameters)
        except TableNotFound as exc:
            found = (
                _with_directory(context, spark, text, exc)
                or _with_merged(context, spark, text, exc)
                or _qualified(context, spark, text, exc)
            )
            if found == text:
                raise
        return _run(context, spark, statement, found, writes=False, parameters=parameters)
    from neve.engine.statements import current_namespace

    refuse_dynamic_targets(context, spark, text, current_namespace(spark))
    _refuse_removal(context, spark, text, current_namespace(spark))
    with recorded(context, "sql", None, plan={"sql": statement.text}) as progress:
        progress.details["sql"] = statement.text
        return run(spark, text, parameters)


def refuse_dynamic_targets(context: Context, spark: SparkSession, text: str, namespace: Namespace) -> None:
    """Keeps a statement from writing to a dynamic table: what its query decides, nobody else does."""
    from neve.engine.statements import targets

    for parts in targets(spark, text):
        name = named(parts, namespace)
        if name is not None and context.catalog.exists(name):
            refuse_dynamic(
                context.catalog.facts(name),
                verb="write to",
                instead="write to what it reads; ALTER or CREATE OR REPLACE DYNAMIC TABLE changes how it is declared",
            )


def _refuse_removal(context: Context, spark: SparkSession, text: str, namespace: Namespace) -> None:
    """Keeps a name while dynamic tables read it, as `neve table delete` and `rename` do."""
    from neve.engine.statements import removal

    if (found := removal(spark, text)) is not None and (name := named(found[1], namespace)) is not None:
        refuse_with_dependants(name, dependants_of(context, name), verb=found[0])


def named(parts: tuple[str, ...], namespace: Namespace) -> TableName | None:
    """The table that a statement means; None for a branch, which is not what readers see, and for what is no name."""
    names = parts[1:] if len(parts) > 1 and parts[0] == CATALOG else parts
    if len(names) > 1 and names[-1].startswith("branch_"):
        if names[-1] != "branch_main":
            return None
        names = names[:-1]
    try:
        return TableName.parse(".".join(map(quote, names if len(names) > 1 else (*namespace, *names))))
    except InvalidName:
        return None


def _qualified(context: Context, spark: SparkSession, text: str, error: TableNotFound) -> str:
    """The query with `t.files` spelled in full where `t` is a table here: Spark takes `t` for a namespace."""
    from neve.engine.statements import current_namespace
    from neve.sql.statements import qualify

    parts, namespace = _missing(error), current_namespace(spark)
    if len(parts) != 2 or not context.catalog.exists(TableName(namespace, parts[0])):
        return text
    return qualify(text, parts, "".join(f"{quote(part)}." for part in (CATALOG, *namespace)))


def _with_directory(context: Context, spark: SparkSession, text: str, error: TableNotFound) -> str | None:
    """The query over a view of a directory table, where that is what Spark does not know."""
    from neve.engine.statements import current_namespace
    from neve.services.directory_tables.look import frame
    from neve.sql.statements import substitute

    parts = _missing(error)
    names = parts[1:] if len(parts) > 1 and parts[0] == CATALOG else parts
    full = names if len(names) > 1 else (*current_namespace(spark), *names)
    table = find(context, TableName(full[:-1], full[-1])) if names else None
    if table is None:
        return None
    view = f"_neve_directory_{table.uuid.replace('-', '_')}"
    frame(context, table, spark).createOrReplaceTempView(view)
    return substitute(text, parts, view)


def _with_merged(context: Context, spark: SparkSession, text: str, error: TableNotFound) -> str | None:
    """The query over the rows of a key-range table as its filters and aggregations make them, for `t__merged`."""
    from neve.engine.statements import current_namespace
    from neve.services.ranges.reading import current_rows
    from neve.sql.statements import substitute

    parts = _missing(error)
    names = parts[1:] if len(parts) > 1 and parts[0] == CATALOG else parts
    full = names if len(names) > 1 else (*current_namespace(spark), *names)
    if not names or not full[-1].endswith(MERGED):
        return None
    base = TableName(full[:-1], full[-1].removesuffix(MERGED))
    facts = context.catalog.facts(base) if context.catalog.exists(base) else None
    keys = None if facts is None else keys_of(facts)
    if facts is None or keys is None or keys.merging is None:
        return None
    view = f"_neve_merged_{facts.uuid.replace('-', '_')}"
    spark.sql(current_rows(facts, keys, now=context.clock())).createOrReplaceTempView(view)
    return substitute(text, parts, view)


def _missing(error: TableNotFound) -> tuple[str, ...]:
    """The parts of the name that Spark says is missing; none when it does not say."""
    match = re.search(r"`(.+)`", error.message)
    try:
        return split_name(match[0]) if match else ()
    except InvalidName:
        return ()


def _with_nearest(context: Context, error: TableNotFound, spark: SparkSession) -> NeveError:
    """Spark's word that a table is missing, with the names that come near."""
    from neve.engine.statements import current_namespace

    parts = _missing(error)
    namespace = current_namespace(spark) if len(parts) == 1 else ()
    try:
        return context.catalog.unknown(TableName.parse(".".join(map(quote, (*namespace, *parts)))))
    except InvalidName:
        return error


def query_table(context: Context, name: TableName, text: str, *, as_of: str | None = None) -> DataFrame:
    """A query in which the table's short name resolves, whatever its namespace."""
    if is_directory(context, name):
        if as_of is not None:
            raise Unsupported(f"{name} is a directory table and has no past", hint="leave --as-of out")
    else:
        context.catalog.metadata_location(name)
    return run_sql(context, text, as_of=as_of, namespace=name.namespace)


def _moment(text: str) -> Moment:
    from neve.sql.statements import Moment

    if text.isdigit():
        return Moment(snapshot_id=int(text))
    time = parse_time(text)
    return Moment(time=time) if time is not None else Moment(reference=text)


def _short(statement: str) -> str:
    line = " ".join(statement.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
