"""One look through a file: what is not whole, or not in its encoding, is refused before anything is loaded."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from neve.catalog import Files
from neve.errors import InvalidInput
from neve.files.plain_rows import LINE_BYTES
from neve.model.dataset import SourceFormat
from neve.model.ingest import FileFormat, SourceFile
from neve.services import inspection
from neve.services.inspection import inspect

TEXT = "id,région\n1,été\n2,hiver\n"


def look(path: Path, content: bytes, kind: FileFormat = "csv", **source: object) -> SourceFile:
    path.write_bytes(content)
    return inspect(str(path), kind, Files(), SourceFormat.model_validate(source))


def test_size_digest_and_header(tmp_path: Path) -> None:
    content = TEXT.encode()
    found = look(tmp_path / "a.csv", content)
    assert found.header == ("id", "région")
    assert (found.bytes, found.digest) == (len(content), hashlib.sha256(content).hexdigest())
    packed = gzip.compress(content)
    found = look(tmp_path / "a.csv.gz", packed)
    assert found.header == ("id", "région")
    assert (found.bytes, found.digest) == (len(packed), hashlib.sha256(packed).hexdigest())
    assert look(tmp_path / "a.json", b'{"id": 1}\n', "json").header is None
    assert look(tmp_path / "a.parquet", b"PAR1\xff\xfe", "parquet").header is None


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfid,name\r\n1,a\r\n", b'"id",name\n', b" id , name \n", b"id,name"])
def test_headers_as_spreadsheets_write_them(tmp_path: Path, content: bytes) -> None:
    assert look(tmp_path / "a.csv", content).header == ("id", "name")


def test_a_delimiter_of_several_letters(tmp_path: Path) -> None:
    assert look(tmp_path / "a.csv", b'id||"na||me"\n1||a\n', delimiter="||").header == ("id", "na||me")


def test_a_header_may_hold_a_line_break_and_be_left_out(tmp_path: Path) -> None:
    assert look(tmp_path / "a.csv", b'id,"the\nname"\n1,a\n', multiline=True).header == ("id", "the\nname")
    assert look(tmp_path / "a.csv", b"1,a\n", header=False).header == ("_c0", "_c1")
    with pytest.raises(InvalidInput, match="no header: 1, "):
        look(tmp_path / "a.csv", b"1,,2\n")
    with pytest.raises(InvalidInput, match="two columns of one name: id, ID"):
        look(tmp_path / "a.csv", b"id,name,ID\n")


@pytest.mark.parametrize(
    ("content", "source", "plain"),
    [
        (b"id,name\n1,a\n", {}, True),
        (b"id,name\r\n1,a", {"header": False, "null_value": "a"}, True),
        (b"id,name\n1,'a'\n", {}, True),
        (b"id,name\n1,'a'\n", {"quote": "'"}, False),
        (b'id,name\n1,"a"\n', {}, False),
        (b'id,name\n1,"a"\n', {"quote": "'"}, True),
        (b"id,name\n1,a\n", {"multiline": True}, False),
        (b"id,name\n1,a\n", {"encoding": "latin-1"}, False),
        (b"id\tname\n1\ta\n", {"delimiter": "\t"}, False),
        (b"id||name\n1||a\n", {"delimiter": "||"}, False),
        ("id¦name\n1¦a\n".encode(), {"delimiter": "¦"}, False),
        (b"id\n1\n", {}, False),
        (b"id,name\n" + b"1" * (2 * LINE_BYTES) + b",a\n", {}, False),
        (b"id,name\n" + b"1" * (LINE_BYTES - 20) + b",a\n", {}, True),
    ],
)
def test_lines_that_can_be_cut_at_their_delimiters(
    tmp_path: Path, content: bytes, source: dict[str, object], plain: bool
) -> None:
    assert look(tmp_path / "a.csv", content, "csv", **source).plain is plain
    assert look(tmp_path / "a.csv.gz", gzip.compress(content), "csv", **source).plain is plain


def test_what_does_not_fit_into_memory_is_not_cut_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "TEXT_BYTES", 1000)
    for size, plain in ((400, True), (1200, False)):
        content = b"id,name\n" + b"1,a\n" * (size // 4)
        assert look(tmp_path / "a.csv", content).plain is plain
        assert look(tmp_path / "a.csv.gz", gzip.compress(content)).plain is plain


@pytest.mark.parametrize("packed", [False, True])
def test_another_encoding_is_refused_with_the_line_until_it_is_named(tmp_path: Path, packed: bool) -> None:
    content = ("id,name\n" + "1,plain\n" * 3 + "2,hélas\n").encode("latin-1")
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    content = gzip.compress(content) if packed else content
    with pytest.raises(InvalidInput, match=r"line 5 is not UTF-8: '2,h\\xe9") as caught:
        look(path, content)
    assert "encoding" in str(caught.value.hint)
    for known in ("ISO-8859-1", "latin1", "windows-1252"):
        assert look(path, content, encoding=known).header == ("id", "name")
    with pytest.raises(InvalidInput, match="'ibm1047' is not known") as caught:
        look(path, content, encoding="ibm1047")
    assert "windows-1252" in str(caught.value.hint)


def test_empty_files_are_refused_by_name(tmp_path: Path) -> None:
    """Beside others, Spark would refuse the whole load for a reason that names none."""
    empty: list[tuple[str, bytes, FileFormat]] = [
        ("a.csv", b"", "csv"),
        ("a.csv.gz", gzip.compress(b""), "csv"),
        ("a.json", b"", "json"),
        ("a.parquet", b"", "parquet"),
    ]
    for name, content, kind in empty:
        with pytest.raises(InvalidInput, match=f"{name} is empty"):
            look(tmp_path / name, content, kind)
    assert look(tmp_path / "a.csv", b"id,name\n").header == ("id", "name"), "a header alone is a day without rows"


def test_a_letter_across_two_reads_is_a_letter(tmp_path: Path) -> None:
    """Blocks are 4 MiB: the two bytes of é lie on both sides of the cut."""
    content = b"x" * (4 * 1024 * 1024 - 1) + "é\n".encode()
    assert look(tmp_path / "a.json", content, "json").bytes == len(content)
    with pytest.raises(InvalidInput, match="line 1 is not UTF-8"):
        look(tmp_path / "a.json", content[:-2], "json")


def test_packed_files_that_are_not_whole_or_not_packed(tmp_path: Path) -> None:
    whole = gzip.compress((TEXT * 1000).encode())
    with pytest.raises(InvalidInput, match="stops in the middle"):
        look(tmp_path / "a.csv.gz", whole[:-20])
    with pytest.raises(InvalidInput, match="is damaged"):
        look(tmp_path / "a.csv.gz", b"id,name\n1,a\n")
    with pytest.raises(InvalidInput, match="by gzip only"):
        look(tmp_path / "a.csv.bz2", b"BZh9")
    assert look(tmp_path / "a.json.bz2", b"BZh9\xff\xfe", "json").bytes == 6, (
        "Spark unpacks it, and nobody looks inside"
    )
    two = gzip.compress(b"id,name\n") + gzip.compress(b"1,a\n")
    assert look(tmp_path / "a.csv.gz", two).header == ("id", "name"), "packed files may be put one behind the other"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'id,name\n1,"two\nlines"\n', 2),
        (b'id,name\r\n1,a\r\n2,"two\r\nlines"\r\n', 3),
        (b'id,name\n1,"a ""quoted"" word\n', 2),
        (b'id,name\n"1","x"\n"2","y\n', 3),
        (b'id,name\n"1', 2),
    ],
)
def test_a_value_that_goes_on_in_the_next_line_is_refused_until_it_is_said(
    tmp_path: Path, content: bytes, line: int
) -> None:
    with pytest.raises(InvalidInput, match=f"line {line} opens a quote") as caught:
        look(tmp_path / "a.csv", content)
    assert "multiline: true" in str(caught.value.hint)
    for said in (True, False):
        assert look(tmp_path / "a.csv", content, multiline=said).header == ("id", "name")


@pytest.mark.parametrize(
    "content",
    [
        b'id,name\n1,"a, ""b"""\n2,""\n"3","x,y"\n',
        b'id,name\n1,5" pipe\n2,6" pipe\n',
        b'id,name\n1,"x"y"\n',
        b"id,name\n1,it's\n",
    ],
)
def test_other_quotes_are_the_values_own(tmp_path: Path, content: bytes) -> None:
    assert look(tmp_path / "a.csv", content).header == ("id", "name")


