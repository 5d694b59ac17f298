"""Every option of the commands for a folder's files does what it says, by what is there afterwards. No Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lake.lakes import Cli
from tests.spark.bags import digests

from neve.errors import NotEmpty
from neve.parquet import ParquetCRUD, Repartitioner

ROWS = 80_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two partitions of three and two files, of 1.3 MB each, and a third partition of a small one."""
    random = Random(1)
    for name in ("k=a/1", "k=a/2", "k=a/3", "k=b/4", "k=b/5", "k=c/6"):
        count = 10 if name == "k=c/6" else ROWS
        noise = pa.array(memoryview(random.randbytes(16 * count)).cast("q"), pa.int64())
        side = pa.array(["x", "y"] * (count // 2))
        table = pa.table({"k": [name[2]] * count, "side": side, "v": noise.slice(0, count), "w": noise.slice(count)})
        path = tmp_path / f"data/{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="zstd")
    return tmp_path / "data"


def answer(cli: Cli, *words: str) -> Any:
    said = cli(*words, "-o", "json")
    assert said.code == 0, said.err
    return json.loads(said.out)


def sums(folder: Path) -> tuple[int, int]:
    held = [pq.read_table(file, partitioning=None) for file in sorted(folder.rglob("*.parquet"))]
    return sum(table.num_rows for table in held), sum(sum(table["v"].to_pylist()) for table in held)


def test_fragmentation(cli: Cli, folder: Path) -> None:
    found = answer(cli, "parquet", "fragmentation", str(folder))
    assert (found["files"], found["small_files"], found["partitions"], len(found["worst"])) == (6, 6, 3, 3)
    few = answer(cli, "parquet", "fragmentation", str(folder), "--worst", "1", "--target-mb", "1")
    assert (few["small_files"], [row["partition"] for row in few["worst"]]) == (1, ["k=c"])
    assert cli("parquet", "fragmentation", str(folder), "--worst", "0").code == 2


def test_people_are_told_sizes_and_that_nothing_was_done(cli: Cli, folder: Path) -> None:
    """A folder that is compact is not said to have been compacted."""
    done = cli("parquet", "compact", str(folder))
    assert done.err == "✓ compacted 6 → 3 files\n", done
    assert re.search(r"^bytes before +\d\.\d MB$", done.out, re.MULTILINE)
    again = cli("parquet", "compact", str(folder))
    assert again.err == "= nothing to do\n", again


@pytest.mark.parametrize(
    ("words", "after"),
    [
        ((), 3),
        (("--min-file-count", "3"), 4),
        (("--min-file-count", "9"), 6),
        (("--max-file-size-mb", "1"), 6),
        (("--max-file-size-mb", "2"), 3),
        (("--target-file-count", "2"), 5),
        (("--target-mb", "4"), 4),
        (("--partition", "k=b"), 1),
        (("--partition", "k=a", "--target-file-count", "2"), 2),
    ],
)
@pytest.mark.slow
def test_compaction(cli: Cli, folder: Path, words: tuple[str, ...], after: int) -> None:
    """What a dry run tells is what happens."""
    before, files = sums(folder), sorted(folder.rglob("*.parquet"))
    dry = answer(cli, "parquet", "compact", str(folder), *words, "--dry-run")
    assert sorted(folder.rglob("*.parquet")) == files
    stats = answer(cli, "parquet", "compact", str(folder), *words, "--keep-source-files")
    assert dry["files_after"] == stats["files_after"] == after
    gone = dry["files_before"] - after
    assert len(list(folder.rglob("*.parquet"))) == len(files) - gone
    assert bool(list(folder.glob("_backups/**/*.kept"))) is bool(gone)
    assert sums(folder) == before


@pytest.mark.slow
def test_repartition(cli: Cli, folder: Path, tmp_path: Path) -> None:
    before, place = sums(folder), str(tmp_path / "new")
    words = ("--target-mb", "1", "--batch-size", "30000", "--compression", "snappy", "--no-validate")
    stats = answer(cli, "parquet", "repartition", str(folder), place, "--by", "side,k", *words)
    assert (stats["partitions_created"], stats["validated"], stats["undo"]) == (6, False, None)
    files = sorted(Path(place).rglob("*.parquet"))
    assert len(files) > 6
    assert all(file.stat().st_size < 2 * 2**20 for file in files)
    groups = [pq.read_metadata(file).row_group(0) for file in files]
    assert {group.column(0).compression for group in groups} == {"SNAPPY"}
    assert max(group.num_rows for group in groups) <= 30_000
    assert sums(Path(place)) == before

    again = ("parquet", "repartition", str(folder), place, "--by", "side,k")
    assert cli(*again).code == 6  # it is not empty, and nothing is left to resume
    said = cli("parquet", "repartition", str(folder), str(tmp_path / "x"), "--by", "side", "--delete-source")
    assert (said.code, "--yes" in said.err) == (6, True)
    assert sums(folder) == before
    gone = answer(
        cli, "parquet", "repartition", str(folder), str(tmp_path / "x"), "--by", "side", "--delete-source", "--yes"
    )
    assert gone["records_written"] == before[0]
    assert not folder.exists()
    assert sums(tmp_path / "x") == before
    assert [path.name for path in sorted((tmp_path / "x").iterdir())] == ["side=x", "side=y"]


def test_an_unfinished_repartition(cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--start-over begins anew, else it goes on."""
    from neve.services.repartition import parts

    whole, before = parts._parts, sums(folder)
    monkeypatch.setattr(parts, "_parts", lambda dataset, _: whole(dataset, 1))
    real, left = parts._write_part, 2

    def stop(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    command = ("parquet", "repartition", str(folder), str(tmp_path / "new"), "--by", "side")
    for words, resumed in (((), True), (("--start-over",), False)):
        left = 2
        monkeypatch.setattr(parts, "_write_part", stop)
        assert cli(*command).code != 0
        assert 0 < sums(tmp_path / "new")[0] < before[0]
        monkeypatch.setattr(parts, "_write_part", real)
        assert answer(cli, *command, *words)["resumed"] is resumed
        assert sums(tmp_path / "new") == before
        for path in (tmp_path / "new").rglob("*.parquet"):
            path.unlink()


def test_going_on_with_a_repartition(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only with what was asked for before; and a swap at its end is taken back as a whole."""
    from neve.services.repartition import parts

    def stop(*arguments: Any, **options: Any) -> Any:
        if any((tmp_path / "new").rglob("*.parquet")):
            raise KeyboardInterrupt
        return write(*arguments, **options)

    def work(**options: Any) -> Any:
        made = Repartitioner(folder, tmp_path / "new", ["side"], options.pop("compression", "zstd"))
        object.__setattr__(made._request, "chunk_mb", 1 / 2**20)  # one byte: every file is a part
        return made.repartition(**{"swap_with_source": True, **options})

    before, write = digests(folder), parts._write_part
    monkeypatch.setattr(parts, "_write_part", stop)
    with pytest.raises(KeyboardInterrupt):
        work()
    monkeypatch.setattr(parts, "_write_part", write)
    others: dict[str, dict[str, Any]] = {
        "compression": {"compression": "snappy"},
        "sort_by": {"sort_by": ["side"]},
        "validate": {"validate": False},
        "transform": {"transform_fn": lambda frame: frame},
    }
    for name, options in others.items():
        with pytest.raises(NotEmpty, match=f"asked for otherwise.*: {name}$"):
            work(**options)
    stats = work()
    assert stats["resumed"]
    assert digests(folder) != before
    assert stats["undo"] == f"neve parquet restore {folder} {stats['backup']}"
    ParquetCRUD(folder).restore(stats["backup"])
    assert digests(folder) == before
