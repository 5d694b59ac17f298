"""`neve table create`: what is made, and what is refused without a trace."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.lake.lakes import Cli, check_healthy, contents, facts, make, names, undo_words

from neve.errors import AlreadyExists, ColumnNotFound, ConfigError, InvalidInput, InvalidName, InvalidSchema
from neve.lake import Lake
from neve.services.specs import spec_from_file

FULL = """
name: shop.orders
description: what was bought
columns:
  - {name: id, type: bigint, required: true, comment: its number}
  - {name: at, type: timestamp}
  - {name: "the price", type: "decimal(12,2)"}
  - {name: lines, type: "array<struct<sku:string,n:int>>"}
  - {name: extra, type: "map<string,string>"}
partition_by: [day(at), "bucket(4, id)"]
sort_by: id desc
properties:
  owner: shop
  write.parquet.compression-codec: snappy
"""


def test_case_1_adding_a_table_twice_leaves_the_first(lake: Lake) -> None:
    first = make(lake).show()
    before = contents(lake)
    with pytest.raises(AlreadyExists, match=r"table default\.t already exists"):
        lake.tables.create("t", "other string")
    assert contents(lake) == before
    assert lake.table("t").show() == first
    assert names(lake) == ["default.t"]


@pytest.mark.parametrize(
    "words",
    [
        ["t"],
        ["t", "--schema", ""],
        ["t", "--schema", "id"],
        ["t", "--schema", "id nonsense"],
        ["", "--schema", "id int"],
        ["t", "--schema", "id int, ID string"],
        ["t", "--schema", "a array<struct<x:int,X:int>>"],
        ["t", "--schema", "a map<string,struct<x:int,x:int>>"],
        ["t", "--schema", "_file string"],
        ["t", "--schema", "id int default 3"],
        ["t", "--schema", "id int primary key"],
        ["t", "--schema", "id int) using parquet location '/tmp/x' --"],
        ["t", "--schema", "id int; drop table x"],
        ["t", "--schema", "id decimal(39,2)"],
        ["t", "--schema", "id decimal(2,3)"],
        ["t", "--schema", "id int", "--partition-by", "day(id)"],
        ["t", "--schema", "id int", "--partition-by", "nope(id)"],
        ["t", "--schema", "id int", "--partition-by", "bucket(0, id)"],
        ["t", "--schema", "id int", "--partition-by", "bucket(², id)"],
        ["t", "--schema", "id int", "--partition-by", "bucket(99999999999, id)"],
        ["t", "--schema", "id int", "--partition-by", "id, id"],
        ["t", "--schema", "s string", "--partition-by", "truncate(2, s), truncate(4, s)"],
        ["t", "--schema", "at date, at_day date", "--partition-by", "day(at)"],
        ["t", "--schema", "id int", "--sort-by", "id sideways"],
        ["t", "--schema", "id int", "--property", "novalue"],
        ["t", "--schema", "id int", "--property", "k=1", "--property", "k=2"],
        ["t", "--schema", "id int", "--property", "location=/tmp/elsewhere"],
        ["t", "--schema", "id int", "--property", "neve.online=false"],
        ["t", "--schema", "id int", "--property", "format-version=1"],
        ["t", "--schema", "missing.yaml"],
        ["missing.yaml"],
        ["t.yaml", "--schema", "id int"],
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_no_trace(lake: Lake, cli: Cli, words: list[str]) -> None:
    before = contents(lake)
    said = cli("table", "create", *words)
    assert said.code == 2, said
    assert said.out == ""
    assert said.err.startswith("✗ ")
    assert "should not happen" not in said.err
    assert contents(lake) == before


@pytest.mark.parametrize("words", [["--partition-by", "idd"], ["--sort-by", "idd"]])
def test_an_unknown_column_names_the_nearest(lake: Lake, cli: Cli, words: list[str]) -> None:
    before = contents(lake)
    said = cli("table", "create", "t", "--schema", "id int", *words)
    assert said.code == 3
    assert "did you mean id?" in said.err
    assert contents(lake) == before


def test_a_new_table_has_its_own_folder_and_the_defaults(lake: Lake) -> None:
    receipt = lake.tables.create(
        "raw.eu.sales", "id bigint not null, at timestamp", partition_by=["day(at)"], sort_by=["id"]
    )
    shown = lake.table("raw.eu.sales").show()
    assert re.fullmatch(r".*/warehouse/raw_eu_sales-[0-9a-f]{32}", shown.location)
    assert receipt.details == {"location": shown.location}
    assert shown.format_version == 3
    assert shown.properties["write.merge.mode"] == "merge-on-read"
    assert shown.properties["write.metadata.metrics.column.at"] == "full"
    assert shown.properties["write.metadata.metrics.column.id"] == "full"
    assert int(shown.properties["commit.retry.num-retries"]) >= 50
    assert [row.namespace for row in lake.namespaces.list()] == ["default", "raw", "raw.eu"]
    registered = lake._context.store.registry.get("raw.eu.sales")
    assert registered is not None
    assert (registered.table_uuid, registered.base_path) == (shown.uuid, shown.location)


@pytest.mark.parametrize(
    ("storage", "warehouse"),
    [
        ("{type: local}", None),
        ("{type: local, format: iceberg}", None),
        ("{base_path: warehouse}", None),
        ("{type: local, base_path: ./}", None),
        ("{type: s3}", "s3://bucket/wh"),
        ("{type: s3, format: iceberg, base_path: 's3://bucket/'}", "s3://bucket/wh"),
        ("{base_path: 's3://bucket/wh/'}", "s3://bucket/wh"),
    ],
)
def test_a_file_may_say_where_an_iceberg_table_lies(lake: Lake, storage: str, warehouse: str | None) -> None:
    path = lake.root / "t.yaml"
    path.write_text(f"name: t\nstorage: {storage}\ncolumns: {{id: int}}\n")
    if warehouse is None:
        lake.tables.create(str(path))
    else:
        spec_from_file(path, root=lake.root, warehouse=warehouse)


@pytest.mark.parametrize(
    ("text", "key", "way"),
    [
        ("storage: {type: s3}", "storage.type: s3, but an Iceberg table lies in", "or change warehouse in neve.yaml"),
        ("storage: {base_path: 's3://b/x'}", "storage.type: s3, but", "or change warehouse in neve.yaml"),
        ("storage: {base_path: data/sales/}", "storage.base_path: data/sales/, but", "or leave base_path out"),
        ("storage: {base_path: ware}", "storage.base_path: ware, but", "or leave base_path out"),
        ("storage: {base_path: warehouse/x}", "storage.base_path: warehouse/x, but", "or leave base_path out"),
        ("partitioning: {pattern: '{date}.parquet'}", "partitioning.pattern: a table of", "or leave these keys out"),
    ],
)
def test_what_only_plain_folders_have_names_the_format(lake: Lake, cli: Cli, text: str, key: str, way: str) -> None:
    """Document 000's file without its `format` means an Iceberg table, which is the default."""
    (lake.root / "t.yaml").write_text(f"name: t\n{text}\ncolumns: {{id: int}}\n")
    said = cli("table", "create", "t.yaml")
    assert said.code == 2
    assert key in said.err
    assert "storage.format: parquet (or csv)" in said.err
    assert way in said.err
    assert names(lake) == []


