"""Running SQL text: what it would do, and its rows as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from neve.engine.errors import translated
from neve.engine.values import readable, row_converter
from neve.errors import InvalidName, JobFailed, Refused
from neve.model.names import CATALOG, Namespace, TableName, quote, split_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Commands of Spark's parser that only look, or change nothing but this session. Every other command writes.
_LOOKS = (
    *("Show", "Describe", "List", "Explain", "ClearCache", "RefreshTable"),
    *("SetCommand", "Reset", "SetCatalog", "SetNamespaceCommand", "CreateVariable", "SetVariable", "DropVariable"),
)
# Plans that act although Spark does not mark them as commands. TRANSFORM runs a program of the machine.
_ACTS = ("Call", "Insert", "Script", "UnresolvedExecuteImmediate")
# Where a plan keeps what it changes, if not under `table`.
_TARGETS = {
    "MergeIntoTable": ("targetTable",),
    "ReplaceTable": ("name",),
    "ReplaceTableAsSelect": ("name",),
    "DropTable": ("child",),
    "RenameTable": ("child",),
}
_REMOVALS = {"DropTable": "drop", "RenameTable": "rename"}
_HARMLESS = ("CreateOrReplaceTag", "CreateOrReplaceBranch", "DropTag", "DropBranch", "CacheTable", "UncacheTable")
_UPKEEP = (
    *("rewrite_data_files", "rewrite_manifests", "rewrite_position_delete_files", "rewrite_table_path"),
    *("expire_snapshots", "remove_orphan_files", "ancestors_of", "create_changelog_view"),
    *("compute_table_stats", "compute_partition_stats"),
)
_NAMED_LATER = "PlanWithUnresolvedIdentifier"
_MARKS = ("Command", "ParsedStatement")
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_JAVA = ("reflect", "java_method", "try_reflect")
_PREVIEW = 1000
Parameters = Sequence[Any] | Mapping[str, Any]
"""Values for a statement's `?` or `:name`."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Named columns and a stream of rows; rows come from Spark partition by partition, never all at once."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    stream: Iterator[Sequence[Any]]


def snapshots_read(frame: DataFrame) -> dict[TableName, set[int]]:
    """The lake's tables that a query reads, wherever in it they are named, with the snapshots that it asks for.

    None of a table that it reads as it is now.
    """
    found: dict[TableName, set[int]] = {}
    with translated():
        whole = cast(Any, frame)._jdf.queryExecution().analyzed()
        within = whole.subqueriesAll()
        for plan in (whole, *(within.apply(index) for index in range(within.size()))):
            leaves = plan.collectLeaves()
            for leaf in (leaves.apply(index) for index in range(leaves.size())):
                if leaf.getClass().getSimpleName() == "DataSourceV2Relation" and _is_iceberg(leaf):
                    identifier, snapshot = leaf.identifier().get(), leaf.table().snapshotId()
                    name = TableName(tuple(identifier.namespace()), identifier.name())
                    found.setdefault(name, set()).update(() if snapshot is None else (snapshot,))
    return found


def _is_iceberg(leaf: Any) -> bool:
    own = leaf.catalog().isDefined() and leaf.catalog().get().name() == CATALOG
    return bool(own and leaf.table().getClass().getSimpleName() == "SparkTable")


def writes(spark: SparkSession, text: str) -> bool:
    """Whether a statement would change something, by Spark's own parser; in doubt, it would."""
    with translated():
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        marks = [_java_class(spark, f"{_PLANS}.{mark}") for mark in _MARKS]
        return _is_write(plan, marks)


def _is_write(plan: Any, marks: Sequence[Any]) -> bool:
    name = plan.getClass().getSimpleName()
    if name == "ExplainCommand":
        # Explaining runs nothing, but EXECUTE IMMEDIATE, which acts as soon as it is analysed.
        return bool(plan.logicalPlan().getClass().getSimpleName() == "UnresolvedExecuteImmediate")
    if name.startswith(_ACTS):
        return True
    if any(mark.isInstance(plan) for mark in marks):
        return not name.startswith(_LOOKS)
    if name == _NAMED_LATER and plan.children().size():  # INSERT INTO IDENTIFIER(…); without rows to take, it is read
        return True
    return any(_is_write(inner, marks) for inner in _inside(plan))


def acts_inside(spark: SparkSession, plan: Any) -> bool:
    """Whether something within a parsed statement acts by itself: a program that rows are sent through, say."""
    marks = [_java_class(spark, f"{_PLANS}.{mark}") for mark in _MARKS]
    return any(_is_write(inner, marks) for inner in _inside(plan))


def _inside(plan: Any) -> Iterator[Any]:
    """The plans right below one: also those of a WITH, and of queries in brackets."""
    for below in (plan.children(), plan.innerChildren()):
        for index in range(below.size()):
            yield below.apply(index)


def targets(spark: SparkSession, text: str) -> list[tuple[str, ...]]:
    """The names of the tables whose rows, columns or name a statement would change, by Spark's own parser.

    Upkeep (rewriting files, expiring snapshots), tags and branches change nothing that a reader sees.

    Raises:
        Refused: a table is named by something that only Spark can compute.
    """
    with translated():
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        hidden = _hidden_text(plan)
        return list(_targets(plan)) if hidden is None else targets(spark, hidden)


