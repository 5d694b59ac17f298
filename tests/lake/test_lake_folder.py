"""`neve init`, finding the lake, its settings, its runs."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from tests.lake.lakes import Cli, Said, contents, make, names, run_cli, run_process

from neve.errors import AlreadyExists, ConfigError, LakeNotFound, RunNotFound
from neve.lake import Lake


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with no lake in it or above."""
    folder = tmp_path / "nowhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_init_makes_what_a_lake_needs(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run_cli(capsys, "init", "sea")
    assert (said.code, said.out) == (0, "")
    root = nowhere / "sea"
    assert {path.name.partition("-")[0] for path in root.iterdir()} == {
        "neve.yaml",
        "catalog.db",
        ".metadata.db",
        "warehouse",
    }
    with sqlite3.connect(root / "catalog.db") as catalog:
        assert catalog.execute("SELECT namespace FROM iceberg_namespace_properties").fetchall() == [("default",)]
    catalog.close()
    assert (root / "neve.yaml").read_text().count("#") > 20
    with Lake(root) as lake:
        assert lake.root == root
        assert names(lake) == []


def test_init_twice_leaves_the_first(lake: Lake, cli: Cli) -> None:
    make(lake)
    before = contents(lake)
    assert cli("init").code == 4
    with pytest.raises(AlreadyExists):
        Lake.create(lake.root)
    assert contents(lake) == before


