"""`lake.sql` and `neve sql`: what counts as a write, time travel, results of every type, errors, streams and Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError

from neve.engine.statements import stream, writes
from neve.errors import (
    AlreadyExists,
    ColumnNotFound,
    InvalidInput,
    InvalidQuery,
    JobFailed,
    NamespaceNotFound,
    NeedsWrite,
    NeveError,
    SnapshotNotFound,
    TableNotFound,
)
from neve.lake import Lake, LakeTable

READS = """
SELECT 1
select * from t
WITH a AS (SELECT 1 x) SELECT * FROM a
VALUES (1), (2)
TABLE t
FROM t
FROM t SELECT id
FROM t |> WHERE id > 1
(SELECT 1) UNION ALL (SELECT 2)
SELECT * FROM t.snapshots
SELECT * FROM t VERSION AS OF 1
SELECT /*+ COALESCE(1) */ * FROM t
SELECT 'insert into t values (1)'
SELECT * FROM t -- delete from t
EXPLAIN SELECT 1
EXPLAIN INSERT INTO t VALUES (1)
EXPLAIN EXTENDED DELETE FROM t
EXPLAIN CREATE TABLE x (id INT)
SHOW TABLES
SHOW TABLES IN lake.default
SHOW NAMESPACES
SHOW CREATE TABLE t
SHOW TBLPROPERTIES t
SHOW COLUMNS IN t
SHOW PARTITIONS t
SHOW FUNCTIONS
SHOW VIEWS
SHOW CATALOGS
SHOW CURRENT NAMESPACE
DESCRIBE t
DESC EXTENDED t
DESCRIBE NAMESPACE default
DESCRIBE QUERY SELECT 1
DESCRIBE FUNCTION abs
SET
SET spark.sql.shuffle.partitions = 3
SET TIME ZONE 'UTC'
RESET
USE lake.default
SET CATALOG lake
DECLARE VARIABLE v INT DEFAULT 1
SET VAR v = 2
DROP TEMPORARY VARIABLE v
REFRESH TABLE t
CLEAR CACHE
LIST JARS
"""
WRITES = """
INSERT INTO t VALUES (1)
INSERT INTO t BY NAME SELECT 1 AS id
INSERT OVERWRITE t VALUES (1)
INSERT INTO t REPLACE WHERE id = 1 VALUES (1)
INSERT OVERWRITE DIRECTORY '/nowhere' USING parquet SELECT 1
WITH a AS (SELECT 1 id) INSERT INTO t SELECT * FROM a
FROM t INSERT INTO a SELECT id INSERT INTO b SELECT id
UPDATE t SET name = 'x'
DELETE FROM t
MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE
TRUNCATE TABLE t
CREATE TABLE x (id INT)
CREATE TABLE x AS SELECT 1
CREATE OR REPLACE TABLE x AS SELECT 1
REPLACE TABLE x AS SELECT 1
CREATE TABLE IF NOT EXISTS x LIKE t
CREATE VIEW v AS SELECT 1
CREATE TEMPORARY VIEW v AS SELECT 1
CREATE NAMESPACE n
CREATE FUNCTION f AS 'a.B'
DROP TABLE x
DROP TABLE IF EXISTS x PURGE
DROP VIEW v
DROP NAMESPACE n CASCADE
ALTER TABLE t ADD COLUMN z INT
ALTER TABLE t RENAME TO u
ALTER TABLE t RENAME COLUMN a TO b
ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')
ALTER TABLE t CREATE TAG v1
ALTER TABLE t CREATE BRANCH b
ALTER TABLE t DROP BRANCH b
ALTER TABLE t ADD PARTITION FIELD bucket(4, id)
ALTER TABLE t WRITE ORDERED BY id
ALTER TABLE t SET IDENTIFIER FIELDS id
ALTER NAMESPACE n SET PROPERTIES ('a' = 'b')
ALTER VIEW v AS SELECT 2
COMMENT ON TABLE t IS 'x'
CALL lake.system.expire_snapshots('default.t')
CALL system.rollback_to_snapshot(table => 'default.t', snapshot_id => 1)
CACHE TABLE t
CACHE LAZY TABLE c AS SELECT 1
UNCACHE TABLE t
ANALYZE TABLE t COMPUTE STATISTICS
MSCK REPAIR TABLE t
REFRESH '/nowhere'
ADD JAR '/nowhere.jar'
LOAD DATA INPATH '/nowhere' INTO TABLE t
SELECT TRANSFORM(id) USING 'cat' AS (x) FROM t
EXECUTE IMMEDIATE 'SELECT 1'
INSERT INTO IDENTIFIER('t') VALUES (1)
WITH x AS (SELECT 1) INSERT INTO IDENTIFIER('t') SELECT * FROM x
EXPLAIN EXECUTE IMMEDIATE 'DELETE FROM t'
BEGIN DELETE FROM t; END
"""


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.mark.parametrize("statement", lines(READS))
def test_it_only_looks(spark_lake: Lake, statement: str) -> None:
    assert not writes(spark_lake.spark, statement)


@pytest.mark.parametrize("statement", lines(WRITES))
def test_it_writes(spark_lake: Lake, statement: str) -> None:
    assert writes(spark_lake.spark, statement)


# ------------------------------------------------------------------------------------------------------------ scripts


def test_a_script_is_refused_before_any_of_it_runs(
    spark_lake: Lake, make_table: Callable[..., LakeTable], rows_of: Callable[..., list[tuple[object, ...]]]
) -> None:
    table = make_table("t", rows="(1, 'a')")
    insert = f"INSERT INTO {table.name.sql} VALUES (2, 'b')"
    with pytest.raises(NeedsWrite, match="INSERT INTO"):
        spark_lake.sql(f"SELECT 1; {insert}; SELECT 2")
    with pytest.raises(InvalidQuery, match="line 3, column 3"):
        spark_lake.sql(f"{insert};\n-- a comment; with a semicolon\n  SELEC 2", write=True)
    with pytest.raises(InvalidInput, match="as of"):
        spark_lake.sql(insert, write=True, as_of="v1")
    for nothing in ("", "  ;; -- x\n", "/* ; */"):
        with pytest.raises(InvalidInput, match="no SQL"):
            spark_lake.sql(nothing)
    assert rows_of(table) == [(1, "a")]
    assert len(table.history()) == 1


def test_a_file_of_statements(cli: Any, spark_lake: Lake, namespace: str, tmp_path: Path) -> None:
    """Comments, semicolons in strings and names, blank statements; the rows of the last one; each write is a run."""
    script = tmp_path / "load.sql"
    script.write_text(
        f"""
        -- make it; fill it
        CREATE TABLE {namespace}.`odd;name` (id INT, note STRING);;
        INSERT INTO {namespace}.`odd;name` VALUES (1, 'a;b'), (2, "it's -- not a comment"), (3, 'c''d'), (4, r'\\');
        /* ; /* nested; */ */
        DELETE FROM {namespace}.`odd;name` WHERE note = 'a;b' -- gone;
        ;
        USE {namespace};
        SELECT id, note FROM `odd;name` ORDER BY id;
        """
    )
    refused = cli("sql", "-f", str(script))
    assert refused[0] == 6
    assert "CREATE TABLE" in refused[2]
    code, out, _ = cli("sql", "-f", str(script), "--write", "-o", "json")
    assert code == 0
    assert [row["note"] for row in json.loads(out)] == ["it's -- not a comment", "c'd", "\\"]
    runs = spark_lake.runs.list(kind="sql", limit=3)
    assert [str((entry.plan or {})["sql"]).split()[0] for entry in reversed(runs)] == ["CREATE", "INSERT", "DELETE"]
    assert {entry.state for entry in runs} == {"succeeded"}
    assert cli("sql", "-f", str(tmp_path / "none.sql"))[0] == 2
    assert cli("sql")[0] == 2
    assert cli("sql", "SELECT 1", "-f", str(script))[0] == 2


def test_sql_makes_tables_like_any_other(spark_lake: Lake, namespace: str) -> None:
    """A table made by SQL has a folder of its own for ever, format 3, merge-on-read and patient commits."""
    for statement in (f"CREATE TABLE {namespace}.a (id INT)", f"CREATE TABLE {namespace}.b AS SELECT 1 AS id"):
        spark_lake.sql(statement, write=True)
    made = spark_lake.table(f"{namespace}.a").show(), spark_lake.table(f"{namespace}.b").show()
    for details in made:
        assert details.format_version == 3
        assert re.search(r"-[0-9a-f]{32}$", details.location)
        modes = {details.properties[f"write.{verb}.mode"] for verb in ("delete", "update", "merge")}
        assert modes == {"merge-on-read"}
        assert details.properties["commit.retry.num-retries"] == "50"
    spark_lake.sql(f"DROP TABLE {namespace}.a; CREATE TABLE {namespace}.a (id INT)", write=True)
    assert spark_lake.table(f"{namespace}.a").show().location != made[0].location


# -------------------------------------------------------------------------------------------------------- time travel


def test_as_of(cli: Any, spark_lake: Lake, namespace: str, make_table: Callable[..., LakeTable]) -> None:
    """Every table of a query is read as it was: by id, tag, branch and time; below WITH and in subqueries too."""
    a, b = make_table("a", "id bigint"), make_table("b", "id bigint")
    model: dict[str, list[set[int]]] = {"a": [], "b": []}
    for number in (1, 2, 3):
        for table in (a, b):
            spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES ({number})", write=True)
            model[table.name.name].append(set(range(1, number + 1)))
        if number == 2:
            for table in (a, b):
                table.tag("two's")
                table.branch("side")
    snapshots = [row.snapshot for row in reversed(a.history())]
    times = [row.at for row in reversed(a.history())]

    def ids(query: str, as_of: str, table: LakeTable = a) -> set[int]:
        return {row[0] for row in table.query(query, as_of=as_of).collect()}

    for index, (snapshot, moment) in enumerate(zip(snapshots, times, strict=True)):
        there = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
        for as_of in (str(snapshot), moment.isoformat(), moment.replace(tzinfo=None).isoformat(" "), there.isoformat()):
            assert ids("SELECT id FROM a", as_of) == model["a"][index]

    store = spark_lake._context.store
    for by_hand in (f"SELECT id FROM a VERSION AS OF {snapshots[0]}", "SELECT 1 WHERE 1 IN (SELECT id FROM b@)"):
        last = b.history()[-1].snapshot
        rows = a.query(by_hand.replace("@", f" VERSION AS OF {last}"))
        assert rows.count() == 1
    read = {snapshot for row in (a, b) for each in store.readers.of(row.show().uuid) for snapshot in each.snapshots}
    assert read == {*snapshots, b.history()[-1].snapshot}, "expiry hears of every one that is asked for"

    both = model["a"][1] & model["b"][1]
    for query in (
        "SELECT a.id FROM a JOIN b ON a.id = b.id",
        "SELECT x.id FROM a AS x, b y WHERE x.id = y.id",
        f"SELECT a.id FROM {namespace}.a JOIN lake.{namespace}.`b` USING (id)",
        "WITH c AS (SELECT * FROM a), d AS (SELECT * FROM C) SELECT id FROM d WHERE id IN (SELECT id FROM b)",
        "WITH a AS (SELECT * FROM a) SELECT id FROM a",
        "SELECT id FROM (SELECT * FROM a) q WHERE EXISTS (SELECT 1 FROM b WHERE b.id = q.id)",
        "SELECT id FROM a UNION SELECT id FROM b",
        "SELECT a.id FROM a, range(1) r",
        "SELECT id FROM a WHERE id <= (SELECT max(id) FROM b)",
        "FROM a SELECT id",
    ):
        for as_of in ("two's", "side", list(reversed(b.history()))[1].at.isoformat()):
            assert ids(query, as_of) == both, (query, as_of)
    assert ids(f"SELECT id FROM a VERSION AS OF {snapshots[0]} UNION SELECT 7 FROM b", "two's") == {1, 7}
    assert ids("SET spark.sql.shuffle.partitions = 2; SELECT id FROM a", str(snapshots[0])) == {1}

    for as_of in ("12345", "none", "2001-01-01"):
        assert cli("table", "query", f"{namespace}.a", "SELECT * FROM a", "--as-of", as_of)[0] == 3
    a.tag("only-a")
    with pytest.raises(SnapshotNotFound):
        ids("SELECT a.id FROM a JOIN b USING (id)", "only-a")
    for text in ("DESCRIBE a", "TABLE a", "SELECT * FROM IDENTIFIER('a')", "SHOW TABLES"):
        with pytest.raises(InvalidQuery, match="as-of"):
            ids(text, "side")


# ------------------------------------------------------------------------------------------------------------ results

EVERY_TYPE = """
SELECT CAST(NULL AS INT) AS nothing, true AS yes, 1Y AS tiny, 9223372036854775807 AS big, 1.10BD AS exact,
       float(1.1) AS short, 0.1D AS double, double('NaN') AS nan, double('Infinity') AS up, -double('Infinity') AS down,
       'a,"b"\n;ü' AS text, '' AS empty, X'00FF' AS bytes, DATE'2024-02-29' AS day,
       TIMESTAMP'2024-01-01 10:00:00.5+02:00' AS instant, TIMESTAMP_NTZ'2024-01-01 10:00:00' AS wall,
       INTERVAL '1' DAY AS days, INTERVAL '2-3' YEAR TO MONTH AS months,
       named_struct('x', 1, 'when', TIMESTAMP'2024-01-01 00:00:00') AS struct, array(1, NULL, 3) AS list,
       map('k', double('NaN')) AS map, parse_json('{"a": [1, null]}') AS variant
