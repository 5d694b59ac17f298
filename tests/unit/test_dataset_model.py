from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from textwrap import dedent

import pytest
from pydantic import ValidationError

from neve.documents import load_document, parse_document
from neve.errors import ConfigError
from neve.model.dataset import Dataset
from neve.model.timeformat import spark_format
from neve.model.units import Limit


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str) -> Dataset:
        path = tmp_path / "clean.yaml"
        path.write_text(dedent(text))
        return parse_document(load_document(path), Dataset)

    return read


@pytest.fixture
def refusal(read, tmp_path: Path):
    """The message for a file whose dataset has these lines after its name, the folder left out."""

    def refusal(text: str) -> str:
        with pytest.raises(ConfigError) as caught:
            read("name: sales\n" + dedent(text))
        return caught.value.message.replace(f"{tmp_path}/", "")

    return refusal


class TestDocument:
    def test_the_example_of_document_000(self, read):
        dataset = read(
            """\
            name: sales
            columns:
              - name: date
                type: DATE
              - name: region
                type: VARCHAR
                transform: upper
            filters:
              - column: quantity
                operator: ">"
                value: 0
            """
        )
        date, region = dataset.columns
        assert (date.name, date.type, date.source, date.transform, date.allow_null) == ("date", "DATE", None, (), True)
        assert region.transform == ("upper",)
        assert (dataset.filters[0].operator, dataset.filters[0].value, dataset.filters[0].allow_null) == (">", 0, False)
        assert dataset.missing_columns == "error"
        assert dataset.source.format is None

    def test_a_dataset_needs_only_its_name(self, read):
        dataset = read("name: 2024\n")
        assert (dataset.name, dataset.columns, dataset.filters, dataset.order_by) == ("2024", (), (), ())

    def test_one_or_several(self, read):
        dataset = read("name: x\ncolumns: [{name: a, transform: [trim, upper]}]\norder_by: a desc\n")
        assert dataset.columns[0].transform == ("trim", "upper")
        assert dataset.order_by == ("a desc",)

    def test_missing_columns_may_be_null(self, read):
        assert read("name: x\nmissing_columns: null\n").missing_columns == "null"
        assert read("name: x\nmissing_columns: 'null'\n").missing_columns == "null"

    def test_values_keep_their_kind(self, read):
        dataset = read(
            """\
            name: x
            columns:
              - {name: a, default: true}
              - {name: b, default: 1}
              - {name: c, default: 1.5}
              - {name: d, default: "1"}
              - {name: e, default: null}
            filters:
              - {column: a, operator: in, value: [true, 1, 1.5, "1", 1.10]}
            """
        )
        assert [repr(column.default) for column in dataset.columns] == ["True", "1", "1.5", "'1'", "None"]
        assert list(map(repr, dataset.filters[0].value)) == ["True", "1", "1.5", "'1'", "'1.10'"]

    def test_it_is_frozen(self, read):
        dataset = read("name: x\n")
        with pytest.raises(ValidationError):
            dataset.name = "y"


