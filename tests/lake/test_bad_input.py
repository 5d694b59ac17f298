"""Names from hell: each is either refused, or is just a name; none reaches a path, a statement or a shell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.lake.lakes import Cli, check_healthy, contents, database_rows, facts, make, names, undo_words

from neve.errors import InvalidInput, InvalidName, InvalidSchema
from neve.lake import Lake
from neve.model.names import TableName, quote, shown
from neve.services.specs import alterations_from_words

INJECTIONS = [
    "x'; DROP TABLE iceberg_tables;--",
    'x"; DROP TABLE iceberg_tables;--',
    "x') OR 1=1;--",
    "'; DELETE FROM runs; --",
    "%s %d {0} {name} ?",
    "?",
    "$(touch pwned)",
    "${HOME}",
    "; touch pwned",
    "| touch pwned",
    "&& touch pwned",
    "-rf",
    "--force",
    "<script>alert(1)",
]
ORDINARY = [
    "select", "table", "order", "group", "from", "where", "null", "true", "default", "lake", "main", "Table", "TABLE",
    "1", "123", "1e5", "2024-01-01", "a b", "a  b", "a-b", "a'b", 'a"b', "a$b", "a@b", "a:b", "a,b", "a=b", "a?b",
    "a*b", "a%b", "a#b", "a;b", "a|b", "a<b>", "(a)", "[a]", "{a}", "_", "__init__", "con", "nul", "x",
    "é", "e\u0301", "ß", "\u1e9e", "\u0130", "\u0131", "数据", "データ", "😀", "\U0001d518\U0001d52b", "שלום", "مرحبا",
    "\ufb00",
]  # fmt: skip
REFUSED = [
    "", " ", " a", "a ", ".", "..", "a..b", ".a", "a.", "../x", "../../etc/passwd", "/etc/passwd", "a/b", "a\\b", "\\",
    "..\\x", "a\nb", "a\tb", "a\rb", "a\0b", "\x7f", "\x1b[2J", "\u200b", "a\u202eb", "\u2028",
    "\ufeff", "\ud800", "\u00a0",
    "`", "``", "a`b", "`a", "a`", "`a`b", "```", "`a``b`", "`a.b`", "`../x`", "x" * 256, "é" * 128, "😀" * 64,
]  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One lake for all the names of a test; each leaves it as it was."""
    with Lake.create(tmp_path_factory.mktemp("names") / "lake") as opened:
        yield opened


def outside(lake: Lake) -> set[str]:
    """Every file near the lake that is not in its warehouse."""
    warehouse = lake.root / "warehouse"
    found = {path for path in lake.root.parent.rglob("*") if warehouse not in path.parents}
    return {str(path) for path in found if not path.name.endswith(("-wal", "-shm"))}


def live_through(lake: Lake, name: str, *, force: bool = False) -> None:
    """create → list → show → rename → delete, each exactly under its name."""
    table = TableName.parse(name)
    lake.tables.create(name, "id int")
    assert names(lake) == [str(table)]
    assert lake.table(str(table)).show().table == str(table)
    assert Path(facts(lake, name).location).parent == lake.root / "warehouse"
    lake.table(name).rename("plain")
    assert names(lake) == ["default.plain"]
    lake.table("plain").rename(name)
    assert [facts(lake, shown).name for shown in names(lake)] == [table]
    lake.table(name).drop(force=force)
    assert names(lake) == []


@pytest.mark.parametrize("name", [*ORDINARY, *INJECTIONS])
@pytest.mark.slow
def test_odd_names_are_just_names(shared: Lake, name: str) -> None:
    before = outside(shared)
    live_through(shared, name)
    assert outside(shared) == before
    assert {"catalog.db:iceberg_tables", "catalog.db:iceberg_namespace_properties"} <= set(
        database_rows(shared.root / "catalog.db")
    )


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.slow
def test_what_cannot_be_a_name_is_refused(shared: Lake, name: str) -> None:
    before = contents(shared)
    if name not in ("a..b", "a.", ".a", "..", "."):
        with pytest.raises(InvalidName):
            shared.namespaces.create(quote(name) if "`" not in name and "." not in name else name)
    with pytest.raises(InvalidName):
        shared.tables.create(name, "id int")
    with pytest.raises(InvalidName):
        shared.tables.create(f"ok.{quote(name)}", "id int")
    with pytest.raises((InvalidName, InvalidSchema)):
        shared.tables.create("t", f"{quote(name)} int")
    assert contents(shared) == before


