"""The cleaning SELECT on Spark, row by row against a model of the same rules that is written in plain Python."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import cycle, islice
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from neve.lake import Lake
from neve.model.dataset import Dataset
from neve.model.types import Field
from neve.sql.cleaning import build_cleaning, build_validations, judge
from neve.sql.columns import parse_type

VARIABLE = "${system:user.name}"  # Spark would replace it, were it written so
CONTROLS = "\x07\x0012\x0b\r\n\t\x1f"
BANNED = ["\\", "'; DROP TABLE source; --", "ünï😀", VARIABLE, CONTROLS]
NASTY: list[str | None] = [
    None,
    "",
    "   ",
    "abc",
    "null",
    "NaN",
    "'; DROP TABLE source; --",
    "\\",
    '"',
    "`",
    "\\'",
    "ünï😀",
    "$1",
    "{x}",
    VARIABLE,
    CONTROLS,
]
NUMBERS = [
    *("12", " 12 ", "+7", "-0", "-3", "0", "1.5", "3.0", "3.", ".0", ".5", "1.239", "1.230", "-1.25", "007", "\t5\n"),
    *("1e3", "1.5E1", "1E-1", "12.5e-1", "1.0E7", "0e-9", "2147483647", "2147483648", "-2147483648", "-2147483649"),
    *("9223372036854775807", "9223372036854775808", "99999999.99", "99999999.995", "100000000", "9" * 50),
    *(
        "1,234",
        "12abc",
        "0x10",
        "0x1p3",
        " -0X1.8P1",
        "1_000",
        "--1",
        "12d",
        "1.5f",
        ".",
        "+",
        "1e",
        "\u0967\u0968",
        "\uff11\uff12",
        "1.0000000000000000000000001",
    ),
    *("1e400", "-1e400", "3.5e38", "Infinity", "-inf", "nan", "1e-400", "1e999999999", "0.1", "4.35"),
]
DAYS = [
    *(
        "2024-01-31",
        " 2024-02-29 ",
        "2023-02-29",
        "2024-13-01",
        "2024-1-5",
        "2024",
        "2024-01",
        "20240131",
        "31/01/2024",
    ),
    *(
        "2024-01-31 00:00:00",
        "2024-01-31T00:00",
        "2024-01-31 10:30:00",
        "2024-01-31 rubbish",
        "0000-01-01",
        "0001-01-01",
    ),
    *("9999-12-31", "10000-01-01", "12:30", "today", "2024-01-31T00:00:00Z", "2024-01-31x"),
    *("02024-1-05", "12024-01-5", "2024-1-5T0", "2024-1-5 7", "2024-1--05"),
    *("2024-01-3 ", "2024-01-3T", "+024-01-31", "-024-01-31", "2024-1T-01", " 024-01-31", "2024-01- 1", "0000-12-31"),
]
TIMES = [
    *DAYS,
    *(
        "2024-01-31 10:30:15.123456",
        "2024-01-31T10:30:15.1234567",
        "2024-01-31 10:30:15.1234560",
        "2024-01-31 24:00:00",
    ),
    *("2024-01-31T10:30:15Z", "2024-01-31T10:30:15+02:00", "2024-01-31 10:30:00 UTC", "2024-01-31 10:30:60", "T10:30"),
    *("2024-01-31T10:30:15-0530", "2024-06-30 02:30", "2024-01-31 1:30"),
]
TEXTS = ["north", "  south  east ", "É\tclair  du JOUR", "o'neill", "ALL CAPS", "a_b", "a%b", "a\\b", "x\ny", "straße"]
BOOLEANS = ["true", "FALSE", " t ", "y", "No", "1", "0", "2", "on", "wahr"]

CONFIG = {
    "name": "dirty",
    "columns": [
        {"name": "id", "type": "BIGINT", "allow_null": False},
        {"name": "quantity", "type": "INTEGER"},
        {"name": "stock", "source": "QUANTITY", "type": "HUGEINT", "default": 1},
        {"name": "price", "type": "DECIMAL(10,2)", "allow_null": False},
        {"name": "ratio", "type": "DOUBLE"},
        {"name": "rough", "source": "ratio", "type": "REAL", "default": 0.5},
        {"name": "flag", "type": "BOOL"},
        {"name": "day", "type": "DATE"},
        {"name": "moment", "type": "TIMESTAMP"},
        {"name": "clock", "source": "moment", "type": "TIMESTAMP_NTZ"},
        {"name": 'o\'clock "name"', "source": "na.me", "transform": ["trim", "collapse_spaces", "title"]},
        {
            "name": "shout",
            "source": "na.me",
            "type": "VARCHAR",
            "transform": ["upper", "null_if_empty"],
            "default": "–",
        },
        {"name": "code"},
        {
            "name": "twice",
            "type": "INTEGER",
            "expression": "quantity * 2L /* cleaned */ + length(`source`.quantity) * 0",
        },
    ],
    "filters": [
        {"column": "quantity", "operator": ">", "value": 0},
        {"column": "price", "operator": "between", "value": [0, "99999999.98"], "allow_null": True},
        {"column": "ratio", "operator": "!=", "value": 1.5, "allow_null": True},
        {"column": "day", "operator": "<=", "value": "2024-02-29", "allow_null": True},
        {"column": "moment", "operator": ">", "value": "2024-01-31T10:30:00+02:00"},
        {"column": "flag", "operator": "in", "value": [True]},
        {"column": "code", "operator": "not_in", "value": BANNED},
        {"column": "code", "operator": "not_like", "value": "a\\_%", "allow_null": True},
        {"column": "code", "operator": "not_empty"},
        {"column": "shout", "operator": "like", "value": "%O%"},
        {"column": "rough", "operator": "is_not_null"},
    ],
}
RAW = ["id", "quantity", "price", "ratio", "flag", "day", "moment", "na.me", "code", "Extra `col`"]
PASSED = ["_source_file", "_source_line", "_ingest_date", "_neve_corrupt"]


# ------------------------------------------------------------------------------------------------- the model in Python


def number(text: str) -> Decimal | None:
    plain = re.fullmatch(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?)\s*", text)
    return Decimal(plain[1]) if plain and abs(int(plain[2] or 0)) < 10_000 else None


def whole(bits: int) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        value = number(text.strip("".join(map(chr, range(33)))))  # Spark strips controls too
        fits = value is not None and value == value.to_integral_value() and -(2**bits) <= value < 2**bits
        return int(value) if value is not None and fits else None

    return read


def decimal(precision: int, scale: int) -> Callable[[str], Decimal | None]:
    def read(text: str) -> Decimal | None:
        value = number(text)
        if value is None or abs(value) >= Decimal(10) ** (precision - scale):
            return None
        return value if value % Decimal(1).scaleb(-scale) == 0 else None

    return read


def floating(code: str) -> Callable[[str], float | None]:
    def read(text: str) -> float | None:
        if text.strip().lower().lstrip("+-") in {"inf", "infinity"}:
            return float(text)
        value = number(text)
        try:
            found = None if value is None else struct.unpack(code, struct.pack(code, float(value)))[0]
        except OverflowError:
            return None
        return None if found is None or math.isinf(found) else found

    return read


def boolean(text: str) -> bool | None:
    words = {"t": True, "true": True, "y": True, "yes": True, "1": True}
    words |= {"f": False, "false": False, "n": False, "no": False, "0": False}
    return words.get(text.strip().lower())


def day(text: str) -> date | None:
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)(?:[ T]00:00(?::00)?Z?)?", text.strip(), re.ASCII)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def moment(*, zoned: bool) -> Callable[[str], datetime | None]:
    def read(text: str) -> datetime | None:
        parts = re.fullmatch(
            r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,6})0*)?(?: ?(Z|UTC|[+-]\d\d:?\d\d))?)?",
            text.strip(),
            re.ASCII,
        )
        if parts is None or ((parts[4] or parts[5]) and not parts[3]) or (parts[5] and not zoned):
            return None
        try:
            found = datetime.fromisoformat(f"{parts[1]} {parts[2] or '00:00'}{parts[3] or ':00'}")
        except ValueError:
            return None
        found = found.replace(microsecond=int((parts[4] or "0").ljust(6, "0")))
        if parts[5] in {None, "Z", "UTC"}:
            return found
        sign = -1 if parts[5][0] == "-" else 1
        offset = sign * timedelta(hours=int(parts[5][1:3]), minutes=int(parts[5][-2:]))
        return found.replace(tzinfo=timezone(offset)).astimezone(timezone.utc).replace(tzinfo=None)  # noqa: UP017

    return read


def cast(read: Callable[[str], Any], text: str | None, *, nan: bool = False) -> tuple[Any, bool]:
    """The value, and whether there was something that no value came of."""
    if text is None or not text.strip(" "):
        return None, False
    value = read(text)
    return value, value is None and not (nan and text.strip(" ").lower() == "nan")


def title(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


def model(row: dict[str, str | None]) -> tuple[dict[str, Any], list[str]]:
    """The cleaned row and the rules that it breaks."""
    out: dict[str, Any] = {}
    broken: list[str] = []
    casts: list[tuple[str, str, Callable[[str], Any], bool]] = [
        ("id", "id", whole(63), False),
        ("quantity", "quantity", whole(31), False),
        ("stock", "quantity", decimal(38, 0), False),
        ("price", "price", decimal(10, 2), False),
        ("ratio", "ratio", floating("d"), True),
        ("rough", "ratio", floating("f"), True),
        ("flag", "flag", boolean, False),
        ("day", "day", day, False),
        ("moment", "moment", moment(zoned=True), False),
        ("clock", "moment", moment(zoned=False), False),
    ]
    for name, source, read, nan in casts:
        out[name], wrong = cast(read, row[source], nan=nan)
        broken += [f"cast:{name}"] * wrong
    out["stock"] = Decimal(1) if out["stock"] is None else out["stock"]
    out["rough"] = 0.5 if out["rough"] is None else out["rough"]
    name_in = row["na.me"]
    out['o\'clock "name"'] = None if name_in is None else title(re.sub(r"\s+", " ", name_in.strip(" "), flags=re.ASCII))
    out["shout"] = (name_in or "").upper() or "–"
    out["code"] = row["code"]
    doubled = None if out["quantity"] is None else 2 * out["quantity"]
    out["twice"], wrong = cast(whole(31), None if doubled is None else str(doubled))
    broken += ["cast:twice"] * wrong
    broken += [f"not_null:{name}" for name in ("id", "price") if out[name] is None]
    broken += [name for name, passed in filters(out) if not passed]
    return out, broken


def filters(out: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    quantity, price, code = out["quantity"], out["price"], out["code"]
    yield "filter:quantity > 0", quantity is not None and quantity > 0
    yield "filter:price between 0 and 99999999.98", price is None or 0 <= price <= Decimal("99999999.98")
    yield "filter:ratio != 1.5", out["ratio"] is None or out["ratio"] != 1.5
    yield "filter:day <= 2024-02-29", out["day"] is None or out["day"] <= date(2024, 2, 29)
    late = out["moment"] is not None and out["moment"] > datetime(2024, 1, 31, 8, 30)  # noqa: DTZ001
    yield "filter:moment > 2024-01-31T10:30:00+02:00", late
    yield "filter:flag in (true)", out["flag"] is True
    yield f"filter:code not_in ({', '.join(BANNED)})", code is not None and code not in BANNED
    yield "filter:code not_like a\\_%", code is None or not code.startswith("a_")
    yield "filter:code not_empty", code is not None and bool(code.strip(" "))
    yield "filter:shout like %O%", "O" in out["shout"]


# ------------------------------------------------------------------------------------------------------------ on Spark


@pytest.fixture(scope="module")
def spark(spark_lake: Lake) -> SparkSession:
    return spark_lake.spark.newSession()


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    located = [(*row, f"file{n % 2}.csv", n, date(2024, 1, 1), None) for n, row in enumerate(rows)]
    passed = "_source_file string, _source_line bigint, _ingest_date date, _neve_corrupt string"
    return spark.createDataFrame(located, f"{schema}, {passed}")


def dirty_rows() -> list[dict[str, str | None]]:
    """Each list of values in full, against values of the others that change from row to row."""
    pools: list[list[str | None]] = [
        ["1", "2", "3", *NASTY, *NUMBERS],
        [*NUMBERS, *NASTY],
        [*reversed(NUMBERS), *NASTY],
        ["1.5", *NASTY, *NUMBERS],
        [*BOOLEANS, *NASTY],
        [*DAYS, *NASTY],
        [*TIMES, *NASTY],
        [*TEXTS, *NASTY],
        [*NASTY, *TEXTS],
        ["kept"],
    ]
    count = max(map(len, pools))
    columns = [islice(cycle(pool), count) for pool in pools]
    dirty = [dict(zip(RAW, values, strict=True)) for values in zip(*columns, strict=True)]
    good: dict[str, str | None] = dict(zip(RAW, ["1", "2", "3.5", "0.1", "t", "2024-01-31"], strict=False))
    good |= {"moment": "2024-01-31 10:30", "na.me": "o'neill", "code": "x", "Extra `col`": None}
    return [*dirty, *({**good, column: value} for column, pool in zip(RAW, pools, strict=True) for value in pool[:9])]


def test_every_row_is_cleaned_and_judged_as_the_model_says(spark: SparkSession) -> None:
    cleaning = build_cleaning(Dataset.model_validate(CONFIG), RAW)
    rows = dirty_rows()
    raw = frame(
        spark,
        [tuple(row[name] for name in RAW) for row in rows],
        ", ".join(f"`{n.replace('`', '``')}` string" for n in RAW),
    )
    raw.createOrReplaceTempView("source")
    cleaned = spark.sql(cleaning.select)
    names = [field.name for field in cleaning.columns]
    assert cleaned.columns == [*names, *PASSED, "_neve_rejected", "_neve_raw"]
    assert [f.dataType.simpleString() for f in cleaned.schema.fields[: len(names)]] == [
        str(field.type) for field in cleaning.columns
    ]
    found = sorted(as_text(cleaned).collect(), key=lambda row: row["_source_line"])
    accepted, seen = 0, set()
    for line, (row, got) in enumerate(zip(rows, found, strict=True)):
        expected, broken = model(row)
        assert got["_neve_rejected"] == (broken or None), (line, row)
        assert {name: got[name] for name in names} == shown(expected), (line, row)
        assert (got["_source_file"], got["_source_line"]) == (f"file{line % 2}.csv", line)
        assert (json.loads(got["_neve_raw"]) if got["_neve_raw"] else None) == (row if broken else None)
        accepted += not broken
        seen |= set(broken)
    assert accepted > 5
    assert set(cleaning.rules) - seen == {"filter:rough is_not_null"}  # a default leaves nothing to reject
    assert cleaning.unused == ("Extra `col`",)


def as_text(rows: DataFrame) -> DataFrame:
    """Times as Spark prints them, so that no time zone of this machine comes between."""
    return rows.withColumn("moment", rows["moment"].cast("string")).withColumn("clock", rows["clock"].cast("string"))


def shown(values: dict[str, Any]) -> dict[str, Any]:
    def show(value: Any) -> Any:
        if not isinstance(value, datetime):
            return value
        return value.isoformat(" ").rstrip("0").removesuffix(".") if value.microsecond else value.isoformat(" ")

    return {name: show(value) for name, value in values.items()}


TYPED: list[tuple[str, str, list[Any], list[Any]]] = [
    ("double", "int", [1.0, 1e7, 2.5, 1e10, math.nan], [1, 10_000_000, "broken", "broken", "broken"]),
    (
        "double",
        "decimal(12,4)",
        [0.1 + 0.2, 1e7, 1.5e-3, 1.5e-4],
        ["broken", Decimal(10**7), Decimal("0.0015"), "broken"],
    ),
    ("double", "double", [1.5, math.nan, 2.3], [1.5, None, 2.3]),
    ("float", "double", [0.5, math.nan, 0.1], [0.5, None, 0.1]),
    ("decimal(20,10)", "bigint", [Decimal(0), Decimal(7), Decimal("7.5")], [0, 7, "broken"]),
    ("bigint", "int", [5, 2**31], [5, "broken"]),
    ("bigint", "string", [5], ["5"]),
    ("boolean", "int", [True], ["broken"]),
    ("date", "timestamp_ntz", [date(2024, 1, 31)], [datetime(2024, 1, 31)]),  # noqa: DTZ001
    ("timestamp_ntz", "date", [datetime(2024, 1, 31), datetime(2024, 1, 31, 1)], [date(2024, 1, 31), "broken"]),  # noqa: DTZ001
    ("string", "binary", ["é"], [bytearray("é".encode())]),
]


@pytest.mark.parametrize("known", [True, False], ids=["types known", "names only"])
def test_typed_sources_lose_nothing_either(spark: SparkSession, known: bool) -> None:
    config = {"name": "typed", "columns": [{"name": f"x{n}", "type": case[1]} for n, case in enumerate(TYPED)]}
    height = max(len(case[2]) for case in TYPED) + 1
    columns = [[*case[2], *[None] * (height - len(case[2]))] for case in TYPED]
    schema = ", ".join(f"x{n} {case[0]}" for n, case in enumerate(TYPED))
    frame(spark, list(zip(*columns, strict=True)), schema).createOrReplaceTempView("source")
    source = [Field(f"x{n}", parse_type(case[0])) if known else f"x{n}" for n, case in enumerate(TYPED)]
    rows = spark.sql(build_cleaning(Dataset.model_validate(config), source).select).orderBy("_source_line").collect()
    for n, (kind, target, values, expected) in enumerate(TYPED):
        got = ["broken" if f"cast:x{n}" in (row["_neve_rejected"] or ()) else row[f"x{n}"] for row in rows]
        assert got[: len(values)] == expected, (kind, target)
        assert not any(value is not None for value in got[len(values) :]), (kind, target)


def test_formats_of_dates_and_times(spark: SparkSession) -> None:
    config = Dataset.model_validate(
        {
            "name": "formats",
            "source": {"date_format": "%d/%m/%Y", "timestamp_format": "dd.MM.yyyy HH:mm"},
            "columns": [
                {"name": "day", "type": "DATE"},
                {"name": "at", "type": "TIMESTAMP"},
                {"name": "next", "type": "DATE", "expression": "date_add(day, 1)"},  # an expression gives ISO dates
            ],
        }
    )
    rows = [
        ("31/01/2024", "31.01.2024 23:59"),
        ("2024-01-31", "2024-01-31 23:59"),
        (" 01/02/2024 ", None),
        ("30/02/2024", ""),
    ]
    frame(spark, rows, "day string, at string").createOrReplaceTempView("source")
    cleaned = spark.sql(build_cleaning(config, ["day", "at"]).select).orderBy("_source_line")
    got = cleaned.withColumn("at", cleaned["at"].cast("string")).collect()
    assert [(row["day"], row["at"], row["next"], row["_neve_rejected"]) for row in got] == [
        (date(2024, 1, 31), "2024-01-31 23:59:00", date(2024, 2, 1), None),
        (None, None, None, ["cast:day", "cast:at"]),
        (date(2024, 2, 1), None, date(2024, 2, 2), None),
        (None, None, None, ["cast:day"]),
    ]


def test_columns_pass_as_they_are_without_a_config(spark: SparkSession) -> None:
    schema = "id bigint, tags array<string>, place struct<city:string,zip:int>"
    rows = [(1, ["a", None], Row(city="Ö", zip=1)), (None, None, None)]
    frame(spark, rows, schema).createOrReplaceTempView("source")
    fields = [Field("id", parse_type("bigint")), Field("tags", parse_type("array<string>"))]
    fields.append(Field("place", parse_type("struct<city:string,zip:int>")))
    cleaned = spark.sql(build_cleaning(None, fields).select)
    assert [tuple(row)[:3] for row in cleaned.orderBy("_source_line").collect()] == rows
    assert [f.dataType.simpleString() for f in cleaned.schema.fields[:3]] == [str(field.type) for field in fields]
    assert [(row["_neve_rejected"], row["_neve_raw"]) for row in cleaned.collect()] == [(None, None)] * 2


def test_all_validations_run_in_one_pass(spark: SparkSession) -> None:
    values = [(n if n % 10 else None, n % 7, date(2024, 1, 1) + timedelta(days=n), f"k{n % 3}") for n in range(100)]
    spark.createDataFrame(values, "id int, `na me` int, day date, code string").createOrReplaceTempView("cleaned")
    config = Dataset.model_validate(
        {
            "name": "checks",
            "columns": [
                {"name": "id", "type": "INTEGER"},
                {"name": "na me", "type": "INTEGER"},
                {"name": "day", "type": "DATE"},
                {"name": "code"},
            ],
            "validations": [
                {"rule": "id > 4"},
                {"name": "ten may fail", "rule": "ID IS NOT NULL", "max_failing": 10},
                {"name": "nine may not", "rule": "id is not null -- said twice", "max_failing": 9},
                {"name": "ten percent", "rule": "id IS NOT NULL", "max_failing": "10%"},
                {"name": "less than ten", "rule": "id IS NOT NULL", "max_failing": "9.99%", "severity": "warn"},
                {"metric": "row_count", "operator": "==", "threshold": 100},
                {"metric": "null_ratio", "column": "id", "operator": "<", "threshold": 0.1},
                {"metric": "null_ratio", "column": "id", "operator": "<=", "threshold": 0.1},
                {"metric": "uniqueness", "column": "id", "operator": ">=", "threshold": 1},
                {"metric": "uniqueness", "column": "na me", "operator": ">=", "threshold": 0.5},
                {"metric": "distinct_count", "column": "code", "operator": "=", "threshold": 3},
                {"metric": "max", "column": "day", "operator": "<", "threshold": "2024-04-09"},
                {"metric": "min", "column": "code", "operator": "=", "threshold": "k0"},
                {"metric": "sum", "column": "na me", "operator": ">", "threshold": 10_000},
            ],
        }
    )
    validations = build_validations(config)
    row = spark.sql(f"SELECT {', '.join(check.sql for check in validations)} FROM cleaned").collect()[0]
    findings = {finding.name: (finding.severity, finding.message) for finding in judge(validations, row.asDict())}
    failing = sum(not (n % 10 and n > 4) for n in range(100))
    assert findings == {
        "id > 4": ("error", f"{failing} of 100 rows break it; at most 0 may"),
        "nine may not": ("error", "10 of 100 rows break it; at most 9 may"),
        "less than ten": ("warn", "10 of 100 rows break it; at most 9.99 % may"),
        "null_ratio(id) < 0.1": ("error", "null_ratio is 0.1; it must be < 0.1"),
        "uniqueness(na me) >= 0.5": ("error", "uniqueness is 0.07; it must be >= 0.5"),
        "max(day) < 2024-04-09": ("error", "max is 2024-04-09; it must be < 2024-04-09"),
        "sum(na me) > 10000": ("error", f"sum is {sum(v[1] for v in values)}; it must be > 10000"),
    }
