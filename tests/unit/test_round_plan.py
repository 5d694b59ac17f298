"""Who takes part in a round of refreshes, and at which moment of the plain tables each stands."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from tests.unit.test_graph import DIAMOND, graph, named

from neve.model.names import TableName
from neve.model.refresh import Pin
from neve.plan.graph import Graph, upstream
from neve.plan.rounds import RoundPlan, Standing, plan_round

NOW = datetime(2026, 11, 16, tzinfo=UTC)
EARLIER, LONG_AGO = NOW - timedelta(hours=1), NOW - timedelta(days=1)
(A, B, C, D, E, X) = named("a", "b", "c", "d", "e", "x")


def pin(snapshot: int) -> Pin:
    return Pin(uuid="u", snapshot=snapshot)


def stand(at: datetime = EARLIER, *, suspended: bool = False, **base: int) -> Standing:
    return Standing(base={TableName.parse(key): pin(n) for key, n in base.items()}, at=at, suspended=suspended)


def plan(
    tables: Graph,
    chosen: list[TableName],
    standing: dict[TableName, Standing],
    *,
    by_name: list[TableName] | None = None,
) -> RoundPlan:
    plain = {source for sources in tables.values() for source in sources if source not in tables}
    return plan_round(
        tables,
        chosen=chosen,
        named=chosen if by_name is None else by_name,
        pins={table: pin(9) for table in plain},
        at=NOW,
        standing=standing,
    )


def test_a_whole_round_stands_at_one_moment() -> None:
    old = {B: stand(a=1), C: stand(a=2), D: Standing(), E: stand(x=1)}
    found = plan(DIAMOND, [B, C, D, E], old)
    assert list(found.visits) == [B, C, E, D]
    assert {visit.at for visit in found.visits.values()} == {NOW}
    assert found.visits[D].base == {A: pin(9)}
    assert not found.called_in


def test_a_table_alone_reads_plain_tables_as_its_parent_did() -> None:
    """A join of a dynamic table with its own source: notes of the first document, case 8."""
    found = plan(graph(b="a", c="a b x"), [C], {B: stand(a=1), C: Standing()})
    assert found.visits[C].base == {A: pin(1), X: pin(9)}
    assert found.visits[C].at == EARLIER, "it is as old as what it reads"


def test_a_parent_that_stands_where_the_round_does_is_not_old() -> None:
    found = plan(graph(b="a", c="a b"), [C], {B: stand(LONG_AGO, a=9), C: stand(EARLIER, a=9)})
    assert found.visits[C].at == NOW


def test_parents_at_different_moments_are_brought_to_one() -> None:
    """Case 9; and those above them that would keep them back come too."""
    found = plan(DIAMOND, [D], {B: stand(a=1), C: stand(a=2), D: Standing(), E: stand(x=1)})
    assert list(found.visits) == [B, C, D]
    assert found.called_in == {B: D, C: D}
    assert found.visits[D].base == {A: pin(9)}
    (q, p) = named("q", "p")
    deep = graph(q="a", p="q", c="a", d="p c")
    found = plan(deep, [D], {q: stand(a=1), p: stand(a=1), C: stand(a=9), D: Standing()})
    assert found.called_in == {p: D, q: D}, "c stands there already"


def test_a_parent_without_rows_is_filled_first() -> None:
    found = plan(DIAMOND, [D], {B: Standing(), C: stand(a=9), D: Standing(), E: Standing()})
    assert found.called_in == {B: D}
    assert list(found.visits) == [B, D]


def test_a_suspended_table_takes_part_when_it_is_named() -> None:
    old = {B: stand(suspended=True, a=1), C: stand(a=1), D: stand(a=1), E: Standing()}
    found = plan(DIAMOND, [B, C, D, E], old, by_name=[])
    assert list(found.visits) == [C, E]
    assert found.skipped[B].code == "suspended"
    assert found.impossible[D].code == "upstream_suspended"
    assert "dynamic refresh b d" in found.impossible[D].detail
    assert list(plan(DIAMOND, [B, C, D, E], old, by_name=[B]).visits) == [B, C, E, D]
    alone = plan(graph(b="a", c="a b"), [B, C], {B: stand(suspended=True, a=1), C: Standing()}, by_name=[])
    assert alone.visits[C].base == {A: pin(1)}, "a child reads it as it stands"


def test_a_source_that_is_gone_concerns_those_who_read_it() -> None:
    tables = graph(b="a", c="x")
    found = plan_round(
        tables, chosen=[B, C], named=[], pins={A: pin(9)}, at=NOW, standing={B: Standing(), C: Standing()}
    )
    assert list(found.visits) == [B]
    assert found.impossible[C].code == "table_not_found"


def test_whatever_stands_where_every_table_reads_one_moment() -> None:
    """Random graphs and standings: each member gets a visit or a reason, and all that a visit reads agrees."""
    for seed in range(300):
        chance = random.Random(seed)
        names = named(*(f"t{number}" for number in range(8)))
        plain = named("p0", "p1")
        tables = {
            name: sorted({*chance.sample(names[:at], min(at, chance.randrange(4))), chance.choice(plain)}, key=str)
            for at, name in enumerate(names)
        }
        below = {
            name: {source for table in (name, *upstream(tables, name)) for source in tables[table] if source in plain}
            for name in names
        }
        standing = {
            name: Standing(
                base=None if chance.random() < 0.1 else {table: pin(chance.choice((1, 2, 9))) for table in below[name]},
                at=EARLIER,
                suspended=chance.random() < 0.1,
            )
            for name in names
        }
        chosen = chance.sample(names, chance.randrange(1, 8))
        found = plan(tables, chosen, standing, by_name=chance.sample(chosen, 1))
        assert {*found.visits, *found.skipped, *found.impossible} == {*chosen, *found.called_in}
        for name, visit in found.visits.items():
            assert set(visit.base) <= below[name]
            for source in tables[name]:
                if source in plain:
                    assert source in visit.base
                elif source in found.visits:
                    assert found.visits[source].base.items() <= visit.base.items()
                elif source not in found.impossible:
                    assert (standing[source].base or {}).items() <= visit.base.items()
