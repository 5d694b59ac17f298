from __future__ import annotations

import traceback
from enum import Enum
from pathlib import Path
from typing import Literal

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from neve.documents import Document, check_document, load_document, parse_document, parse_mapping, unmet
from neve.errors import ConfigError, InvalidInput


@pytest.fixture
def write(tmp_path: Path):
    def write(content: str | bytes) -> Path:
        path = tmp_path / "doc.yaml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_document(path)
    return caught.value.message.replace(f"{path.parent}/", "")


class TestLoading:
    def test_values_and_lines(self, write):
        document = load_document(write("a: 1\n\n# talk\nb:\n  c: [x, 2]\n  d:\n    - e: true\n    - e:\n"))
        assert document.data == {"a": 1, "b": {"c": ["x", 2], "d": [{"e": True}, {"e": None}]}}
        assert document.line_of(("a",)) == 1
        assert document.line_of(("b",)) == 4
        assert document.line_of(("b", "c")) == 5
        assert document.line_of(("b", "d", 1)) == 8
        assert document.line_of(("b", "d", 1, "e")) == 8
        assert document.line_of(("b", "zzz")) is None

    @pytest.mark.parametrize("content", ["", "# only talk\n", "---\n", "\ufeff# with a byte order mark\n"])
    def test_nothing_is_an_empty_mapping(self, write, content):
        assert load_document(write(content)).data == {}

    def test_a_byte_order_mark_is_no_part_of_the_first_key(self, write):
        assert load_document(write("\ufeffa: 1\n")).data == {"a": 1}

    @pytest.mark.parametrize(
        "word",
        ["no", "on", "1.10", "007", "1:30", "2024-01-01", "0x1F", "1_000", "+1", "1e5", "True", "-0", "<<", "9" * 30],
    )
    def test_plain_words_stay_as_written(self, write, word):
        assert load_document(write(f"a: {word}\n")).data == {"a": word}

    @pytest.mark.parametrize(
        ("word", "value"),
        [
            ("8", 8),
            ("-8", -8),
            ("0", 0),
            ("1.5", 1.5),
            ("-0.25", -0.25),
            ("2.0", 2.0),
            ("true", True),
            ("~", None),
            ("'8'", "8"),
        ],
    )
    def test_numbers_and_booleans_print_back_the_same(self, write, word, value):
        read = load_document(write(f"a: {word}\n")).data["a"]
        assert read == value
        assert type(read) is type(value)

    def test_keys_are_text_whatever_they_look_like(self, write):
        assert load_document(write("no: 1\n8: 2\ntrue: 3\n1.10: 4\n")).data == {"no": 1, "8": 2, "true": 3, "1.10": 4}

    def test_aliases_are_followed(self, write):
        document = load_document(write("a: &x {k: 1}\nb: *x\n"))
        assert document.data["b"] == {"k": 1}
        assert document.line_of(("b", "k")) == 1

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            ("a: 1\nb: [1, 2\nc: 3\n", "doc.yaml:3:2: while parsing a flow sequence, expected ',' or ']', but got ':'"),
            ("a: 1\n\tb: 2\n", "doc.yaml:2:1: while scanning for the next token, found character '\\t'"),
            ("a: b: c\n", "doc.yaml:1:5: mapping values are not allowed here"),
            ("a: 'x\n", "doc.yaml:2:1: while scanning a quoted scalar, found unexpected end of stream"),
            ("a: 1\na: 2\n", "doc.yaml:2:1: the key 'a' is written twice, first in line 1"),
            ("x:\n  y: 1\n  z: 1\n  y: 1\n", "doc.yaml:4:3: the key 'y' is written twice, first in line 2"),
            ("true: 1\n'true': 2\n", "doc.yaml:2:1: the key 'true' is written twice"),
            ("- a\n- b\n", "doc.yaml:1:1: expected a mapping"),
            ("just text\n", "doc.yaml:1:1: expected a mapping"),
            ("a: 1\n---\nb: 2\n", "doc.yaml:2:1: expected a single document in the stream, but found another document"),
            ("a: 1\nb: !!python/object/apply:os.system ['true']\n", "doc.yaml:2:4: this tag is not allowed"),
            ("a: !!python/name:os.system x\n", "doc.yaml:1:4: this tag is not allowed"),
            ("a: !!int eight\n", "doc.yaml:1:4: this tag is not allowed"),
            ("a: !mine {b: 1}\n", "doc.yaml:1:4: this tag is not allowed"),
            ("? [a]\n: 1\n", "doc.yaml:1:3: a key must be plain text"),
            ("a: &x {k: 1}\nb:\n  <<: *x\n", "doc.yaml:3:3: merge keys (<<) are not supported"),
            ("a: 1\nb: \x07\n", "doc.yaml:2: a character that YAML does not allow (U+0007)"),
            (b"a: 1\nb: \xff\xfe\n", "doc.yaml:2: not UTF-8 text"),
        ],
    )
    def test_what_is_wrong_has_its_place(self, write, content, expected):
        assert expected in refusal(write(content))

    def test_a_missing_file_says_so(self, tmp_path):
        assert refusal(tmp_path / "gone.yaml") == "gone.yaml: no such file"
        with pytest.raises(InvalidInput):
            load_document(tmp_path / "gone.yaml")

    def test_a_folder_is_no_file(self, tmp_path):
        assert "cannot be read: Is a directory" in refusal(tmp_path)

    def test_a_large_file_is_refused(self, write):
        assert refusal(write("a: " + "x" * (1024 * 1024))) == "doc.yaml: larger than 1 MiB"

    def test_a_small_file_that_grows_by_aliases_is_refused(self, write):
        levels = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
        levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
        assert "more than 100,000 values" in refusal(write("\n".join(levels)))

    @pytest.mark.parametrize(
        "content", ["a: &x {b: *x}\n", "a: &x [*x]\n", "a: " + "[" * 100 + "]" * 100, "a: " + "[" * 20_000]
    )
    def test_depth_has_an_end(self, write, content):
        assert "nested too deeply" in refusal(write(content))

    @pytest.mark.parametrize(
        "value", ["*hunter2", "!hunter2!x y", "!hunter2 y", "&hunter2 [", "'hunter2", '"hunter2\\q"', "{hunter2: ["]
    )
    def test_errors_do_not_quote_the_file(self, write, value):
        with pytest.raises(ConfigError) as caught:
            load_document(write(f"password: {value}\n"))
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__context__ is None
        assert "hunter2" not in repr(Document(path=Path("x"), data={"a": "hunter2"}, lines={}))


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Column(Strict):
    name: str
    kind: Literal["bigint", "string"] = "string"
    nullable: bool = True
    partition_by: int = Field(0, validation_alias=AliasChoices("partitionBy", "partition_by"))


