"""One look through a file before it is loaded: what it holds, its header, and whether its text is what it should be.

Spark would read a text of another encoding with a mark in place of each letter that it does not know, and say nothing.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import zlib
from collections.abc import Iterator

from neve.catalog import Files
from neve.errors import InvalidInput
from neve.model.dataset import SourceFormat
from neve.model.ingest import FileFormat, SourceFile

_HEAD = 1024 * 1024
_BLOCK = 4 * 1024 * 1024
_PACKED_BLOCK = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_TEXT = ("csv", "json")
_OTHERWISE_PACKED = (".bz2", ".zst", ".snappy")


def inspect(path: str, kind: FileFormat, files: Files, source: SourceFormat) -> SourceFile:
    """Reads a file once.

    Raises:
        InvalidInput: a packed file is damaged or not whole, a text is not in its encoding, or a csv file has no header.
    """
    digest, size, head = hashlib.sha256(), 0, bytearray()
    text = _Text(path, kind, source)
    with files.open(path) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            size += len(block)
            for piece in text.pieces(block):
                head += piece[: _HEAD - len(head)]
    text.end()
    header = _header(path, bytes(head), source) if kind == "csv" else None
    return SourceFile(path=path, format=kind, bytes=size, digest=digest.hexdigest(), header=header)


class _Text:
    """A file's text, unpacked and checked as it passes by; nothing of a file that is none."""

    def __init__(self, path: str, kind: FileFormat, source: SourceFormat) -> None:
        name = path.lower()
        if kind == "csv" and name.endswith(_OTHERWISE_PACKED):
            raise InvalidInput(f"{path}: csv files may be packed by gzip only", hint="unpack it, or pack it by gzip")
        self._path = path
        self._is_text = kind in _TEXT and not name.endswith(_OTHERWISE_PACKED)
        self._unpack = zlib.decompressobj(_GZIP) if name.endswith(".gz") else None
        self._begun = False
        self._decoder = _decoder(path, source)
        self._lines = 0

    def pieces(self, block: bytes) -> Iterator[bytes]:
        if not self._is_text:
            return
        if self._unpack is None:
            self._check(block)
            yield block
            return
        for start in range(0, len(block), _PACKED_BLOCK):
            yield from self._unpacked(block[start : start + _PACKED_BLOCK])

    def end(self) -> None:
        if not self._is_text:
            return
        if self._begun:
            raise InvalidInput(f"{self._path} stops in the middle: it is not whole", hint="have it delivered again")
        self._check(b"", final=True)

    def _unpacked(self, block: bytes) -> Iterator[bytes]:
        """A gzip file may be several, put one behind the other."""
        while block:
            assert self._unpack is not None  # noqa: S101 - it is a packed file
            try:
                piece = self._unpack.decompress(block)
            except zlib.error as exc:
                raise InvalidInput(f"{self._path} is damaged: {exc}", hint="have it delivered again") from exc
            self._check(piece)
            yield piece
            self._begun = not self._unpack.eof
            block = self._unpack.unused_data.lstrip(b"\0")
            if self._unpack.eof:
                self._unpack = zlib.decompressobj(_GZIP)

    def _check(self, piece: bytes, *, final: bool = False) -> None:
        try:
            self._decoder.decode(piece, final)
        except UnicodeDecodeError as exc:
            line = self._lines + exc.object[: exc.start].count(b"\n") + 1
            raise InvalidInput(
                f"{self._path}: line {line:,} is not {exc.encoding.upper()}: {_around(exc)}",
                hint="say how it is written in the dataset config, such as source: {encoding: windows-1252}",
            ) from exc
        self._lines += piece.count(b"\n")


def _decoder(path: str, source: SourceFormat) -> codecs.IncrementalDecoder:
    try:
        return codecs.getincrementaldecoder(source.encoding or "utf-8")()
    except LookupError as exc:
        raise InvalidInput(f"{path}: there is no encoding {source.encoding!r}", hint="such as windows-1252") from exc


def _around(exc: UnicodeDecodeError) -> str:
    """What stands before the letter that cannot be read."""
    line = exc.object[: exc.end].rpartition(b"\n")[2]
    return repr(line[-30:])[1:]


def _header(path: str, head: bytes, source: SourceFormat) -> tuple[str, ...]:
    """The column names of a csv file: its first line, or `_c0`, `_c1`… when it has none."""
    text = io.TextIOWrapper(io.BytesIO(head), source.encoding or "utf-8-sig", errors="replace", newline="")
    delimiter = source.delimiter or ("\t" if ".tsv" in path.lower() else ",")
    row = next(csv.reader(text, delimiter=delimiter, quotechar=source.quote or '"'), [])
    if source.header is False:
        return tuple(f"_c{index}" for index in range(len(row)))
    names = tuple(name.strip() for name in row)
    if len({name.lower() for name in names}) != len(names) or not all(names):
        raise InvalidInput(
            f"{path}: its first line is no header: {', '.join(row[:5])}", hint="set source.header: false"
        )
    return names
