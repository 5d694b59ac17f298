"""The Spark session: lazy, one per process, quiet, sized from the machine, and never another lake's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from neve.config import load_settings
from neve.engine.conf import Launch, Machine, read_machine, same_lake, spark_conf
from neve.engine.jars import find_jars
from neve.engine.java import Java
from neve.errors import SparkUnavailable
from neve.lake import Lake

GIB = 1024**3


def configured(
    folder: Path, *, cores: int = 2, gib: int = 8, archive: Path | None = None, **flags: str
) -> dict[str, str]:
    loaded = load_settings(folder, flags={key.replace("__", "."): value for key, value in flags.items()}, env={})
    launch = Launch(
        machine=Machine(cores=cores, memory_bytes=gib * GIB),
        java=Java(Path("/java"), 17, "17.0.1"),
        jars=[Path("/jars/a.jar"), Path("/jars/b.jar")],
        log_file=folder / ".neve" / "spark.log",
        archive=archive,
    )
    return spark_conf(loaded, launch)


@pytest.mark.parametrize(
    ("cores", "gib", "memory", "partitions"),
    [(1, 1, "1g", "4"), (2, 8, "4g", "4"), (16, 24, "12g", "32"), (4, 256, "16g", "8")],
)
def test_sizes_come_from_the_machine(tmp_path: Path, cores: int, gib: int, memory: str, partitions: str) -> None:
    conf = configured(tmp_path, cores=cores, gib=gib)
    assert (conf["spark.driver.memory"], conf["spark.sql.shuffle.partitions"]) == (memory, partitions)


def test_what_is_asked_for_wins(tmp_path: Path) -> None:
    (tmp_path / "neve.yaml").write_text(
        "spark:\n  driver_memory: 3g\n  shuffle_partitions: 5\n  conf:\n"
        "    spark.sql.ansi.enabled: 'false'\n    spark.driver.memory: 2g\n    spark.driver.extraJavaOptions: -Dx=1\n"
    )
    conf = configured(tmp_path)
    assert conf["spark.sql.ansi.enabled"] == "false"
    assert conf["spark.driver.memory"] == "2g", "spark.conf is the last word"
    assert conf["spark.sql.shuffle.partitions"] == "5"
    options = conf["spark.driver.extraJavaOptions"].split()
    assert options[-1] == "-Dx=1"
    assert any(option.startswith("-Dlog4j2.configurationFile=") for option in options), "ours stay"


def test_the_class_archive_is_used_when_there_is_one(tmp_path: Path) -> None:
    without, with_it = configured(tmp_path), configured(tmp_path, archive=Path("/cds/x.jsa"))
    assert "SharedArchiveFile" not in without["spark.driver.extraJavaOptions"]
    assert "-XX:SharedArchiveFile=/cds/x.jsa" in with_it["spark.driver.extraJavaOptions"]
    assert same_lake(without, with_it)
    assert not same_lake(without, configured(tmp_path / "other"))


def test_a_machine_that_says_nothing_has_four_gib() -> None:
    assert read_machine(3, "") == Machine(cores=3, memory_bytes=4 * GIB)
    assert read_machine(3, "MemTotal:       16384 kB\nMemFree: 1 kB\n").memory_bytes == 16 * 1024**2


def test_an_offline_folder_needs_the_iceberg_jar(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "sqlite-jdbc.jar").touch()
    loaded = load_settings(tmp_path, flags={"spark.jars": str(jars)}, env={})
    with pytest.raises(SparkUnavailable, match="holds no iceberg-spark-runtime"):
        find_jars(loaded, {})
    (jars / "iceberg-spark-runtime-4.1.jar").touch()
    found = find_jars(loaded, {})
    assert [path.name for path in found.paths] == ["iceberg-spark-runtime-4.1.jar", "sqlite-jdbc.jar"]
    assert found.missing == ()


def test_the_shared_session_is_set_as_promised(spark_lake: Lake) -> None:
    spark = spark_lake.spark
    conf = {key: spark.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")}
    assert conf == {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}
    assert spark.sparkContext.getConf().get("spark.ui.enabled") == "false"
    assert (spark_lake.root / ".neve" / "spark.log").is_file()
    arguments = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()  # type: ignore[union-attr]
    used = [str(arguments.get(index)) for index in range(arguments.size()) if "SharedArchive" in arguments.get(index)]
    archive = spark_lake._context.session.archive()
    assert used == ([f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else [])


def test_one_session_however_many_ask(spark_lake: Lake) -> None:
    """Threads, and lakes opened twice, get the same Spark; it ends when the last of them leaves."""
    seen: list[object] = []
    with Lake(spark_lake.root) as again:
        threads = [threading.Thread(target=lambda: seen.append(again.spark)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {id(spark) for spark in seen} == {id(spark_lake.spark)}
    assert spark_lake.sql("SELECT 1").collect()[0][0] == 1, "closing one does not stop the other"


def test_another_lake_is_refused_while_spark_runs(spark_lake: Lake, lake: Lake) -> None:
    assert spark_lake.spark is not None
    with pytest.raises(SparkUnavailable, match=str(spark_lake.root)) as caught:
        lake.sql("SELECT 1")
    assert "close" in (caught.value.hint or "")
    lake.tables.create("t", "id int")  # without Spark, any number of lakes
    assert spark_lake.sql("SELECT 1").collect()[0][0] == 1
    with pytest.raises(SparkUnavailable, match="set otherwise"):
        Lake(spark_lake.root, flags={"spark.shuffle_partitions": "7"}).sql("SELECT 1")


def test_queries_leave_no_connection_open(spark_lake: Lake) -> None:
    """Each call has a session of its own, but not a catalog of its own."""

    def connections() -> int:
        tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
        held = [
            link for task in tasks for pid in task.read_text().split() for link in Path(f"/proc/{pid}/fd").glob("*")
        ]
        return sum("catalog.db" in str(link.readlink()) for link in held if link.is_symlink())

    spark_lake.sql("SELECT 1").collect()
    spark_lake.sql("SHOW TABLES IN default").collect()
    before = connections()
    assert before > 0
    for _ in range(10):
        spark_lake.sql("SHOW TABLES IN default").collect()
    assert connections() == before


METADATA_WORK = """
import sys
from neve.lake import Lake
from neve.services.specs import alterations_from_words
with Lake.create(sys.argv[1]) as lake:
    lake.tables.create("t", "id bigint, name string", partition_by=["bucket(4, id)"])
    table = lake.table("t")
    table.set({"a": "b"}); table.unset(["a"]); table.offline(); table.online()
    table.alter(alterations_from_words(add=["x int"]))
    table.show(); table.status(); table.history(); table.files(); table.partitions(); table.references()
    table.rename("u"); lake.tables.list(); lake.runs.list(); lake.namespaces.list()
    lake.table("u").drop(); lake.tables.undelete("u")
