"""The graph of dynamic tables: order, circles, selectors."""

from __future__ import annotations

import random

import pytest

from neve.errors import InvalidInput, NotFound
from neve.model.names import TableName
from neve.plan.graph import choose, downstream, upstream, waves


def named(*names: str) -> list[TableName]:
    return [TableName.parse(name) for name in names]


def graph(**sources: str) -> dict[TableName, list[TableName]]:
    return {TableName.parse(name): named(*text.split()) for name, text in sources.items()}


DIAMOND = graph(b="a", c="a", d="b c", e="x")


def test_waves_of_a_diamond() -> None:
    assert waves(DIAMOND) == [named("b", "c", "e"), named("d")]
    assert waves({}) == []


def test_every_table_comes_after_those_it_reads() -> None:
    for seed in range(50):
        chance = random.Random(seed)
        names = named(*(f"t{number}" for number in range(12)))
        made = {
            name: [*chance.sample(names[:index], min(index, chance.randrange(4))), *named("base")]
            for index, name in enumerate(names)
        }
        order = [name for wave in waves(made) for name in wave]
        assert sorted(order, key=str) == sorted(names, key=str)
        for name, sources in made.items():
            assert all(order.index(source) < order.index(name) for source in sources if source in made)


@pytest.mark.parametrize("circle", [graph(a="b", b="a"), graph(a="b", b="c", c="a"), graph(a="a")])
def test_a_circle_is_told_with_its_path(circle: dict[TableName, list[TableName]]) -> None:
    with pytest.raises(InvalidInput, match=r"in a circle: default\.\w → default\.\w"):
        waves(circle)


def test_what_a_table_needs_and_who_needs_it() -> None:
    (a, b, c, d, e) = named("a", "b", "c", "d", "e")
    assert upstream(DIAMOND, d) == {b, c}
    assert upstream(DIAMOND, b) == set()
    assert downstream(DIAMOND, b) == {d}
    assert downstream(DIAMOND, a) == {b, c, d}
    assert downstream(DIAMOND, e) == set()


def test_selectors() -> None:
    (b, c, d, e) = named("b", "c", "d", "e")
    assert choose(DIAMOND, []) == {b, c, d, e}
    assert choose(DIAMOND, ["b"]) == {b}
    assert choose(DIAMOND, ["+d"]) == {b, c, d}
    assert choose(DIAMOND, ["b+", "e"]) == {b, d, e}
    with pytest.raises(NotFound, match="no dynamic table") as caught:
        choose(graph(orders="x"), ["order"])
    assert "orders" in (caught.value.hint or "")
