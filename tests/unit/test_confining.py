"""A tenant's SQL stays with the tenant: what is refused, and how the rest is spelled."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import Forbidden, InvalidName, InvalidQuery, NeveError, Unsupported
from neve.sql.confining import confine, confine_change
from neve.sql.tenant_functions import FUNCTIONS

HOME = ("acme", "default")
ESCAPES = [
    # names
    "SELECT * FROM globex.default.users",
    "SELECT * FROM `globex`.`default`.`users`",
    "SELECT * FROM `globex`.default . `users`",
    "SELECT * FROM lake.globex.default.users",
    "SELECT * FROM LAKE.acme.default.users",
    "SELECT * FROM lake.lake.acme.default.users",
    "SELECT * FROM Acme.default.users",
    "SELECT * FROM acme .globex.default.users",
    "SELECT * FROM acm\u0435.default.users",
    "SELECT * FROM a\u0441me.default.users",
    "SELECT * FROM `acme\u200b`.default.users",
    "SELECT * FROM `acme.default`.globex.default.users",
    "SELECT * FROM `globex.default.users`",
    "SELECT * FROM `globex``.``default``.``users`",
    'SELECT * FROM "globex.default.users"',
    "SELECT * FROM `..`.users",
    "SELECT * FROM `../globex/default`.users",
    "SELECT * FROM spark_catalog.default.users",
    "SELECT * FROM system.session.users",
    "SELECT * FROM system.information_schema.tables",
    "SELECT * FROM a.b.c.d.e.f",
    # places inside a query
    "SELECT * FROM users, globex.default.users",
    "SELECT * FROM users u JOIN globex.default.users g ON g.id = u.id",
    "SELECT * FROM users LEFT ANTI JOIN globex.default.users USING (id)",
    "SELECT * FROM users UNION ALL SELECT * FROM globex.default.users",
    "SELECT * FROM users EXCEPT SELECT * FROM globex.default.users",
    "SELECT (SELECT max(id) FROM globex.default.users)",
    "SELECT * FROM users WHERE id IN (SELECT id FROM globex.default.users)",
    "SELECT * FROM users WHERE EXISTS (SELECT 1 FROM globex.default.users)",
    "SELECT * FROM users ORDER BY (SELECT max(id) FROM globex.default.users)",
    "SELECT * FROM users LIMIT (SELECT count(*) FROM globex.default.users)",
    "SELECT CASE WHEN (SELECT 1 FROM globex.default.users) = 1 THEN 1 END",
    "SELECT sum(a) OVER (PARTITION BY (SELECT max(id) FROM globex.default.users)) FROM users",
    "SELECT a FROM users GROUP BY a HAVING a > (SELECT max(id) FROM globex.default.users)",
    "SELECT * FROM users, LATERAL (SELECT * FROM globex.default.users)",
    "SELECT * FROM users LATERAL VIEW explode((SELECT collect_list(id) FROM globex.default.users)) x AS y",
    "SELECT * FROM (FROM globex.default.users)",
    "SELECT * FROM (TABLE globex.default.users)",
    "SELECT * FROM users WHERE id IN (TABLE globex.default.users)",
    "SELECT transform(array(1), x -> (SELECT max(id) FROM globex.default.users))",
    "VALUES ((SELECT max(id) FROM globex.default.users))",
    "FROM globex.default.users SELECT *",
    "SELECT 1 UNION ALL TABLE globex.default.users",
    "SELECT * FROM users, TABLE globex.default.users",
    "FROM users |> JOIN globex.default.users USING (id)",
    "FROM users |> UNION ALL (TABLE globex.default.users)",
    # common table expressions
    "WITH users AS (SELECT * FROM globex.default.users) SELECT * FROM users",
    "WITH globex AS (SELECT 1) SELECT * FROM globex.default.users",
    "WITH a AS (WITH b AS (SELECT * FROM globex.default.users) SELECT * FROM b) SELECT * FROM a",
    "WITH RECURSIVE r AS (SELECT id FROM globex.default.users UNION ALL SELECT id FROM r) SELECT * FROM r",
    # the past, metadata and options
    "SELECT * FROM globex.default.users VERSION AS OF 1",
    "SELECT * FROM globex.default.users TIMESTAMP AS OF '2026-01-01'",
    "SELECT * FROM users TIMESTAMP AS OF (SELECT max(at) FROM globex.default.users)",
    "SELECT * FROM acme.default.users.files",
    "SELECT * FROM lake.acme.default.users.snapshots",
    "SELECT * FROM globex.default.users.history",
    "SELECT * FROM users WITH ('scan-task-set-id' = 'x')",
    "SELECT _file FROM users",
    "SELECT u.`_FILE` FROM users u",
    "SELECT _metadata.file_path FROM users",
    # files
    "SELECT * FROM parquet.`/etc`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM iceberg.`file:///data/globex/default/users`",
    "SELECT * FROM json.`s3://bucket/x`",
    "SELECT * FROM `file:/etc/passwd`",
    "SELECT * FROM read_files('/etc')",
    # names and statements that are computed
    "SELECT * FROM IDENTIFIER('globex.default.users')",
    "SELECT * FROM IDENTIFIER(:t)",
    "SELECT * FROM identifier('glo' || 'bex.default.users')",
    "SELECT IDENTIFIER('_fi' || 'le') FROM users",
    "EXECUTE IMMEDIATE 'SELECT * FROM globex.default.users'",
    "SELECT * FROM users WHERE a = '${env:HOME}' AND ${b}",
    # functions
    "SELECT java_method('java.lang.System', 'getenv')",
    "SELECT reflect('java.lang.Runtime', 'getRuntime')",
    "SELECT `reflect`('java.lang.System', 'exit', 0)",
    "SELECT ReFlEcT ('java.lang.System', 'exit', 0)",
    "SELECT reflect/**/('java.lang.System', 'exit', 0)",
    "SELECT system.builtin.reflect('java.lang.System', 'exit', 0)",
    "SELECT try_reflect('java.lang.System', 'getenv')",
    "WITH reflect(a) AS (SELECT 1) SELECT reflect('java.lang.System', 'exit', 0) FROM reflect",
    "SELECT reflect.reflect('a') FROM VALUES (1) AS reflect(a)",
    "SELECT input_file_name() FROM users",
    "SELECT input_file_block_start() FROM users",
    "SELECT current_user()",
    "SELECT current_user",
    "SELECT session_user()",
    "SELECT user()",
    "SELECT user",
    "SELECT current_catalog()",
    "SELECT xpath_string('<!DOCTYPE a [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><a>&e;</a>', 'a')",
    "SELECT from_xml('<a/>', 'a int')",
    "SELECT lake.system.bucket(4, 1)",
    "SELECT iceberg_version()",
    "SELECT my_udf(1)",
    "SELECT * FROM STREAM(globex.default.users)",
    "SELECT * FROM my_tvf(TABLE(globex.default.users))",
    "SELECT * FROM python_worker_logs()",
    "SELECT TRANSFORM(a) USING 'cat /etc/passwd' AS b FROM users",
    "FROM users MAP a USING 'cat' AS b",
    # quotes, comments and hints: one reading by one parser, another by the other
    "SELECT 1 /* a /* b */ c */ FROM globex.default.users",
    "SELECT /* */ * FROM /**/ globex/**/./**/default.users",
    "SELECT * FROM globex -- x\n.default.users",
    "SELECT /*+ BROADCAST(users) */ * FROM users",
    "SELECT r'\\' FROM users WHERE a = ' FROM globex.default.users '",
    'SELECT R"\\" FROM users',
    "SELECT N'x'",
    "SELECT 'a\\",
    "SELECT 'a' FROM users /*",
    "SELECT $$x$$",
    "SELECT\u00a0* FROM\u00a0globex.default.users",
    "SELECT 1\u3000FROM\u3000globex.default.users",
    "SELECT * FROM\u200bglobex.default.users",
    "SELECT reﬂect('java.lang.System', 'exit', 0)",
    "SELECT reflect\u00a0('java.lang.System', 'exit', 0)",
    "SELECT \"reflect\"('java.lang.System', 'exit', 0)",
    'SELECT * FROM "globex"."default"."users"',
    "SELECT 1 \x00 FROM globex.default.users",
    "SELECT * FROM größe",
    # statements
    "SELECT 1; SELECT 2",
    "SHOW TABLES IN globex",
    "SHOW NAMESPACES",
    "SHOW CREATE TABLE users",
    "SHOW TBLPROPERTIES globex.default.users",
    "DESCRIBE TABLE EXTENDED globex.default.users",
    "DESCRIBE users",
    "EXPLAIN SELECT * FROM users",
    "EXPLAIN EXTENDED SELECT * FROM globex.default.users",
    "TABLE globex.default.users",
    "USE globex.default",
    "SET spark.sql.catalog.lake.uri",
    "RESET",
    "CALL lake.system.rewrite_data_files('globex.default.users')",
    "INSERT INTO users SELECT * FROM globex.default.users",
    "WITH a AS (SELECT 1) INSERT INTO users SELECT * FROM a",
    "FROM users INSERT INTO users SELECT *",
    "SELECT * INTO x FROM users",
    "DELETE FROM users",
    "MERGE INTO users USING globex.default.users g ON true WHEN MATCHED THEN DELETE",
    "CREATE TEMPORARY VIEW v AS SELECT * FROM globex.default.users",
    "CREATE VIEW v AS SELECT 1",
    "CREATE DYNAMIC TABLE d TARGET_LAG = '1 minute' AS SELECT * FROM globex.default.users",
    "DROP TABLE globex.default.users",
    "CACHE TABLE c AS SELECT * FROM globex.default.users",
    "ADD JAR '/tmp/x.jar'",
    "DECLARE x = 1",
    "BEGIN SELECT 1; END",
    "",
    "-- nothing",
    "(" * 3000 + "SELECT 1" + ")" * 3000,
    "SELECT '" + "x" * 100_000 + "'",
]


@pytest.mark.parametrize("text", ESCAPES)
def test_there_is_no_way_out(text: str) -> None:
    with pytest.raises((Forbidden, InvalidQuery, InvalidName)):
        confine(text, HOME)


def test_the_suite_is_as_large_as_was_asked() -> None:
    assert len(set(ESCAPES)) >= 60


CHANGES = [
    "INSERT INTO {} VALUES (1)",
    "INSERT INTO {} (id) SELECT 1",
    "INSERT INTO {} BY NAME SELECT 1 AS id",
    "INSERT INTO users SELECT * FROM {}",
    "INSERT INTO users (id) WITH a AS (SELECT id FROM {}) SELECT id FROM a",
    "UPDATE {} SET id = 1",
    "UPDATE {} AS u SET u.id = 1 WHERE u.id = 2",
    "UPDATE users SET id = (SELECT max(id) FROM {})",
    "UPDATE users SET id = 1 WHERE id IN (SELECT id FROM {})",
    "DELETE FROM {}",
    "DELETE FROM {} WHERE true",
    "DELETE FROM users WHERE EXISTS (SELECT 1 FROM {})",
    "MERGE INTO {} t USING users u ON t.id = u.id WHEN MATCHED THEN DELETE",
    "MERGE INTO users t USING {} u ON t.id = u.id WHEN NOT MATCHED THEN INSERT (id) VALUES (u.id)",
    "MERGE INTO users t USING (SELECT * FROM {}) u ON t.id = u.id WHEN MATCHED THEN UPDATE SET id = u.id",
    "MERGE INTO users t USING users u ON t.id = (SELECT max(id) FROM {}) WHEN MATCHED THEN DELETE",
    "MERGE INTO users t USING users u ON t.id = u.id WHEN MATCHED AND u.id IN (SELECT id FROM {}) THEN DELETE",
]
OTHERS = [
    "globex.default.users",
    "lake.globex.default.users",
    "Acme.default.users",
    "acm\u0435.default.users",
    "`acme\u200b`.default.users",
    "`globex``.``default``.``users`",
    '"globex"."default"."users"',
    "`../globex/default`.users",
    "spark_catalog.default.users",
    "acme.default.users.files",
    "acme.default.users.branch_main",
    "parquet.`/etc`",
    "iceberg.`file:///data/globex/default/users`",
    "IDENTIFIER('globex.default.users')",
    "identifier('glo' || 'bex.default.users')",
    "globex/**/./**/default.users",
    "globex\u00a0.default.users",
    "a.b.c.d.e.f",
]
MORE_CHANGES = [
    "INSERT OVERWRITE users SELECT 1",
    "INSERT OVERWRITE TABLE users VALUES (1)",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT * FROM users",
    "INSERT OVERWRITE LOCAL DIRECTORY '/tmp/x' SELECT * FROM users",
    "INSERT INTO users PARTITION (id = 1) SELECT 1",
    "INSERT INTO users REPLACE WHERE id = 1 SELECT 1",
    "INSERT INTO users TABLE globex.default.users",
    "INSERT INTO users FROM globex.default.users SELECT *",
    "INSERT INTO users VALUES (reflect('java.lang.System', 'exit', 0))",
    "INSERT INTO users SELECT input_file_name()",
    "INSERT INTO users SELECT current_user",
    "INSERT INTO users SELECT _file FROM users",
    "INSERT INTO users VALUES (1); DELETE FROM globex.default.users",
    "INSERT INTO users SELECT /*+ COALESCE(1) */ 1",
    "INSERT INTO users SELECT r'\\' FROM users WHERE a = ' FROM globex.default.users '",
    "INSERT INTO users WITH ('write.data.path' = '/tmp') SELECT 1",
    "UPDATE users SET id = reflect('java.lang.System', 'exit', 0)",
    "UPDATE users VERSION AS OF 1 SET id = 1",
    "DELETE FROM users WHERE java_method('java.lang.System', 'exit', 0) = 1",
    "MERGE WITH SCHEMA EVOLUTION INTO users t USING users u ON true WHEN MATCHED THEN UPDATE SET *",
    "MERGE INTO users t USING users u ON true WHEN MATCHED THEN UPDATE SET id = reflect('a', 'b')",
    "WITH a AS (SELECT 1) INSERT INTO users SELECT * FROM a",
    "FROM users INSERT INTO users SELECT *",
    "EXECUTE IMMEDIATE 'INSERT INTO users VALUES (1)'",
    "EXPLAIN INSERT INTO users VALUES (1)",
    "TRUNCATE TABLE users",
    "DROP TABLE users",
    "ALTER TABLE users ADD COLUMN x int",
    "CREATE TABLE x AS SELECT 1",
    "CALL lake.system.rollback_to_snapshot('users', 1)",
    "SET spark.sql.x = 1",
    "LOAD DATA INPATH '/etc' INTO TABLE users",
    "CACHE TABLE users",
    "SELECT * FROM users",
    "",
]


def test_changes_have_no_way_out_either() -> None:
    """Another's table as the target or as a source, by every spelling; and each attempt of a query, inserted."""
    attempts = [*MORE_CHANGES, *(text.format(other) for text in CHANGES for other in OTHERS)]
    attempts += [f"INSERT INTO users {text}" for text in ESCAPES if not text.startswith(("(", "--")) and text]
    assert len(attempts) > 450
    out = []
    for text in attempts:
        with suppress(Forbidden, InvalidQuery, InvalidName, Unsupported):
            out.append((text, confine_change(text, HOME)))
    assert out == []


