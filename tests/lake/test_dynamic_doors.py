"""Dynamic tables without a JVM: options, suspension, names, and the doors that are closed to who would write rows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.lake.dynamic import settle
from tests.lake.lakes import Cli, make

from neve.errors import (
    AlreadyExists,
    ColumnNotFound,
    CommitConflict,
    DependentsExist,
    InvalidInput,
    InvalidQuery,
    InvalidSchema,
    Refused,
    StalePlan,
    TableNotFound,
)
from neve.lake import Lake
from neve.model.dynamic import CreateDynamic
from neve.model.facts import TableFacts
from neve.model.names import TableName, aside_name
from neve.model.results import Receipt
from neve.model.runs import Run
from neve.model.specs import AddColumn, TableSpec
from neve.model.types import Field, Primitive
from neve.plan.tables import DEFINITION
from neve.services.changes import create_table
from neve.services.dynamic.altering import swap_dynamic
from neve.services.dynamic.rounds import refresh_tables
from neve.services.dynamic.settling import settle_replace, settle_swap
from neve.services.dynamic.validation import definition_from, validate
from neve.sql.dynamic import parse_dynamic

QUERIES = {
    "totals": "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer",
    "big": "SELECT customer, total FROM totals WHERE total > 10",
    "all": "SELECT * FROM big",
}


def declare(lake: Lake, name: str, query: str, options: str = "") -> None:
    """A dynamic table that was never refreshed, made without Spark."""
    asked = parse_dynamic(f"CREATE DYNAMIC TABLE {name} TARGET_LAG = '5 minutes' {options} AS {query}")
    assert isinstance(asked, CreateDynamic)
    analysis = validate(lake._context, asked)
    columns = tuple(Field(column.name, column.type or Primitive("string")) for column in analysis.columns)
    spec = TableSpec(name=asked.name, columns=columns, comment=asked.options.comment)
    create_table(lake._context, spec, own=definition_from(lake._context, asked, analysis).properties())


def facts_of(lake: Lake, name: str) -> TableFacts:
    return lake._context.catalog.facts(TableName.parse(name))


def tables_of(receipts: Sequence[Receipt]) -> list[str]:
    return [receipt.table.removeprefix("default.") for receipt in receipts]


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """Orders, and a chain of dynamic tables over them."""
    lake.tables.create("orders", "id bigint, customer bigint, amount decimal(10,2), day date")
    for name, query in QUERIES.items():
        declare(lake, name, query)
    return lake


def test_options_change_in_one_commit_and_nothing_else_does(shop: Lake, cli: Cli) -> None:
    table, before = shop.dynamic("totals"), facts_of(shop, "totals")
    receipt = table.alter(
        {
            "TARGET_LAG": "downstream",
            "comment": "per customer",
            "REFRESH_MODE": "INCREMENTAL",
            "PARTITIONED_BY": "bucket(4, customer)",
            "cluster by": "n desc",
            "DEDUPLICATION": "false",
        }
    )
    assert receipt.details["target_lag"] == {"before": "5m", "after": "DOWNSTREAM"}
    after = facts_of(shop, "totals")
    assert (after.uuid, after.columns) == (before.uuid, before.columns)
    assert ([str(item) for item in after.partition_by], len(after.sort_by)) == (["bucket(4, customer)"], 1)
    assert after.properties["write.metadata.metrics.column.customer"] == "full"
    shown = table.show()
    assert (shown.target_lag, shown.comment, shown.deduplication) == ("DOWNSTREAM", "per customer", False)
    assert (shown.refresh_mode, shown.follows_changes, shown.dependants) == ("INCREMENTAL", True, ["default.big"])
    assert shop.table("totals").show().comment == "per customer"
    assert table.alter({"TARGET_LAG": "DOWNSTREAM"}).run_id is None, "it is so already"
    assert cli(*shlex.split(str(receipt.undo))[1:]).code == 0
    assert table.show().target_lag == "5m"
    shown, facts = table.show(), facts_of(shop, "totals")
    assert (shown.comment, shown.refresh_mode, shown.partition_by, facts.partition_by) == (None, "AUTO", [], ())
    assert "comment" not in facts.properties


def test_what_cannot_be_is_refused_and_leaves_all_as_it_was(shop: Lake) -> None:
    declare(shop, "numbered", "SELECT id,\n row_number() OVER (ORDER BY id) AS n FROM orders")
    here = {name: facts_of(shop, name).metadata_location for name in ("totals", "numbered")}
    table = shop.dynamic("totals")
    with pytest.raises(Refused, match=r"cannot follow changes: .*\(line 2, column 2\)"):
        shop.dynamic("numbered").alter({"REFRESH_MODE": "INCREMENTAL", "TARGET_LAG": "1 hour"})
    with pytest.raises(InvalidSchema, match="no column nothing"):
        table.alter({"PARTITIONED_BY": "nothing", "TARGET_LAG": "1 hour"})
    with pytest.raises(InvalidInput, match="both set and unset"):
        table.alter({"COMMENT": "x"}, unset=["comment"])
    with pytest.raises(InvalidInput, match="nothing to alter"):
        table.alter()
    with pytest.raises(Refused, match="total cannot say which rows are frozen") as caught:
        table.alter({"IMMUTABLE_WHERE": "total > 5"})
    assert caught.value.hint == "columns that can: customer"
    with pytest.raises(ColumnNotFound, match=r"IMMUTABLE WHERE: .*custmer") as lost:
        table.alter({"IMMUTABLE_WHERE": "custmer > 5"})
    assert "customer" in (lost.value.hint or "")
    for predicate in ("customer IN (SELECT 1)", "customer > 3) OR (n > 1", "sum(customer) > 1"):
        with pytest.raises((InvalidQuery, Refused), match="IMMUTABLE WHERE"):
            table.alter({"IMMUTABLE_WHERE": predicate})
    with pytest.raises(Refused, match=r"IMMUTABLE WHERE: .*(present moment|another value)"):
        shop.dynamic("numbered").alter({"IMMUTABLE_WHERE": "id < rand()"})
    with pytest.raises(Refused, match="not a dynamic table"):
        shop.dynamic("orders").alter({"TARGET_LAG": "1 hour"})
    assert here == {name: facts_of(shop, name).metadata_location for name in here}


def test_a_rival_who_changed_the_declaration_is_not_overwritten(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = shop._context.catalog
    real = type(catalog).alter

    def late(self: object, *args: object, **kwargs: object) -> None:
        monkeypatch.setattr(type(catalog), "alter", real)
        shop.dynamic("totals").alter({"TARGET_LAG": "1 hour"})
        real(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(type(catalog), "alter", late)
    with pytest.raises(StalePlan):
        shop.dynamic("totals").alter({"COMMENT": "late"})
    assert (shop.dynamic("totals").show().target_lag, shop.dynamic("totals").show().comment) == ("1h", None)


def test_suspension_goes_down_the_graph_and_comes_back_up_but_for_what_the_user_suspended(shop: Lake, cli: Cli) -> None:
    assert tables_of(shop.dynamic("all").suspend()) == ["all"]
    receipts = shop.dynamic("totals").suspend()
    assert tables_of(receipts) == ["totals", "big"]
    assert receipts[1].details["because"] == "default.totals, which it needs, is suspended"
    assert {receipt.state for receipt in refresh_tables(shop._context)} == {"SKIPPED"}, "a round leaves them out"
    assert [shop.dynamic(name).show().suspended_by for name in QUERIES] == ["user", "default.totals", "user"]
    assert cli("dynamic", "suspend", "big").code == 0
    assert shop.dynamic("big").show().suspended_by == "user", "once asked for, it stays by itself"
    assert cli("dynamic", "suspend", "big").out.startswith("= nothing to do")
    assert tables_of(shop.dynamic("big").resume()) == ["big"]
    assert tables_of(shop.dynamic("totals").resume()) == ["totals"]
    said = cli("dynamic", "resume", "all")
    assert (said.code, "default.all is active again" in said.out) == (0, True), said.err
    assert shop.dynamic("all").resume()[0].reason is not None
    assert cli("dynamic", "suspend", "orders").code == 6


def test_names_follow_only_where_no_query_says_them(shop: Lake) -> None:
    with pytest.raises(DependentsExist, match="big"):
        shop.dynamic("totals").rename("sums")
    uuid, table = facts_of(shop, "all").uuid, shop.dynamic("all")
    table.rename("lake.reports.everything")
    assert (facts_of(shop, "reports.everything").uuid, table.show().sources) == (uuid, ["default.big"])
    with pytest.raises(AlreadyExists):
        table.rename("orders")


def test_a_swap_exchanges_two_tables_in_one_step(shop: Lake) -> None:
    declare(shop, "wide", "SELECT customer, n, n + 1 AS more FROM totals")
    with pytest.raises(DependentsExist, match=r"all \(its own columns would be others\)"):
        swap_dynamic(shop._context, TableName.parse("big"), TableName.parse("wide"))
    with pytest.raises(InvalidInput, match=r"circle: .* → "):
        shop.dynamic("all").swap("big")
    with pytest.raises(InvalidInput, match="itself"):
        shop.dynamic("big").swap("big")
    declare(shop, "small", "SELECT customer, total FROM totals WHERE total <= 10")
    uuids = [facts_of(shop, name).uuid for name in ("big", "small")]
    receipt = shop.dynamic("big").swap("small")
    assert [facts_of(shop, name).uuid for name in ("small", "big")] == uuids
    assert "<= 10" in shop.dynamic("big").show().query
    assert [shop._context.store.registry.get(name).table_uuid for name in ("small", "big")] == uuids  # type: ignore[union-attr]
    run = shop.runs.show(str(receipt.run_id))
    context, facts = shop._context, facts_of(shop, "big")
    assert settle_swap(context, run, facts), "a process that died here had swapped them"
    assert [shop._context.store.registry.get(name).table_uuid for name in ("small", "big")] == uuids  # type: ignore[union-attr]
    locations = (facts_of(shop, "small").metadata_location, "elsewhere")
    assert not context.catalog.exchange(TableName.parse("small"), TableName.parse("big"), expected=locations)
    assert [facts_of(shop, name).uuid for name in ("small", "big")] == uuids, "half of a swap is undone"


def test_what_is_built_aside_is_hidden_and_a_dead_run_leaves_nothing(shop: Lake) -> None:
    context, name = shop._context, TableName.parse("totals")
    run = Run(run_id=f"{0:026d}", kind="replace", table_name="totals", started_at=context.clock(), host="h", pid=1)
    aside = aside_name(name, run.run_id)
    base = context.catalog.set_aside(name, aside)
    context.catalog.set_properties(aside, put={"a": "b"})
    assert aside not in context.catalog.tables()
    assert not [row for row in shop.tables.list() if "aside" in row.table]
    assert facts_of(shop, "totals").metadata_location == base, "readers see nothing of it"
    shop.dynamic("totals").alter({"COMMENT": "a rival"})
    assert not context.catalog.supersede(name, aside, expected=base)
    assert facts_of(shop, "totals").properties["comment"] == "a rival"
    assert not settle_replace(context, run, facts_of(shop, "totals"))
    assert not context.catalog.exists(aside)
    base = context.catalog.set_aside(name, aside)
    context.catalog.set_properties(aside, put={"a": "b"})
    assert context.catalog.supersede(name, aside, expected=base)
    assert (facts_of(shop, "totals").properties["a"], context.catalog.exists(aside)) == ("b", False)


def test_a_swap_that_lost_says_so(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(shop._context.catalog), "exchange", lambda *_, **__: False)
    declare(shop, "small", "SELECT customer, total FROM totals WHERE total <= 10")
    with pytest.raises(CommitConflict, match="changed meanwhile"):
        shop.dynamic("big").swap("small")


def test_doors_that_write_rows_are_closed(shop: Lake, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "2024-01-01.csv"
    file.write_text("customer,total,n\n1,2,3\n")
    table, here = shop.table("totals"), facts_of(shop, "totals").metadata_location
    with pytest.raises(Refused, match="is a dynamic table") as caught:
        table.alter([AddColumn("", Field("x", Primitive("int")))])
    assert "neve dynamic alter" in (caught.value.hint or "")
    for attempt in (
        lambda: table.ingest(file, date="2024-01-01"),
        lambda: table.submit(file, date="2024-01-01"),
        table.reinitialise,
        lambda: table.set({"comment": "x"}),
        lambda: table.unset(["comment"]),
    ):
        with pytest.raises(Refused, match="is a dynamic table"):
            attempt()
    assert cli("table", "set", "totals", f"{DEFINITION}=x").code == 2
    assert facts_of(shop, "totals").metadata_location == here
    table.set({"write.parquet.compression-codec": "zstd"})
    assert json.loads(facts_of(shop, "totals").properties[DEFINITION])["query"] == QUERIES["totals"]


def test_a_script_that_mixes_is_refused_before_any_of_it_runs(shop: Lake, cli: Cli) -> None:
    said = cli("sql", "--write", "ALTER DYNAMIC TABLE totals SUSPEND;\nGROUP BY customer")
    assert (said.code, "line 2, column 1" in said.err, "has a ; ended a query too early" in said.err) == (2, True, True)
    said = cli("sql", "SHOW DYNAMIC TABLES; ALTER DYNAMIC TABLE totals SUSPEND")
    assert (said.code, "ALTER DYNAMIC TABLE totals SUSPEND" in said.err) == (6, True)
    assert shop.dynamic("totals").show().state == "active"


def test_a_statement_is_judged_with_places_of_its_own(shop: Lake) -> None:
    head = "CREATE DYNAMIC TABLE lake.dynamic.order_details\nTARGET_LAG = '5 minutes'\nAS\n"
    found = shop.dynamic.validate(
        f"{head}SELECT o.id, o.day, t.total\nFROM lake.orders o\nJOIN lake.totals t ON t.customer = o.customer"
    )
    assert found.rule == "add and remove rows"
    with pytest.raises(TableNotFound, match=r"line 5, column 6") as lost:
        shop.dynamic.validate(f"{head}SELECT o.id\nFROM lake.oders o")
    assert "orders" in (lost.value.hint or "")
    with pytest.raises(ColumnNotFound, match=r"line 4, column 8") as missing:
        shop.dynamic.validate(f"{head}SELECT amont FROM orders")
    assert "amount" in (missing.value.hint or "")
    with pytest.raises(InvalidQuery, match="line 6"):
        shop.dynamic.validate(f"{head}SELECT id\nFROM orders\nWHERE id >")
    with pytest.raises(InvalidInput, match=r"default\.totals → default\.\w+"):
        shop.dynamic.validate(
            "CREATE OR REPLACE DYNAMIC TABLE totals TARGET_LAG = '1 hour' AS SELECT customer FROM big"
        )
    with pytest.raises(InvalidInput, match=r"default\.totals → default\.totals"):
        shop.dynamic.validate(
            "CREATE OR REPLACE DYNAMIC TABLE totals TARGET_LAG = '1 hour' AS SELECT customer FROM totals"
        )
    with pytest.raises(InvalidInput, match="contradict"):
        shop.dynamic.create(
            "CREATE OR REPLACE DYNAMIC TABLE IF NOT EXISTS t TARGET_LAG = '1 hour' AS SELECT customer FROM orders"
        )


def test_a_file_of_statements_is_judged_as_it_would_be_made(shop: Lake, cli: Cli, tmp_path: Path) -> None:
    """Each may read the tables of those before it, which are not there."""
    lag = "TARGET_LAG = '1 hour' AS"
    first = f"CREATE DYNAMIC TABLE days {lag} SELECT day, count(*) AS orders FROM orders GROUP BY day;"
    second = f"CREATE DYNAMIC TABLE busy {lag} SELECT day FROM days WHERE {{column}} > 2"
    found = shop.dynamic.validate(first + second.format(column="orders"))
    assert [(step.operator, step.rule) for step in found.inputs] == [
        ("default.days", "incremental"),
        ("default.busy", "incremental"),
    ]
    with pytest.raises(ColumnNotFound, match="ordres") as missing:
        shop.dynamic.validate(f"{first}\n{second.format(column='ordres')}")
    assert "orders" in (missing.value.hint or "")
    with pytest.raises(TableNotFound, match="days"):
        shop.dynamic.validate(f"{second.format(column='orders')};\n{first}")
    file = tmp_path / "tables.sql"
    file.write_text(first + second.format(column="orders"))
    told = cli("dynamic", "validate", "-f", str(file)).out.splitlines()
    assert told[0] == "2 dynamic tables: one by one (each may read those before it)"
    assert "  default.busy: incremental (reads default.days)" in told
    assert not {"days", "busy"} & {row.table for row in shop.dynamic.list()}


def test_a_file_that_makes_a_table_twice_is_refused(shop: Lake) -> None:
    first = "CREATE DYNAMIC TABLE days TARGET_LAG = '1 hour' AS SELECT day FROM orders;"
    with pytest.raises(AlreadyExists, match=r"makes default\.days twice"):
        shop.dynamic.validate(first + first)
    assert len(shop.dynamic.validate(first + first.replace("CREATE", "CREATE OR REPLACE")).inputs) == 1


def test_types_that_only_a_run_tells_are_asked_for(shop: Lake) -> None:
    lag = "TARGET_LAG = '1 hour' AS"
    unsure = f"CREATE DYNAMIC TABLE parts {lag} SELECT from_json(day, 'a int') AS part FROM orders;"
    with pytest.raises(InvalidInput, match=r"default\.next reads .*: default\.parts"):
        shop.dynamic.validate(f"{unsure} CREATE DYNAMIC TABLE next {lag} SELECT part FROM parts")


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("CREATE DYNAMIC TABLE t {lag} CLUSTER BY (nope) AS SELECT id FROM orders", ColumnNotFound, "nope"),
        ("CREATE DYNAMIC TABLE t {lag} PARTITIONED BY (bucket(4, i)) AS SELECT id FROM orders", ColumnNotFound, "i"),
        ("CREATE DYNAMIC TABLE t {lag} PARTITIONED BY (year(id)) AS SELECT id FROM orders", InvalidSchema, "year"),
        ("CREATE DYNAMIC TABLE t (a, b) {lag} AS SELECT id AS a FROM orders", InvalidQuery, "are not those of"),
        ("CREATE OR REPLACE DYNAMIC TABLE IF NOT EXISTS t {lag} AS SELECT id FROM orders", InvalidInput, "contradict"),
        ("CREATE OR REPLACE DYNAMIC TABLE orders {lag} AS SELECT total FROM big", AlreadyExists, "no dynamic table"),
    ],
)  # fmt: skip
def test_what_create_would_refuse_is_told_beforehand(
    shop: Lake, statement: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        shop.dynamic.validate(statement.replace("{lag}", "TARGET_LAG = '1 hour'"))


def test_other_settings_of_spark_mean_other_answers(lake: Lake) -> None:
    """Rows that are there were computed by the earlier ones; what changes would be computed by those of now."""
    make(lake, rows=2)
    declare(lake, "days", "SELECT v, count(*) AS n FROM t GROUP BY v")
    settle(lake, "days")
    assert [receipt.refresh for receipt in lake.dynamic.refresh(dry_run=True)] == ["NO_DATA"]
    file = lake.root / "neve.yaml"
    file.write_text(
        file.read_text().replace("#  conf: {}  ", "  conf: {spark.sql.session.timeZone: America/New_York}  ")
    )
    with Lake(lake.root) as again:
        (receipt,) = again.dynamic.refresh(dry_run=True)
    assert (receipt.refresh, receipt.reason and receipt.reason.code) == ("REINITIALIZE", "new_session")
    assert "America/New_York" in (receipt.reason.detail if receipt.reason else "")


def test_incremental_refuses_a_query_that_can_no_longer_follow(lake: Lake) -> None:
    lake.tables.create("s", "m int, n int")
    declare(lake, "counts", "SELECT count(*) AS n FROM s GROUP BY m", "REFRESH_MODE = INCREMENTAL")
    settle(lake, "counts")
    source = facts_of(lake, "s")
    assert lake._context.catalog._backend.drop(source.name, expected=source.metadata_location), "by another engine"
    lake.tables.create("s", "m map<string, int>, n int")
    found = lake.dynamic.round(dry_run=True)
    assert [receipt.state for receipt in found.receipts] == ["FAILED"]
    assert "cannot follow these changes: m is a map" in found.told()
