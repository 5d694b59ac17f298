"""Folders in a bucket: kill -9 before every request, writers that oversleep, rivals, readers amid a swap."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from tests.lake.buckets import add_to_number, change_all, change_and_die, later, open_and_die, open_folder
from tests.lake.folders import KILLED, Deed, start
from tests.s3 import Bucket, bucket, s3_server

from neve.directory import storage as storage_module
from neve.errors import ConfigError, LeaseHeld, NotFound, Refused
from neve.lake import Lake
from neve.services.directory_tables import locks
from neve.services.landing import find_paths

__all__ = ["bucket", "s3_server"]

OLD = {"k=1/a.parquet": b"a1", "k=1/d.parquet": b"d1", "k=2/b.parquet": b"b1"}
NEW = {"k=1/a.parquet": b"a2", "k=3/c.parquet": b"c1"}
AFTER = ["_neve_ledger.json", "_sources/k=1/d.parquet.kept", *NEW]


@pytest.fixture
def s3_lake(lake: Lake, bucket: Bucket) -> Iterator[Lake]:
    (lake.root / "neve.yaml").write_text(bucket.settings())
    with Lake(lake.root) as opened:
        yield opened


def fill(bucket: Bucket, folder: str) -> str:
    for path, content in OLD.items():
        bucket.put(f"{folder}/{path}", content)
    return f"s3://{bucket.name}/{folder}"


def content(bucket: Bucket, folder: str) -> dict[str, bytes]:
    """What anybody sees who looks for data files."""
    return {path: bucket.get(f"{folder}/{path}") for path in bucket.paths(folder) if path.endswith(".parquet")}


def run(deed: Deed, place: str) -> int:
    process = start(deed, place)
    process.join()
    assert process.exitcode in (0, KILLED)
    return int(process.exitcode)


@pytest.mark.faults
def test_killed_before_every_request(s3_lake: Lake, bucket: Bucket) -> None:
    outcomes, requests, ended = [], 0, KILLED
    while ended:
        requests += 1
        location = fill(bucket, f"d{requests}")
        ended = run(change_and_die, f"{s3_lake.root}|{location}|{requests}")
        assert not set(content(bucket, f"d{requests}")) - set(OLD) - set(NEW), "a reader sees what is no data"
        if requests % 5 == 0:
            run(open_and_die, f"{s3_lake.root}|{location}|{1 + requests // 5}")
        directory = open_folder(later(s3_lake, minutes=4), location)
        seen = content(bucket, f"d{requests}")
        assert [file.path for file in directory.files()] == sorted(seen)
        left = [
            path for path in bucket.paths(f"d{requests}") if path not in seen and (not path.endswith("/") or not ended)
        ]
        assert left == ([] if seen == OLD else AFTER[:2]), "nothing of the change is left"
        outcomes.append(seen)
    assert requests > 15, "the change took hardly any requests: are they still watched?"
    assert outcomes == sorted(outcomes, key=lambda seen: seen == NEW), "what was committed came undone"
    assert (outcomes[0], outcomes[-1]) == (OLD, NEW)
    assert all(seen in (OLD, NEW) for seen in outcomes)


@pytest.mark.slow
def test_a_writer_that_overslept_changes_nothing_any_more(
    s3_lake: Lake, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = fill(bucket, "d")
    sleeper = open_folder(s3_lake._context, location)
    with pytest.raises(LeaseHeld), sleeper.change("R0") as change:  # noqa: PT012 - its end raises
        change.remove("k=1/a.parquet")
        with pytest.raises(LeaseHeld), open_folder(s3_lake._context, location).change("R2"):
            pytest.fail("two writers in one folder")
        change_all(open_folder(later(s3_lake), location))
        monkeypatch.setattr(locks, "TRUSTED", 0.0)  # as if a minute had gone by
    assert content(bucket, "d") == NEW
    assert bucket.paths("d") == sorted(AFTER)


@pytest.mark.faults
def test_rivals_lose_no_change(s3_lake: Lake, bucket: Bucket) -> None:
    bucket.put("d/n.csv", b"0")
    rivals = [start(add_to_number, f"{s3_lake.root}|s3://{bucket.name}/d") for _ in range(2)]
    for rival in rivals:
        rival.join()
    assert [rival.exitcode for rival in rivals] == [0, 0]
    assert bucket.get("d/n.csv") == b"20"


@pytest.mark.slow
def test_a_reader_never_sees_half_a_swap(s3_lake: Lake, bucket: Bucket) -> None:
    """Every change replaces a whole generation of files and the ledger: a look is one generation, never a mix."""
    location = f"s3://{bucket.name}/d"
    directory = open_folder(s3_lake._context, location)
    seen: set[str] = set()
    done, looked = threading.Event(), threading.Event()

    def write() -> None:
        with Lake(s3_lake.root) as lake:
            writer = open_folder(lake._context, location)
            for generation in range(6):
                old = writer.files()
                with writer.change(f"G{generation}", patience=30) as change:
                    for file in old:
                        change.remove(file.path)
                    for number in range(6):
                        change.write(f"g{generation}-{number}.parquet", b"")
                    change.write_ledger(f"g{generation}".encode())
                looked.wait(timeout=20)
                looked.clear()
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set():
        found = directory.look()
        assert {file.path.partition("-")[0] for file in found.files} == (
            {found.ledger.decode()} if found.ledger else set()
        )
        assert len(found.files) in (0, 6)
        seen.update(file.path for file in found.files[:1])
        looked.set()
        assert thread.is_alive() or done.is_set()
        time.sleep(0.01)
    thread.join()
    assert len(seen) > 1


def test_an_object_that_is_too_large_to_be_copied_moves_all_the_same(
    s3_lake: Lake, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_module, "_LARGEST_COPY", 2)
    monkeypatch.setattr(storage_module, "_BLOCK", 1)
    directory = open_folder(s3_lake._context, fill(bucket, "d"))
    change_all(directory)
    assert content(bucket, "d") == NEW
    assert bucket.get("d/_sources/k=1/d.parquet.kept") == b"d1"


def test_what_the_sources_of_an_ingest_name(s3_lake: Lake, bucket: Bucket, lake: Lake) -> None:
    for path in ("in/a.csv", "in/b.csv", "in/more/a.csv", "in/_tmp/a.csv", "in/.b.csv"):
        bucket.put(path, b"id\n1\n")
    files, where = s3_lake._context.catalog.files, f"s3://{bucket.name}"
    assert find_paths([f"{where}/in"], files) == [f"{where}/in/{name}" for name in ("a.csv", "b.csv", "more/a.csv")]
    assert find_paths([f"{where}/in/?.csv"], files) == [f"{where}/in/{name}" for name in ("a.csv", "b.csv")]
    assert find_paths([f"{where}/**/a.csv"], files) == [f"{where}/in/{name}" for name in ("a.csv", "more/a.csv")]
    assert find_paths([f"{where}/in/.b.csv"], files) == [f"{where}/in/.b.csv"]
    for name in ("b[1].csv", "b1.csv", "c?.csv", "cc.csv", "c", "d#1.csv", "[1]/e.csv", "1/e.csv"):
        bucket.put(f"odd/{name}", b"id\n1\n")
    for name in ("b[1].csv", "c?.csv", "d#1.csv"):
        assert find_paths([f"{where}/odd/{name}"], files) == [f"{where}/odd/{name}"], "it is there, so it is no pattern"
    assert find_paths([f"{where}/odd/[1]"], files) == [f"{where}/odd/[1]/e.csv"]
    assert find_paths([f"{where}/odd/[bc]?.csv"], files) == [
        f"{where}/odd/{name}" for name in ("b1.csv", "c?.csv", "cc.csv")
    ]
    with pytest.raises(NotFound, match="no such file"):
        find_paths([f"{where}/in/*.json"], files)
    lake.tables.create("t", "id bigint")
    with pytest.raises(ConfigError, match="say nothing of S3"):
        lake.table("t").ingest(f"{where}/in/a.csv", date="2024-01-01")


def test_a_table_there_is_created_looked_at_and_forgotten(s3_lake: Lake, bucket: Bucket, lake: Lake) -> None:
    config = s3_lake.root / "t.yaml"
    config.write_text(f"name: t\nstorage: {{base_path: 's3://{bucket.name}/t/', format: csv}}\ncolumns: {{id: int}}\n")
    with pytest.raises(ConfigError, match="say nothing of S3"):
        lake.tables.create(str(config))
    s3_lake.tables.create(str(config))
    assert bucket.paths("t") == ["_neve_ledger.json"]
    table = s3_lake.table("t")
    assert table.show().location == f"s3://{bucket.name}/t"
    assert (table.status().rows, table.files()) == (0, [])
    inner = s3_lake.root / "inner.yaml"
    inner.write_text(f"name: inner\nstorage: {{base_path: 's3://{bucket.name}/t/x', format: csv}}\n")
    with pytest.raises(Refused, match="is the folder of t"):
        s3_lake.tables.create(str(inner))
    inner.write_text(f"name: inner\nstorage: {{base_path: 's3://{bucket.name}/t2', format: csv}}\n")
    s3_lake.tables.create(str(inner))
    table.drop()
    assert [row.table for row in s3_lake.tables.list()] == ["default.inner"]
    assert bucket.paths("t") == ["_neve_ledger.json"]
