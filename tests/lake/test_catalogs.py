"""The same life of a table on PostgreSQL, and behind a catalog that PyIceberg speaks to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lake.lakes import append, check_healthy, facts, make, names
from tests.postgres import Cluster

from neve.errors import (
    AlreadyExists,
    InvalidInput,
    InvalidName,
    InvalidSchema,
    NamespaceNotFound,
    NotEmpty,
    TableNotFound,
    Unsupported,
)
from neve.lake import Lake
from neve.model.names import TableName
from neve.services.specs import alterations_from_words


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres), "remote"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A lake on each kind of catalog. PyIceberg's own SQL catalog stands in for REST, Glue and Hive."""
    if request.param == "postgresql":
        cluster: Cluster = request.getfixturevalue("postgres_cluster")
        monkeypatch.setenv("NEVE_CATALOG__TYPE", "postgresql")
        monkeypatch.setenv("NEVE_CATALOG__URI", cluster.create_schema())
        monkeypatch.setenv("NEVE_STATE__URI", cluster.create_schema())
    elif request.param == "remote":
        uri = f"sqlite:///{tmp_path / 'remote.db'}"
        monkeypatch.setenv("NEVE_CATALOG__TYPE", "rest")
        monkeypatch.setenv("NEVE_CATALOG__URI", "http://127.0.0.1:1/not-used")
        monkeypatch.setenv("NEVE_CATALOG__PROPERTIES", f'{{"type": "sql", "uri": "{uri}"}}')
    with Lake.create(tmp_path / "lake") as lake:
        kind = type(lake._context.catalog._backend).__name__
        assert kind == ("RemoteBackend" if request.param == "remote" else "SqlBackend")
        yield lake


@pytest.mark.slow
def test_a_whole_life(anywhere: Lake) -> None:
    lake = anywhere
    schema = "id bigint not null, at timestamp, s struct<a:int,b:array<string>>, m map<string,decimal(5,2)>"
    lake.tables.create("raw.eu.t", schema, partition_by=["day(at)", "bucket(4, id)"], sort_by=["id desc"])
    shown = lake.table("raw.eu.t").show()
    assert shown.format_version == 3
    assert [(column.name, column.type, column.required) for column in shown.columns] == [
        ("id", "bigint", True),
        ("at", "timestamp", False),
        ("s", "struct<a:int,b:array<string>>", False),
        ("m", "map<string,decimal(5,2)>", False),
    ]
    assert (shown.partition_by, shown.sort_by) == (["day(at)", "bucket(4, id)"], ["id desc nulls last"])
    before = facts(lake, "raw.eu.t")

    lake.table("raw.eu.t").rename("`odd name`.t2")
    assert names(lake) == ["`odd name`.t2"]
    table = lake.table("`odd name`.t2")
    assert facts(lake, "`odd name`.t2").uuid == before.uuid
    table.alter(alterations_from_words(add=["note string after id"], rename={"at": "when"}, drop=["m"]))
    assert [column.name for column in table.show().columns] == ["id", "note", "when", "s"]
    assert table.show().partition_by == ["day(when)", "bucket(4, id)"]
    table.set({"owner": "it's me", "x": "1"})
    table.unset(["x"])
    assert {row.key: row.value for row in table.properties()}["owner"] == "it's me"
    table.offline()
    assert [row.online for row in lake.tables.list()] == [False]
    table.online()
    assert facts(lake, "`odd name`.t2").location == before.location

    table.drop()
    assert names(lake) == []
    lake.tables.undelete("`odd name`.t2", new_name="back")
    assert facts(lake, "back").uuid == before.uuid
    check_healthy(lake)
    receipt = lake.table("back").drop(keep_data=True)
    place = str(receipt.undo).split()[-1]
    lake.tables.register("again", place)
    assert facts(lake, "again").uuid == before.uuid
    lake.table("again").drop(force=True)
    assert not Path(before.location).exists()
    assert names(lake) == []
    check_healthy(lake)
    assert {run.state for run in lake.runs.list()} == {"succeeded"}