def test_init_where_a_file_is(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (nowhere / "f").write_text("x")
    assert run_cli(capsys, "init", "f").code == 2
    assert run_cli(capsys, "init", "f/below").code == 2
    assert (nowhere / "f").read_text() == "x"


def test_init_with_bad_settings_leaves_nothing(
    nowhere: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEVE_CATALOG__TYPE", "sqlight")
    said = run_cli(capsys, "init", "sea")
    assert said.code == 2
    assert "sqlite" in said.err
    assert list(nowhere.iterdir()) == []


def test_a_lake_that_was_only_half_made_works(lake: Lake, tmp_path: Path) -> None:
    """`init` was killed right after neve.yaml was written."""
    half = tmp_path / "half"
    half.mkdir()
    (half / "neve.yaml").write_text((lake.root / "neve.yaml").read_text())
    with Lake(half) as opened:
        make(opened, rows=1)
        assert names(opened) == ["default.t"]


def test_the_first_table_outside_any_lake_makes_one_here(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run_cli(capsys, "table", "create", "t", "--schema", "id int", "-o", "json")
    assert said.code == 0
    assert "made a lake here" in said.err
    assert json.loads(said.out)["table"] == "default.t"
    assert (nowhere / "neve.yaml").exists()
    again = run_cli(capsys, "table", "list", "-o", "json")
    assert "made a lake" not in again.err
    assert len(json.loads(again.out)) == 1


@pytest.mark.parametrize(
    "words",
    [
        *(
            ["config", "show"],
            ["doctor", "--no-spark"],
            ["status"],
            ["schedule"],
            ["runs", "list"],
            ["compact", "--all"],
        ),
        *(["table", "list"], ["table", "show", "t"], ["table", "set", "t", "a=b"], ["namespace", "drop", "n"]),
        *(["dynamic", "list"], ["dynamic", "refresh"], ["sql", "SELECT 1"], ["expire", "t"], ["key", "list"]),
    ],
)
def test_who_looks_in_the_wrong_folder_is_told_so(
    nowhere: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    said = run_cli(capsys, *words)
    assert (said.code, said.out) == (3, ""), said
    assert "there is no lake here or above" in said.err
    assert list(nowhere.iterdir()) == []
    with pytest.raises(LakeNotFound):
        Lake()


def test_the_lake_is_found_upwards_by_flag_and_by_variable(
    lake: Lake, nowhere: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(lake)

    def listed(*words: str) -> Said:
        return run_cli(capsys, *words, "-o", "json")

    assert len(json.loads(listed("table", "list", "--lake", str(lake.root)).out)) == 1
    assert len(json.loads(listed("--lake", str(lake.root), "table", "list").out)) == 1
    assert len(json.loads(listed("table", "list", "--lake", str(lake.root / "neve.yaml")).out)) == 1
    with monkeypatch.context() as environment:
        environment.setenv("NEVE_LAKE", str(lake.root))
        assert len(json.loads(listed("table", "list").out)) == 1
    deep = lake.root / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert len(json.loads(listed("table", "list").out)) == 1
    assert listed("table", "list", "--lake", str(nowhere)).code == 3
    assert list(nowhere.iterdir()) == []


def test_a_setting_by_flag_profile_and_variable(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def value(*words: str) -> dict[str, object]:
        rows = json.loads(cli("config", "show", *words, "-o", "json").out)
        return next(row for row in rows if row["key"] == "compaction.min_files_to_compact")

    assert value()["value"] in (3, "3")
    assert value("--profile", "prod")["value"] in (20, "20")
    monkeypatch.setenv("NEVE_COMPACTION__MIN_FILES_TO_COMPACT", "7")
    found = value("--profile", "prod")
    assert found["value"] in (7, "7")
    assert "NEVE_COMPACTION__MIN_FILES_TO_COMPACT" in str(found["source"])
    assert cli("config", "show", "--profile", "nope").code == 2


def test_a_bad_setting_names_file_line_and_nearest_key(lake: Lake, cli: Cli) -> None:
    (lake.root / "neve.yaml").write_text("trash:\n  kep: 7d\n")
    said = cli("table", "list")
    assert (said.code, said.out) == (2, "")
    assert "neve.yaml" in said.err
    assert "2" in said.err
    assert "keep" in said.err
    with pytest.raises(ConfigError):
        Lake(lake.root)


def test_runs_are_listed_found_and_narrowed(lake: Lake, cli: Cli) -> None:
    make(lake, "a")
    make(lake, "b")
    lake.table("b").rename("c")
    runs = json.loads(cli("runs", "list", "-o", "json").out)
    assert [(run["kind"], run["table_name"], run["state"]) for run in runs] == [
        ("rename", "b", "succeeded"),
        ("create", "b", "succeeded"),
        ("create", "a", "succeeded"),
    ]
    assert [run.model_dump(mode="json") for run in lake.runs.list()] == runs
    assert len(json.loads(cli("runs", "list", "--kind", "create", "-o", "json").out)) == 2
    assert len(json.loads(cli("runs", "list", "--table", "default.b", "-o", "json").out)) == 2
    assert len(json.loads(cli("runs", "list", "--limit", "1", "-o", "json").out)) == 1
    assert json.loads(cli("runs", "list", "--state", "failed", "-o", "json").out) == []
    shown = json.loads(cli("runs", "show", runs[0]["run_id"], "-o", "json").out)
    assert shown == runs[0]
    assert "succeeded" in cli("runs", "show", runs[0]["run_id"]).out
    assert cli("runs", "list", "--state", "sucseeded").code == 2
    assert cli("runs", "show", "nope").code == 3
    with pytest.raises(RunNotFound):
        lake.runs.show("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_failed_run_says_why(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, "a")

    def fail(*_: object, **__: object) -> bool:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(lake._context.catalog, "rename", fail)
    with pytest.raises(OSError, match="on fire"):
        lake.table("a").rename("b")
    run = lake.runs.list()[0]
    assert (run.state, run.error_code, run.error_message) == ("failed", "OSError", "the disk is on fire")
    assert run.finished_at is not None


@pytest.mark.slow
def test_no_command_of_this_suite_needs_spark(lake: Lake) -> None:
    """In a process of its own, so that nothing else can have imported it."""
    code = (
        "import sys; from neve.cli.app import run;"
        "codes = [run(words.split()) for words in ("
        "'table create t --schema id:int', 'table list', 'table show t', 'table status t', 'table history t',"
        "'table set t a=1', 'table alter t --sort-by id', 'table rename t u', 'table offline u', 'namespace list',"
        "'table delete u --yes', 'table trash', 'table undelete u', 'table delete u --force', 'runs list',"
        "'config show', 'doctor --no-spark')];"
        "assert not any(codes), codes; assert 'pyspark' not in sys.modules; assert 'py4j' not in sys.modules"
    ).replace("id:int", "schema.yaml")
    (lake.root / "schema.yaml").write_text("columns: {id: int}\n")
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], cwd=lake.root, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.slow
def test_looks_import_no_heavy_library(lake: Lake) -> None:
    make(lake, rows=1)
    import subprocess
    import sys

    heavy = ("pyspark", "fastapi", "sqlalchemy", "pandas", "rich", "sqlglot")
    light = ("pyiceberg", "pyiceberg.avro", "pyiceberg.avro.decoder_fast")  # of PyIceberg, nothing but its decoder
    code = (
        "import sys; from neve.cli.app import run;"
        "assert run(['--help']) == 0; early = set(sys.modules);"
        "assert run(['table', 'list']) == 0; assert run(['table', 'show', 't']) == 0;"
        "assert run(['table', 'status', 't']) == 0; assert run(['table', 'files', 't']) == 0;"
        "assert run(['table', 'health', 't']) == 0; assert run(['status']) == 0;"
        f"found = [name for name in {heavy} if name in sys.modules]; assert not found, found;"
        "found = [name for name in sys.modules if name.split('.')[0] == 'pyiceberg'];"
        f"assert set(found) <= set({light}), found;"
        "found = [name for name in ('pydantic', 'fastavro', 'yaml') if name in early]; assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=lake.root, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.slow
def test_the_real_command_line(lake: Lake) -> None:
    said = run_process(lake, "table", "list", "-o", "json")
    assert (said.code, json.loads(said.out), said.err) == (0, [], "")
