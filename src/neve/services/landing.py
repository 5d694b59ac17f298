"""Files to ingest: from paths, folders and patterns to a list with sizes, digests and headers.

`look_at` and `look_into` only look: they tell sizes and times, and open no file.
"""

from __future__ import annotations

import glob
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from neve.catalog import Files
from neve.catalog.files import local_path
from neve.config.connections import reaches_s3
from neve.errors import ConfigError, InvalidInput, NotFound, StorageError
from neve.model.batching import LandedFile
from neve.model.dataset import SourceFormat
from neve.model.ingest import FileFormat, SourceFile
from neve.model.progress import progress_line
from neve.services.context import Context
from neve.services.inspection import inspect

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

_FORMATS: dict[str, FileFormat] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".orc": "orc",
    ".avro": "avro",
}
_PACKED = (".gz", ".bz2", ".zst", ".snappy")
_UNFINISHED = (
    *(".tmp", ".temp", ".part", ".partial", ".filepart", ".crdownload", ".download", ".opdownload"),
    *("._copying_", ".inprogress", ".incomplete", ".writing", ".swp", "~"),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_READERS = 4
"""Threads: hashing and unpacking leave Python to the others, and files on S3 are waited for."""
_TELL_EVERY = 0.5
_WILDCARD = re.compile(r"[*?\[]")


def find_files(
    sources: Sequence[str], files: Files, *, source: SourceFormat, tell: Callable[[str], None] = lambda _: None
) -> list[SourceFile]:
    """Every file that the sources name, once each, in order of their paths. Local paths, folders, globs, s3://."""
    found: list[SourceFile] = []
    paths = find_paths(sources, files)
    began = told = time.monotonic()
    with ThreadPoolExecutor(_READERS) as pool:
        work = [pool.submit(inspect, path, format_of(path, source), files, source) for path in paths]
        try:
            for item in work:
                found.append(item.result())
                if (now := time.monotonic()) - told >= _TELL_EVERY:
                    told = now
                    tell(progress_line("looking at files", len(found), len(paths), seconds=now - began))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return found


def find_paths(sources: Sequence[str], files: Files) -> list[str]:
    """The paths of every file that the sources name, sorted; nothing is read."""
    paths = sorted({path for text in sources for path in _expand(text, files)})
    if not paths:
        raise InvalidInput("no files to ingest", hint="give files, a folder or a pattern such as 'landing/*.csv'")
    return paths


def check_reach(context: Context, path: str) -> None:
    """Refuses files on S3 where Spark is not made to read them; which jars it has is decided when it starts."""
    if _local_place(path) is None and not reaches_s3(context.loaded):
        raise ConfigError(
            f"{path}: the settings of this lake say nothing of S3, so Spark cannot read files there",
            hint="set s3.region, or s3.endpoint, in neve.yaml",
        )


def look_at(paths: Sequence[str], files: Files) -> list[LandedFile]:
    """Files as they lie there now. A local one gets the path that all spellings of its folder lead to."""
    local = [path for path in paths if local_path(path) is not None]
    remote = [path for path in paths if local_path(path) is None]
    found = [_landed(_real(Path(path))) for path in local]
    return found + _look_remotely(remote, files)


def look_into(folder: str, files: Files) -> list[LandedFile]:
    """The files below a folder as they lie there now, by path; hidden and unfinished ones are passed over.

    Raises:
        NotFound: there is no such local folder; a remote one is there while it holds files.
    """
    place = _local_place(folder)
    if place is None:
        return sorted(_look_below(folder, files), key=lambda file: file.path)
    if not place.is_dir():
        raise NotFound(f"no such folder: {folder}", hint="name the folder that files arrive in")
    place = place.resolve()
    found = (path for path in place.rglob("*") if _is_data(path, place) and not is_unfinished(path.name))
    return sorted(_landed_files(found), key=lambda file: file.path)


def is_unfinished(name: str) -> bool:
    """Whether a name is one that programs give to files which they have not finished writing.

    >>> is_unfinished("sales.csv.part"), is_unfinished("sales.csv._COPYING_"), is_unfinished("sales.csv")
    (True, True, False)
    """
    return name.lower().endswith(_UNFINISHED)


def _landed_files(paths: Iterable[Path]) -> Iterator[LandedFile]:
    for path in paths:
        try:
            if path.is_file():
                yield _landed(path)
        except NotFound:  # gone since it was listed
            continue


def _landed(path: Path) -> LandedFile:
    try:
        found = path.stat()
    except FileNotFoundError as exc:
        raise NotFound(f"no such file: {path}") from exc
    except OSError as exc:
        raise StorageError(f"cannot read {path}: {exc.strerror or exc}") from exc
    return LandedFile(path=str(path), bytes=found.st_size, modified_at=_moment(found.st_mtime_ns))


def _look_remotely(paths: Sequence[str], files: Files) -> list[LandedFile]:
    if not paths:
        return []
    keys = [files.filesystem(path)[1] for path in paths]
    try:
        infos = files.filesystem(paths[0])[0].get_file_info(keys)
    except OSError as exc:
        raise StorageError(f"cannot look at {paths[0]}: {exc.strerror or exc}") from exc
    return [_remote(path, info) for path, info in zip(paths, infos, strict=True)]


def _look_below(folder: str, files: Files) -> Iterator[LandedFile]:
    from pyarrow.fs import FileSelector, FileType

    filesystem, key = files.filesystem(folder)
    try:
        infos = filesystem.get_file_info(FileSelector(key, allow_not_found=True, recursive=True))
    except OSError as exc:
        raise StorageError(f"cannot list {folder}: {exc.strerror or exc}") from exc
    for info in infos:
        if info.type == FileType.File and _is_data(Path(info.path), Path(key)) and not is_unfinished(info.base_name):
            yield _remote(f"{folder.partition('://')[0]}://{info.path}", info)


def _remote(path: str, info: FileInfo) -> LandedFile:
    if info.mtime_ns is None:
        raise NotFound(f"no such file: {path}")
    return LandedFile(path=path, bytes=info.size, modified_at=_moment(info.mtime_ns))


def _moment(nanoseconds: int) -> datetime:
    """To the microsecond below, as the state database keeps it."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


def _local_place(text: str) -> Path | None:
    return local_path(text) or (None if "://" in text else Path(text).expanduser().absolute())


def _real(path: Path) -> Path:
    """The one spelling of a file that Spark will name it by too: its folder without links and `..`, its own name."""
    return path.parent.resolve() / path.name


def _expand(text: str, files: Files) -> Iterator[str]:
    place = _local_place(text)
    if place is None:
        yield from _expand_remote(text, files)
    elif place.is_dir():
        place = place.resolve()
        yield from (str(path) for path in sorted(place.rglob("*")) if path.is_file() and _is_data(path, place))
    elif place.is_file():
        yield str(_real(place))
    elif matches := sorted(glob.glob(str(place), recursive=True)):  # noqa: PTH207 - the pattern may hold `**` and a root
        yield from (str(_real(Path(path))) for path in matches if Path(path).is_file())
    else:
        raise NotFound(f"no such file or folder: {text}")


def _expand_remote(text: str, files: Files) -> Iterator[str]:
    """A name that is there is meant as it stands, as on a disk; a pattern is what none has."""
    fixed = _WILDCARD.split(text, maxsplit=1)[0]
    found = _data_at(text, files)
    if not found and fixed != text:
        wanted = re.compile(_glob_regex(text))
        found = [path for path in _data_at(fixed.rpartition("/")[0], files) if wanted.fullmatch(path)]
    if not found:
        raise NotFound(f"no such file or folder: {text}")
    yield from found


def _data_at(place: str, files: Files) -> list[str]:
    """The file of that name, or the files of a remote folder but hidden ones."""
    return [path for path in sorted(files.list_files(place)) if path == place or _is_data(Path(path), Path(place))]


def _glob_regex(pattern: str) -> str:
    """A pattern of the shell as a regular expression.

    >>> _glob_regex("s3://b/*/x?.csv"), bool(re.fullmatch(_glob_regex("b/**/[ab].csv"), "b/c/d/a.csv"))
    ('s3://b/[^/]*/x[^/]\\.csv', True)
    """
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    steps = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]/]+\])", pattern)
    return "".join(words.get(step) or (step if step.startswith("[") else re.escape(step)) for step in steps)


def _is_data(path: Path, folder: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def format_of(path: str, source: SourceFormat) -> FileFormat:
    """What the source is said to be, or what a file's name says. Raises InvalidInput when neither tells."""
    if source.format is not None:
        return source.format
    name = Path(path).name.lower()
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    kind = _FORMATS.get(Path(name).suffix)
    if kind is None:
        raise InvalidInput(
            f"{path}: cannot tell the format from the name", hint=f"known endings: {', '.join(_FORMATS)}, also with .gz"
        )
    return kind