class Csv(Strict):
    type: Literal["csv"]
    delimiter: str = ","


class Json(Strict):
    type: Literal["json"]
    lines: bool = True


class Table(Strict):
    table: str = Field(alias="tableName")
    columns: list[Column] = []
    named: dict[str, Column] = {}
    source: Csv | Json | None = Field(None, discriminator="type")
    colour: Colour = Colour.RED
    size: int = Field(1, gt=0)
    password: SecretStr | None = None
    pin: SecretStr | None = None
    low: int = 0
    high: int = 10
    either: int | list[int] = 0

    @field_validator("pin")
    @classmethod
    def _check_pin(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 20:
            raise ValueError("is too short")
        return value

    @model_validator(mode="after")
    def _check_range(self) -> Table:
        if self.high < self.low:
            raise unmet("high", "must be at least low")
        return self


class TestParsing:
    def problems(self, path: Path) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            parse_document(load_document(path), Table)
        assert caught.value.__context__ is None
        return caught.value.message.replace(f"{path.parent}/", "").splitlines()

    def test_a_valid_document(self, write):
        table = parse_document(load_document(write("tableName: t\ncolumns: [{name: a, partitionBy: 3}]\n")), Table)
        assert (table.table, table.columns[0].partition_by) == ("t", 3)

    def test_all_problems_come_at_once(self, write):
        content = "tableNmae: t\ncolumns:\n  - name: a\n  - nmae: b\n    kind: bigit\nsize: -1\n"
        assert self.problems(write(content)) == [
            "doc.yaml tableName: this key is needed",
            "doc.yaml:4 columns[1].name: this key is needed",
            "doc.yaml:5 columns[1].kind: must be bigint or string, not 'bigit'; did you mean bigint?",
            "doc.yaml:4 columns[1].nmae: unknown key; did you mean name?",
            "doc.yaml:6 size: must be greater than 0, not -1",
            "doc.yaml:1 tableNmae: unknown key; did you mean tableName?",
        ]

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("sise: 2", "sise: unknown key; did you mean size?"),
            ("table: x", "table: unknown key; did you mean tableName?"),
            ("columns: [{name: a, partitonBy: 1}]",
             "columns[0].partitonBy: unknown key; did you mean partitionBy, partition_by?"),
            ("named: {x: {name: a, nulable: true}}", "named.x.nulable: unknown key; did you mean nullable?"),
            ("source: {type: csv, delimeter: x}", "source.delimeter: unknown key; did you mean delimiter?"),
            ("source: {type: json, linse: true}", "source.linse: unknown key; did you mean lines?"),
            ("zzz: 1", "zzz: unknown key; known keys: tableName, columns, named, source, colour, size, password, pin, "
             "low, high, either"),
            ("source: {type: cvs}", "source.type: must be csv or json, not 'cvs'; did you mean csv?"),
            ("source: {lines: true}", "source.type: this key is needed"),
            ("colour: rad", "colour: must be red or blue, not 'rad'; did you mean red?"),
            ("colour: [red]", "colour: must be red or blue, not a list"),
            ("size: many", "size: must be a whole number, not 'many'"),
            ("size: 1.5", "size: must be a whole number, not 1.5"),
            ("size:", "size: needs a value"),
            ("columns: {name: a}", "columns: must be a list, not a mapping"),
            ("columns: [a]", "columns[0]: must be a mapping of 'key: value' lines, not 'a'"),
            ("columns: [{name: [a]}]", "columns[0].name: must be text, not a list"),
            ("columns: [{name: a, nullable: perhaps}]", "columns[0].nullable: must be true or false, not 'perhaps'"),
            ("either: x", "either: must be a whole number, not 'x', or must be a list, not 'x'"),
            ("high: -1", "high: must be at least low"),
            ("low: 11", "high: must be at least low"),
        ],
    )  # fmt: skip
    def test_each_problem_is_a_sentence(self, write, line, expected):
        place = "doc.yaml" if line.startswith("low") else "doc.yaml:2"  # `high` is not in the file
        assert self.problems(write(f"tableName: t\n{line}\n")) == [f"{place} {expected}"]

    @pytest.mark.parametrize(
        "line", ["password: {hunter2: 1}", "password: [hunter2]", "pin: hunter2", "pin: 'hunter2'"]
    )
    def test_secrets_do_not_reach_the_message(self, write, line):
        with pytest.raises(ConfigError) as caught:
            parse_document(load_document(write(f"tableName: t\n{line}\n")), Table)
        assert "doc.yaml:2" in caught.value.message
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))

    def test_a_number_for_a_secret_is_not_shown(self, write):
        assert self.problems(write("tableName: t\npassword: 4711\n")) == ["doc.yaml:2 password: must be text"]

    def test_data_from_elsewhere_names_its_place(self):
        with pytest.raises(ConfigError) as caught:
            parse_mapping({"tableName": "t", "sise": 1, "low": "x"}, Table, where="request")
        assert caught.value.message.splitlines() == [
            "request low: must be a whole number, not 'x'",
            "request sise: unknown key; did you mean size?",
        ]
        assert parse_mapping({"tableName": "t", "size": "4"}, Table, where="request").size == 4

    def test_a_check_of_part_of_the_values_leaves_out_what_others_may_complete(self, write):
        check_document(load_document(write("tableName: t\nhigh: -1\n")), Table)
        with pytest.raises(ConfigError, match="sise: unknown key"):
            check_document(load_document(write("tableName: t\nhigh: -1\nsise: 1\n")), Table)
