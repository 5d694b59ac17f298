"""What an analysis says before anything runs: names, types, places, reasons, and how the result is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from scripts.incremental_table import DOCUMENT, filled

from neve.errors import ColumnNotFound, InvalidQuery, NeveError, TableNotFound, Unsupported
from neve.model.delta import Step
from neve.sql.columns import parse_columns
from neve.sql.delta import Analysis, Apply, Moments, Version, analyse, derive, explain, full, stepwise

SCHEMAS = {
    "orders": parse_columns(
        "id bigint not null, cid int, amount decimal(12,2), score double, at timestamp, tags map<string,int>"
    ),
    "eu.customers": parse_columns("cid int not null, name string"),
    "nested": parse_columns("id int, held array<struct<m:map<string,int>>>"),
}
BOTH = frozenset({"orders", "eu.customers"})


def analysis_of(query: str, **options: object) -> Analysis:
    return analyse(query, SCHEMAS, **options)  # type: ignore[arg-type]


def test_sources_are_named_in_full_with_the_columns_used() -> None:
    found = analysis_of(
        "SELECT c.name FROM lake.default.orders o JOIN eu.customers c ON o.cid = c.cid WHERE amount > 1"
    )
    assert {s.name: s.columns for s in found.sources} == {
        "default.orders": ("cid", "amount"),
        "eu.customers": ("cid", "name"),
    }


def test_columns_that_no_operator_uses_are_not_read() -> None:
    found = analysis_of("SELECT t.id FROM (SELECT *, amount * 2 AS twice FROM orders) t")
    assert found.sources[0].columns == ("id",)
    assert analysis_of("SELECT count(*) AS n FROM orders").sources[0].columns == ()


def test_types_are_told_where_they_are_certain() -> None:
    found = analysis_of("SELECT cid, sum(amount) AS t, avg(amount) AS m, amount_of(1) AS u FROM orders GROUP BY cid")
    assert {c.name: str(c.type) for c in found.columns} == {
        "cid": "int",
        "t": "decimal(22,2)",
        "m": "decimal(16,6)",
        "u": "None",
    }


@pytest.mark.parametrize(
    ("query", "error", "message", "hint"),
    [
        ("SELECT id\nFROM ordres", TableNotFound, "no table default.ordres (line 2, column 6)", "default.orders"),
        ("SELECT id,\n       amuont\nFROM orders", ColumnNotFound, "no column amuont (line 2, column 8)", "amount"),
        ("SELECT o.nam FROM orders o", ColumnNotFound, "no column o.nam (line 1, column 8)", ""),
        ("SELECT cid FROM orders, eu.customers", InvalidQuery, "cid is ambiguous (line 1, column 8)", "table.column"),
        ("SELECT id, cid FROM orders GROUP BY id", InvalidQuery, "cid is neither grouped nor aggregated", "group by"),
        ("SELECT id, cid AS ID FROM orders", InvalidQuery, "two columns of the result are called ID", "AS"),
        ("SELECT id AS _neve_x FROM orders", InvalidQuery, "_neve_x", "AS"),
        ("SELECT id FROM orders; SELECT 1", InvalidQuery, "one query is needed", "SELECT"),
        ("SELECT id FROM orders WHERE", InvalidQuery, "WHERE is not complete (line 1, column", None),
        ("SELECT id, sum(amount) AS s FROM orders; GROUP BY id", InvalidQuery, "cannot read this SQL", None),
        ("DROP TABLE orders", InvalidQuery, "one query is needed, not DROP", "SELECT"),
        ("SELECT id FROM orders UNION SELECT cid, name FROM eu.customers", InvalidQuery, "1 and 2 columns", None),
        ("SELECT id FROM orders GROUP BY 4", InvalidQuery, "position 4 is not in the select list", None),
    ],
)
def test_errors_say_what_and_where(query: str, error: type[NeveError], message: str, hint: str | None) -> None:
    with pytest.raises(error) as caught:
        analysis_of(query)
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("query", "code", "line", "column"),
    [
        ("SELECT id,\n  rand() AS r FROM orders", "not_deterministic", 2, 3),
        ("SELECT id, current_timestamp() AS t FROM orders", "time_function", 1, 12),
        ("SELECT id, rank() OVER (ORDER BY amount) AS r FROM orders", "window_without_partition", 1, 12),
        ("SELECT id FROM orders\nLIMIT 3", "limit_without_order", 2, 7),
        ("SELECT id, mine(amount) AS m FROM orders", "undeclared_function", 1, 12),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT n FROM r", "recursion", 1, 16),
        ("SELECT id FROM orders TABLESAMPLE (10 PERCENT)", "sample", 1, 16),
        ("SELECT id FROM orders VERSION AS OF 3", "version", 1, 16),
        ("SELECT id FROM range(3)", "table_function", 1, 16),
        ("SELECT id, tags FROM orders", "map_column", None, None),
        ("SELECT id, held FROM nested", "map_column", None, None),
        ("SELECT count(*) AS n FROM nested GROUP BY held", "map_key", None, None),
        ("SELECT o.id FROM orders o JOIN (SELECT cid, sum(score) AS s FROM orders GROUP BY cid) t\nON t.s = o.score",
         "uncertain_value", 2, 4),
        ("SELECT id, (SELECT max(o.id) FROM orders o WHERE o.cid > c.cid) AS m FROM orders c",
         "correlated_subquery", 1, 50),
    ],
)  # fmt: skip
def test_what_cannot_follow_changes_is_named_with_its_place(
    query: str, code: str, line: int | None, column: int | None
) -> None:
    found = analysis_of(query)
    assert [(r.code, r.line, r.column) for r in found.reasons] == [(code, line, column)]
    assert not found.incremental
    with pytest.raises(Unsupported, match="computed in full"):
        derive(found, BOTH)
    assert explain(found).rule == "full"
    assert explain(found).detail == str(found.reasons[0])


def test_every_reason_is_told_at_once() -> None:
    found = analysis_of("SELECT rand() AS r, mine(id) AS m, rank() OVER (ORDER BY id) AS k FROM orders")
    assert {r.code for r in found.reasons} == {"not_deterministic", "undeclared_function", "window_without_partition"}


def test_declared_functions_are_trusted() -> None:
    assert analysis_of("SELECT Mine(id) AS m FROM orders", deterministic=frozenset({"mine"})).incremental


def test_full_text_of_a_query_without_rules_reads_the_given_versions() -> None:
    found = analysis_of(
        "WITH t AS (SELECT rand() AS r, id FROM orders) SELECT t.r, o.id FROM t JOIN orders o ON t.id = o.id"
    )
    text = full(found, Version.NEW)
    assert [(r.relation, r.source) for r in text.reads] == [("new_orders", "default.orders")]
    assert "FROM new_orders AS orders" in " ".join(text.sql.split())
    assert text.columns == ("r", "id")


@pytest.mark.parametrize(
    ("query", "road", "apply"),
    [
        ("SELECT cid, count(*) AS n, avg(amount) AS m FROM orders GROUP BY cid", "merge", Apply("keyed", ("cid",))),
        ("SELECT count(*) AS n FROM orders GROUP BY cid", "merge", Apply("keyed", ("_neve_cid",))),
        ("SELECT count(*) AS n FROM orders", "merge", Apply("keyed")),
        ("SELECT cid, sum(score) AS s FROM orders GROUP BY cid", "scope", Apply("keyed", ("cid",))),
        ("SELECT cid, count(*) AS n FROM orders GROUP BY cid HAVING n > 1", "scope", Apply("keyed", ("cid",))),
        ("SELECT DISTINCT cid FROM orders", "merge", Apply("keyed", ("cid",))),
        ("SELECT cid FROM orders EXCEPT SELECT cid FROM eu.customers", "scope", Apply("keyed", ("cid",))),
        ("SELECT cid FROM orders EXCEPT ALL SELECT cid FROM eu.customers", "scope", Apply("scoped", ("cid",))),
        ("SELECT id, rank() OVER (PARTITION BY cid ORDER BY id) AS r FROM orders", "scope",
         Apply("scoped", ("_neve_cid",))),
        ("SELECT id FROM orders ORDER BY amount LIMIT 3", "scope", Apply("scoped")),
        ("SELECT id, cid FROM orders QUALIFY row_number() OVER (PARTITION BY cid ORDER BY id) = 1", "scope",
         Apply("keyed", ("cid",))),
        ("SELECT id FROM orders WHERE cid > 1", "rows", Apply("bag")),
        ("SELECT c.name, t.s FROM eu.customers c JOIN (SELECT cid, sum(score) AS s FROM orders GROUP BY cid) t "
         "ON t.cid = c.cid", "exact", Apply("scoped", ("name",))),
    ],
)  # fmt: skip
def test_the_cheapest_road_that_is_right_is_taken(query: str, road: str, apply: Apply) -> None:
    found = analysis_of(query)
    assert found.shape is not None
    assert (found.shape.road, found.shape.apply) == (road, apply)


def test_fast_float_sums_are_merged() -> None:
    query = "SELECT cid, sum(score) AS s, avg(score) AS m FROM orders GROUP BY cid"
    for option, road in (("exact", "scope"), ("fast", "merge")):
        shape = analysis_of(query, float_sums=option).shape
        assert shape is not None
        assert shape.road == road


def test_a_merge_reads_no_version_of_the_source() -> None:
    derived = derive(analysis_of("SELECT cid, sum(amount) AS t FROM orders GROUP BY cid"), BOTH)
    assert derived is not None
    assert {r.kind for r in derived.reads} == {"delta", "stored"}


def test_touched_groups_only_read_touched_keys() -> None:
    derived = derive(analysis_of("SELECT cid, sum(score) AS t FROM orders GROUP BY cid"), BOTH)
    assert derived is not None
    assert {r.relation for r in derived.reads} == {"delta_orders", "new_orders", "stored"}
    text = " ".join(derived.sql.split())
    assert (
        "FROM new_orders WHERE EXISTS( SELECT 1 FROM keys WHERE `k_cid` IS NOT DISTINCT FROM `new_orders`.`cid` )"
        in text
    )


def test_what_did_not_change_changes_nothing() -> None:
    found = analysis_of("SELECT cid FROM orders")
    assert derive(found, frozenset()) is None
    assert derive(found, frozenset({"eu.customers"})) is None
    assert derive(found, frozenset({"lake.default.orders"})) is not None


def test_views_are_read_as_the_queries_that_they_are() -> None:
    views = {"big": "SELECT * FROM orders WHERE amount > 10", "eu.loop": "SELECT * FROM eu.loop"}
    found = analysis_of("SELECT cid, count(*) AS n FROM big GROUP BY cid", views=views)
    assert found.incremental
    assert found.sources[0].columns == ("cid", "amount")
    assert [r.code for r in analysis_of("SELECT * FROM eu.loop", views=views).reasons] == ["recursion"]
    said = analysis_of("SELECT r FROM odd", views={"odd": "SELECT rand() AS r FROM orders"}).reasons
    assert [(r.code, r.detail, r.line) for r in said] == [
        ("not_deterministic", "in view default.odd: rand() gives another value each time", None)
    ]


def test_the_present_moment_moves_rows_by_itself() -> None:
    found = analysis_of("SELECT id FROM orders WHERE at > current_timestamp() - INTERVAL 1 DAY")
    assert found.timed
    assert found.incremental
    now = datetime(2026, 1, 2, tzinfo=UTC)
    derived = derive(found, frozenset(), moments=Moments(now - timedelta(days=1), now))
    assert derived is not None
    assert [r.relation for r in derived.reads] == ["new_orders"]
    assert "2026-01-02 00:00:00+00:00" in derived.sql
    assert derive(found, frozenset(), moments=Moments(now, now)) is None
    with pytest.raises(ValueError, match="moments"):
        derive(found, BOTH)


def test_the_explanation_is_a_tree_of_rules() -> None:
    def rules(step: Step) -> list[str]:
        return [step.rule, *(rule for item in step.inputs for rule in rules(item))]

    query = "SELECT c.name, sum(o.amount) AS t FROM orders o JOIN eu.customers c ON o.cid = c.cid GROUP BY c.name"
    step = explain(analysis_of(query))
    assert step.operator == "table (keyed by name, also keeps _neve_rows, _neve_count_of_amount)"
    assert rules(step) == [
        "add to stored rows", "projection", "projection", "sums", "join terms", "source", "source",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_page_says_what_the_rules_say() -> None:
    text = DOCUMENT.read_text()
    assert filled(text) == text, "run scripts/incremental_table.py"
    assert sum(line.startswith("| Q") and "| incremental |" in line for line in text.splitlines()) == 22


@pytest.mark.parametrize(
    ("query", "old"),
    [
        ("SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM eu.customers c WHERE c.cid = o.cid)", False),
        ("SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM eu.customers c WHERE c.cid = o.id)", False),
        ("SELECT id, name FROM orders o LEFT JOIN eu.customers c ON c.name <=> o.at", True),
        ("SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM eu.customers c WHERE c.name = o.cid)", True),
        (
            "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM eu.customers c WHERE c.cid = o.cid AND c.cid < o.id)",
            True,
        ),
    ],
    ids=[
        "equal",
        "whole numbers",
        "a text and a time",
        "a text and a number: '1' and '01' are both 1",
        "not only equal",
    ],
)
def test_partners_of_before_follow_from_those_of_now_where_values_stay_apart(query: str, old: bool) -> None:
    derived = derive(analysis_of(query), frozenset({"eu.customers"}))
    assert derived is not None
    assert ("old_customers" in {read.relation for read in derived.reads}) is old


@pytest.mark.parametrize(
    ("other", "few"),
    [
        ("SELECT 1 FROM eu.customers c WHERE c.cid = o.cid AND c.name <> 'x'", True),
        ("SELECT 1 FROM (SELECT cid, count(*) AS n FROM eu.customers GROUP BY cid) c WHERE c.cid = o.cid", True),
        ("SELECT 1 FROM eu.customers c JOIN eu.customers d ON c.name = d.name WHERE c.cid = o.cid", False),
        ("SELECT 1 FROM (SELECT a.cid, count(*) AS n FROM eu.customers a JOIN eu.customers b ON a.name = b.name"
         " GROUP BY a.cid) c WHERE c.cid = o.cid", False),
    ],
    ids=["rows of a table", "groups of a table", "rows of a join", "groups of a join"],
)  # fmt: skip
def test_only_what_is_as_few_as_the_changes_may_go_to_every_task(other: str, few: bool) -> None:
    """A changed row of a join's side may stand for any number of its rows, and touch as many keys."""
    derived = derive(analysis_of(f"SELECT id FROM orders o WHERE NOT EXISTS ({other})"), frozenset({"eu.customers"}))
    assert derived is not None
    known = {step.name: step.few for step in stepwise(derived).steps}
    assert known.get("turned", False) is few