class TestColumns:
    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            ("- {}", "clean.yaml:3 columns[0].name: this key is needed"),
            ("- {name: a, typ: INT}", "clean.yaml:3 columns[0].typ: unknown key; did you mean type?"),
            (
                "- {name: a, transform: uper}",
                "clean.yaml:3 columns[0].transform: must be trim, ltrim, rtrim, upper, lower, title, "
                "collapse_spaces or null_if_empty, not 'uper'; did you mean upper?",
            ),
            (
                "- name: a\n  source: b\n  expression: c + 1\n  type: INT",
                "clean.yaml:5 columns[0].expression: a column has a source or an expression, not both",
            ),
            ("- {name: a, expression: b}", "clean.yaml:3 columns[0].type: a column with an expression needs a type"),
            (
                "- name: a\n- name: b\n- name: A",
                "clean.yaml:5 columns[2]: there is a column A already: columns[0]",
            ),
            ("- {name: _neve_x}", "clean.yaml:3 columns[0].name: '_neve_x' is a name that Névé keeps for itself"),
            (
                "- {name: _Source_File}",
                "clean.yaml:3 columns[0].name: '_Source_File' is a name that Névé keeps for itself",
            ),
            ("- {name: a.b}", "clean.yaml:3 columns[0].name: column name 'a.b' holds ."),
            ("- {name: 'a`b'}", "clean.yaml:3 columns[0].name: column name 'a`b' holds `"),
            ("- {name: a, expression: ' ', type: INT}", "clean.yaml:3 columns[0].expression: must not be empty"),
            ("- {name: a, default: [1]}", "clean.yaml:3 columns[0].default: must be a number, a text, true or false"),
            (
                "- {name: a, allow_null: maybe}",
                "clean.yaml:3 columns[0].allow_null: must be true or false, not 'maybe'",
            ),
        ],
    )
    def test_refused(self, refusal, lines, message):
        assert refusal("columns:\n" + lines + "\n") == message

    def test_every_problem_is_told_at_once(self, refusal):
        said = refusal("columns:\n- {name: a, type: [INT]}\n- {nme: b}\nfilters: [{column: a, operator: '~'}]\n")
        assert [line.partition(": ")[0] for line in said.splitlines()] == [
            "clean.yaml:3 columns[0].type",
            "clean.yaml:4 columns[1].name",
            "clean.yaml:4 columns[1].nme",
            "clean.yaml:5 filters[0].operator",
        ]


class TestFilters:
    @pytest.mark.parametrize(
        ("word", "operator"),
        [("==", "="), ("<>", "!="), ("NOT IN", "not_in"), ("is not null", "is_not_null"), ("Like", "like")],
    )
    def test_other_spellings(self, read, word, operator):
        value = {"not_in": "[1]", "is_not_null": "null", "like": "a%"}.get(operator, "1")
        given = "" if value == "null" else f", value: {value}"
        assert read(f"name: x\nfilters: [{{column: a, operator: '{word}'{given}}}]\n").filters[0].operator == operator

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ("operator: in, value: a", "value: in needs a list with at least one value"),
            ("operator: not_in, value: []", "value: not_in needs a list with at least one value"),
            ("operator: between, value: [1]", "value: between needs a list of two values, the lowest and the highest"),
            ("operator: between, value: 1", "value: between needs a list of two values, the lowest and the highest"),
            ("operator: '>', value: [1, 2]", "value: > needs one value, not a list"),
            ("operator: is_null, value: 1", "value: is_null takes no value"),
            ("operator: not_empty, value: 1", "value: not_empty takes no value"),
            (
                "operator: is_not_null, allow_null: true",
                "allow_null: is_not_null says by itself what becomes of a NULL",
            ),
            ("operator: '='", "value: = needs a value; for a NULL write is_null or is_not_null"),
            ("operator: like, value: 5", "value: like needs a text with % or _ in it"),
            ("operator: in, value: [1, null]", "value: must be a number, a text, true or false, or a list of these"),
            ("operator: '=', value: {a: 1}", "value: must be a number, a text, true or false, or a list of these"),
            ("operator: in, value: [[1]]", "value: must be a number, a text, true or false, or a list of these"),
        ],
    )
    def test_refused(self, refusal, entry, message):
        assert refusal(f"filters:\n- {{column: a, {entry}}}\n") == f"clean.yaml:3 filters[0].{message}"

    def test_an_unknown_operator(self, refusal):
        said = refusal("filters:\n- {column: a, operator: betwen, value: 1}\n")
        assert said.startswith("clean.yaml:3 filters[0].operator: must be =, !=,")
        assert said.endswith("not 'betwen'; did you mean between?")

    def test_the_same_one_twice(self, refusal):
        said = refusal("filters:\n- {column: a, operator: '=', value: 1}\n- {column: A, operator: '==', value: 1}\n")
        assert said == "clean.yaml:4 filters[1]: there is a filter A = 1 already: filters[0]"

    @pytest.mark.parametrize(
        ("entry", "title"),
        [
            ("operator: '>', value: 0", "a > 0"),
            ("operator: '=', value: true", "a = true"),
            ("operator: between, value: [1, 2]", "a between 1 and 2"),
            ("operator: in, value: [x, y]", "a in (x, y)"),
            ("operator: is null", "a is_null"),
            (f"operator: in, value: [{', '.join(['abcdefghij'] * 20)}]", "a in (" + "abcdefghij, " * 7 + "abcdefghi…"),
        ],
    )
    def test_titles(self, read, entry, title):
        assert read(f"name: x\nfilters: [{{column: a, {entry}}}]\n").filters[0].title == title


