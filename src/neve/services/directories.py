"""Plain folders: where work on them runs and is recorded, what they hold, and what is wrong with them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from neve.config import load_settings
from neve.directory import Directory, open_directory
from neve.errors import InvalidInput, Refused, Unsupported, nearest
from neve.model.directories import DataFile
from neve.model.runs import new_run_id
from neve.plan.adopt import Doubt
from neve.plan.directories import Dataset, agrees, describe, disagreements, refuse_disagreement
from neve.plan.folders import partition_keys
from neve.services.context import Context
from neve.services.directory_owners import refuse_tables
from neve.services.lakes import locate_lake
from neve.services.runs import Progress, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODECS = ("zstd", "snappy", "gzip", "lz4", "uncompressed")


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Workplace:
    """Where work on a folder runs: the caller's Spark, a lake's, or one of its own. A lake also records it."""

    context: Context | None = None
    given: SparkSession | None = None
    tell: Callable[[str], None] = lambda _: None
    speak: Callable[[str], None] | None = None
    """Hears warnings, as `Context.speak`."""
    clock: Callable[[], datetime] = _now
    entropy: Callable[[int], bytes] = os.urandom

    @cached_property
    def spark(self) -> SparkSession:
        from neve.engine.session import running_session

        if found := self.given or running_session():
            return found
        context = self.context or self._context_here() or _scratch_context(self.tell)
        return context.session.spark

    @cached_property
    def master(self) -> str:
        """That of the Spark which work runs on, or would run on: none is started for the question."""
        from neve.engine.conf import LOCAL, master_of
        from neve.engine.session import running_session

        if found := self.given or running_session():
            return str(found.conf.get("spark.master"))
        with self.lake() as context:
            return LOCAL if context is None else master_of(context.loaded)

    @contextmanager
    def lake(self) -> Iterator[Context | None]:
        """The lake that the folder belongs to, or else the one that we are in, if any."""
        context = self.context or self._context_here()
        try:
            yield context
        finally:
            if context is not None and context is not self.context:
                context.close()

    def _context_here(self) -> Context | None:
        root = locate_lake(Path.cwd(), given=None, env=os.environ)
        return None if root is None else _open(root, self.tell, self.speak)


def workplace_for(
    location: str,
    *,
    context: Context | None = None,
    spark: SparkSession | None = None,
    tell: Callable[[str], None] = lambda _: None,
    speak: Callable[[str], None] | None = None,
) -> Workplace:
    """A folder inside a lake belongs to it; any other works without one."""
    if context is None and "://" not in location:
        root = locate_lake(Path(location).expanduser().absolute(), given=None, env={})
        context = None if root is None else _open(root, tell, speak)
    return Workplace(context, spark, tell, speak)


def _open(root: Path, tell: Callable[[str], None], speak: Callable[[str], None] | None) -> Context:
    return Context(load_settings(root, flags={}, env=os.environ), tell=tell, speak=speak)


def _scratch_context(tell: Callable[[str], None]) -> Context:
    """Settings for a Spark that belongs to no lake; its log goes with the process."""
    folder = tempfile.mkdtemp(prefix="neve-parquet-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Context(load_settings(Path(folder), flags={}, env={}), tell=tell)


@contextmanager
def recorded_run(
    work: Workplace, action: str, location: str, *, plan: Mapping[str, JsonValue], dry_run: bool
) -> Iterator[Progress]:
    """A run, recorded in the lake that the folder belongs to, if any."""
    if work.context is None or dry_run:
        yield Progress(new_run_id(work.clock(), work.entropy))
        return
    with recorded(work.context, action, None, plan={"directory": location, **plan}) as run:
        yield run


def open_parquet(location: str | Path, *, create: bool = False) -> Directory:
    """A local folder of Parquet files."""
    check_local(location)
    return open_directory(location, create=create)


def open_to_change(work: Workplace, location: str, *, create: bool = False) -> Directory:
    """A local folder of Parquet files that no table counts on.

    Raises:
        Refused: the files belong to a table.
    """
    check_local(location)
    with work.lake() as context:
        refuse_tables(location, context, belongs=work.context is not None)
    return open_directory(location, create=create)


def check_local(location: str | Path) -> None:
    """
    Raises:
        Unsupported: the folder is not on a local disk.
    """
    if "://" in str(location):
        raise Unsupported(
            f"{location}: plain folders are changed on local disks only",
            hint="make it a directory table, which may lie on S3 (docs/directories.md), or copy it to a local disk",
        )


@contextmanager
def gone_if_refused(folder: str) -> Iterator[None]:
    """A folder that is made for a change goes again when that fails."""
    is_new = not Path(folder).expanduser().exists()
    try:
        yield
    except BaseException:
        if is_new:
            remove_if_empty(folder)
        raise


def remove_if_empty(folder: str) -> None:
    with suppress(OSError):
        Path(folder).expanduser().rmdir()


def read_dataset(directory: Directory, files: Sequence[DataFile], *, constants: Sequence[str] = ()) -> Dataset:
    """What the files hold, from their footers; `constants` are columns that may hold one value throughout a file."""
    from neve.files.footers import read_footers

    for file in files:
        if ":" in file.path.rpartition("/")[2]:
            raise Refused(f"{file.path}: Spark cannot open a file with `:` in its name", hint="rename the file")
    filesystem, root = directory.storage.filesystem()
    sizes = {file.path: file.bytes for file in files}
    footers = read_footers(filesystem, root, sizes, {*partition_keys(list(sizes)), *constants})
    return describe(directory.location, footers)


def find_disagreements(directory: Directory, dataset: Dataset) -> list[Doubt]:
    """Files whose folder says something else than their rows: by statistics, else by reading the column."""
    from neve.files.footers import distinct_values

    filesystem, root = directory.storage.filesystem()
    proven, unsure = disagreements(dataset)
    return proven + [
        doubt
        for doubt in unsure
        if not all(agrees(doubt.value, held) for held in distinct_values(filesystem, root, doubt.path, doubt.column))
    ]


def trusted_dataset(directory: Directory, files: Sequence[DataFile]) -> Dataset:
    """What the files hold, if folders and rows agree."""
    dataset = read_dataset(directory, files)
    refuse_disagreement(directory.location, find_disagreements(directory, dataset))
    return dataset


def check_codec(compression: str) -> str:
    """The codec as pyarrow calls it."""
    name = {"none": "uncompressed"}.get(compression.lower(), compression.lower())
    if name not in CODECS:
        raise InvalidInput(f"unknown compression {compression!r}", hint=nearest(name, CODECS) or ", ".join(CODECS))
    return "none" if name == "uncompressed" else name


def written_by(directory: Directory, path: str) -> str | None:
    """The run that wrote a file, as its footer says."""
    from neve.engine.parquet_tasks import RUN_KEY
    from neve.files.footers import file_metadata

    filesystem, root = directory.storage.filesystem()
    return file_metadata(filesystem, root, path).get(RUN_KEY)
