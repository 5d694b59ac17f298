"""Which queries are one, which columns must change for another one, and what may say that rows are frozen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from neve.errors import ColumnNotFound, InvalidQuery, NeveError, Refused, Unsupported
from neve.model.facts import TableFacts
from neve.model.layout import parse_transform
from neve.model.names import TableName
from neve.model.specs import AddColumn, DropColumn, MoveColumn, Position, SetComment, SetPartitioning
from neve.model.types import Field
from neve.plan.evolution import layout_changes, reshape, same_columns
from neve.sql.columns import parse_columns
from neve.sql.delta import Analysis, analyse, equivalent
from neve.sql.freezing import check_predicate, thawed

SCHEMAS = {
    name: parse_columns("id bigint, customer bigint, amount decimal(10,2), price double, day date")
    for name in ("default.orders", "other.orders")
}


def understood(query: str) -> Analysis:
    return analyse(query, SCHEMAS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "SELECT id FROM orders WHERE amount > 3",
            "select\n id -- the number\nfrom lake.default.orders where (amount>3)",
        ),
        ("SELECT id FROM orders o", "SELECT o.id FROM orders AS o"),
        (
            "SELECT customer, sum(amount) s FROM orders GROUP BY 1",
            "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer",
        ),
        ("WITH q AS (SELECT * FROM orders) SELECT id FROM q", "SELECT id FROM (SELECT * FROM orders) z"),
        ("SELECT id, rank() OVER (ORDER BY id) r FROM orders", "SELECT id,rank() over (order by id) AS r FROM orders"),
        ("SELECT id FROM orders WHERE day > current_date()", "SELECT id FROM orders WHERE day > CURRENT_DATE"),
    ],
)
def test_queries_that_are_one(one: str, other: str) -> None:
    assert equivalent(understood(one), understood(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT id FROM orders", "SELECT id FROM other.orders"),
        ("SELECT id FROM orders WHERE amount > 3", "SELECT id FROM orders WHERE amount > 4"),
        ("SELECT id FROM orders", "SELECT id AS number FROM orders"),
        ("SELECT id, customer FROM orders", "SELECT customer AS id, id AS customer FROM orders"),
        ("SELECT id, 'A' AS x FROM orders", "SELECT id, 'a' AS x FROM orders"),
        ("SELECT id FROM orders", "SELECT DISTINCT id FROM orders"),
        (
            "SELECT id FROM orders UNION SELECT customer FROM orders",
            "SELECT id FROM orders UNION ALL SELECT customer FROM orders",
        ),
        ("SELECT id, rank() OVER (ORDER BY id) r FROM orders", "SELECT id, rank() OVER (ORDER BY day) r FROM orders"),
    ],
)
def test_queries_that_are_not(one: str, other: str) -> None:
    assert not equivalent(understood(one), understood(other))


def facts(columns: str, *, partition_by: str | None = None) -> TableFacts:
    return TableFacts(
        name=TableName.parse("t"),
        uuid="u",
        location="/t",
        metadata_location="/t/metadata/0.json",
        format_version=3,
        updated_at=datetime(2024, 1, 1, tzinfo=UTC),
        columns=parse_columns(columns),
        partition_by=() if partition_by is None else (parse_transform(partition_by),),
        sort_by=(),
        properties={},
        snapshots=(),
        current_snapshot_id=None,
        made_current=(),
        references=(),
    )


def test_columns_that_go_come_and_stand_in_order() -> None:
    held = facts("a int comment 'first', b string, c date")
    wanted = parse_columns("b string comment 'new', d int, a bigint")
    assert not same_columns(held.columns, wanted)
    assert reshape(held, wanted, frozenset()) == [
        DropColumn("a"),
        DropColumn("c"),
        AddColumn("", wanted[1]),
        AddColumn("", wanted[2]),
        SetComment("b", "new"),
    ]
    first, *rest = reshape(held, parse_columns("d int, a int, b string, c date"), frozenset())
    assert isinstance(first, AddColumn)
    assert rest[:2] == [
        MoveColumn("d", Position(side="first")),
        MoveColumn("a", Position(side="after", column="d")),
    ]
    assert reshape(held, held.columns, frozenset({"a"})) == []
    with pytest.raises(Unsupported, match="a partitions files"):
        reshape(held, wanted, frozenset({"a"}))


def test_a_layout_changes_only_where_it_is_another() -> None:
    held = facts("a int, b date", partition_by="day(b)")
    assert layout_changes(held, held.partition_by, ()) == []
    assert layout_changes(held, (), ()) == [SetPartitioning(())]


@pytest.mark.parametrize(
    ("query", "predicate", "error", "sentence"),
    [
        ("SELECT id, amount FROM orders", "amont > 3", ColumnNotFound, "IMMUTABLE WHERE: .*amont"),
        ("SELECT id, amount FROM orders", "amount >", InvalidQuery, "IMMUTABLE WHERE: cannot read"),
        ("SELECT id, amount FROM orders", "id > 1) UNION SELECT 1, (2", NeveError, "IMMUTABLE WHERE"),
        ("SELECT id, amount FROM orders", "id > 1) ORDER BY (id", InvalidQuery, "one condition is needed"),
        ("SELECT id, amount FROM orders", "id IN (SELECT 1)", InvalidQuery, "over one row"),
        ("SELECT id, amount FROM orders", "max(id) OVER () > 1", InvalidQuery, "over one row"),
        ("SELECT id, day FROM orders", "day < current_date()", Refused, "present moment"),
        ("SELECT id, day FROM orders", "id < rand()", Refused, "another value each time"),
        ("SELECT customer, sum(amount) AS total FROM orders GROUP BY 1", "total > 3", Refused, "total cannot say"),
        ("SELECT sum(amount) AS total FROM orders", "total > 3", Refused, "total cannot say"),
        (
            "SELECT id, avg(price) OVER (PARTITION BY customer) AS mean FROM orders",
            "mean > 3",
            Refused,
            "two evaluations may give it differently",
        ),
    ],
)
def test_what_cannot_say_that_rows_are_frozen(
    query: str, predicate: str, error: type[NeveError], sentence: str
) -> None:
    result = understood(query)
    with pytest.raises(error, match=sentence):
        check_predicate(predicate, _columns(result), result)


@pytest.mark.parametrize(
    ("query", "predicate"),
    [
        ("SELECT id, amount, day FROM orders", "day < date'2024-01-01' AND amount <> 0 -- old"),
        ("SELECT customer, sum(amount) AS total FROM orders GROUP BY 1", "CUSTOMER < 3"),
        ("SELECT DISTINCT customer, day FROM orders", "day IS NULL"),
        ("SELECT id, row_number() OVER (ORDER BY id) AS n FROM orders", "n < 3"),
        ("SELECT id, avg(price) OVER (PARTITION BY customer) AS mean FROM orders", "id = 3"),
    ],
)
def test_what_can(query: str, predicate: str) -> None:
    result = understood(query)
    check_predicate(predicate, _columns(result), result)
    assert thawed(predicate).endswith("\n), false)"), "a comment at its end swallows nothing"


def _columns(result: Analysis) -> tuple[Field, ...]:
    known = {column.name: column for column in SCHEMAS["default.orders"]}
    return tuple(
        replace(known["amount"], name=column.name) if column.name not in known else known[column.name]
        for column in result.columns
        if not column.hidden
    )
