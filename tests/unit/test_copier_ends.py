"""Where bytes come from and go to: local files, file systems of pyarrow, slow ones; and what happens when one fails."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from tests.unit.copier_files import copied, make_table, write_all

from neve.errors import StorageError
from neve.files.copier import ArrowSource, ArrowTarget, LocalSource, LocalTarget, MemorySource, copy, verify


def test_through_the_file_systems_of_pyarrow(tmp_path: Path) -> None:
    """The way of object stores: the same bytes come out as from local files."""
    files = write_all(tmp_path, [make_table(seed, 500) for seed in range(3)], row_group_size=200, write_page_index=True)
    copied(files, tmp_path / "local.parquet")
    remote = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    sources = [ArrowSource(remote, file.name) for file in files]
    with ArrowTarget(remote, "remote.parquet") as target:
        copy(sources, target)
    assert (tmp_path / "remote.parquet").read_bytes() == (tmp_path / "local.parquet").read_bytes()
    with ArrowSource(remote, "remote.parquet") as out:
        assert verify(sources, out, depth="rows") is None
    for source in sources:
        source.close()


class SlowSource(MemorySource):
    """A file on an object store: each request takes its time, and they are counted."""

    under_way = 0
    most = 0
    lock = threading.Lock()

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(name, data)
        self.requests = 0

    def read_at(self, offset: int, length: int) -> bytes:
        with self.lock:
            SlowSource.under_way += 1
            SlowSource.most = max(self.most, self.under_way)
            self.requests += 1
        time.sleep(0.02)
        with self.lock:
            SlowSource.under_way -= 1
        return super().read_at(offset, length)


def test_far_files_are_read_in_few_requests_that_overlap(tmp_path: Path) -> None:
    tables = [make_table(seed, 300, ("number", "text")) for seed in range(12)]
    files = write_all(tmp_path, tables, write_page_index=True)
    copied(files, tmp_path / "local.parquet")
    far = [FarSource(SlowSource(str(file), file.read_bytes())) for file in files]
    with LocalTarget(tmp_path / "far.parquet") as target:
        copy(far, target)
    assert (tmp_path / "far.parquet").read_bytes() == (tmp_path / "local.parquet").read_bytes()
    assert max(source.held.requests for source in far) <= 2, "the footer, then the whole file"
    assert SlowSource.most > 3


class FarSource:
    """Anything that is neither a local file nor memory."""

    def __init__(self, held: SlowSource) -> None:
        self.held, self.name, self.size = held, held.name, held.size

    def read_at(self, offset: int, length: int) -> bytes:
        return self.held.read_at(offset, length)

    def arrow(self) -> Any:
        return self.held.arrow()

    def close(self) -> None:
        self.held.close()


def test_a_far_source_that_fails_stops_the_copy(tmp_path: Path) -> None:
    files = write_all(tmp_path, [make_table(seed, 50, ("number",)) for seed in range(5)])
    far = [FarSource(SlowSource(str(file), file.read_bytes())) for file in files]

    class Broken(FarSource):
        def read_at(self, offset: int, length: int) -> bytes:
            if self.held.requests:
                raise StorageError(f"cannot read {self.name}: connection lost")
            return super().read_at(offset, length)

    far[3] = Broken(far[3].held)
    with pytest.raises(StorageError, match="connection lost"), LocalTarget(tmp_path / "out.parquet") as target:
        copy(far, target)
    assert not (tmp_path / "out.parquet").exists()


def test_large_chunks_go_through_the_kernel_and_through_memory_alike(tmp_path: Path) -> None:
    table = pa.table({"b": [random.Random(n).randbytes(3_000_000) for n in range(4)], "k": pa.arange(0, 4)})
    files = write_all(tmp_path, [table, table], use_dictionary=False, compression="none")
    copied(files, tmp_path / "kernel.parquet")
    local = pafs.LocalFileSystem()
    with (
        ArrowSource(local, str(files[0])) as one,
        LocalSource(files[1]) as other,
        ArrowTarget(local, str(tmp_path / "memory.parquet")) as target,
    ):
        copy([one, other], target)
    assert (tmp_path / "kernel.parquet").read_bytes() == (tmp_path / "memory.parquet").read_bytes()
    assert pq.read_table(tmp_path / "kernel.parquet").equals(pa.concat_tables([table, table]))


def test_the_kernel_may_give_up_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does between file systems: what is left goes through memory, from where the kernel stopped."""
    table = pa.table({"b": [random.Random(n).randbytes(400_000) for n in range(4)]})
    files = write_all(tmp_path, [table, table], use_dictionary=False, compression="none")
    copied(files, tmp_path / "whole.parquet")
    moved, calls = os.copy_file_range, iter(range(100))

    def reluctant(source: int, target: int, count: int, offset: int) -> int:
        match next(calls) % 3:
            case 0:
                return moved(source, target, 100_000, offset)
            case 1:
                raise OSError(errno.EXDEV, "another file system")
            case _:
                return 0

    monkeypatch.setattr(os, "copy_file_range", reluctant)
    copied(files, tmp_path / "parts.parquet")
    monkeypatch.delattr(os, "copy_file_range")
    copied(files, tmp_path / "without.parquet")
    assert next(calls) > 2
    assert (tmp_path / "parts.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert (tmp_path / "without.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = write_all(tmp_path, [pa.table({"b": [random.Random(n).randbytes(400_000) for n in range(4)]})])

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(StorageError, match="No space left"):
        copied([file], tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_synced_bytes_are_on_the_disk_before_the_context_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = write_all(tmp_path, [make_table(1, 10)])
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    with LocalSource(file) as source, LocalTarget(tmp_path / "out.parquet", sync=True) as target:
        result = copy([source], target)
    assert synced == [result.bytes]


def test_a_source_that_shrinks_fails_and_leaves_nothing(tmp_path: Path) -> None:
    table = pa.table({"b": [random.Random(n).randbytes(300_000) for n in range(4)]})
    (file,) = write_all(tmp_path, [table], use_dictionary=False, compression="none")

    class Shrinking(LocalTarget):
        def write(self, data: bytes | memoryview) -> None:
            with file.open("r+b") as shrunk:
                shrunk.truncate(200_000)
            super().write(data)

    with (
        LocalSource(file) as source,
        pytest.raises(StorageError, match="ended while"),
        Shrinking(tmp_path / "out.parquet") as target,
    ):
        copy([source], target)
    assert not (tmp_path / "out.parquet").exists()