def test_quotes_that_are_escaped_or_others(tmp_path: Path) -> None:
    assert look(tmp_path / "a.csv", b'id,name\n1,"a \\"b"\n', escape="\\").header == ("id", "name")
    with pytest.raises(InvalidInput, match="line 2 opens a quote"):
        look(tmp_path / "a.csv", b"id,name\n1,'two\nlines'\n", quote="'")
    with pytest.raises(InvalidInput, match="line 2 opens a quote"):
        look(tmp_path / "a.tsv", b'id\tname\n1\t"two\nlines"\n')


def test_a_quote_is_found_across_two_reads(tmp_path: Path) -> None:
    """Blocks are 4 MiB: the line that opens the quote lies on both sides of the cut."""
    row = b"1,abcdefghijkl\n"
    rows = (4 * 1024 * 1024 - 8) // len(row)
    content = b"id,name\n" + row * rows + b'2,"' + b"y" * 40 + b'\nz"\n'
    with pytest.raises(InvalidInput, match=f"line {rows + 2:,} opens a quote"):
        look(tmp_path / "a.csv", content)
    assert look(tmp_path / "a.csv", content.replace(b"y\nz", b"yz")).header == ("id", "name")


@pytest.mark.parametrize("mark", [";", "|", "\t"])
def test_a_header_in_one_piece_says_which_delimiter_to_set(tmp_path: Path, mark: str) -> None:
    content = f"id{mark}name\n1{mark}a\n".encode()
    with pytest.raises(InvalidInput, match="its header is one column") as caught:
        look(tmp_path / "a.csv", content)
    assert repr(mark) in str(caught.value.hint)
    assert look(tmp_path / "a.csv", content, delimiter=mark).header == ("id", "name")
    assert look(tmp_path / "a.csv", content, delimiter=",").header == (f"id{mark}name",)