def test_refusals(anywhere: Lake) -> None:
    lake = anywhere
    lake.tables.create("a", "id int, v string")
    lake.tables.create("b", "id int")
    with pytest.raises(AlreadyExists):
        lake.tables.create("a", "id int")
    with pytest.raises(AlreadyExists):
        lake.table("a").rename("b")
    with pytest.raises(TableNotFound):
        lake.table("nope").rename("c")
    with pytest.raises(TableNotFound, match="nope"):
        lake.table("nope").show()
    with pytest.raises(TableNotFound):
        lake.table("nope").drop(force=True)
    with pytest.raises(TableNotFound):
        lake.tables.undelete("a")
    with pytest.raises(InvalidName):
        lake.tables.create("../x", "id int")
    with pytest.raises(InvalidSchema):
        lake.table("a").alter(alterations_from_words(types={"v": "int"}))
    with pytest.raises(AlreadyExists):
        lake.tables.register("c", facts(lake, "a").metadata_location)
    assert lake.tables.create("a", "id int", if_not_exists=True).run_id is None
    assert names(lake) == ["default.a", "default.b"]
    check_healthy(lake)


def test_namespaces(anywhere: Lake) -> None:
    lake = anywhere
    lake.namespaces.create("x.y")
    assert [row.namespace for row in lake.namespaces.list()] == ["default", "x", "x.y"]
    with pytest.raises(AlreadyExists):
        lake.namespaces.create("x.y")
    lake.tables.create("x.y.t", "id int")
    with pytest.raises(NotEmpty):
        lake.namespaces.drop("x.y")
    with pytest.raises(NotEmpty):
        lake.namespaces.drop("x")
    lake.table("x.y.t").drop()
    lake.namespaces.drop("x.y")
    lake.namespaces.drop("x")
    with pytest.raises(NamespaceNotFound):
        lake.namespaces.drop("x")
    assert [row.namespace for row in lake.namespaces.list()] == ["default"]


@pytest.mark.slow
def test_odd_names(anywhere: Lake) -> None:
    lake = anywhere
    for name in ("select", "a b", "a'b", 'a"b', "x'; DROP TABLE iceberg_tables;--", "数据", "x" * 255, "%s?"):
        parsed = TableName.parse(f"`{name}`")
        lake.tables.create(f"`{name}`", f"`{name}` int")
        assert names(lake) == [str(parsed)]
        lake.table(f"`{name}`").set({"k": name})
        lake.table(f"`{name}`").rename("plain")
        lake.table("plain").rename(f"`{name}`")
        assert lake.table(f"`{name}`").show().columns[0].name == name
        lake.table(f"`{name}`").drop()
        assert names(lake) == []


def test_a_remote_catalog_that_is_not_there_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from neve.errors import NeveError

    monkeypatch.setenv("NEVE_CATALOG__TYPE", "rest")
    monkeypatch.setenv("NEVE_CATALOG__URI", "http://127.0.0.1:1")
    with pytest.raises(NeveError, match="catalog"):
        Lake.create(tmp_path / "lake")


def test_names_that_change_what_they_mean_in_one_step(anywhere: Lake) -> None:
    lake, catalog = anywhere, anywhere._context.catalog
    one, other, aside = (TableName.parse(name) for name in ("one", "other", "_neve_aside_x"))
    lake.tables.create("one", "id bigint")
    lake.tables.create("other", "name string")
    uuids = facts(lake, "one").uuid, facts(lake, "other").uuid
    expected = facts(lake, "one").metadata_location, facts(lake, "other").metadata_location
    if not catalog.exchanges:
        with pytest.raises(Unsupported, match="in one step"):
            catalog.exchange(one, other, expected=expected)
        with pytest.raises(Unsupported, match="in one step"):
            catalog.supersede(one, aside, expected=expected[0])
        return
    for stale in (("elsewhere", expected[1]), (expected[0], "elsewhere")):
        assert not catalog.exchange(one, other, expected=stale)
        assert (facts(lake, "one").uuid, facts(lake, "other").uuid) == uuids, "half of an exchange is undone"
    assert catalog.exchange(one, other, expected=expected)
    assert (facts(lake, "other").uuid, facts(lake, "one").uuid) == uuids
    base = catalog.set_aside(one, aside)
    catalog.set_properties(aside, put={"built": "aside"})
    assert names(lake) == ["default.one", "default.other"]
    assert not catalog.supersede(one, aside, expected="elsewhere")
    assert "built" not in facts(lake, "one").properties
    assert catalog.supersede(one, aside, expected=base)
    assert (facts(lake, "one").properties["built"], catalog.exists(aside)) == ("aside", False)
    catalog.forget_aside(aside)


