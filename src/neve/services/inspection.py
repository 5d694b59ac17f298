"""One look through a file before it is loaded: what it holds, its header, and whether its text is what it should be.

Spark would read a text of another encoding with a mark in place of each letter that it does not know, and say nothing.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import re
import zlib
from collections.abc import Iterator
from typing import TextIO

from neve.catalog import Files
from neve.errors import InvalidInput
from neve.files.plain_rows import LINE_BYTES, TEXT_BYTES
from neve.model.dataset import SourceFormat
from neve.model.encodings import KNOWN, java_name
from neve.model.ingest import FileFormat, SourceFile

_HEAD = 1024 * 1024
_BLOCK = LINE_BYTES
_PACKED_BLOCK = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_TEXT = ("csv", "json")
_OTHERWISE_PACKED = (".bz2", ".zst", ".snappy")
_NOTHING_PENDING = (b"", 0)
_UNIT = "\x1f"
"""Stands for a delimiter of several letters, which Python's reader does not know."""
_OTHER_DELIMITER = re.compile(r"[;|\t]")


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
    if size == 0 or (text.is_text and not head):
        raise InvalidInput(f"{path} is empty", hint="leave it out; a day without rows has a header alone")
    header = _header(path, bytes(head), source) if kind == "csv" else None
    plain = text.is_plain and header is not None and len(header) > 1
    return SourceFile(path=path, format=kind, bytes=size, digest=digest.hexdigest(), header=header, plain=plain)


class _Text:
    """A file's text, unpacked and checked as it passes by; nothing of a file that is none."""

    def __init__(self, path: str, kind: FileFormat, source: SourceFormat) -> None:
        name = path.lower()
        if kind == "csv" and name.endswith(_OTHERWISE_PACKED):
            raise InvalidInput(f"{path}: csv files may be packed by gzip only", hint="unpack it, or pack it by gzip")
        self._path = path
        self.is_text = kind in _TEXT and not name.endswith(_OTHERWISE_PACKED)
        self._unpack = zlib.decompressobj(_GZIP) if name.endswith(".gz") else None
        self._begun = False
        self._is_utf8 = source.encoding is None
        self._decoder = _decoder(path, source)
        self._quotes = _Quotes(path, source) if kind == "csv" and _has_lines(source) else None
        self._lines = 0
        self._plain = _Plain(source) if kind == "csv" and _cuts_plain(path, source) else None

    @property
    def is_plain(self) -> bool:
        """Whether all that has passed by can be cut at line ends and delimiters."""
        return self._plain is not None and self._plain.holds

    def pieces(self, block: bytes) -> Iterator[bytes]:
        if not self.is_text:
            return
        if self._unpack is None:
            self._check(block)
            yield block
            return
        for start in range(0, len(block), _PACKED_BLOCK):
            yield from self._unpacked(block[start : start + _PACKED_BLOCK])

    def end(self) -> None:
        if not self.is_text:
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
            if not (self._is_utf8 and piece.isascii() and self._decoder.getstate() == _NOTHING_PENDING):
                self._decoder.decode(piece, final)
        except UnicodeDecodeError as exc:
            line = self._lines + exc.object[: exc.start].count(b"\n") + 1
            raise InvalidInput(
                f"{self._path}: line {line:,} is not {exc.encoding.upper()}: {_around(exc)}",
                hint="say how it is written in the dataset config, such as source: {encoding: windows-1252}",
            ) from exc
        if self._plain is not None:
            self._plain.check(piece)
        if self._quotes is None:
            self._lines += piece.count(b"\n")
        else:
            self._quotes.check(piece, final=final)
            self._lines = self._quotes.lines


class _Plain:
    """Whether a text has no quotes, no line that is too long, and fits into memory."""

    def __init__(self, source: SourceFormat) -> None:
        self.holds = True
        self._quote = (source.quote or '"').encode()
        self._size = self._since_line_end = 0

    def check(self, piece: bytes) -> None:
        self._size += len(piece)
        self.holds = self.holds and self._size <= TEXT_BYTES and self._quote not in piece
        for start in range(0, len(piece) if self.holds else 0, LINE_BYTES):
            part = piece[start : start + LINE_BYTES]
            rest = len(part) - 1 - part.rfind(b"\n")
            self._since_line_end = rest if rest < len(part) else self._since_line_end + rest
            self.holds = self.holds and self._since_line_end <= LINE_BYTES