@pytest.mark.parametrize("text", CHANGES)
def test_changes_are_spelled_in_full(text: str) -> None:
    mine = "`lake`.`acme`.`eu`.`t`"
    assert confine_change(text.format("eu.t"), HOME) == re.sub(r"\busers\b", USERS, text).format(mine)


USERS = "`lake`.`acme`.`default`.`users`"
SPELLED = {
    "SELECT * FROM users": f"SELECT * FROM {USERS}",
    "SELECT u.* FROM default.users u": f"SELECT u.* FROM {USERS} u",
    "SELECT users.id FROM acme.default.users": f"SELECT users.id FROM {USERS}",
    "SELECT * FROM eu.users VERSION AS OF 5": "SELECT * FROM `lake`.`acme`.`eu`.`users` VERSION AS OF 5",
    "SELECT * FROM global_temp.v": "SELECT * FROM `lake`.`acme`.`global_temp`.`v`",
    "SELECT * FROM users.files": "SELECT * FROM `lake`.`acme`.`users`.`files`",
    "SELECT * FROM USERS": "SELECT * FROM `lake`.`acme`.`default`.`USERS`",
    "SELECT * FROM `größe 1`": "SELECT * FROM `lake`.`acme`.`default`.`größe 1`",
    "WITH users AS (SELECT * FROM users) SELECT * FROM Users, eu.users": (
        f"WITH users AS (SELECT * FROM {USERS}) SELECT * FROM Users, `lake`.`acme`.`eu`.`users`"
    ),
    "WITH a(b) AS (SELECT 1) SELECT b FROM a": "WITH a(b) AS (SELECT 1) SELECT b FROM a",
    "SELECT 'FROM globex.default.users', \"--\", 'it''s /* no */' FROM users": (
        f"SELECT 'FROM globex.default.users', \"--\", 'it''s /* no */' FROM {USERS}"
    ),
    "SELECT 10L, x'1F', 'a\\'b', users.user AS user FROM users -- from x\nWHERE a = :b AND c >> 1 <=> ?": (
        f"SELECT 10L, x'1F', 'a\\'b', users.user AS user FROM {USERS}          \nWHERE a = :b AND c >> 1 <=> ?"
    ),
}


