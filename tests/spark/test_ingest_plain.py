"""Files in which nothing is quoted are cut by Python: the rows that Spark's parser finds, kept and rejected alike."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from neve.catalog import Files
from neve.engine import plain_csv
from neve.engine.ingest import stage
from neve.engine.reading import file_by_file, read_rows
from neve.errors import JobFailed
from neve.lake import Lake, LakeTable
from neve.model.dataset import CORRUPT, SourceFormat
from neve.model.ingest import SourceFile, rejected_name
from neve.services import ingest
from neve.services.inspection import inspect

Make = Callable[..., LakeTable]
VALUES = ["", "a", "NA", "é", "日本", " ", " x y ", "\t", "0", "-1.50", "'", "\\", "#", "\x0b", "\u2028", "nul\0l"]
ENDS = ["\n", "\n", "\n", "\r\n", "\n\n", "\r", "\n \t\n"]


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_csv, "_WORTH", 0)


@pytest.mark.parametrize(
    "source",
    [
        SourceFormat(),
        SourceFormat(delimiter="|", null_value="NA"),
        SourceFormat(delimiter=";", header=False, quote="'", escape="\\", multiline=False),
    ],
    ids=["plain", "null value", "no header"],
)
def test_both_readers_find_the_same_rows(spark_lake: Lake, tmp_path: Path, source: SourceFormat) -> None:
    chance, files = random.Random(7), {}
    for number in range(40):
        text = random_file(chance, source.delimiter or ",").encode("utf-8-sig" if number % 5 == 0 else "utf-8")
        path = tmp_path / f"{number}.csv{'.gz' if number % 7 == 0 else ''}"
        path.write_bytes(gzip.compress(text[:9]) + gzip.compress(text[9:]) if number % 7 == 0 else text)
        file = inspect(str(path), "csv", Files(), source)
        files[file] = date(2024, 1, 1) + timedelta(days=number)
    assert {file.plain for file in files} == ({True, False} if source.quote else {True})
    cut = rows_of(spark_lake, files, source)
    parsed = rows_of(spark_lake, {replace(file, plain=False): day for file, day in files.items()}, source)
    assert cut == parsed
    assert len(cut) > 200


def random_file(chance: random.Random, delimiter: str) -> str:
    values = [value for value in VALUES if delimiter not in value]
    lines = [delimiter.join("abc") + chance.choice(ENDS[:4])]
    for _ in range(chance.randrange(12)):
        width = 3 if chance.random() < 0.8 else chance.randint(1, 5)
        lines.append(delimiter.join(chance.choices(values, k=width)) + chance.choice(ENDS))
    text = "".join(lines)
    return text.rstrip("\r\n") if chance.random() < 0.3 else text


def rows_of(lake: Lake, files: dict[SourceFile, date], source: SourceFormat) -> list[tuple[object, ...]]:
    """Of a line that is no row, its text counts, not what could be read of it."""
    spark = lake._context.session.spark
    with file_by_file(spark):
        found = read_rows(spark, files, source, json_types={}, with_lines=True).collect()
    names = [name for name in found[0].asDict() if not name.startswith("_") or name.startswith("_c")]
    own = [CORRUPT, "_source_file", "_source_line", "_ingest_date"]
    return sorted(
        (
            tuple(row[name] if row[CORRUPT] is None else None for name in names) + tuple(row[name] for name in own)
            for row in found
        ),
        key=repr,
    )


@pytest.mark.parametrize("packed", [True, False])
def test_kept_and_rejected_rows_are_the_same(
    spark_lake: Lake, make_table: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """One of the files has quotes, and is parsed by Spark beside the others. Numbers alone carry no rejected rows."""
    chance, told = random.Random(3), []
    for number in range(1, 9):
        lines = ["id,name", *(",".join(chance.choices(["1", "2", "x", "", "3,4"], k=2)) for _ in range(20))]
        lines += ['3,"4"'] if number == 4 else []
        (tmp_path / f"sales_2024-01-{number:02}.csv").write_text("\n".join(lines))
    for name, worth in (("cut", 0), ("parsed", 1 << 40)):
        monkeypatch.setattr(plain_csv, "_WORTH", worth)
        table = make_table(name, schema="id bigint, name string" if packed else "id bigint, name bigint")
        receipt = table.ingest(str(tmp_path), date_from_name="sales_{date}.csv")
        rejected = f"SELECT * EXCEPT (run_id) FROM {rejected_name(table.name).sql}"
        kept = f"SELECT *, _ingest_date FROM {table.name.sql}"
        found = [sorted(map(tuple, spark_lake.sql(text).collect()), key=repr) for text in (kept, rejected)]
        told.append((receipt.dates, found))
        assert receipt.rows_ingested + receipt.rows_rejected == 161
        assert receipt.rows_rejected > 20
    assert told[0] == told[1]


def test_names_with_signs_that_part_words_keep_their_rejected_rows(
    spark_lake: Lake, make_table: Make, tmp_path: Path
) -> None:
    paths = [tmp_path / f"a{sign}b.csv" for sign in ("\x1e", "\x1f", "|")]
    for path in paths:
        path.write_text("id,name\nx,1\n2,b\n")
    table = make_table()
    table.ingest(*paths, date="2024-01-01")
    kept = spark_lake.sql(f"SELECT source_file, source_line, rules FROM {rejected_name(table.name).sql}").collect()
    assert sorted(map(tuple, kept)) == [(str(path), 2, ["cast:id"]) for path in paths]


def test_a_file_that_grows_while_it_is_loaded_fails_the_load(
    make_table: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,name\n1,a\n")

    def grown(*arguments: object, **more: object) -> object:
        path.write_text('id,name\n1,a\n2,"b"\n')
        return stage(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(ingest, "stage", grown)
    table = make_table()
    with pytest.raises(JobFailed, match=r"a\.csv was written to while it was loaded"):
        table.ingest(path, date="2024-01-01")
    assert table.show().rows == 0
