"""Statements about dynamic tables: every option and verb, and what is wrong said with its place."""

from __future__ import annotations

from datetime import timedelta

import pytest

from neve.errors import InvalidInput, InvalidQuery
from neve.model.dynamic import AlterDynamic, CreateDynamic, DropDynamic, DynamicOptions, LookDynamic
from neve.model.layout import parse_sort_field, parse_transform
from neve.model.names import TableName
from neve.sql.dynamic import is_dynamic, parse_dynamic
from neve.sql.dynamic_options import fields_from_words, options_from_words

T = TableName.parse("t")


def test_the_statement_of_the_document() -> None:
    text = (
        "CREATE DYNAMIC TABLE lake.dynamic.order_details\nTARGET_LAG = '5 minutes'\nAS\nSELECT 1 AS x\n"
        "FROM lake.orders o;"
    )
    assert parse_dynamic(text) == CreateDynamic(
        name=TableName.parse("dynamic.order_details"),
        query="SELECT 1 AS x\nFROM lake.orders o",
        options=DynamicOptions(target_lag=timedelta(minutes=5)),
        line=4,
        column=1,
    )


def test_every_option_of_create() -> None:
    text = """
        create or replace dynamic table if not exists `my ns`.t (x comment 'it''s x', `the y`)
        -- AS in a comment is none
        target_lag = downstream refresh_mode = incremental initialize = on_schedule
        partitioned by (days(ts), bucket(16, id)) cluster by (x desc)
        immutable where (x < 3 and y in (')', 'b')) deduplication = false cardinality_threshold = 0.5
        float_sums = fast comment 'AS is a word'
        as select x, `the y` from s"""
    made = parse_dynamic(text)
    assert isinstance(made, CreateDynamic)
    assert (made.replace, made.if_not_exists, made.name) == (True, True, TableName(("my ns",), "t"))
    assert made.columns == (("x", "it's x"), ("the y", None))
    assert made.query == "select x, `the y` from s"
    assert made.options == DynamicOptions(
        target_lag="DOWNSTREAM",
        refresh_mode="INCREMENTAL",
        initialize="ON_SCHEDULE",
        partition_by=(parse_transform("days(ts)"), parse_transform("bucket(16, id)")),
        cluster_by=(parse_sort_field("x desc"),),
        immutable_where="x < 3 and y in (')', 'b')",
        deduplication=False,
        cardinality_threshold=0.5,
        float_sums="FAST",
        comment="AS is a word",
    )