"""
EXPECTED = {
    "nothing": None, "yes": True, "tiny": 1, "big": 9223372036854775807, "exact": "1.10",
    "short": 1.1, "double": 0.1, "nan": "NaN", "up": "Infinity", "down": "-Infinity",
    "text": 'a,"b"\n;ü', "empty": "", "bytes": "00ff", "day": "2024-02-29",
    "instant": "2024-01-01T08:00:00.500000+00:00", "wall": "2024-01-01T10:00:00",
    "days": "INTERVAL '1' DAY", "months": "INTERVAL '2-3' YEAR TO MONTH",
    "struct": {"x": 1, "when": "2024-01-01T00:00:00+00:00"}, "list": [1, None, 3],
    "map": {"k": "NaN"}, "variant": {"a": [1, None]},
}  # fmt: skip


def strict_json(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
def test_results_of_every_type(cli: Any, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in every format, whatever the zone of the machine."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        answers = {form: cli("sql", EVERY_TYPE, "-o", form) for form in ("json", "jsonl", "csv", "table")}
    finally:
        monkeypatch.undo()
        time.tzset()
    assert {answer[0] for answer in answers.values()} == {0}
    assert strict_json(answers["json"][1]) == [EXPECTED]
    assert [strict_json(line) for line in answers["jsonl"][1].splitlines()] == [EXPECTED]
    head, row = csv.reader(io.StringIO(answers["csv"][1]))
    assert dict(zip(head, row, strict=True)) == {
        key: "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in EXPECTED.items()
    }
    assert "9223372036854775807" in answers["table"][1]
    assert "NULL" in answers["table"][1]


def test_column_names_are_kept_as_they_are(cli: Any) -> None:
    query = "SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS `x,\"y\" z`, 5 AS `ü`, named_struct('k', 6, 'k', 7) AS s, 8 AS A"
    code, out, _ = cli("sql", query, "-o", "csv")
    assert (code, next(csv.reader(io.StringIO(out)))) == (0, ["a", "a", "a_2", 'x,"y" z', "ü", "s", "A"])
    (row,) = strict_json(cli("sql", query, "-o", "json")[1])
    assert list(row.values()) == [1, 2, 3, 4, 5, {"k": 6, "k_2": 7}, 8], (
        "no value is lost to a name that is there twice"
    )
    assert next(iter(row)) == "a"


def test_limit(cli: Any) -> None:
    for form, count in (("csv", lambda out: len(out.splitlines()) - 1), ("jsonl", lambda out: len(out.splitlines()))):
        assert count(cli("sql", "SELECT * FROM range(5000)", "--limit", "7", "-o", form)[1]) == 7
        assert count(cli("sql", "SELECT * FROM range(5000)", "--limit", "2500", "-o", form)[1]) == 2500
    assert strict_json(cli("sql", "SELECT * FROM range(3)", "--limit", "0", "-o", "json")[1]) == []
    code, out, err = cli("sql", "SELECT * FROM range(5000)")
    assert (code, len(out.splitlines())) == (0, 101)
    assert "more" in err
    assert cli("sql", "SELECT 1", "--limit", "-1")[0] == 2


def test_short_names_metadata_columns_and_metadata_tables(
    cli: Any, spark_lake: Lake, namespace: str, make_table: Callable[..., LakeTable]
) -> None:
    table = make_table("t", rows="(1, 'a'), (2, 'b')", partition_by=("bucket(2, id)",))
    code, out, _ = cli("table", "query", str(table.name), "SELECT name FROM t WHERE id = 2", "-o", "csv")
    assert (code, out) == (0, "name\nb\n")
    said = cli("table", "query", str(table.name), "SELECT id FROM t ORDER BY id")
    assert said == (0, "id\n 1\n 2\n", "✓ 2 rows returned\n\n"), "what it says is no data"
    assert cli("table", "query", f"{namespace}.tt", "SELECT 1")[0] == 3
    assert cli("table", "query", str(table.name), "DELETE FROM t")[0] == 6

    rows = table.query(
        "SELECT _row_id, _file, _pos, _partition, _spec_id, _last_updated_sequence_number FROM t"
    ).collect()
    files = {row.path for row in table.files()}
    assert {row["_file"].removeprefix("file:") for row in rows} == {path.removeprefix("file:") for path in files}
    assert sorted(row["_row_id"] for row in rows) == [0, 1]
    assert len({(row["_file"], row["_pos"]) for row in rows}) == 2
    listed = {row[0] for row in table.query("SELECT file_path FROM t.files").collect()}
    assert listed == files
    (snapshot,) = table.query("SELECT snapshot_id FROM t.snapshots").collect()
    assert snapshot[0] == table.history()[0].snapshot
    assert len(table.query("SELECT * FROM t.history").collect()) == 1
    counted = table.query("SELECT record_count FROM t.partitions").collect()
    assert sum(row[0] for row in counted) == sum(row.rows for row in table.partitions()) == 2


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "kind", "message", "hint"),
    [
        ("SELECT id,\n  nme FROM t", ColumnNotFound, r"line 2, column 3: .*`nme`", "did you mean name"),
        ("SELECT *\nFROM t WHER id = 1", InvalidQuery, "line 2, column 13: Syntax error at or near 'id'", None),
        ("SELECT 1;\nSELECT 'never; closed", InvalidQuery, "line 2, column 8", None),
        ("SELECT * FROM tt", TableNotFound, r"no table ns\d+.tt", "did you mean ns"),
        ("SELECT * FROM nowhere.`t t`", TableNotFound, r"no table nowhere.`t t`", None),
        ("SHOW TABLES IN nowhere", NamespaceNotFound, "nowhere", None),
        ("SELECT nothing(1)", InvalidQuery, "`nothing`", None),
        ("SELECT id FROM t GROUP BY name", InvalidQuery, "GROUP BY", None),
        ("SELECT * FROM t VERSION AS OF 5", SnapshotNotFound, "ID 5", "neve table history"),
        ("SELECT 1 / (id - 1) FROM t", JobFailed, "Division by zero$", "try_divide"),
        ("SELECT CAST(name AS INT) FROM t", JobFailed, "'a' of the type .* malformed$", "try_cast"),
        ("SELECT raise_error('it broke') FROM t", JobFailed, "it broke", None),
        ("SELECT DATE'12345-01-01'", JobFailed, "12345", "cast it to string"),
        ("CREATE TABLE t (id INT)", AlreadyExists, "already exists", None),
        ("INSERT INTO t VALUES (NULL, 'x')", JobFailed, "non-nullable", None),
        ("INSERT INTO t SELECT 1", InvalidQuery, "not enough data columns", None),
        ("CALL lake.system.rollback_to_snapshot('lake.{ns}.t', 5)", SnapshotNotFound, "5", None),
    ],
)
def test_errors_are_one_sentence(  # noqa: PLR0917
    spark_lake: Lake,
    namespace: str,
    make_table: Callable[..., LakeTable],
    text: str,
    kind: type[NeveError],
    message: str,
    hint: str | None,
) -> None:
    make_table("t", rows="(1, 'a')")
    with pytest.raises(kind, match=message) as caught:
        list(stream(spark_lake.sql(f"USE {namespace};{text.replace('{ns}', namespace)}", write=True)).stream)
    error = caught.value
    assert type(error) is kind
    assert "\n" not in error.message
    assert "Exception" not in error.message
    assert "SQLSTATE" not in error.message
    if hint is not None:
        assert hint in (error.hint or "")


def test_a_json_reader_gets_json(cli: Any) -> None:
    """An error is an object on stderr, and what fails at once leaves stdout empty."""
    for form in ("json", "jsonl"):
        code, out, err = cli("sql", "SELECT 1 / 0", "-o", form)
        assert (code, out) == (1, "")
        assert strict_json(err)["code"] == "job_failed"
    code, out, err = cli("sql", "SELECT * FROM no_such_table", "-o", "json")
    assert (code, out, strict_json(err)["code"]) == (3, "", "table_not_found")
    assert strict_json(cli("sql", "SELECT 1 AS a WHERE false", "-o", "json")[1]) == []


# ---------------------------------------------------------------------------------------------- streams and interrupts


def test_rows_stream_before_all_of_them_are_made(spark_lake: Lake) -> None:
    """Spark has worked on a few of 40 partitions when the first row is there."""
    jobs = spark_lake.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs
    before = jobs()
    rows = stream(spark_lake.sql("SELECT id FROM range(0, 200000, 1, 40)")).stream
    assert next(iter(rows))[0] == 0
    assert jobs() - before <= 4
    assert sum(1 for _ in rows) == 199_999
    assert jobs() - before == 40


def test_two_hundred_thousand_rows_in_little_memory(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "rows.csv"
    with target.open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        tracemalloc.start()
        code, *_ = cli("sql", "SELECT id, repeat('x', 100) AS x FROM range(0, 200000, 1, 4)", "-o", "csv")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert code == 0
    with target.open() as written:
        assert sum(1 for _ in written) == 200_001
    assert target.stat().st_size > 20_000_000
    assert peak < 20_000_000, "a row takes some 300 bytes: all of them would take 60 MB"


ENDLESS = "SELECT count(*) FROM range(1000) a CROSS JOIN range(100000000000) b WHERE a.id * b.id % 7 = 9"


def becomes(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether it comes true: Spark tells of a job's end on a queue of its own, later than the call that ran it."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_an_interrupt_cancels_the_job_and_leaves_the_session_well(spark_lake: Lake) -> None:
    """Many times, beside threads with connections of their own: py4j would close those, and our next one, too."""
    context = spark_lake.spark.sparkContext
    tracker = context.statusTracker()
    over = threading.Event()
    failures: list[Exception] = []

    def neighbour() -> None:
        while not over.wait(0.02):
            try:
                context.statusTracker().getActiveJobsIds()
            except (Py4JError, OSError) as failure:
                failures.append(failure)

    neighbours = [threading.Thread(target=neighbour) for _ in range(4)]
    for thread in neighbours:
        thread.start()
    try:
        for seconds in (0.05, 0.2, 0.5, 0.8, 1.5):
            frame = spark_lake.sql(ENDLESS)
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                list(stream(frame, limit=5).stream)
            assert spark_lake.sql("SELECT 1").collect()[0][0] == 1
            assert becomes(lambda: not tracker.getActiveJobsIds()), "the endless job goes on"
    finally:
        over.set()
        for thread in neighbours:
            thread.join()
    assert not failures


def neve(lake: Lake, *words: str, **options: Any) -> subprocess.Popen[str]:
    """A process of its own, with Spark of its own."""
    environment = {**os.environ, "NEVE_SPARK__DRIVER_MEMORY": "1g"}
    command = [sys.executable, "-m", "neve", *words, "--lake", str(lake.root)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
    )


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def test_a_failed_query_says_one_thing(spark_lake: Lake) -> None:
    """Neither Spark nor PySpark nor Java prints a word of its own."""
    process = neve(spark_lake, "sql", "SELECT 1 / (id - 70) AS x FROM range(0, 100, 1, 4)", "-o", "csv")
    out, err = process.communicate()
    assert process.returncode == 1
    assert lines(err) == [
        "✗ Spark: Division by zero",
        "  Use `try_divide` to tolerate divisor being 0 and return NULL instead",
    ]
    head, *rows = out.splitlines()
    assert head == "x"
    assert rows == [str(1 / (i - 70)) for i in range(len(rows))]


def test_ctrl_c_and_a_closed_pipe_leave_nothing_behind(spark_lake: Lake, tmp_path: Path) -> None:
    """One after the other in one test, as each starts a JVM."""
    process = neve(
        spark_lake,
        "sql",
        "SELECT id FROM range(0, 5000, 1, 1) UNION ALL "
        "SELECT a.id FROM range(100000000) a CROSS JOIN range(100000) b WHERE a.id * b.id % 7 = 9",
        *("-o", "csv"),
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["id\n", "0\n"], "rows come while the query runs"
    java = children(process.pid)
    assert java
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert (process.returncode, err) == (130, "interrupted\n")
    _await_end(java)

    process = neve(spark_lake, "sql", "SELECT id FROM range(0, 100000000, 1, 100000)", "-o", "csv")
    assert process.stdout is not None
    assert process.stdout.readline() == "id\n"
    java = children(process.pid)
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    _await_end(java)


def _await_end(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
