"""Whether a dynamic table can be as it is declared, and which columns it will have: said before anything is made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from neve.engine.refresh import provide
from neve.errors import AlreadyExists, InvalidInput, InvalidQuery, NeveError, Refused, TableNotFound
from neve.model.delta import Step
from neve.model.dynamic import CreateDynamic, DynamicOptions
from neve.model.names import TableName
from neve.model.specs import check_transform, find_column
from neve.model.types import Field
from neve.plan.graph import waves
from neve.services.context import Context
from neve.services.dynamic.deciding import pin
from neve.services.dynamic.definitions import (
    Definition,
    all_definitions,
    definition_of,
    source_columns,
    understand,
    understand_again,
)
from neve.services.registry import is_directory, is_taken
from neve.sql.columns import parse_type
from neve.sql.delta import Analysis, Schema, Version, explain, full
from neve.sql.freezing import check_predicate

_WORD = re.compile(r"[\w.]+")


def validate_script(context: Context, script: Sequence[CreateDynamic]) -> Step:
    """How each declared table would follow changes; of several, each may read those before it.

    Raises:
        AlreadyExists: two of them have one name.
        InvalidInput: a table reads one of them whose types only a run tells. Otherwise as `validate`.
    """
    if len(script) == 1:
        return explain(validate(context, script[0]))
    made: dict[TableName, Analysis] = {}
    for asked in script:
        if asked.name in made and not (asked.replace or asked.if_not_exists):
            raise AlreadyExists(
                f"this file makes {asked.name} twice", hint="leave one out, or write CREATE OR REPLACE DYNAMIC TABLE"
            )
        unsure = {str(name) for name, analysis in made.items() if _schema(analysis) is None}
        try:
            made[asked.name] = validate(context, asked, beside=made)
        except TableNotFound as exc:
            read = sorted(unsure.intersection(_WORD.findall(exc.message)))
            if not read:
                raise
            raise InvalidInput(
                f"{asked.name} reads a table of this file whose types are known when it is made: {', '.join(read)}",
                hint="create that one first, and leave it out here",
            ) from exc
    steps = tuple(_told(name, analysis) for name, analysis in made.items())
    return Step(
        operator=f"{len(made)} dynamic tables", rule="one by one", detail="each may read those before it", inputs=steps
    )


def _told(name: TableName, analysis: Analysis) -> Step:
    read = ", ".join(map(str, _sources(analysis)))
    rule = "incremental" if analysis.incremental else "full"
    return Step(operator=str(name), rule=rule, detail=f"reads {read}", inputs=(explain(analysis),))


def _schema(analysis: Analysis) -> Schema | None:
    """The columns that others see, where their types are certain."""
    shown = [column for column in analysis.columns if not column.hidden]
    fields = tuple(Field(column.name, column.type) for column in shown if column.type is not None)
    return fields if fields and len(fields) == len(shown) else None


def validate(
    context: Context, asked: CreateDynamic, *, beside: Mapping[TableName, Analysis] = MappingProxyType({})
) -> Analysis:
    """Understands the query without running it, and refuses what the options do not allow. It may read those `beside`.

    Raises:
        InvalidQuery, TableNotFound, ColumnNotFound: what is wrong, with its place in the statement.
        InvalidInput: the tables would go round in a circle; with the path.
        AlreadyExists: a table that is not dynamic has the name.
        Refused: it is to be INCREMENTAL and cannot follow changes; with the construct and its place.
    """
    if asked.replace and asked.if_not_exists:
        raise InvalidInput("OR REPLACE and IF NOT EXISTS contradict each other", hint="write one of them")
    if not asked.if_not_exists and is_taken(context, asked.name):
        need_dynamic(context, asked.name)
    schemas = {name: schema for name, analysis in beside.items() if (schema := _schema(analysis)) is not None}
    analysis = understand(context, asked.placed, asked.options, beside=schemas)
    if asked.name in _sources(analysis):
        raise InvalidQuery(f"these dynamic tables go round in a circle: {asked.name} → {asked.name}")
    if not analysis.sources:
        raise InvalidQuery("the query reads no table", hint="a plain table does: neve table create")
    check_options(asked.name, asked.options, analysis)
    if analysis.columns:
        _check_layout(asked.options, analysis)
        comments_of(asked, [column.name for column in analysis.columns if not column.hidden])
    _refuse_circle(context, {**beside, asked.name: analysis})
    return analysis


def need_dynamic(context: Context, name: TableName) -> Definition:
    """The dynamic table of a name that is taken.

    Raises:
        AlreadyExists: the table is of another kind.
    """
    held = None if is_directory(context, name) else definition_of(context.catalog.facts(name))
    if held is None:
        raise AlreadyExists(f"{name} is no dynamic table", hint="delete it first, or choose another name")
    return held


def check_options(name: TableName, options: DynamicOptions, analysis: Analysis) -> None:
    """Refuses options that a query cannot have."""
    if options.refresh_mode == "INCREMENTAL" and not analysis.incremental:
        said = "; ".join(map(str, analysis.reasons))
        raise Refused(f"{name} cannot follow changes: {said}", hint="use REFRESH_MODE = AUTO or FULL")
    if options.immutable_where is not None and analysis.columns:
        known = [Field(column.name, column.type or parse_type("string")) for column in analysis.columns]
        check_predicate(options.immutable_where, [field for field in known if _is_shown(field)], analysis)


def _check_layout(options: DynamicOptions, analysis: Analysis) -> None:
    """Refuses a layout by columns that are not there, or whose type it does not take, where that is certain."""
    certain = {column.name: column.type for column in analysis.columns}
    fields = tuple(Field(name, kind or parse_type("string")) for name, kind in certain.items())
    sorting = tuple(item.term for item in options.cluster_by)
    for verb, terms in (("partition", options.partition_by), ("sort", sorting)):
        for term in terms:
            column = find_column(fields, term.column)
            if certain[column.name] is not None:
                check_transform(term, column.type, verb=verb)


def definition_from(context: Context, asked: CreateDynamic, analysis: Analysis) -> Definition:
    """The definition that a statement asks for."""
    sources = _sources(analysis)
    return Definition(
        name=asked.name,
        query=asked.query,
        options=asked.options,
        sources=sources,
        columns=source_columns(context, sources),
        line=asked.line,
        column=asked.column,
    )


def _refuse_circle(context: Context, new: Mapping[TableName, Analysis]) -> None:
    """Raises InvalidInput, with the path, where tables would go round in a circle."""
    known = {name: definition.sources for name, definition in all_definitions(context).items()}
    waves(known | {name: _sources(analysis) for name, analysis in new.items()})


def _sources(analysis: Analysis) -> tuple[TableName, ...]:
    return tuple(TableName.parse(source.name) for source in analysis.sources)


def stored_columns(
    context: Context, asked: CreateDynamic, definition: Definition, analysis: Analysis
) -> tuple[Field, ...]:
    """The stored columns as Spark would type them."""
    columns = typed_columns(context, definition, analysis)
    shown = [column.name for column in columns if _is_shown(column)]
    comments = comments_of(asked, shown)
    if asked.options.immutable_where is not None:
        check_predicate(asked.options.immutable_where, [column for column in columns if _is_shown(column)], analysis)
    return tuple(replace(column, comment=comments.get(column.name)) for column in columns)


def typed_columns(context: Context, definition: Definition, analysis: Analysis) -> tuple[Field, ...]:
    from neve.engine.session import fresh_session

    spark = fresh_session(context.session.spark)
    query = full(analysis, Version.NEW, moment=context.clock())
    pins = pin(context, set(definition.sources))
    for read in query.reads:
        if read.source is not None:
            source = TableName.parse(read.source)
            provide(spark, read.relation, source, pins.sources[source].snapshot, read.columns)
    found = [(field.name, field.dataType.simpleString()) for field in spark.sql(query.sql).schema.fields]
    return tuple(Field(name, parse_type(kind)) for name, kind in found)


def earlier(context: Context, held: Definition) -> Analysis | None:
    """What a table was declared by; None when that makes no sense any more."""
    try:
        return understand_again(context, held)
    except NeveError:
        return None


def _is_shown(column: Field) -> bool:
    return not column.name.startswith("_neve_")


def comments_of(asked: CreateDynamic, names: Sequence[str]) -> Mapping[str, str | None]:
    if asked.columns and [name.casefold() for name, _ in asked.columns] != [name.casefold() for name in names]:
        given = ", ".join(name for name, _ in asked.columns)
        raise InvalidQuery(
            f"the columns ({given}) are not those of the query: {', '.join(names)}",
            hint="name them with AS in the query",
        )
    return dict(zip(names, (comment for _, comment in asked.columns), strict=False))
