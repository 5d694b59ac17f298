"""Which files are loaded, however they are spelled and named; a row whose file nobody listed is never left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from neve.engine import reading
from neve.errors import JobFailed
from neve.lake import Lake, LakeTable

Make = Callable[..., LakeTable]
NAMES = ["sales[1]", "sales1", "a{b,c}", "ab", "q?", "q1", "star*", "start", "[x]/y", "x/y"]
"""Pairs of a name that is a pattern, and of another name that it would mean."""


def test_a_path_with_two_dots_brings_its_rows(
    make_table: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cwd").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.csv").write_text("id,name\n1,a\n")
    monkeypatch.chdir(tmp_path / "cwd")
    receipt = make_table().ingest("../data/x.csv", tmp_path / "data" / "x.csv", "../data/*.csv", date="2024-01-01")
    assert (receipt.files_read, receipt.rows_ingested) == (1, 1)


@pytest.mark.parametrize("with_lines", [False, True])
def test_rows_of_a_file_that_was_not_listed_fail_the_load(
    spark_lake: Lake, make_table: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, with_lines: bool
) -> None:
    """With a text column rejected rows travel with the others; without one only accepted rows are written."""
    table = make_table(schema="id bigint, name string" if with_lines else "id bigint, name bigint")
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("id,name\n1,1\n")
    second.write_text("id,name\n2,2\n")
    table.ingest(first, date="2024-01-01")
    spelled = reading._url
    monkeypatch.setattr(reading, "_url", lambda spark, path: spelled(spark, path.replace("b.csv", "./b.csv")))
    with pytest.raises(JobFailed, match="not among those to load"):
        table.ingest(first, second, date="2024-01-01", replace=True)
    assert [tuple(row) for row in table.query("SELECT id FROM t").collect()] == [(1,)]
    assert [row.kind for row in table.references()] == ["branch"]


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc", "avro"])
def test_names_are_no_patterns(spark_lake: Lake, namespace: str, tmp_path: Path, form: str) -> None:
    """The columns are the files' own, so that inferring them is tried too."""
    paths = [tmp_path / "in" / f"{name}.{form}" for name in NAMES]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(spark_lake, path, number, tmp_path / str(number))
    config = tmp_path / "t.yaml"
    config.write_text(f"name: {namespace}.t\nstorage: {{format: iceberg}}\n")
    spark_lake.tables.create(str(config))
    table = spark_lake.table(str(config))
    patterns = paths[::2]
    receipt = table.ingest(*patterns, date="2024-01-01")
    assert receipt.rows_ingested == len(patterns)
    assert sorted(row[0] for row in table.query("SELECT id FROM t").collect()) == list(range(0, len(NAMES), 2))
    assert table.ingest(*paths, date="2024-01-01").rows_ingested == len(NAMES)


def write(lake: Lake, path: Path, number: int, scratch: Path) -> None:
    if path.suffix == ".csv":
        path.write_text(f"id,name\n{number},x\n")
    elif path.suffix == ".json":
        path.write_text(json.dumps({"id": number, "name": "x"}))
    else:
        rows = lake.spark.sql(f"SELECT {number} AS id, 'x' AS name").coalesce(1)
        rows.write.format(path.suffix[1:]).save(str(scratch))
        (part,) = scratch.glob("part-*")
        part.rename(path)
