"""`neve namespace create | list | drop`, and how table names are read."""

from __future__ import annotations

import json

import pytest
from tests.lake.lakes import Cli, contents, make, names

from neve.errors import AlreadyExists, InvalidName, NamespaceNotFound, NotEmpty
from neve.lake import Lake


def listed(lake: Lake) -> dict[str, int]:
    return {row.namespace: row.tables for row in lake.namespaces.list()}


def test_a_namespace_brings_those_above_it(lake: Lake, cli: Cli) -> None:
    assert cli("namespace", "create", "a.b.c").code == 0
    assert listed(lake) == {"default": 0, "a": 0, "a.b": 0, "a.b.c": 0}
    make(lake, "a.b.t")
    rows = json.loads(cli("namespace", "list", "-o", "json").out)
    assert {row["namespace"]: row["tables"] for row in rows} == listed(lake)
    assert listed(lake)["a.b"] == 1


def test_twice_is_refused_unless_told(lake: Lake, cli: Cli) -> None:
    make(lake, "a.t")
    before = contents(lake)
    assert cli("namespace", "create", "a").code == 4
    with pytest.raises(AlreadyExists):
        lake.namespaces.create("a")
    said = cli("namespace", "create", "a", "--if-not-exists", "-o", "json")
    assert (said.code, json.loads(said.out)) == (0, {"namespace": "a", "tables": 1})
    assert contents(lake) == before


def test_only_an_empty_one_is_dropped(lake: Lake, cli: Cli) -> None:
    make(lake, "a.b.t")
    before = contents(lake)
    for name in ("a", "a.b"):
        said = cli("namespace", "drop", name)
        assert said.code == 6
        assert "a.b" in said.err
    with pytest.raises(NotEmpty):
        lake.namespaces.drop("a")
    said = cli("namespace", "drop", "ab")
    assert said.code == 3
    with pytest.raises(NamespaceNotFound, match="no namespace nope"):
        lake.namespaces.drop("nope")
    assert contents(lake) == before
    lake.table("a.b.t").drop()
    assert cli("namespace", "drop", "a.b").code == 0
    assert cli("namespace", "drop", "a").code == 0
    assert listed(lake) == {"default": 0}


def test_a_table_comes_back_into_a_namespace_that_was_dropped(lake: Lake) -> None:
    make(lake, "a.t")
    lake.table("a.t").drop()
    lake.namespaces.drop("a")
    lake.tables.undelete("a.t")
    assert names(lake) == ["a.t"]


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "lake", "a/b", "..", "a\nb", " a", "x" * 256, "`a"])
def test_bad_names_are_refused(lake: Lake, cli: Cli, name: str) -> None:
    before = contents(lake)
    for verb in ("create", "drop"):
        said = cli("namespace", verb, "--", name)
        assert (said.code, said.out) == (2, ""), said
    with pytest.raises(InvalidName):
        lake.namespaces.create(name)
    assert contents(lake) == before


def test_a_namespace_of_many_parts_has_255_bytes_in_all(lake: Lake) -> None:
    lake.namespaces.create(".".join(["x" * 63] * 4))
    with pytest.raises(InvalidName):
        lake.namespaces.create(".".join(["x" * 63] * 4) + "y")


@pytest.mark.parametrize("spelling", ["sales", "default.sales", "lake.default.sales", "lake.sales", "`sales`"])
def test_one_table_by_all_its_spellings(lake: Lake, cli: Cli, spelling: str) -> None:
    make(lake, "sales")
    assert json.loads(cli("table", "show", spelling, "-o", "json").out)["table"] == "default.sales"
    assert cli("table", "create", spelling, "--schema", "id int").code == 4