assert not {"pyspark", "py4j"} & set(sys.modules), "Spark was imported"
"""


def test_metadata_work_needs_no_spark(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    subprocess.run([sys.executable, "-c", METADATA_WORK, str(tmp_path / "lake")], check=True, env=environment)


ONE_AFTER_THE_OTHER = """
import json, os, sys
from pathlib import Path
from neve.errors import NeveError
from neve.lake import Lake

def java():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

def attempt(work):
    try:
        return work()
    except NeveError as exc:
        return f"{exc.code}: {exc.message}"

told, report = [], {}
def spoil(lake, content):
    archive = lake._context.session.archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(content)
    return archive

first = Lake(sys.argv[1], tell=told.append)
spoil(first, b"this is no archive" * 1000)
first.tables.create("mine", "id int")
report["before"] = java()
first.sql("INSERT INTO mine VALUES (1)", write=True)
running = java()
report["jars"] = first.spark.sparkContext.getConf().get("spark.driver.extraClassPath").split(":")
report["own conf"] = first.spark.conf.get("spark.sql.shuffle.partitions")
second = Lake(sys.argv[2])
report["refused"] = attempt(lambda: second.sql("SELECT 1"))
report["first goes on"] = first.sql("SELECT id FROM mine").collect()[0][0]
first.close()
report["after close"] = [pid for pid in running if Path(f"/proc/{pid}").exists()]
cut_short = spoil(second, Path(sys.argv[3]).read_bytes())
report["second"] = attempt(lambda: second.sql("SELECT * FROM mine"))
second.sql("CREATE TABLE theirs AS SELECT 2 AS id", write=True)
report["second rows"] = second.sql("SELECT id FROM theirs").collect()[0][0]
second.close()
report["told"] = told
report["cut short"] = cut_short.exists()
print(json.dumps(report))
"""


def test_sessions_one_after_the_other(tmp_path: Path, spark_lake: Lake) -> None:
    """In a process of its own: offline jars, class archives that are none, two lakes, and a JVM that goes on close."""
    real = spark_lake._context.session
    jars, cache = tmp_path / "jars", tmp_path / "cache"
    jars.mkdir()
    for jar in real.jars().paths:
        (jars / jar.name).symlink_to(jar)
    with Lake.create(tmp_path / "first"), Lake.create(tmp_path / "second"):
        pass
    settings = {"jars": str(jars), "driver_memory": "1g", "conf": {"spark.sql.shuffle.partitions": "3"}}
    (tmp_path / "first" / "neve.yaml").write_text(json.dumps({"spark": settings}))
    (tmp_path / "second" / "neve.yaml").write_text(json.dumps({"spark": {"jars": str(jars), "driver_memory": "1g"}}))
    half = tmp_path / "half.jsa"
    half.write_bytes(real.archive().read_bytes()[:90_000_000] if real.archive().is_file() else b"nor is this")

    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER, str(tmp_path / "first"), str(tmp_path / "second"), str(half)],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["before"] == []
    assert {Path(jar).parent for jar in report["jars"]} == {jars}
    assert report["own conf"] == "3"
    assert report["refused"].startswith("spark_unavailable: ")
    assert str(tmp_path / "first") in report["refused"]
    assert report["first goes on"] == 1
    assert report["after close"] == []
    assert report["second"] == "table_not_found: no table default.mine", "never the tables of the first"
    assert report["second rows"] == 2
    assert report["told"][0] == "starting Spark…"
    assert not (cache / "neve" / "ivy").exists(), "nothing was fetched"
    assert report["cut short"] is not real.archive().is_file(), "what Java cannot live with is removed"
    assert not list(tmp_path.glob("hs_err*")), "Java leaves no report where the user works"


def test_a_local_spark_keeps_to_this_machine(spark_lake: Lake) -> None:
    """A machine whose own name cannot be resolved, as in a bare container, must not keep Spark from starting."""
    conf = spark_lake.spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") in ("localhost", "127.0.0.1")
