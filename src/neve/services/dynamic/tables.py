"""Declaring dynamic tables, refreshing them in the order of their graph, and checking that they are right."""

from __future__ import annotations

from collections.abc import Sequence

from neve.engine.refresh import provide
from neve.errors import AlreadyExists, InvalidQuery, Refused, Unsupported
from neve.model.delta import Step
from neve.model.dynamic import THRESHOLD, CreateDynamic
from neve.model.names import TableName
from neve.model.results import Reason, Receipt
from neve.model.specs import TableSpec
from neve.model.types import Field
from neve.plan.graph import waves
from neve.services.changes import create_table
from neve.services.context import Context
from neve.services.deletion import delete_table
from neve.services.dynamic.definitions import (
    Definition,
    all_definitions,
    definition_of,
    find_definition,
    source_columns,
    understand,
    understand_again,
)
from neve.services.dynamic.refresh import pin
from neve.services.dynamic.rounds import refresh_tables
from neve.services.registry import is_taken
from neve.sql.applying import HASH, ORDINAL
from neve.sql.columns import parse_type
from neve.sql.delta import Analysis, Version, explain, full


def create_dynamic(context: Context, asked: CreateDynamic) -> list[Receipt]:
    """Makes the table and, unless it waits for its schedule, fills it; a table that cannot be filled is not made."""
    if is_taken(context, asked.name):
        return _existing(context, asked)
    analysis = validate(context, asked)
    sources = tuple(TableName.parse(source.name) for source in analysis.sources)
    definition = Definition(
        name=asked.name,
        query=asked.query,
        options=asked.options,
        sources=sources,
        columns=source_columns(context, sources),
    )
    waves({name: known.sources for name, known in all_definitions(context).items()} | {asked.name: definition.sources})
    spec = TableSpec(
        name=asked.name,
        columns=_columns(context, asked, definition, analysis),
        partition_by=asked.options.partition_by,
        sort_by=asked.options.cluster_by,
        comment=asked.options.comment,
    )
    receipts: list[Receipt] = [create_table(context, spec, own=definition.properties())]
    if asked.options.initialize == "ON_CREATE":
        try:
            receipts += refresh_tables(context, [asked.name.short], trigger="CREATION")
        except BaseException:
            delete_table(context, asked.name, force=True)
            raise
    return receipts


def validate(context: Context, asked: CreateDynamic) -> Analysis:
    """Understands the query without running it, and refuses what the options do not allow.

    Raises:
        InvalidQuery, TableNotFound, ColumnNotFound: what is wrong, with its place.
        Refused: it is to be INCREMENTAL and cannot follow changes; with the construct and its place.
    """
    if asked.options.immutable_where is not None:
        raise Unsupported("IMMUTABLE WHERE is not supported yet", hint="leave it out")
    if asked.options.cardinality_threshold != THRESHOLD:
        raise Unsupported("CARDINALITY_THRESHOLD is not supported yet", hint="leave it out")
    analysis = understand(context, asked.query, asked.options, but=asked.name)
    if any(TableName.parse(source.name) == asked.name for source in analysis.sources):
        raise InvalidQuery(f"{asked.name} reads itself")
    if not analysis.sources:
        raise InvalidQuery("the query reads no table", hint="a plain table does: neve table create")
    if asked.options.refresh_mode == "INCREMENTAL" and not analysis.incremental:
        said = "; ".join(map(str, analysis.reasons))
        raise Refused(f"{asked.name} cannot follow changes: {said}", hint="use REFRESH_MODE = AUTO or FULL")
    return analysis


def explain_dynamic(context: Context, name: TableName) -> Step:
    definition = find_definition(context, name)
    return explain(understand_again(context, definition))


def _columns(context: Context, asked: CreateDynamic, definition: Definition, analysis: Analysis) -> tuple[Field, ...]:
    """The stored columns as Spark would type them; a bag of rows gets what tells equal rows apart."""
    from neve.engine.session import fresh_session

    spark = fresh_session(context.session.spark)
    query = full(analysis, Version.NEW, moment=context.clock())
    pins = pin(context, set(definition.sources))
    for read in query.reads:
        if read.source is not None:
            source = TableName.parse(read.source)
            provide(spark, read.relation, source, pins.sources[source].snapshot, read.columns)
    found = [(field.name, field.dataType.simpleString()) for field in spark.sql(query.sql).schema.fields]
    comments = _comments(asked, [name for name, _ in found if not name.startswith("_neve_")])
    columns = [Field(name, parse_type(kind), False, comments.get(name)) for name, kind in found]
    if query.apply.kind != "keyed":
        columns += [Field(HASH, parse_type("bigint")), Field(ORDINAL, parse_type("int"))]
    return tuple(columns)


def _comments(asked: CreateDynamic, names: Sequence[str]) -> dict[str, str | None]:
    if asked.columns and [name.casefold() for name, _ in asked.columns] != [name.casefold() for name in names]:
        given = ", ".join(name for name, _ in asked.columns)
        raise InvalidQuery(
            f"the columns ({given}) are not those of the query: {', '.join(names)}",
            hint="name them with AS in the query",
        )
    return dict(zip(names, (comment for _, comment in asked.columns), strict=False))


def _existing(context: Context, asked: CreateDynamic) -> list[Receipt]:
    facts = context.catalog.facts(asked.name)
    held = definition_of(facts)
    if held is not None and (held.query, held.options) == (asked.query, asked.options):
        same = Reason(code="same_definition", detail=f"{asked.name} is declared just so")
        if asked.replace or asked.if_not_exists:
            return [Receipt(run_id=None, action="create", table=str(asked.name), reason=same)]
    if asked.if_not_exists:
        there = Reason(code="already_exists", detail=f"{asked.name} already exists")
        return [Receipt(run_id=None, action="create", table=str(asked.name), reason=there)]
    if asked.replace:
        raise Unsupported("CREATE OR REPLACE with another query is not supported yet", hint="drop it and create it")
    raise AlreadyExists(f"{asked.name} already exists", hint="drop it first, or write IF NOT EXISTS")
