"""One lake and one Spark session per process; every test gets a namespace of its own in it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Mapping

import pytest
from pyspark.sql import SparkSession
from tests.spark.attached import Attached
from tests.spark.dynamic_oracle import COMPILED, INTERPRETED, QUICK

from neve.cli.app import run
from neve.cli.options import options
from neve.engine import session
from neve.lake import Lake, LakeTable

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def spark_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The lake whose Spark session all tests of this process use: with little memory, as two processes run at once, and
    without compiling queries, which costs tests of few rows more than it brings. `compiled` is as users run it."""
    root = tmp_path_factory.mktemp("spark") / "lake"
    Lake.create(root).close()
    file = root / "neve.yaml"
    text = file.read_text().replace("#  driver_memory: null  ", "  driver_memory: 3g  ")
    file.write_text(text.replace("#  conf: {}  ", f"  conf: {json.dumps(INTERPRETED)}  "))
    with Lake(root) as opened:
        yield opened


@pytest.fixture
def namespace(spark_lake: Lake) -> str:
    """A namespace that no other test uses."""
    name = f"ns{next(_numbers)}"
    spark_lake.namespaces.create(name)
    return name


@pytest.fixture
def quick(spark_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session for tiny tables; those that refreshes make for themselves are such, too."""
    return _all_sessions(spark_lake, monkeypatch, QUICK)


@pytest.fixture
def compiled(spark_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session that compiles queries, as users' do; and so do those that refreshes make for themselves."""
    return _all_sessions(spark_lake, monkeypatch, COMPILED)


@pytest.fixture
def attached(quick: SparkSession) -> Iterator[Attached]:
    """Processes on this process's Spark that may be killed."""
    server = Attached(quick)
    yield server
    server.close()


def _all_sessions(lake: Lake, monkeypatch: pytest.MonkeyPatch, conf: Mapping[str, str]) -> SparkSession:
    fresh = session.fresh_session

    def made(of: SparkSession) -> SparkSession:
        found = fresh(of)
        for key, value in conf.items():
            found.conf.set(key, value)
        return found

    monkeypatch.setattr(session, "fresh_session", made)
    return made(lake.spark)


@pytest.fixture
def make_table(spark_lake: Lake, namespace: str) -> Callable[..., LakeTable]:
    """Makes a table in this test's namespace, with some rows if wanted."""

    def make(
        name: str = "t",
        schema: str = "id bigint not null, name string",
        *,
        rows: str | None = None,
        partition_by: tuple[str, ...] = (),
    ) -> LakeTable:
        spark_lake.tables.create(f"{namespace}.{name}", schema, partition_by=partition_by)
        table = spark_lake.table(f"{namespace}.{name}")
        if rows is not None:
            spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES {rows}", write=True)
        return table

    return make


@pytest.fixture
def rows_of(spark_lake: Lake) -> Callable[..., list[tuple[object, ...]]]:
    """The rows of a table as Spark reads them, sorted."""

    def rows(table: LakeTable, columns: str = "*") -> list[tuple[object, ...]]:
        return sorted(map(tuple, spark_lake.sql(f"SELECT {columns} FROM {table.name.sql}").collect()), key=repr)

    return rows


@pytest.fixture
def cli(
    spark_lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line in this process, on the shared session: exit code, stdout, stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        for field in dataclasses.fields(options):
            monkeypatch.setattr(options, field.name, field.default)
        capsys.readouterr()
        elsewhere = "--server" in words and "off" not in words
        code = run([*words] if elsewhere else [*words, "--lake", str(spark_lake.root)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