def test_expiry_and_orphans_anywhere(anywhere: Lake) -> None:
    """Snapshots go in one commit, whoever the catalog is, and so do the files that only they had."""
    table = make(anywhere)
    first = append(anywhere, "t", [{"id": 0, "v": "x"}])
    others = [append(anywhere, "t", [{"id": number, "v": "x"}]) for number in (1, 2)]
    table.tag("v1", at=str(first))
    stale = facts(anywhere, "t")
    table.set({"owner": "me"})
    catalog = anywhere._context.catalog
    assert not catalog.remove_snapshots(stale, [others[0]], []), "the table was changed meanwhile"
    found = table.expire(older_than="0")
    assert found.expired == others[:1]
    assert {row.snapshot for row in table.history()} == {first, others[1]}
    assert [row.name for row in table.references()] == ["main", "v1"]
    assert (found.files_removed, [item.kind for item in found.removed]) == (1, ["manifest_list"])
    assert all(Path(file.path).exists() for file in table.files())
    assert table.orphans().files == 0


def test_tags_move_together_in_one_commit(anywhere: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that hold the sources of dynamic tables move with every refresh; everything else of the table stays."""
    table = make(anywhere)
    first, second = (append(anywhere, "t", [{"id": number, "v": "x"}]) for number in (0, 1))
    table.branch("aside", at=str(first))
    catalog, name = anywhere._context.catalog, TableName.parse("t")

    def tags() -> dict[str, int]:
        return {row.name: row.snapshot for row in table.references() if row.kind == "tag"}

    catalog.set_tags(name, put={"a": first, "b": first})
    before = facts(anywhere, "t")
    catalog.set_tags(name, put={"a": second}, remove=["b", "unknown"])
    after = facts(anywhere, "t")
    assert tags() == {"a": second}
    assert {row.name: row.snapshot for row in table.references() if row.kind == "branch"} == {
        "main": second,
        "aside": first,
    }
    assert (after.snapshots, after.properties, after.columns) == (before.snapshots, before.properties, before.columns)
    assert catalog.earlier_metadata(after.metadata_location)[-1] == before.metadata_location, "one commit"
    with pytest.raises(InvalidInput):
        catalog.set_tags(name, put={"c": 42})
    assert tags() == {"a": second}
    with pytest.raises(TableNotFound):
        catalog.set_tags(TableName.parse("gone"), put={"c": first})

    set_tags, rivals = catalog._backend.set_tags, iter(["owner"])

    def rival_first(*arguments: object, **more: object) -> bool:
        for key in rivals:
            table.set({key: "rival"})
            return False
        return set_tags(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog._backend, "set_tags", rival_first)
    catalog.set_tags(name, put={"a": first})
    assert (tags(), facts(anywhere, "t").properties["owner"]) == ({"a": first}, "rival")


def test_a_tag_that_loses_to_a_rival_leaves_nothing_behind(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake)
    snapshot = append(lake, "t", [{"id": 0, "v": "x"}])
    catalog, name = lake._context.catalog, TableName.parse("t")
    folder = Path(facts(lake, "t").location.removeprefix("file:")) / "metadata"
    swap, lost = catalog._backend._rows.replace, iter([True])  # type: ignore[attr-defined]
    monkeypatch.setattr(
        catalog._backend._rows,  # type: ignore[attr-defined]
        "replace",
        lambda *args, **more: False if next(lost, False) else swap(*args, **more),
    )
    before = set(folder.iterdir())
    catalog.set_tags(name, put={"a": snapshot})
    assert len(set(folder.iterdir()) - before) == 1, "what lost is removed, what was made anew is there"
    with pytest.raises(InvalidInput, match="is a branch"):
        catalog.set_tags(name, put={"main": snapshot})
    again = facts(lake, "t").metadata_location
    catalog.set_tags(name, put={"a": snapshot}, remove=["main"])
    assert facts(lake, "t").metadata_location == again, "nothing to do is no commit"