def test_a_file_describes_the_whole_table(lake: Lake, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(FULL)
    said = cli("table", "create", str(path), "-o", "json")
    assert said.code == 0, said
    shown = lake.table("shop.orders").show()
    assert [(c.name, c.type, c.required, c.comment) for c in shown.columns] == [
        ("id", "bigint", True, "its number"),
        ("at", "timestamp", False, None),
        ("the price", "decimal(12,2)", False, None),
        ("lines", "array<struct<sku:string,n:int>>", False, None),
        ("extra", "map<string,string>", False, None),
    ]
    assert shown.partition_by == ["day(at)", "bucket(4, id)"]
    assert shown.sort_by == ["id desc nulls last"]
    assert shown.comment == "what was bought"
    assert shown.properties["owner"] == "shop"
    assert shown.properties["write.parquet.compression-codec"] == "snappy"
    registered = lake._context.store.registry.get("shop.orders")
    assert registered is not None
    assert registered.config_path == str(path)
    assert cli("table", "show", str(path), "-o", "json").out == cli("table", "show", "shop.orders", "-o", "json").out


def test_a_schema_file_holds_columns_alone(lake: Lake, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "schema.yml"
    path.write_text("columns:\n  id: bigint\n  name: {type: string, comment: who}\n")
    assert cli("table", "create", "t", "--schema", str(path)).code == 0
    assert [(c.name, c.type, c.comment) for c in lake.table("t").show().columns] == [
        ("id", "bigint", None),
        ("name", "string", "who"),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("name: t\ncolumns:\n  - {name: id, typ: int}\n", r"bad\.yaml.*3.*typ"),
        ("columns: {id: int}\n", r"bad\.yaml.*name"),
        ("name: t\ncolumns: {id: int}\npartition: [id]\n", r"bad\.yaml.*3.*partition"),
        ("name: t\ncolumns: {id: [}\n", r"bad\.yaml:2:16"),
        ("name: t\ncolumns: {id: nonsense}\n", r"bad\.yaml"),
        ("name: ../x\ncolumns: {id: int}\n", r"bad\.yaml"),
        ("", r"bad\.yaml"),
    ],
)
def test_bad_yaml_names_file_line_and_key(lake: Lake, cli: Cli, tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    before = contents(lake)
    said = cli("table", "create", str(path))
    assert said.code == 2
    assert re.search(where, said.err, re.DOTALL), said.err
    assert contents(lake) == before
    with pytest.raises(ConfigError):
        lake.tables.create(str(path))


def test_words_beside_a_file_are_refused(lake: Lake, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("name: t\ncolumns: {id: int}\n")
    assert cli("table", "create", str(path), "--partition-by", "id").code == 2
    with pytest.raises(InvalidInput):
        lake.tables.create(str(path), partition_by=["id"])
    assert names(lake) == []


def test_if_not_exists_changes_nothing(lake: Lake, cli: Cli) -> None:
    make(lake)
    before = contents(lake)
    said = cli("table", "create", "t", "--schema", "other string", "--if-not-exists", "-o", "json")
    assert said.code == 0
    assert json.loads(said.out)["reason"]["code"] == "nothing_to_do"
    assert contents(lake) == before


def test_undo_takes_the_table_away(lake: Lake, cli: Cli) -> None:
    receipt = lake.tables.create("a b.c d", "id int")
    for words in undo_words(receipt.undo):
        assert cli(*words).code == 0
    assert names(lake) == []
    check_healthy(lake)


def test_the_receipt_is_the_run(lake: Lake) -> None:
    receipt = lake.tables.create("t", "id int")
    assert receipt.run_id is not None
    run = lake.runs.show(receipt.run_id)
    assert (run.kind, run.table_name, run.state, run.undo) == ("create", "t", "succeeded", receipt.undo)


def test_a_new_table_inherits_nothing_of_an_old_one(lake: Lake) -> None:
    make(lake, rows=2)
    old = facts(lake, "t")
    lake.table("t").drop()
    make(lake)
    new = facts(lake, "t")
    assert new.uuid != old.uuid
    assert new.location != old.location
    assert new.current_snapshot_id is None
    check_healthy(lake)


def test_every_column_type_round_trips(lake: Lake) -> None:
    kinds = {
        "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "bigint",
        "float": "float", "double": "double", "decimal(38,18)": "decimal(38,18)", "numeric(5)": "decimal(5,0)",
        "decimal": "decimal(10,0)", "date": "date", "timestamp": "timestamp", "timestamp_ntz": "timestamp_ntz",
        "timestamp_ltz": "timestamp", "string": "string", "varchar(5)": "string", "char(2)": "string",
        "binary": "binary", "array<array<int>>": "array<array<int>>",
        "map<string,array<decimal(4,2)>>": "map<string,array<decimal(4,2)>>",
        "struct<a:int,b:struct<c:date>>": "struct<a:int,b:struct<c:date>>",
    }  # fmt: skip
    lake.tables.create("t", ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds)))
    assert [column.type for column in lake.table("t").show().columns] == list(kinds.values())


@pytest.mark.parametrize(
    ("name", "schema", "kind"),
    [("t", "id nonsense", InvalidSchema), ("../t", "id int", InvalidName), ("t", "id int", ColumnNotFound)],
)
def test_python_raises_what_the_cli_says(lake: Lake, name: str, schema: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        lake.tables.create(name, schema, partition_by=["nope"] if kind is ColumnNotFound else [])
    assert names(lake) == []
