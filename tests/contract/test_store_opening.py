"""Opening the state database: making it, migrating it, and saying what is wrong with it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.contract.records import log_compaction, log_ingestion, make_run, make_table, read_by_hand, write_by_hand
from tests.contract.rivals import started
from tests.postgres import Cluster

from neve.database import Answer, Database, Value, open_database
from neve.database.postgresql import PostgreSQL
from neve.database.sqlite import SQLite
from neve.errors import ConfigError, NeveError, SchemaTooNew, StoreError
from neve.store import Store, schema
from neve.store.schema import MIGRATIONS, Migration

LATER = Migration(
    version=MIGRATIONS[-1].version + 1,
    statements=(
        "ALTER TABLE runs ADD COLUMN note TEXT",
        "UPDATE runs SET note = 'migrated'",
        "CREATE TABLE extra (id {identity}, body TEXT)",
    ),
)
BROKEN = Migration(version=LATER.version, statements=(*LATER.statements, "UPDATE no_such_table SET x = 1"))


def test_a_new_database_has_the_newest_schema_and_keeps_it(uri: str) -> None:
    for _ in range(2):
        with Store.open(uri) as store:
            assert store.schema_version() == MIGRATIONS[-1].version


def test_the_documented_columns_come_first_and_answer_by_hand(uri: str) -> None:
    with Store.open(uri) as store:
        store.registry.put(make_table("sales"))
    log_ingestion(uri, "sales", "2026-11-15")
    log_compaction(uri, "sales", "2026-10")
    documented = {
        "table_registry": "table_name config_path base_path created_at updated_at",
        "ingestion_log": (
            "id table_name date source_file destination_file rows_ingested status error_message ingested_at"
        ),
        "compaction_log": (
            "id table_name period period_start period_end source_files output_file rows_processed compacted_at"
        ),
    }
    for table, names in documented.items():
        (row,) = read_by_hand(uri, f"SELECT * FROM {table} WHERE table_name='sales'")
        assert list(row)[: len(names.split())] == names.split()


def test_a_date_or_a_period_is_logged_once(uri: str) -> None:
    Store.open(uri).close()
    log_ingestion(uri, "sales", "2026-11-15")
    log_compaction(uri, "sales", "2026-10")
    with pytest.raises(NeveError, match="already holds"):
        log_ingestion(uri, "sales", "2026-11-15")
    with pytest.raises(NeveError, match="already holds"):
        log_compaction(uri, "sales", "2026-10")


def test_opening_a_current_database_costs_one_query(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.open(uri).close()
    asked: list[str] = []
    for driver in (SQLite, PostgreSQL):
        monkeypatch.setattr(driver, "execute", overheard(driver.execute, asked))
    Store.open(uri).close()
    assert len(asked) == 1


def overheard(execute: Callable[..., Answer], asked: list[str]) -> Callable[..., Answer]:
    def listen(driver: object, sql: str, values: Sequence[Value]) -> Answer:
        asked.append(sql)
        return execute(driver, sql, values)

    return listen


def test_an_older_schema_is_migrated_and_keeps_its_rows(uri: str) -> None:
    run = make_run()
    with Store.open(uri) as store:
        store.runs.start(run)
    with Store.open(uri, create=False, migrations=(*MIGRATIONS, LATER)) as store:
        assert store.schema_version() == LATER.version
        assert store.runs.get(run.run_id) == run
    assert read_by_hand(uri, "SELECT note FROM runs") == [{"note": "migrated"}]


def test_a_migration_that_fails_changes_nothing(uri: str) -> None:
    Store.open(uri).close()
    with pytest.raises(StoreError, match="no_such_table"):
        Store.open(uri, migrations=(*MIGRATIONS, BROKEN))
    with Store.open(uri) as store:
        assert store.schema_version() == MIGRATIONS[-1].version
    with Store.open(uri, migrations=(*MIGRATIONS, LATER)) as store:  # fails if a part of BROKEN had stayed
        assert store.schema_version() == LATER.version


def test_a_newer_schema_is_refused_and_left_alone(uri: str) -> None:
    Store.open(uri, migrations=(*MIGRATIONS, LATER)).close()
    with pytest.raises(SchemaTooNew, match=f"version {LATER.version}") as caught:
        Store.open(uri)
    assert "upgrade" in str(caught.value.hint)
    assert read_by_hand(uri, "SELECT version FROM neve_schema") == [{"version": LATER.version}]


@pytest.mark.faults
def test_processes_that_open_a_new_database_at_once_all_succeed(uri: str) -> None:
    with started(*[("open_store", uri)] * 3) as rivals:
        heard = [rival.hear_all() for rival in rivals]
    assert heard == [[f"version {MIGRATIONS[-1].version}"]] * 3
    assert read_by_hand(uri, "SELECT version FROM neve_schema") == [{"version": MIGRATIONS[-1].version}]


def test_a_rival_that_makes_the_schema_just_after_we_missed_it_is_noticed(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = schema._select_version
    missed: list[str] = []

    def read_late(database: Database) -> int:
        if not missed:
            missed.append(uri)
            Store.open(uri).close()
            raise StoreError("no such table: neve_schema")
        return read(database)

    monkeypatch.setattr(schema, "_select_version", read_late)
    with Store.open(uri) as store:
        assert store.schema_version() == MIGRATIONS[-1].version


@pytest.mark.slow
def test_a_rival_that_migrates_while_we_wait_is_noticed(uri: str, tmp_path: Path) -> None:
    (tmp_path / ".metadata.db").touch()
    rival = open_database(uri, create=False, what="state database")
    with ThreadPoolExecutor() as pool:
        with rival.transaction():
            rival.lock_schema()
            opened = pool.submit(Store.open, uri)
            time.sleep(0.5)  # by now it has found no schema, and waits for us
            for statement in ("CREATE TABLE neve_schema (version INTEGER)", *MIGRATIONS[0].statements):
                rival.write(statement.replace("{identity}", rival.identity))
            rival.write("INSERT INTO neve_schema (version) VALUES (1)")
            assert not opened.done()
        with opened.result() as store:
            assert store.schema_version() == MIGRATIONS[-1].version
    rival.close()


def test_without_create_nothing_is_made(uri: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        Store.open(uri, create=False)
    assert "neve init" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []
    Store.open(uri).close()
    Store.open(uri, create=False).close()


def test_somebody_elses_tables_are_not_touched(uri: str, tmp_path: Path) -> None:
    if uri.startswith("sqlite"):
        (tmp_path / ".metadata.db").touch()
    write_by_hand(uri, "CREATE TABLE runs (mine TEXT)")
    with pytest.raises(StoreError, match="runs"):
        Store.open(uri)
    assert read_by_hand(uri, "SELECT mine FROM runs") == []
    with pytest.raises(StoreError):
        read_by_hand(uri, "SELECT * FROM table_registry")


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.registry.list()
    with pytest.raises(StoreError, match="closed"):
        store.registry.put(make_table())


def test_threads_may_share_a_store(store: Store) -> None:
    def write(worker: int) -> None:
        for number in range(10):
            with store.transaction():
                store.registry.put(make_table(f"t{worker}_{number}"))
                store.runs.start(make_run(table_name=f"t{worker}_{number}"))

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.registry.list()) == len(store.runs.list(limit=100)) == 40


def test_sqlite_is_durable_and_lets_readers_in(tmp_path: Path) -> None:
    path = tmp_path / "state ?#%41 é.db"
    with Store.open(f"sqlite:///{path}") as store:
        assert path.exists()
        with store.transaction(), Store.open(f"sqlite:///{path}") as reader:
            store.registry.put(make_table())
            assert reader.registry.list() == ()  # and did not wait
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_place_where_no_sqlite_database_can_be(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("certainly not a database\n" * 99)
    for path, said in (
        (tmp_path / "missing" / "state.db", f"there is no folder {tmp_path / 'missing'}"),
        (text / "state.db", f"there is no folder {text}"),
        (text, "file is not a database"),
        (tmp_path, "it is a folder"),
    ):
        with pytest.raises(StoreError, match=said) as caught:
            Store.open(f"sqlite:///{path}")
        assert str(path) in str(caught.value)
        assert caught.value.hint
    assert text.read_text() == "certainly not a database\n" * 99


@pytest.mark.parametrize("existing", [False, True])
def test_a_folder_that_cannot_be_written(existing: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        uri = f"sqlite:///{folder / 'state.db'}"
        if existing:
            Store.open(uri).close()
        folder.chmod(0o555)
        try:
            with started(("open_as_nobody", uri)) as (rival,):
                (said,) = rival.hear_all()
        finally:
            folder.chmod(0o755)
    assert said.startswith(f"StoreError the state database {folder / 'state.db'} cannot be written")
    assert f"let this user write to the file and to its folder {folder}" in said


def test_a_folder_that_cannot_be_entered() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o000)
        try:
            with started(("open_as_nobody", f"sqlite:///{folder / 'state.db'}")) as (rival,):
                (said,) = rival.hear_all()
        finally:
            folder.chmod(0o755)
    assert said.startswith("StoreError cannot open the state database")
    assert "Permission denied" in said


@pytest.mark.parametrize(
    "uri",
    [
        "mysql://u:hunter2@h/d",
        "host=h password=hunter2",
        "sqlite:///",
        "",
        "postgresql://u:hunter2",
        "postgresql://u:hunter2@hunter2@127.0.0.1:1/d",
        "postgresql://u:a/hunter2@127.0.0.1:1/d",
        "postgresql://u:a?hunter2@127.0.0.1:1/d",
        "postgresql://u:a#hunter2@127.0.0.1:1/d",
        "postgresql://u:hunter2%zz@127.0.0.1:1/d",
        "postgresql://u:x@127.0.0.1:1/d?passwort=hunter2",
    ],
)
def test_a_uri_that_makes_no_sense_is_refused_without_showing_it(uri: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Store.open(uri)
    assert caught.value.hint
    assert_silent_about("hunter2", caught.value)


@pytest.mark.parametrize(
    "uri", ["postgresql://u:hunter2@127.0.0.1:1/d", "postgresql://u@127.0.0.1:1/d?password=hunter2&connect_timeout=2"]
)
def test_a_server_that_is_not_there(uri: str) -> None:
    with pytest.raises(StoreError, match=r"cannot reach the state database postgresql://127.0.0.1:1/d: ") as caught:
        Store.open(uri)
    assert "server runs" in str(caught.value.hint)
    assert_silent_about("hunter2", caught.value)


@pytest.mark.postgres
def test_a_wrong_password_and_a_missing_database(postgres_cluster: Cluster) -> None:
    for uri in (
        postgres_cluster.uri().replace(postgres_cluster.password, "hunter2"),
        postgres_cluster.uri("no_such_database"),
    ):
        with pytest.raises(StoreError, match="cannot reach") as caught:
            Store.open(uri)
        assert_silent_about("hunter2", caught.value)
        assert_silent_about(postgres_cluster.password, caught.value)


@pytest.mark.postgres
def test_a_user_without_rights_is_told(postgres_cluster: Cluster) -> None:
    uri = postgres_cluster.create_database()
    name = f"guest_{uri[-12:]}"
    postgres_cluster.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'hunter2'")
    guest = uri.replace(f"neve:{postgres_cluster.password}", f"{name}:hunter2")
    for right in ("CREATE", "USAGE"):
        write_by_hand(uri, f"REVOKE {right} ON SCHEMA public FROM PUBLIC")
        with pytest.raises(StoreError, match="no place for its tables") as caught:
            Store.open(guest)
        assert "grant the user CREATE and USAGE" in str(caught.value.hint)
        assert_silent_about("hunter2", caught.value)


@pytest.mark.postgres
def test_a_server_that_came_back_is_used_again(postgres_cluster: Cluster) -> None:
    uri = postgres_cluster.create_database()
    with Store.open(uri) as store:
        store.registry.put(make_table("kept"))
        with pytest.raises(StoreError, match="lost"), store.transaction():  # noqa: PT012
            store.registry.put(make_table("gone"))
            name = uri.rpartition("/")[2]
            postgres_cluster.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
            store.registry.put(make_table("gone too"))
        assert [table.table_name for table in store.registry.list()] == ["kept"]


def test_importing_the_store_brings_no_heavy_module() -> None:
    code = "import sys, neve.store; print([m for m in ('psycopg', 'sqlalchemy', 'pyiceberg') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def assert_silent_about(secret: str, error: NeveError) -> None:
    assert secret not in str(error.problem())
    # The frames show our own source lines, never values; the messages of the chain are what could leak.
    assert secret not in "".join(traceback.format_exception(error)).replace(__file__, "")
