"""What `doctor` finds in a lake without starting Spark, and what `--repair` mends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.lake.lakes import Cli, append, check_healthy, contents, facts, log_ingestion, make, names

from neve.lake import Lake
from neve.model.names import TableName
from neve.model.results import CheckRow


def findings(lake: Lake, *, repair: bool = False) -> list[CheckRow]:
    return [row for row in lake.doctor(repair=repair, spark=False) if row.state != "ok"]


def test_a_sound_lake_is_called_sound(lake: Lake, cli: Cli) -> None:
    make(lake, rows=1)
    make(lake, "gone")
    lake.table("gone").drop()
    check_healthy(lake)
    before = contents(lake)
    said = cli("doctor", "--no-spark", "-o", "json")
    assert said.code == 0
    rows = json.loads(said.out)
    assert {row["check"] for row in rows} == {"catalog", "warehouse", "disk", "state", "runs", "registry"}
    assert {row["state"] for row in rows} == {"ok"}
    assert contents(lake) == before


def test_a_broken_table_is_named_with_a_fix_that_works(lake: Lake, cli: Cli) -> None:
    make(lake, "good", rows=1)
    make(lake, "b d", rows=1)
    Path(facts(lake, "b d").metadata_location).unlink()
    said = cli("doctor", "--no-spark", "-o", "json")
    assert said.code == 5
    (finding,) = [row for row in json.loads(said.out) if row["state"] == "failed"]
    assert "default.`b d`" in finding["detail"]
    import shlex

    words = shlex.split(finding["fix"].partition("or: ")[2])
    assert cli(*words[1:]).code == 0
    check_healthy(lake)
    assert names(lake) == ["default.good"]


def test_a_registry_out_of_line_is_brought_back(lake: Lake) -> None:
    """Another engine renamed one table, dropped another and made a third."""
    for name in ("renamed", "dropped", "kept"):
        make(lake, name)
        log_ingestion(lake, name)
    catalog = lake._context.catalog
    uuid = facts(lake, "dropped").uuid
    place = facts(lake, "renamed").metadata_location
    assert catalog.rename(TableName.parse("renamed"), TableName.parse("n.new"), expected=place)
    assert catalog.drop(TableName.parse("dropped"))
    shutil.rmtree(lake.root / "warehouse" / Path(facts_location(lake, "dropped")).name)
    found = findings(lake)
    assert [row.check for row in found] == ["registry"]
    assert all(name in found[0].detail for name in ("renamed", "dropped", "n.new"))
    assert [row.state for row in findings(lake, repair=True)] == ["repaired"]
    check_healthy(lake)
    assert lake.table("n.new").status().ingestion.total_ingestions == 1
    assert lake.table("kept").status().ingestion.total_ingestions == 1
    store = lake._context.store
    assert store.registry.get("renamed") is None
    assert [row.table_name for row in store.ingestions.for_table(uuid)] == [uuid]


def facts_location(lake: Lake, name: str) -> str:
    registered = lake._context.store.registry.get(name)
    assert registered is not None
    return registered.base_path


def test_two_tables_that_swapped_names_keep_their_own_logs(lake: Lake) -> None:
    for number, name in enumerate(("a", "b")):
        make(lake, name)
        for day in range(number + 1):
            log_ingestion(lake, name, f"2024-01-0{day + 1}")
    catalog = lake._context.catalog
    a, b, x = (TableName.parse(name) for name in ("a", "b", "x"))
    for old, new in ((a, x), (b, a), (x, b)):
        assert catalog.rename(old, new, expected=catalog.metadata_location(old))
    findings(lake, repair=True)
    check_healthy(lake)
    assert lake.table("a").status().ingestion.total_ingestions == 2
    assert lake.table("b").status().ingestion.total_ingestions == 1


def test_logs_of_a_table_that_was_never_registered_stay(lake: Lake) -> None:
    make(lake)
    log_ingestion(lake, "t")
    lake._context.store.registry.forget("t")
    assert [row.state for row in findings(lake, repair=True)] == ["repaired"]
    assert lake.table("t").status().ingestion.total_ingestions == 1


def test_a_stray_folder_is_named_and_left_alone(lake: Lake) -> None:
    make(lake, rows=1)
    stray = lake.root / "warehouse" / "stray"
    stray.mkdir()
    assert findings(lake) == []
    (stray / "data.parquet").write_text("precious?")
    (row,) = findings(lake, repair=True)
    assert (row.check, row.state) == ("warehouse", "warning")
    assert str(stray) in row.detail
    assert (stray / "data.parquet").exists()


def test_a_warehouse_that_cannot_be_written_is_a_finding(lake: Lake) -> None:
    warehouse = lake.root / "warehouse"
    warehouse.rmdir()
    warehouse.write_text("a file")
    rows = findings(lake)
    assert {row.state for row in rows} == {"failed"}
    assert any("cannot write" in row.detail for row in rows)


def test_a_broken_state_database_is_a_finding(lake: Lake, cli: Cli) -> None:
    make(lake)
    lake.close()
    for path in lake.root.glob(".metadata.db*"):
        path.unlink()
    (lake.root / ".metadata.db").write_text("this is no database at all, but long enough to be looked at" * 20)
    said = cli("doctor", "--no-spark")
    assert said.code == 5
    assert "state database" in said.out
    assert "Traceback" not in said.err


def test_a_table_that_lost_a_data_file_is_still_readable_metadata(lake: Lake) -> None:
    make(lake, rows=1)
    append(lake, "t", [{"id": 5, "v": "x"}])
    Path(lake.table("t").files()[0].path).unlink()
    check_healthy(lake)