def removal(spark: SparkSession, text: str) -> tuple[str, tuple[str, ...]] | None:
    """What a statement does to the name of a table, `drop` or `rename`, and which name that is."""
    with translated():
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        if (hidden := _hidden_text(plan)) is not None:
            return removal(spark, hidden)
        verb = _REMOVALS.get(plan.getClass().getSimpleName())
        found = None if verb is None else _name_behind(plan, "child")
        return None if verb is None or found is None else (verb, found)


def _hidden_text(plan: Any) -> str | None:
    """The statement that EXECUTE IMMEDIATE runs."""
    if plan.getClass().getSimpleName() != "UnresolvedExecuteImmediate":
        return None
    return _literal(plan.sqlStmtStr(), "EXECUTE IMMEDIATE runs a text")


def _literal(expression: Any, what: str) -> str:
    if expression.getClass().getSimpleName() != "Literal":
        raise Refused(f"{what} that is not written out", hint="write the statement with its table's name")
    return str(expression.value().toString())


def _targets(plan: Any) -> Iterator[tuple[str, ...]]:
    kind = plan.getClass().getSimpleName()
    if kind == "Call":
        yield from _arguments(plan)
    elif kind == _NAMED_LATER:
        yield split_name(_literal(plan.identifierExpr(), "IDENTIFIER() gives a name"))
    elif kind not in _HARMLESS:
        for accessor in _TARGETS.get(kind, ("table",)):
            if (found := _name_behind(plan, accessor)) is not None:
                yield found
        children = plan.children()
        for index in range(children.size()):
            yield from _targets(children.apply(index))


def _name_behind(plan: Any, accessor: str) -> tuple[str, ...] | None:
    """The name of a relation that the parser has not looked up, or the words of one that Iceberg's parser gives."""
    from py4j.protocol import Py4JError

    try:
        found = getattr(plan, accessor)()
        while found.getClass().getSimpleName() == "SubqueryAlias":
            found = found.child()
        kind = found.getClass().getSimpleName()
        if kind == _NAMED_LATER:
            return split_name(_literal(found.identifierExpr(), "IDENTIFIER() gives a name"))
        if kind.startswith("Unresolved"):
            found = found.nameParts() if kind == "UnresolvedIdentifier" else found.multipartIdentifier()
        return tuple(str(found.apply(index)) for index in range(found.size()))
    except Py4JError:  # this kind of plan has none
        return None


def _arguments(call: Any) -> Iterator[tuple[str, ...]]:
    """What a procedure may be told to change: any of its arguments may be a table's name."""
    name = call.procedure().nameParts()
    if str(name.apply(name.size() - 1)).lower() in _UPKEEP:
        return
    arguments = call.args()
    for index in range(arguments.size()):
        try:
            yield split_name(arguments.apply(index).toString().rpartition("=> ")[2])
        except InvalidName:
            continue


def _java_class(spark: SparkSession, name: str) -> Any:
    java: Any = spark._jvm
    return java.java.lang.Class.forName(name)


def use_namespace(spark: SparkSession, namespace: Namespace) -> None:
    """Short table names resolve here from now on."""
    with translated():
        spark.sql(f"USE {'.'.join(map(quote, (CATALOG, *namespace)))}")


def close_off(spark: SparkSession) -> None:
    """From now on this session's SQL reads no plain file by its path (text.`/etc/hosts`), and calls no Java."""
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    java: Any = spark._jvm
    registry = spark._jsparkSession.sessionState().functionRegistry()  # this session's own
    for name in _JAVA:
        registry.dropFunction(java.org.apache.spark.sql.catalyst.FunctionIdentifier(name))


def current_namespace(spark: SparkSession) -> Namespace:
    """Where short table names resolve now."""
    with translated():
        parts = spark._jsparkSession.sessionState().catalogManager().currentNamespace()
        return tuple(str(parts[index]) for index in range(len(parts)))


def run(spark: SparkSession, text: str, parameters: Parameters = ()) -> DataFrame:
    """The statement's result as a DataFrame; a writing statement has happened when this returns."""
    with translated():
        if not parameters:
            return spark.sql(text)
        return spark.sql(text, args=dict(parameters) if isinstance(parameters, Mapping) else list(parameters))


def stream(frame: DataFrame, *, limit: int | None = None) -> Rows:
    """The frame's rows as a stream, at most `limit` of them."""
    with translated():
        fields = frame.schema.fields
        limited = readable(frame if limit is None else frame.limit(limit))
        return Rows(
            columns=tuple(field.name for field in fields),
            types=tuple(field.dataType.simpleString() for field in fields),
            stream=map(
                row_converter([field.dataType for field in fields]),
                _iterate(limited, few=limit is not None and limit <= _PREVIEW),
            ),
        )


def _iterate(frame: DataFrame, *, few: bool) -> Iterator[Sequence[Any]]:
    """A few rows are collected: for those, Spark reads no more files than it must."""
    with translated():
        try:
            yield from frame.collect() if few else frame.toLocalIterator(prefetchPartitions=True)
        except (ValueError, OverflowError) as exc:
            raise JobFailed(
                f"a value is more than Python can hold: {exc}", hint="cast it to string in the query"
            ) from exc


def explained(frame: DataFrame) -> str:
    """How Spark would compute a frame, as text."""
    with translated():
        java: Any = frame.sparkSession._jvm
        mode = java.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
        return str(frame._jdf.queryExecution().explainString(mode))