@pytest.mark.parametrize(("text", "spelled"), SPELLED.items())
def test_names_are_spelled_in_full(text: str, spelled: str) -> None:
    assert confine(text, HOME) == spelled


def test_names_that_look_alike_stay_three() -> None:
    homes = [("acme-eu", "default"), ("acme_eu", "default"), ("acme", "eu_default")]
    assert len({confine("SELECT * FROM t", home) for home in homes}) == 3


def test_no_function_that_reaches_out_is_named() -> None:
    reaching = ("reflect", "java", "xpath", "xml", "input_file", "user", "catalog", "schema()", "version", "protobuf")
    assert not [name for name in FUNCTIONS if any(word in name for word in reaching)]


NOISE = st.sampled_from(
    ["'", '"', "`", "\\", "/*", "*/", "--", "\n", " ", "''", "r'", 'R"', ";", "$", "/*+", ".", "x", "(", ")", "/"]
)


@given(st.lists(NOISE, max_size=6), st.lists(NOISE, max_size=6), st.lists(NOISE, max_size=6))
def test_noise_never_leads_outside(first: list[str], second: list[str], third: list[str]) -> None:
    """By Spark's rules of what is in quotes, another's name stands in what is run only as text."""
    text = f"SELECT {''.join(first)} * FROM users {''.join(second)} JOIN globex.default.users {''.join(third)}"
    try:
        found = confine(text, HOME)
    except NeveError:
        return
    quoted = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`", re.DOTALL)
    assert not re.search(r"JOIN\s+globex", quoted.sub("", found))
    assert "--" not in quoted.sub("", found)
    assert "/*" not in quoted.sub("", found)
