"""`neve table register`: a table that lies somewhere already."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lake.lakes import Cli, check_healthy, contents, facts, make, names, undo_words

from neve.errors import AlreadyExists
from neve.lake import Lake
from neve.model.facts import TableFacts


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[TableFacts]:
    """A table of two rows in another lake."""
    with Lake.create(tmp_path / "elsewhere") as other:
        make(other, "t", rows=2)
        yield facts(other, "t")


def test_register_and_undo(lake: Lake, cli: Cli, elsewhere: TableFacts) -> None:
    said = cli("table", "register", "x.`a b`", elsewhere.metadata_location, "-o", "json")
    receipt = json.loads(said.out)
    assert receipt["details"] == {"location": elsewhere.location, "rows": 2}
    found = facts(lake, "x.`a b`")
    assert (found.uuid, found.metadata_location) == (elsewhere.uuid, elsewhere.metadata_location)
    assert lake.table("x.`a b`").show().rows == 2
    registered = lake._context.store.registry.get("x.`a b`")
    assert registered is not None
    for words in undo_words(receipt["undo"]):
        assert cli(*words).code == 0
    assert names(lake) == []
    assert Path(elsewhere.metadata_location).exists()
    check_healthy(lake)


@pytest.mark.parametrize("form", ["file://{}", "file:{}", "relative", "gzip"])
def test_every_spelling_of_a_place(lake: Lake, cli: Cli, elsewhere: TableFacts, form: str) -> None:
    path = Path(elsewhere.metadata_location)
    if form == "gzip":
        packed = path.with_name("00009-x.gz.metadata.json")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        place = str(packed)
    else:
        place = os.path.relpath(path, lake.root) if form == "relative" else form.format(path)
    said = cli("table", "register", "t", place)
    assert said.code == 0, said
    assert lake.table("t").show().rows == 2
    lake.table("t").set({"a": "1"})
    assert lake.table("t").show().properties["a"] == "1"


@pytest.mark.parametrize(
    "content", [None, "", "not json", "[]", "{}", '{"format-version": 2}', '{"format-version": 2, "schemas": []}']
)
def test_what_is_not_metadata_is_refused(lake: Lake, cli: Cli, tmp_path: Path, content: str | None) -> None:
    place = tmp_path / "v1.metadata.json"
    if content is not None:
        place.write_text(content)
    before = contents(lake)
    said = cli("table", "register", "t", str(place))
    assert (said.code, said.out) == (1, ""), said
    assert "v1.metadata.json" in said.err
    assert "should not happen" not in said.err
    assert contents(lake) == before


@pytest.mark.parametrize("place", ["", "/", ".", "http://host/x", "s4://b/x"])
def test_what_is_no_place_is_refused(lake: Lake, cli: Cli, place: str) -> None:
    before = contents(lake)
    said = cli("table", "register", "t", place)
    assert (said.code, said.out) == (1, ""), said
    assert "should not happen" not in said.err
    assert contents(lake) == before


def test_a_table_has_one_name(lake: Lake, cli: Cli) -> None:
    make(lake, rows=1)
    old = facts(lake, "t").metadata_location
    lake.table("t").set({"a": "1"})
    before = contents(lake)
    for place in (old, facts(lake, "t").metadata_location):
        said = cli("table", "register", "u", place)
        assert said.code == 4
        assert "default.t" in said.err
    assert contents(lake) == before


def test_a_copy_of_a_table_is_known_by_its_uuid(lake: Lake, tmp_path: Path) -> None:
    make(lake, rows=1)
    copy = tmp_path / "copy.metadata.json"
    copy.write_text(Path(facts(lake, "t").metadata_location).read_text().replace(str(lake.root), str(tmp_path / "x")))
    with pytest.raises(AlreadyExists):
        lake.tables.register("u", str(copy))


def test_a_name_that_is_taken_is_refused(lake: Lake, cli: Cli, elsewhere: TableFacts) -> None:
    make(lake)
    before = contents(lake)
    assert cli("table", "register", "t", elsewhere.metadata_location).code == 4
    assert contents(lake) == before


def test_a_table_inside_another_ones_folder_is_refused(lake: Lake, tmp_path: Path) -> None:
    make(lake)
    outer = facts(lake, "t")
    metadata = json.loads(Path(outer.metadata_location).read_text())
    metadata |= {"location": f"{outer.location}/data/inner", "table-uuid": "11111111-1111-1111-1111-111111111111"}
    crafted = tmp_path / "v1.metadata.json"
    crafted.write_text(json.dumps(metadata))
    with pytest.raises(AlreadyExists):
        lake.tables.register("u", str(crafted))