class TestValidations:
    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ("name: x", "rule: a validation has either a rule or a metric"),
            ("rule: a > 0, metric: sum", "metric: a validation has either a rule or a metric"),
            ("rule: a > 0, threshold: 1", "threshold: does not go with a rule"),
            (
                "rule: a > 0, max_failing: many",
                "max_failing: must be a number of rows or a share such as 0.5%, not 'many'",
            ),
            (
                "rule: a > 0, max_failing: 101%",
                "max_failing: must be a number of rows or a share such as 0.5%, not '101%'",
            ),
            ("rule: a > 0, max_failing: -1", "max_failing: must be a number of rows or a share such as 0.5%, not '-1'"),
            ("metric: sum, operator: '>', threshold: 1", "column: sum needs a column"),
            (
                "metric: row_count, column: a, operator: '>', threshold: 1",
                "column: row_count counts rows, not the values of a column",
            ),
            ("metric: sum, column: a, threshold: 1", "operator: a metric needs an operator and a threshold"),
            ("metric: sum, column: a, operator: '>'", "threshold: a metric needs an operator and a threshold"),
            (
                "metric: sum, column: a, operator: '>', threshold: 1, max_failing: 1",
                "max_failing: does not go with a metric",
            ),
            ("rule: a, severity: fatal", "severity: must be warn or error, not 'fatal'"),
        ],
    )
    def test_refused(self, refusal, entry, message):
        assert refusal(f"validations:\n- {{{entry}}}\n") == f"clean.yaml:3 validations[0].{message}"

    def test_only_comparisons(self, refusal):
        said = refusal("validations:\n- {metric: sum, column: a, operator: in, threshold: 1}\n")
        assert said == "clean.yaml:3 validations[0].operator: must be =, !=, >, <, >= or <=, not 'in'"

    def test_names_differ(self, refusal):
        said = refusal("validations:\n- {rule: a > 0}\n- {name: 'A  > 0', rule: b}\n- {name: a > 0, rule: c}\n")
        assert said == "clean.yaml:5 validations[2]: there is a validation 'a > 0' already: validations[0]"

    def test_limits(self, read):
        dataset = read("name: x\nvalidations: [{rule: a}, {rule: b, max_failing: 5}, {rule: c, max_failing: 1.5 %}]\n")
        assert [check.limit for check in dataset.validations] == [
            Limit(count=0),
            Limit(count=5),
            Limit(percent=Decimal("1.5")),
        ]
        assert [check.severity for check in dataset.validations] == ["error"] * 3


