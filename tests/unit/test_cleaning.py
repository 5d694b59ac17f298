"""What the cleaning builder takes and refuses; what it writes is in tests/golden, what that does in tests/spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
import sqlglot

from neve.errors import ColumnNotFound, InvalidInput, InvalidName, InvalidQuery, InvalidSchema, NeveError
from neve.model.dataset import Dataset
from neve.model.types import Field, Primitive
from neve.sql.cleaning import Validation, build_cleaning, build_validations, judge
from neve.sql.cleaning.expressions import parse_scalar
from neve.sql.columns import parse_type

SOURCE = ["date", "Quantity", "price", "region"]


def dataset(**keys: object) -> Dataset:
    return Dataset.model_validate({"name": "t", **keys})


def column(**keys: object) -> Dataset:
    return dataset(columns=[{"name": "x", "source": "price", **keys}])


def filtered(type: str | None, **keys: object) -> Dataset:  # noqa: A002
    return dataset(
        columns=[{"name": "x", "source": "price", **({"type": type} if type else {})}],
        filters=[{"column": "x", **keys}],
    )


def refusal(config: Dataset, source: list[str | Field] | list[str] = SOURCE) -> NeveError:
    with pytest.raises(NeveError) as caught:
        build_cleaning(config, source)
    return caught.value


class TestSourceColumns:
    def test_case_does_not_matter(self):
        cleaning = build_cleaning(dataset(columns=[{"name": "quantity"}, {"name": "R", "source": "REGION"}]), SOURCE)
        assert "`Quantity`" in cleaning.select
        assert "`region`" in cleaning.select
        assert cleaning.unused == ("date", "price")
        assert [field.name for field in cleaning.columns] == ["quantity", "R"]

    def test_an_absent_one_is_refused_with_the_nearest_names(self):
        error = refusal(dataset(columns=[{"name": "prise"}]))
        assert isinstance(error, ColumnNotFound)
        assert error.message == "columns[0] prise: the source has no column 'prise'"
        assert error.hint == "did you mean price?"

    def test_or_with_all_names_when_none_is_near(self):
        assert refusal(dataset(columns=[{"name": "zzz"}])).hint == "it has date, Quantity, price, region"

    def test_what_is_read_is_needed_unless_it_may_be_missing(self):
        columns = [
            {"name": "a", "source": "DATE"},
            {"name": "b", "source": "price", "default": 3, "type": "INT"},
            {"name": "c", "type": "INT", "expression": "source.quantity + region"},
        ]
        assert build_cleaning(dataset(columns=columns), SOURCE).needed == ("date", "Quantity", "region")
        assert build_cleaning(dataset(columns=columns, missing_columns=None), SOURCE).needed == ()

    def test_a_default_stands_in_for_it(self):
        cleaning = build_cleaning(dataset(columns=[{"name": "zzz", "type": "INT", "default": 3}]), SOURCE)
        assert "COALESCE(`_neve_in_zzz`, CAST(3 AS INT)) AS `zzz`" in cleaning.select
        assert cleaning.missing == ("zzz",)

    def test_or_null_if_the_file_says_so(self):
        cleaning = build_cleaning(
            dataset(missing_columns=None, columns=[{"name": "zzz", "type": "INT", "allow_null": False}]), SOURCE
        )
        assert "CAST(NULL AS INT)" in cleaning.select
        assert cleaning.rules == ("not_null:zzz",)

    def test_two_of_one_name(self):
        error = refusal(dataset(), ["a", "b", "A"])
        assert isinstance(error, InvalidName)
        assert "'a' and 'A'" in error.message

    def test_a_name_of_our_own(self):
        assert isinstance(refusal(dataset(), ["a", "_neve_row"]), InvalidName)

    def test_the_readers_columns_are_no_data(self):
        cleaning = build_cleaning(None, ["a", "_source_file", "_source_line", "_ingest_date"])
        assert [field.name for field in cleaning.columns] == ["a"]
        assert isinstance(refusal(dataset(), ["a", "_ingest_date", "_Ingest_Date"]), InvalidName)

    def test_none_at_all(self):
        assert isinstance(refusal(dataset(), ["_ingest_date"]), InvalidSchema)

    def test_a_name_that_spark_would_replace(self):
        error = refusal(dataset(), ["${env:HOME}"])
        assert isinstance(error, InvalidName)

    def test_without_a_file_all_pass_as_they_are(self):
        fields = [Field("id", parse_type("bigint")), Field("tags", parse_type("array<string>"))]
        cleaning = build_cleaning(None, fields)
        assert cleaning.columns == tuple(fields)
        assert (cleaning.rules, cleaning.order_by, cleaning.unused, cleaning.missing) == ((), (), (), ())

    def test_a_bare_name_is_text(self):
        assert build_cleaning(None, ["id"]).columns == (Field("id", Primitive("string")),)


class TestTypes:
    @pytest.mark.parametrize(
        ("word", "kind"),
        [
            ("VARCHAR", "string"),
            ("varchar(20)", "string"),
            ("TEXT", "string"),
            ("UUID", "string"),
            ("DOUBLE", "double"),
            ("double precision", "double"),
            ("REAL", "float"),
            ("INTEGER", "int"),
            ("SMALLINT", "int"),
            ("INT8", "bigint"),
            ("LONG", "bigint"),
            ("UINTEGER", "bigint"),
            ("hugeint", "decimal(38,0)"),
            ("NUMERIC(10, 2)", "decimal(10,2)"),
            ("BOOL", "boolean"),
            ("DATE", "date"),
            ("TIMESTAMP WITH TIME ZONE", "timestamp"),
            ("timestamp_ntz", "timestamp_ntz"),
            ("BLOB", "binary"),
        ],
    )
    def test_words_of_duckdb_ansi_and_spark(self, word, kind):
        assert str(build_cleaning(column(type=word), SOURCE).columns[0].type) == kind

    @pytest.mark.parametrize("word", ["VARCHARR", "DECIMAL(40,2)", "INT); DROP TABLE t; --", "TIME", "interval"])
    def test_unknown(self, word):
        error = refusal(column(type=word))
        assert isinstance(error, InvalidSchema)
        assert error.message.startswith("columns[0] x: ")

    @pytest.mark.parametrize("word", ["array<int>", "struct<a:int>", "map<string,int>", "INTEGER[]"])
    def test_nested(self, word):
        assert "rows are not cleaned into" in refusal(column(type=word)).message

    def test_required(self):
        cleaning = build_cleaning(column(type="INT", allow_null=False), SOURCE)
        assert cleaning.columns == (Field("x", Primitive("int"), required=True),)
        assert cleaning.rules == ("cast:x", "not_null:x")


class TestValues:
    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("INT", 1.5),
            ("INT", 2**31),
            ("INT", "abc"),
            ("INT", True),
            ("DECIMAL(4,2)", "1.234"),
            ("DECIMAL(4,2)", 100),
            ("DOUBLE", "nan"),
            ("DATE", "2024-02-30"),
            ("DATE", "2024-1-5"),
            ("DATE", "20240131"),
            ("DATE", 20240131),
            ("TIMESTAMP", "noon"),
            ("TIMESTAMP_NTZ", "2024-01-01T00:00:00Z"),
            ("BOOLEAN", "yes"),
            ("BOOLEAN", 1),
            ("BLOB", "x"),
        ],
    )
    def test_a_default_must_be_of_the_type(self, kind, value):
        error = refusal(column(type=kind, default=value))
        assert isinstance(error, InvalidInput)
        assert error.message.startswith("columns[0] x: default: ")

    @pytest.mark.parametrize(
        ("kind", "keys"),
        [
            (None, {"operator": ">", "value": 0}),
            ("VARCHAR", {"operator": "=", "value": 5}),
            ("VARCHAR", {"operator": "in", "value": ["5", 5]}),
            ("INT", {"operator": "=", "value": "five"}),
            ("INT", {"operator": "like", "value": "5%"}),
            ("INT", {"operator": "between", "value": [2, 1]}),
            ("DATE", {"operator": "between", "value": ["2024-02-01", "2024-01-01"]}),
            ("TIMESTAMP", {"operator": "between", "value": ["2024-01-01 02:00", "2024-01-01T02:00:00+01:00"]}),
            ("VARCHAR", {"operator": "between", "value": ["b", "a"]}),
            ("DATE", {"operator": ">", "value": "yesterday"}),
            ("BOOLEAN", {"operator": ">", "value": True}),
            ("BLOB", {"operator": "=", "value": "x"}),
            ("VARCHAR", {"operator": "like", "value": "a\\b%"}),
            ("VARCHAR", {"operator": "like", "value": "100%\\"}),
            ("DECIMAL(38,0)", {"operator": ">", "value": "9" * 39}),
        ],
    )
    def test_a_filters_value_must_suit_its_column(self, kind, keys):
        error = refusal(filtered(kind, **keys))
        assert isinstance(error, InvalidInput)
        assert error.message.startswith("filters[0] x: ")

    @pytest.mark.parametrize("pattern", ["a\\_b", "\\\\", "%\\%%", "plain", "\\\\\\_"])
    def test_patterns_that_spark_takes(self, pattern):
        build_cleaning(filtered("VARCHAR", operator="like", value=pattern), SOURCE)

    def test_a_filter_on_no_column(self):
        error = refusal(
            dataset(
                columns=[{"name": "amount", "source": "price"}], filters=[{"column": "amont", "operator": "is_null"}]
            )
        )
        assert isinstance(error, ColumnNotFound)
        assert (error.message, error.hint) == ("filters[0]: there is no cleaned column 'amont'", "did you mean amount?")

    def test_long_filters_keep_names_of_their_own(self):
        many = [f"value {n}" for n in range(50)]
        filters = [{"column": "region", "operator": "in", "value": [*many, last]} for last in "ab"]
        rules = build_cleaning(dataset(filters=filters), SOURCE).rules
        assert len(set(rules)) == 2
        assert rules[1] == f"{rules[0]} (2)"

    @pytest.mark.parametrize(
        "value",
        [
            "'",
            "''",
            "\\",
            "\\'",
            "' OR 1=1 --",
            '"',
            "`",
            "a\nb",
            "\x00",
            "\x0712",
            "${env:HOME}",
            "$${",
            "*/ /*",
            "\u2028",
            "😀",
        ],
    )
    def test_a_value_stays_a_value(self, value):
        """Read back by sqlglot, the text is there as one literal, or as the pieces that it was cut into."""
        config = filtered("VARCHAR", operator="=", value=value)
        select = build_cleaning(config, SOURCE).select
        assert "${" not in select
        equals = sqlglot.parse_one(select, read="spark").find(sqlglot.exp.EQ)
        assert equals is not None
        whole = equals.expression
        pieces = whole.expressions if isinstance(whole, sqlglot.exp.Concat) else [whole]
        read = [piece.name if piece.is_string else chr(int(piece.expressions[0].name)) for piece in pieces]
        assert "".join(read) == value


class TestExpressions:
    @pytest.mark.parametrize(
        "text",
        [
            "price; DROP TABLE t",
            "price;",
            "SELECT 1",
            "(SELECT max(price) FROM source)",
            "price IN (SELECT 1)",
            "EXISTS (SELECT 1)",
            "price, region",
            "price AS p",
            "price FROM source",
            "price) FROM source --",
            "*",
            "source.*",
            "struct(*)",
            "count(*)",
            "sum(price)",
            "max(price) OVER ()",
            "row_number() OVER (ORDER BY price)",
            "explode(split(region, ','))",
            "stack(2, price, region)",
            "rand()",
            "`rand`()",
            "uuid()",
            "reflect('java.lang.Runtime', 'getRuntime')",
            "java_method ('a', 'b')",
            "input_file_name()",
            ":p",
            "?",
            "${env:HOME}",
            "'${env:HOME}'",
            "{{ x }}",
            "DROP TABLE t",
            "INSERT INTO t VALUES (1)",
            "price +",
            "'open",
            "/* nothing */",
        ],
    )
    def test_more_than_a_scalar_is_refused(self, text):
        error = refusal(dataset(columns=[{"name": "x", "type": "INT", "expression": text}]))
        assert isinstance(error, InvalidQuery)
        assert error.message.startswith("columns[0] x: cannot use ")

    @pytest.mark.parametrize(
        ("text", "rendered"),
        [
            ("price", "(<price>)"),
            ("PRICE*2", "(<PRICE>*2)"),
            ("`a b` + source.`c d`.e", "(<a b> + <raw c d>.e)"),
            ("s.f[0].g", "(<s>.f[0].g)"),
            ("a -- one\n + /* two */ b", "(<a> + <b>)"),
            ("transform(a, x -> x + b)", "(transform(<a>, x -> x + <b>))"),
            ("aggregate(a, 0, (acc, x) -> acc + x)", "(aggregate(<a>, 0, (acc, x) -> acc + x))"),
            ("a || 'it''s -- b' || \"c\"", "(<a> || 'it''s -- b' || \"c\")"),
            ("parse_json(a)", "(parse_json(<a>))"),
            ("try_cast(a AS INT) <=> 1.5BD", "(try_cast(<a> AS INT) <=> 1.5BD)"),
            ("CASE WHEN a THEN b ELSE c END", "(CASE WHEN <a> THEN <b> ELSE <c> END)"),
            ("date >= DATE '2024-01-01'", "(<date> >= DATE '2024-01-01')"),
            ("rand", "(<rand>)"),
            ("concat('rand(', a)", "(concat('rand(', <a>))"),
        ],
    )
    def test_the_text_stays_as_written_but_for_its_columns(self, text, rendered):
        scalar = parse_scalar(text, where="here")
        sql = scalar.render(lambda reference: f"<{'raw ' if reference.raw else ''}{reference.column}>")
        assert sql.sql("spark") == rendered

    def test_cleaned_values_come_first_and_raw_ones_by_name(self):
        config = dataset(
            columns=[
                {"name": "amount", "source": "price", "type": "DOUBLE", "default": 0},
                {"name": "price", "type": "INT", "expression": "price + amount + source.price + Region"},
            ]
        )
        cleaning = build_cleaning(config, SOURCE)
        amount = "COALESCE(`_neve_as_amount`, CAST(0 AS DOUBLE))"
        raw = "`_neve_of_price`"
        assert f"({raw} + {amount} + {raw} + `_neve_of_region`)" in cleaning.select
        assert cleaning.unused == ("date", "Quantity")

    def test_an_unknown_column(self):
        error = refusal(dataset(columns=[{"name": "x", "type": "INT", "expression": "quantiti + 1"}]))
        assert isinstance(error, ColumnNotFound)
        assert error.hint == "did you mean Quantity?"

    def test_another_expression_is_out_of_reach(self):
        config = dataset(
            missing_columns="null",
            columns=[
                {"name": "x", "type": "INT", "expression": "price + 1"},
                {"name": "y", "type": "INT", "expression": "x + 1"},
            ],
        )
        assert "'x' has an expression itself" in refusal(config).message


class TestOrder:
    def test_fields(self):
        cleaning = build_cleaning(dataset(order_by=["REGION", "price desc nulls first"]), SOURCE)
        assert [str(field) for field in cleaning.order_by] == ["region asc nulls first", "price desc nulls first"]

    @pytest.mark.parametrize("item", ["bucket(4, price)", "nothing", "price sideways", "price; DROP TABLE t"])
    def test_refused(self, item):
        assert isinstance(refusal(dataset(order_by=[item])), InvalidSchema | ColumnNotFound)


COLUMNS = [
    {"name": "id", "type": "BIGINT"},
    {"name": "day", "type": "DATE"},
    {"name": "at", "type": "TIMESTAMP"},
    {"name": "flag", "type": "BOOLEAN"},
    {"name": "code"},
]


def checks(*entries: dict[str, object]) -> tuple[Validation, ...]:
    return build_validations(dataset(columns=COLUMNS, validations=list(entries)))


def metric(word: str, operator: str, threshold: object, column: str | None = "id") -> dict[str, object]:
    entry: dict[str, object] = {"name": "m", "metric": word, "operator": operator, "threshold": threshold}
    return entry if column is None else {**entry, "column": column}


class TestValidations:
    @pytest.mark.parametrize(
        ("entry", "error"),
        [
            ({"rule": "nope > 1"}, ColumnNotFound),
            ({"rule": "id > (SELECT 1)"}, InvalidQuery),
            ({"rule": "count(*) > 1"}, InvalidQuery),
            ({"rule": "source.id > 1"}, InvalidSchema),
            ({"rule": "id > 0) FROM t --"}, InvalidQuery),
            (metric("sum", ">", 1, "code"), InvalidSchema),
            (metric("sum", ">", 1, "nope"), ColumnNotFound),
            (metric("sum", ">", "much"), InvalidInput),
            (metric("row_count", ">", "many", None), InvalidInput),
            (metric("min", ">", "many"), InvalidInput),
            (metric("min", ">", "soon", "day"), InvalidInput),
            (metric("max", ">", 5, "code"), InvalidSchema),
            (metric("max", ">", True, "flag"), InvalidSchema),
        ],
    )
    def test_refused(self, entry, error):
        with pytest.raises(error) as caught:
            checks(entry)
        assert caught.value.message.startswith("validations[0]")

    def test_the_cleaned_columns_count_when_they_are_given(self):
        config = dataset(validations=[metric("sum", ">", 1, "amount")])
        assert build_validations(config, [Field("Amount", Primitive("double"))])[0].expression == "SUM(`Amount`)"
        with pytest.raises(ColumnNotFound):
            build_validations(config)

    @pytest.mark.parametrize(
        ("entry", "value", "message"),
        [
            ({"rule": "id > 0", "name": "m"}, [0, 5], None),
            ({"rule": "id > 0", "name": "m"}, [1, 5], "1 of 5 rows break it; at most 0 may"),
            ({"rule": "id > 0", "name": "m", "max_failing": "20%"}, [1, 5], None),
            (
                {"rule": "id > 0", "name": "m", "max_failing": "19.99%"},
                [1, 5],
                "1 of 5 rows break it; at most 19.99 % may",
            ),
            ({"rule": "id > 0", "name": "m", "max_failing": "0%"}, [0, 0], None),
            (metric("row_count", ">", 0, None), 0, "row_count is 0; it must be > 0"),
            (metric("row_count", ">", 0, None), 1, None),
            (metric("null_ratio", "<", "0.1"), [1, 10], "null_ratio is 0.1; it must be < 0.1"),
            (metric("null_ratio", "<=", 0.1), [1, 10], None),
            (metric("null_ratio", "<=", 0), [0, 0], None),
            (metric("uniqueness", "=", 1), [3, 3], None),
            (metric("uniqueness", "=", 1), [0, 0], None),
            (metric("uniqueness", "=", 1), [2, 3], "uniqueness is 0.666667; it must be = 1"),
            (metric("sum", "=", "0.3"), Decimal("0.30"), None),
            (metric("sum", "=", 0.3), 0.3, None),
            (metric("sum", ">=", 1), None, "there is no value for sum; it must be >= 1"),
            (metric("min", ">", "2024-01-01", "day"), date(2024, 1, 1), "min is 2024-01-01; it must be > 2024-01-01"),
            (metric("max", "<", "2024-01-01T00:00:00+02:00", "at"), datetime(2023, 12, 31, 21), None),  # noqa: DTZ001
            (metric("max", "<", "2024-01-01 00:00", "at"), datetime(2023, 12, 31, 21, tzinfo=UTC), None),
            (metric("max", "!=", "z", "code"), "z", "max is z; it must be != z"),
            (metric("distinct_count", "<=", 2, "code"), 3, "distinct_count is 3; it must be <= 2"),
        ],
    )
    def test_judged(self, entry, value, message):
        found = judge(checks(entry), {"m": value})
        assert [(finding.name, finding.severity, finding.message) for finding in found] == (
            [] if message is None else [("m", "error", message)]
        )

    def test_severity_is_handed_on(self):
        found = judge(
            checks({"rule": "id > 0", "name": "a", "severity": "warn"}, {"rule": "code", "name": "b"}),
            {"a": [1, 1], "b": [1, 1]},
        )
        assert [(finding.name, finding.severity) for finding in found] == [("a", "warn"), ("b", "error")]
