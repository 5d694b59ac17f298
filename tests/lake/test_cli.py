"""The command line itself: formats, streams, colours, exit codes, and errors that are sentences."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from tests.lake.lakes import Cli, append, at_terminal, contents, facts, make, run_cli, run_process

from neve import __version__
from neve.cli.render import emit
from neve.lake import Lake
from neve.model.rows import RowReceipt

ESCAPE = "\x1b["


def test_options_may_stand_anywhere(lake: Lake, cli: Cli) -> None:
    make(lake)
    outputs = [
        cli("-o", "json", "table", "list").out,
        cli("table", "-o", "json", "list").out,
        cli("table", "list", "-o", "json").out,
        cli("table", "list", "--output", "json").out,
    ]
    assert len(set(outputs)) == 1
    assert json.loads(outputs[0])[0]["table"] == "default.t"


def test_receipts_of_all_tables_are_one_answer_whatever_fails(lake: Lake, cli: Cli) -> None:
    for name in ("a", "b", "c"):
        make(lake, name, rows=1)
    said = cli("compact", "--all", "-o", "csv")
    assert (said.code, [row["table"] for row in csv.DictReader(io.StringIO(said.out))]) == (
        0,
        ["default.a", "default.b", "default.c"],
    )
    torn = facts(lake, "b").current
    assert torn is not None
    Path(torn.manifest_list).write_bytes(b"not avro")
    for form, read in (("json", json.loads), ("csv", lambda text: list(csv.DictReader(io.StringIO(text))))):
        said = cli("compact", "--all", "-o", form)
        assert (said.code, [row["table"] for row in read(said.out)]) == (1, ["default.a", "default.c"])
        assert "not an Avro file" in said.err


def test_keeping_less_is_asked_of_tables_that_have_snapshots(lake: Lake, cli: Cli) -> None:
    (lake.root / "days.yaml").write_text("name: days\nstorage: {format: csv, base_path: days}\ncolumns: {id: bigint}\n")
    lake.tables.create(str(lake.root / "days.yaml"))
    make(lake, "t", rows=1)
    make(lake, "away", rows=1).offline()
    words = ["compact", "--all", "--snapshot-retention-hours"]
    said = cli(*words, "5")
    assert (said.code, "add --expire-snapshots" in said.err) == (2, True), "what makes no sense is not asked about"
    said = cli(*words, "5", "--expire-snapshots")
    assert (said.code, "snapshots of t for ever" in said.err) == (6, True)
    assert cli(*words, "168", "--expire-snapshots").code == 0
    assert cli(*words, "5", "--expire-snapshots", "--yes").code == 0
    assert cli("compact", "t", "--period", "2024-01", "--snapshot-retention-hours", "5").code == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["table", "list", "-o", "xml"], 2),
        (["table", "list", "--nope"], 2),
        (["table", "lsit"], 2),
        (["tabel"], 2),
        (["table", "show"], 2),
        (["table", "rollback", "t"], 2),
        (["runs", "list", "--limit", "0"], 2),
        (["table", "show", "t", "extra"], 2),
    ],
)
def test_wrong_usage_is_two_and_says_so_on_stderr(lake: Lake, cli: Cli, words: list[str], code: int) -> None:
    said = cli(*words)
    assert (said.code, said.out) == (code, ""), said
    assert said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("asking", [["-o", "json"], ["-ojson"], ["--output", "jsonl"], ["--output=json"]])
@pytest.mark.parametrize("words", [["table", "list", "--nope"], ["table", "show"], ["table", "lsit"]])
def test_wrong_usage_is_told_as_json_where_that_is_asked_for(
    lake: Lake, cli: Cli, words: list[str], asking: list[str]
) -> None:
    said = cli(*words, *asking)
    assert (said.code, said.out) == (2, "")
    told = json.loads(said.err)
    assert (told["code"], told["message"] in cli(*words).err) == ("invalid_input", True), said


def test_a_mistyped_command_names_the_nearest(lake: Lake, cli: Cli) -> None:
    assert "list" in cli("table", "lsit").err
    assert "table" in cli("tabel").err


def test_what_a_filter_leaves_out_is_not_said_to_be_missing(lake: Lake, cli: Cli) -> None:
    """Else somebody who mistypes a name believes that the lake is empty."""
    make(lake)
    assert cli("table", "list", "shop").err == "no tables in shop\n"
    assert cli("runs", "list", "--table", "u").err == "no such runs\n"


def test_help_and_version(lake: Lake, cli: Cli) -> None:
    assert cli("--version").out == f"neve {__version__}\n"
    for words in (["--help"], ["table", "--help"], ["table", "create", "--help"], ["namespace", "--help"]):
        said = cli(*words)
        assert said.code == 0
        assert "Usage" in said.out
        assert said.err == ""


@pytest.mark.slow
def test_no_colour_without_a_terminal(lake: Lake) -> None:
    make(lake)
    for words in (["table", "show", "t"], ["nope"]):
        said = run_process(lake, *words, FORCE_COLOR="", TERM="xterm-256color")
        assert ESCAPE not in said.out + said.err


@pytest.mark.slow
def test_colour_at_a_terminal_unless_told_otherwise(lake: Lake) -> None:
    make(lake)
    screen, code = at_terminal(lake, "table", "list", answer="", TERM="xterm", NO_COLOR="")
    assert (code, ESCAPE in screen) == (0, True)
    for words, environment in ((["--no-color"], {"NO_COLOR": ""}), ([], {"NO_COLOR": "1"})):
        screen, _ = at_terminal(lake, "table", "list", *words, answer="", TERM="xterm", **environment)
        assert ESCAPE not in screen


def test_errors_are_a_sentence_a_hint_or_a_json_object(lake: Lake, cli: Cli) -> None:
    plain = cli("table", "show", "nope")
    assert plain.out == ""
    assert plain.err.splitlines()[0] == "✗ no table default.nope"
    for output in ("json", "jsonl"):
        said = cli("table", "show", "nope", "-o", output)
        assert said.out == ""
        assert set(json.loads(said.err)) == {"code", "message", "hint"}
    assert "Traceback" not in plain.err
    assert "Traceback" in cli("table", "show", "nope", "--debug").err


def test_a_foreign_error_is_no_stack_trace(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from neve.services import look

    def explode(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(look, "list_tables", explode)
    said = cli("table", "list")
    assert said.code == 1
    assert "RuntimeError: boom" in said.err
    assert "Traceback" not in said.err
    assert "Traceback" in cli("table", "list", "--debug").err


def test_an_interrupt_is_130(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from neve.services import look

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(look, "list_tables", interrupt)
    assert cli("table", "list").code == 130


def test_a_receipt_in_every_format(lake: Lake, cli: Cli) -> None:
    text = cli("table", "create", "a", "--schema", "id int")
    assert text.out.startswith("✓ default.a created\n")
    assert "undo: neve table delete a" in text.out
    assert text.err == "Next: neve table show default.a\n"
    as_json = cli("table", "create", "b", "--schema", "id int", "-o", "json")
    assert as_json.err == ""
    receipt = json.loads(as_json.out)
    assert list(receipt) == [
        "run_id", "action", "table", "reason", "details", "snapshot_before", "snapshot_after", "duration_ms",
        "dry_run", "undo",
    ]  # fmt: skip
    line = cli("table", "create", "c", "--schema", "id int", "-o", "jsonl").out
    assert line.count("\n") == 1
    assert list(json.loads(line)) == list(receipt)
    rows = list(csv.DictReader(io.StringIO(cli("table", "create", "d", "--schema", "id int", "-o", "csv").out)))
    assert rows[0]["table"] == "default.d"
    assert json.loads(rows[0]["details"])["location"]


def test_a_dry_run_of_rows_says_that_nothing_was_changed(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    run_cli(capsys, "table", "list")  # as at a terminal: text
    emit(
        RowReceipt(
            run_id=None,
            action="delete_rows",
            table="default.t",
            dry_run=True,
            snapshot_before=1,
            rows_before=4,
            rows_after=3,
            rows_deleted=1,
            rows_updated=0,
            rows_inserted=0,
        )
    )
    said = capsys.readouterr().out
    assert said == "Would have deleted 1 rows of default.t. Nothing was changed.\n  rows: 4 → 3\n"


def test_times_are_utc_iso_and_sizes_bytes_in_json(lake: Lake, cli: Cli) -> None:
    make(lake, rows=1)
    (row,) = json.loads(cli("table", "list", "-o", "json").out)
    assert datetime.fromisoformat(row["updated_at"]).utcoffset() is not None
    assert row["updated_at"].endswith("Z")
    assert isinstance(row["bytes"], int)
    assert " B" in cli("table", "list").out


@pytest.mark.slow
def test_the_next_step_can_be_pasted(lake: Lake, cli: Cli) -> None:
    said = cli("table", "create", "`x; touch pwned`", "--schema", "id int")
    assert said.code == 0, said
    command = said.err.removeprefix("Next: ").strip()
    shell = command.replace("neve", f"{sys.executable} -m neve", 1)
    done = subprocess.run(["/bin/sh", "-c", shell], cwd=lake.root, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert "x; touch pwned" in done.stdout
    assert not (lake.root / "pwned").exists()


def test_what_a_value_holds_cannot_drive_the_terminal(lake: Lake, cli: Cli) -> None:
    make(lake)
    lake.table("t").set({"evil": "\x1b[2J\x1b]0;owned\x07 line\nbreak"})
    for words in (["table", "properties", "t"], ["table", "show", "t"]):
        out = cli(*words).out
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "line\nbreak" not in out
    assert {row.key: row.value for row in lake.table("t").properties()}["evil"] == "\x1b[2J\x1b]0;owned\x07 line\nbreak"


def test_wide_characters_line_up(lake: Lake, cli: Cli) -> None:
    for name in ("数据", "ab"):
        make(lake, name)
    heading, *rows = cli("table", "list").out.splitlines()
    column = heading.index("ONLINE")
    shown = {row.split()[0]: row for row in rows}
    assert shown["default.ab"][column:].startswith("yes")
    assert shown["default.`数据`"][column - 2 :].startswith("yes")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.slow
def test_a_terminal_that_knows_no_unicode_gets_an_answer_too(lake: Lake, encoding: str) -> None:
    said = run_process(lake, "table", "create", "数据", "--schema", "id int", PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert (said.code, "created" in said.out) == (0, True), said
    assert "\\u6570" in said.out


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(lake: Lake) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "neve", "config", "show"],
        cwd=lake.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0
    assert errors == b""


@pytest.mark.parametrize(
    "words",
    [
        ["table", "create", "x\udcff", "--schema", "id int"],
        ["table", "create", "x", "--schema", "a\udcff int"],
        ["table", "create", "y", "--schema", "id int", "--comment", "\udcff"],
        ["table", "create", "y", "--schema", "id int comment '\udcff'"],
        ["table", "set", "t", "k=\udcff"],
        ["table", "set", "t", "\udcff=1"],
        ["table", "alter", "t", "--comment", "id=\udcff"],
        ["table", "tag", "t", "\udcff"],
        ["namespace", "create", "\udcff"],
    ],
)
def test_words_that_are_no_text_are_refused(lake: Lake, cli: Cli, words: list[str]) -> None:
    """Bytes that are no UTF-8 reach Python as lone surrogates, which no database and no file would take."""
    make(lake)
    before = contents(lake)
    said = cli(*words)
    assert said.code == 2, said
    assert "should not happen" not in said.err
    assert contents(lake) == before


@pytest.mark.slow
def test_bytes_that_are_no_text_get_a_sentence(lake: Lake) -> None:
    words = [b"table", b"create", b"x\xff", b"--schema", b"id int"]
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"neve", *words],
        cwd=lake.root,
        env=os.environ | {"PYTHONUTF8": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"cannot be printed" in done.stderr


def test_a_yaml_file_stands_for_its_table_everywhere(lake: Lake, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("name: x.t\ncolumns: {id: bigint, v: string}\nproperties: {format-version: 2}\n")
    assert cli("table", "create", str(path)).code == 0
    append(lake, "x.t", [{"id": 1, "v": "a"}])
    for verb in ("show", "status", "history", "files", "partitions", "properties"):
        assert cli("table", verb, str(path)).code == 0
    assert cli("table", "set", str(path), "a=1").code == 0
    assert facts(lake, "x.t").properties["a"] == "1"
    assert cli("table", "delete", str(path), "--yes").code == 0