def test_the_strategies_of_the_document_are_modes() -> None:
    for word, mode in {"AUTO": "AUTO", "AFFECTED_KEYS": "INCREMENTAL", "FULL": "FULL"}.items():
        made = parse_dynamic(f"CREATE DYNAMIC TABLE t TARGET_LAG = '1 hour' REFRESH_STRATEGY = {word} AS SELECT 1")
        assert isinstance(made, CreateDynamic)
        assert made.options.refresh_mode == mode


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (
            "ALTER DYNAMIC TABLE t SET TARGET_LAG = '10 minutes', COMMENT = 'new'",
            AlterDynamic(name=T, action="set", set={"target_lag": timedelta(minutes=10), "comment": "new"}),
        ),
        (
            "alter dynamic table if exists t unset comment, immutable where",
            AlterDynamic(name=T, action="unset", unset=("comment", "immutable_where"), if_exists=True),
        ),
        (
            "ALTER DYNAMIC TABLE t SET PARTITIONED BY (day(ts)) IMMUTABLE WHERE (x < 3)",
            AlterDynamic(
                name=T, action="set", set={"partition_by": (parse_transform("day(ts)"),), "immutable_where": "x < 3"}
            ),
        ),
        (
            "ALTER DYNAMIC TABLE t UNSET PARTITIONED BY, CLUSTER BY, REFRESH_MODE",
            AlterDynamic(name=T, action="unset", unset=("partition_by", "cluster_by", "refresh_mode")),
        ),
        ("ALTER DYNAMIC TABLE t SUSPEND;", AlterDynamic(name=T, action="suspend")),
        ("ALTER DYNAMIC TABLE t RESUME", AlterDynamic(name=T, action="resume")),
        ("ALTER DYNAMIC TABLE t REFRESH", AlterDynamic(name=T, action="refresh")),
        (
            "ALTER DYNAMIC TABLE t RENAME TO ns.u",
            AlterDynamic(name=T, action="rename", other=TableName.parse("ns.u")),
        ),
        ("ALTER DYNAMIC TABLE t SWAP WITH u", AlterDynamic(name=T, action="swap", other=TableName.parse("u"))),
        ("DROP DYNAMIC TABLE t", DropDynamic(name=T)),
        ("drop dynamic table if exists t cascade", DropDynamic(name=T, if_exists=True, cascade=True)),
        ("SHOW DYNAMIC TABLES", LookDynamic(action="show")),
        ("show dynamic tables like 'a%'", LookDynamic(action="show", pattern="a%")),
        ("DESCRIBE DYNAMIC TABLE t", LookDynamic(action="describe", name=T)),
        ("DESC DYNAMIC TABLE t", LookDynamic(action="describe", name=T)),
        ("EXPLAIN DYNAMIC TABLE t", LookDynamic(action="explain", name=T)),
    ],
)
def test_the_other_verbs(text: str, statement: object) -> None:
    assert is_dynamic(text)
    assert parse_dynamic(text) == statement


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        ("CREATE DYNAMIC TABLE t AS SELECT 1", "line 1, column 24: TARGET_LAG is needed", "TARGET_LAG = '5 minutes'"),
        ("CREATE DYNAMIC TABLE t TARGET_LAG = '10 seconds' AS SELECT 1", "column 37: .*less than a minute", "1 minute"),
        ("CREATE DYNAMIC TABLE t TARGET_LAG = 'soon' AS SELECT 1", "column 37: ", None),
        ("CREATE DYNAMIC TABLE t TARGET_LG = '1 hour' AS SELECT 1", "column 24: .*not 'TARGET_LG'", "TARGET_LAG"),
        ("CREATE DYNAMIC TABLE t TARGET_LAG = '1 hour'\n", "line 2, column 1: .* is expected here", None),
        ("CREATE DYNAMIC TABLE t TARGET_LAG = '1 hour' AS ", "a query is expected here", None),
        (
            "CREATE DYNAMIC TABLE t TARGET_LAG = '1 hour'\nTARGET_LAG = '2 hours' AS SELECT 1",
            "TARGET_LAG is given twice",
            None,
        ),
        (
            "CREATE DYNAMIC TABLE t\nTARGET_LAG = '1 hour' REFRESH_MODE = QUICK AS SELECT 1",
            "line 2, column 38: 'QUICK' is not one of AUTO",
            None,
        ),
        ("CREATE DYNAMIC TABLE t TARGET_LAG = '1 hour' MAX_PARALLELISM = 16 AS SELECT 1", "has no meaning", "parallel"),
        ("CREATE DYNAMIC TABLE t TARGET_LAG = '1 hour' CARDINALITY_THRESHOLD = 2 AS SELECT 1", "between 0 and 1", None),
        ("CREATE DYNAMIC TABLE t TARGET_LAG = '1 hour' PARTITIONED BY (day(x) AS SELECT 1", r"a \) is missing", None),
        ("CREATE DYNAMIC VIEW t", "TABLE is expected here, not 'VIEW'", None),
        ("ALTER DYNAMIC TABLE t SUSPND", "one of SET, .*not 'SUSPND'", "SUSPEND"),
        ("ALTER DYNAMIC TABLE t SET", "an option is expected here", "TARGET_LAG"),
        ("ALTER DYNAMIC TABLE t UNSET TARGET_LAG", "one of REFRESH_MODE", None),
        ("ALTER DYNAMIC TABLE t SET COMMENT 'a' COMMENT 'b'", "COMMENT is given twice", None),
        ("ALTER DYNAMIC TABLE t SET\nINITIALIZE = ON_SCHEDULE", "line 2, column 1: INITIALIZE says how", None),
        ("ALTER DYNAMIC TABLE t UNSET CLUSTER", "BY is expected here", None),
        ("DROP DYNAMIC TABLE t RESTRICT", "the statement should end here", None),
        (
            "CREATE DYNAMIC TABLE t\nTARGET_LAG = '5 minutes'\nAS\nSELECT ';' FROM o;\nGROUP BY customer_id;",
            "line 4, column 18: the query ends at this ; but GROUP … follows",
            "take the ; out",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, sentence: str, hint: str | None) -> None:
    with pytest.raises(InvalidQuery, match=sentence) as caught:
        parse_dynamic(text)
    if hint is not None:
        assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text", ["SELECT 1", "CREATE TABLE dynamic (x int)", "DROP TABLE t", "", "'CREATE DYNAMIC TABLE'"]
)
def test_other_statements_are_left_alone(text: str) -> None:
    assert not is_dynamic(text)


def test_options_as_commands_give_them() -> None:
    assert options_from_words(
        {
            "target_lag": "'10 minutes'",
            "Refresh_Mode": "full",
            "PARTITIONED_BY": "day(ts), bucket(4, id)",
            "comment": "x=y",
        }
    ) == {
        "target_lag": timedelta(minutes=10),
        "refresh_mode": "FULL",
        "partition_by": (parse_transform("day(ts)"), parse_transform("bucket(4, id)")),
        "comment": "x=y",
    }
    assert fields_from_words(["cluster by", "FLOAT_SUMS"]) == ("cluster_by", "float_sums")


@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        ({"TARGET_LG": "1 hour"}, "no option TARGET_LG", "TARGET_LAG"),
        ({"TARGET_LAG": "10 seconds"}, "TARGET_LAG: .*less than a minute", "1 minute"),
        ({"MAX_PARALLELISM": "4"}, "has no meaning", "parallel"),
        ({"initialize": "on_create"}, "cannot be changed later", None),
        ({"REFRESH_MODE": "FULL", "refresh_strategy": "AUTO"}, "given twice", None),
    ],
)
def test_options_that_make_no_sense(words: dict[str, str], sentence: str, hint: str | None) -> None:
    with pytest.raises(InvalidInput, match=sentence) as caught:
        options_from_words(words)
    assert hint is None or hint in (caught.value.hint or "")
    with pytest.raises(InvalidInput, match="always has a TARGET_LAG"):
        fields_from_words(["target_lag"])