class _Quotes:
    """Finds a value in quotes that goes on in the next line: read line by line, it would be cut in two in silence."""

    def __init__(self, path: str, source: SourceFormat) -> None:
        quote, escape = source.quote or '"', source.escape or source.quote or '"'
        self._path = path
        self._quote = quote.encode()
        self._escaped = (escape + quote).encode() if escape != quote else None
        self._others = bytes(set(range(256)) - {*self._quote, *b"\n"})
        opening, delimiter = re.escape(self._quote), re.escape(source.delimiter_of(path).encode())
        self._open = re.compile(rb"(?:^|%s)[ \t]*%s(?:[^%s]|%s%s)*$" % (delimiter, *[opening] * 4))
        self._rest, self.lines = b"", 0

    def check(self, piece: bytes, *, final: bool) -> None:
        if len(self._quote) == 1 and not (final or b"\r" in piece or self._quote in piece or self._quote in self._rest):
            end = piece.rfind(b"\n")
            self._rest = self._rest + piece if end < 0 else piece[end + 1 :]
            self.lines += piece.count(b"\n")
            return
        text = self._rest + (piece if b"\r" not in piece else piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        whole, end_of_line, self._rest = (text, b"", b"") if final else text.rpartition(b"\n")
        if self._quote in whole and self._has_odd_line(whole):
            for number, line in enumerate(whole.split(b"\n"), self.lines + 1):
                self._check_line(number, line)
        self.lines += whole.count(b"\n") + len(end_of_line)

    def _has_odd_line(self, text: bytes) -> bool:
        """Whether a line has an odd number of quotes: of what is left of a line, pairs go, and one quote stays."""
        return self._quote in self._bare(text).translate(None, self._others).replace(self._quote * 2, b"")

    def _check_line(self, number: int, line: bytes) -> None:
        bare = self._bare(line)
        if bare.count(self._quote) % 2 and self._open.search(bare):
            end = line[-40:].decode(errors="replace")
            raise InvalidInput(
                f"{self._path}: line {number:,} opens a quote that does not end there: {end!r}",
                hint="set source: {multiline: true} in the dataset config, as values may hold line breaks;"
                " or multiline: false, if the quote is meant as it stands",
            )

    def _bare(self, text: bytes) -> bytes:
        return text if self._escaped is None else text.replace(self._escaped, b"")


def _cuts_plain(path: str, source: SourceFormat) -> bool:
    """Whether a text that has no quotes is lines of values: in UTF-8, and what parts them is no blank."""
    delimiter, quote = source.delimiter_of(path), source.quote or '"'
    visible = len(delimiter) == 1 and " " < delimiter < "\x7f"
    return visible and quote.isascii() and source.encoding is None and not source.multiline


def _has_lines(source: SourceFormat) -> bool:
    """Whether nobody has said if values may hold line breaks, in an encoding that has the bytes of ASCII."""
    return source.multiline is None and "\n".encode(source.encoding or "utf-8") == b"\n"


def _decoder(path: str, source: SourceFormat) -> codecs.IncrementalDecoder:
    encoding = source.encoding or "utf-8"
    if java_name(encoding) is None:
        raise InvalidInput(f"{path}: the encoding {encoding!r} is not known", hint=f"known: {', '.join(KNOWN)}")
    return codecs.getincrementaldecoder(encoding)()


def _around(exc: UnicodeDecodeError) -> str:
    """What stands before the letter that cannot be read."""
    line = exc.object[: exc.end].rpartition(b"\n")[2]
    return repr(line[-30:])[1:]


def _header(path: str, head: bytes, source: SourceFormat) -> tuple[str, ...]:
    """The column names of a csv file: its first line, or `_c0`, `_c1`… when it has none."""
    text = io.TextIOWrapper(io.BytesIO(head), source.encoding or "utf-8-sig", errors="replace", newline="")
    row = _first_row(text, source.delimiter_of(path), source.quote or '"')
    if source.header is False:
        return tuple(f"_c{index}" for index in range(len(row)))
    names = tuple(name.strip() for name in row)
    if len(names) == 1 and source.delimiter is None and (other := _OTHER_DELIMITER.search(names[0])):
        said = f"set source: {{delimiter: {other[0]!r}}} in the dataset config"
        raise InvalidInput(
            f"{path}: its header is one column, {names[0]!r}", hint=f"{said}; or delimiter: ',' if that is its name"
        )
    if twice := [name for name in names if name and [other.lower() for other in names].count(name.lower()) > 1]:
        raise InvalidInput(
            f"{path}: its header has two columns of one name: {', '.join(twice[:5])}",
            hint="rename one; or set source: {header: false}, if the first line is a row",
        )
    if not all(names):
        raise InvalidInput(
            f"{path}: its first line is no header: {', '.join(row[:5])}", hint="set source.header: false"
        )
    return names


def _first_row(text: TextIO, delimiter: str, quote: str) -> list[str]:
    single = delimiter if len(delimiter) == 1 else _UNIT
    lines = (line.replace(delimiter, single) for line in text)
    row = next(csv.reader(lines, delimiter=single, quotechar=quote), [])
    return [name.replace(single, delimiter) for name in row]