@pytest.mark.parametrize("size", [255, 256])
@pytest.mark.parametrize("letter", ["x", "é", "数", "😀"])
def test_a_name_has_at_most_255_bytes(shared: Lake, size: int, letter: str) -> None:
    name = letter * (size // len(letter.encode())) + "x" * (size % len(letter.encode()))
    assert len(name.encode()) == size
    if size > 255:
        with pytest.raises(InvalidName, match="255 bytes"):
            live_through(shared, name)
    else:
        live_through(shared, name)
        shared.tables.create("t", f"`{name}` int")
        assert shared.table("t").show().columns[0].name == name
        shared.table("t").drop(force=True)


def test_names_that_look_alike_are_different_tables(lake: Lake) -> None:
    alike = ["é", "e\u0301", "A", "a", "\ufb01", "fi", "\u0130", "i\u0307", "K", "\u212a"]
    for name in alike:
        lake.tables.create(name, "id int", comment=ascii(name))
    assert len(names(lake)) == len(alike)
    for name in alike:
        assert lake.table(name).show().comment == ascii(name)
    locations = {facts(lake, name).location for name in alike}
    assert len(locations) == len(alike)
    check_healthy(lake)


evil = st.sampled_from(
    [
        "'",
        '"',
        "`",
        "``",
        ".",
        "..",
        "/",
        "\\",
        ";",
        "--",
        "%",
        "?",
        " ",
        "\n",
        "\0",
        "$",
        "DROP TABLE",
        "é",
        "😀",
        "\u202e",
    ]
)
any_name = st.one_of(
    st.text(min_size=1, max_size=12),
    st.lists(st.one_of(evil, st.text(max_size=3)), min_size=1, max_size=5).map("".join),
    st.text(alphabet=st.sampled_from("aé数😀"), min_size=60, max_size=256),
)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(name=any_name)
@pytest.mark.slow
def test_any_text_is_refused_or_lives_a_whole_life(shared: Lake, name: str) -> None:
    before, tables = outside(shared), set(database_rows(shared.root / "catalog.db"))
    try:
        table = TableName.parse(name)
    except InvalidName:
        with pytest.raises(InvalidName):
            shared.tables.create(name, "id int")
    else:
        assume(table != TableName.parse("plain"))
        live_through(shared, name, force=True)
    assert outside(shared) == before
    assert set(database_rows(shared.root / "catalog.db")) == tables


@settings(max_examples=300)
@given(name=any_name)
def test_a_name_that_is_accepted_reads_back_as_itself(name: str) -> None:
    try:
        table = TableName.parse(name)
    except InvalidName:
        return
    assert TableName.parse(str(table)) == table
    assert TableName.parse(table.short) == table
    assert TableName.parse(table.sql) == table
    assert TableName.parse(".".join(map(shown, table.identifier))) == table


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(name=any_name)
@pytest.mark.slow
def test_any_column_name_is_refused_or_reads_back(shared: Lake, name: str) -> None:
    try:
        shared.tables.create("t", f"{quote(name)} int, other string")
    except (InvalidName, InvalidSchema):
        assert names(shared) == []
        return
    assert [column.name for column in shared.table("t").show().columns] == [name, "other"]
    shared.table("t").alter(alterations_from_words(rename={name: "plain"}))
    shared.table("t").alter(alterations_from_words(rename={"plain": name}))
    assert [column.name for column in shared.table("t").show().columns] == [name, "other"]
    shared.table("t").drop(force=True)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(key=any_name, value=st.text(max_size=30))
def test_any_property_is_refused_or_reads_back(shared: Lake, key: str, value: str) -> None:
    shared.tables.create("t", "id int", if_not_exists=True)
    try:
        shared.table("t").set({key: value})
    except InvalidInput:
        return
    assert {row.key: row.value for row in shared.table("t").properties()}[key] == value
    shared.table("t").unset([key])


@pytest.mark.parametrize("name", INJECTIONS)
def test_undo_commands_carry_any_name(lake: Lake, cli: Cli, name: str) -> None:
    receipt = lake.tables.create(f"`{name}`.`{name}`", "id int")
    for words in undo_words(receipt.undo):
        assert cli(*words).code == 0
    assert names(lake) == []
    lake.tables.undelete(f"`{name}`.`{name}`")
    receipt = lake.table(f"`{name}`.`{name}`").set({"k": name})
    for words in undo_words(receipt.undo):
        assert cli(*words).code == 0
    assert not list(lake.root.rglob("pwned"))


def test_errors_about_odd_names_stay_on_one_line(lake: Lake, cli: Cli) -> None:
    make(lake)
    for name in ("a\nb", "\x1b[2Jx", "a\x07"):
        said = cli("table", "show", name)
        assert said.code == 2
        assert "\x1b" not in said.err
        assert name not in said.err
        problem = json.loads(cli("table", "show", name, "-o", "json").err)
        assert problem["code"] == "invalid_name"