class TestSource:
    def test_all_options_of_csv(self, read):
        source = read(
            """\
            name: x
            source:
              format: csv
              delimiter: \\t
              header: false
              quote: "'"
              escape: \\
              encoding: latin1
              null_value: NA
              date_format: "%d/%m/%Y"
              timestamp_format: yyyy-MM-dd HH:mm
              multiline: true
            """
        ).source
        assert source.model_dump() == {
            "format": "csv",
            "delimiter": "\t",
            "header": False,
            "quote": "'",
            "escape": "\\",
            "encoding": "latin1",
            "null_value": "NA",
            "date_format": "dd/MM/yyyy",
            "timestamp_format": "yyyy-MM-dd HH:mm",
            "multiline": True,
        }

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ("format: xml", "format: must be csv, json, parquet, orc or avro, not 'xml'"),
            ("format: parquet, delimiter: ';'", "delimiter: means nothing for parquet files"),
            ("format: avro, header: false", "header: means nothing for avro files"),
            ("format: json, quote: x", "quote: means nothing for json files"),
            ("quote: ab", "quote: must be one character"),
            ("date_format: '%d/%m/%Y %H'", "date_format: '%d/%m/%Y %H' holds a time, which a date has not"),
            (
                "extra_columns: error",
                "extra_columns: unknown key; known keys: format, delimiter, header, quote, escape, "
                "encoding, null_value, date_format, timestamp_format, multiline",
            ),
        ],
    )
    def test_refused(self, refusal, entry, message):
        assert refusal(f"source: {{{entry}}}\n") == f"clean.yaml:2 source.{message}"

    def test_json_takes_what_concerns_it(self, read):
        assert read("name: x\nsource: {format: json, multiline: true, encoding: utf-8}\n").source.multiline is True


class TestFormats:
    @pytest.mark.parametrize(
        ("given", "pattern"),
        [
            ("%Y-%m-%d", "yyyy-MM-dd"),
            ("yyyy-MM-dd", "yyyy-MM-dd"),
            ("%d %b %Y", "dd MMM yyyy"),
            ("%Yy%m'%d[]", "yyyy'y'MM''''dd'[]'"),
            ("%Y%%%j", "yyyy%DDD"),
            ("d/M/yyyy", "d/M/yyyy"),
        ],
    )
    def test_of_dates(self, given, pattern):
        assert spark_format(given, time=False) == pattern

    def test_of_times(self):
        assert spark_format("%Y-%m-%dT%H:%M:%S.%f%z", time=True) == "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXX"
        assert spark_format("dd.MM.yyyy hh:mm a", time=True) == "dd.MM.yyyy hh:mm a"

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("YYYY-MM-DD", "Y means nothing in the format 'YYYY-MM-DD'; the year is yyyy and the day dd"),
            ("yyyy-mm-dd", "'yyyy-mm-dd' holds a time, which a date has not; the month is MM"),
            ("%y-%m-%d", "%y means nothing"),
            ("%Y-%m-%", "% means nothing"),
            ("'today'", "holds no date"),
            ("yyyy'", "a quote is left open"),
            (" ", "must not be empty"),
        ],
    )
    def test_refused(self, given, said):
        with pytest.raises(ValueError, match=re.escape(said)):
            spark_format(given, time=False)


class TestLimit:
    @pytest.mark.parametrize(
        ("limit", "failing", "rows", "allowed"),
        [
            ("0", 0, 0, True),
            ("0", 1, 100, False),
            (3, 3, 3, True),
            (3, 4, 10**9, False),
            ("0%", 0, 10, True),
            ("0%", 1, 10, False),
            ("0.3%", 3, 1000, True),
            ("0.3%", 4, 1000, False),
            ("33.333333%", 1, 3, False),
            ("100%", 7, 7, True),
            ("5%", 0, 0, True),
        ],
    )
    def test_counts_and_shares(self, limit, failing, rows, allowed):
        assert Limit.parse(limit).allows(failing=failing, rows=rows) is allowed

    @pytest.mark.parametrize("text", ["", "%", "-1", "1.5", "1e3", "100.1%", "1 2", "٣", "nan%"])
    def test_what_is_none(self, text):
        with pytest.raises(ValueError, match="must be a number of rows or a share"):
            Limit.parse(text)

    def test_shown(self):
        assert (str(Limit.parse(" 7 ")), str(Limit.parse("2.50%"))) == ("7", "2.50 %")
