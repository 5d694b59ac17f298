"""YAML text → plain values and the line of every key.

Words mean what they say: a plain scalar becomes a number only when the number prints back as the same text, and only
`true` and `false` are booleans. So `no`, `1.10`, `007` and `1:30` stay text, which a model may still read as a number.
Errors never quote the file, which may hold secrets, and carry no cause that would.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from neve.errors import ConfigError

MAX_BYTES = 1024 * 1024
_MAX_NODES = 100_000
_MAX_DEPTH = 60
_TAG = "tag:yaml.org,2002:"
_TOO_DEEP = "nested too deeply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A YAML mapping and where it was written; keys are always text, an empty file is an empty mapping."""

    path: Path
    data: dict[str, object] = field(repr=False)
    lines: dict[tuple[str | int, ...], int] = field(repr=False)

    def line_of(self, key_path: tuple[str | int, ...]) -> int | None:
        """The 1-based line of a key, or of a list item when the last step is an index; None when it is not there."""
        return self.lines.get(key_path)


def load_document(path: Path) -> Document:
    """Read one YAML mapping.

    Raises:
        ConfigError: missing or unreadable file, more than 1 MiB, not UTF-8, bad syntax (`file:line:column: what`), a
            key written twice, a tag that is not plain data, or a root that is not a mapping.
    """
    node = _compose(path, _read_text(path))
    if node is None or (isinstance(node, ScalarNode) and node.tag == f"{_TAG}null"):
        return Document(path=path, data={}, lines={})
    if not isinstance(node, MappingNode):
        raise _error_at(path, node, "expected a mapping of 'key: value' lines")
    reader = _ValueReader(path)
    return Document(path=path, data=reader.read_mapping(node, ()), lines=reader.lines)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError as exc:
        raise ConfigError(f"{path}: no such file") from exc
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than 1 MiB")
    bad = _first_bad_byte(content)
    if bad is not None:
        line = content.count(b"\n", 0, bad) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text", hint="save the file with the encoding UTF-8")
    return content.decode("utf-8-sig")


def _first_bad_byte(content: bytes) -> int | None:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as exc:
        return exc.start
    return None


class _Composer(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML up to its node tree: nothing is constructed, so no tag can run code."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, io.StringIO(text))
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)


_Composer.add_implicit_resolver(f"{_TAG}null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Composer.add_implicit_resolver(f"{_TAG}bool", re.compile(r"(?:true|false)\Z"), ["t", "f"])
_Composer.add_implicit_resolver(f"{_TAG}int", re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z"), list("-0123456789"))
_Composer.add_implicit_resolver(
    f"{_TAG}float", re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.(?:[0-9]*[1-9]|0)\Z"), list("-0123456789")
)
_Composer.add_implicit_resolver(f"{_TAG}merge", re.compile(r"<<\Z"), ["<"])


def _compose(path: Path, text: str) -> Node | None:
    try:
        return _Composer(text).get_single_node()
    except ReaderError as exc:
        line = text.count("\n", 0, exc.position) + 1
        problem = f"{path}:{line}: a character that YAML does not allow (U+{exc.character:04X})"
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        problem = f"{place}: {_describe(exc)}"
    except RecursionError:
        problem = f"{path}: {_TOO_DEEP}"
    raise ConfigError(problem)


def _describe(exc: yaml.MarkedYAMLError) -> str:
    problem = exc.problem or "not valid YAML"
    if problem.startswith("found undefined alias"):
        return "found undefined alias; put a value that starts with '*' in quotes"
    if problem.startswith(("found undefined", "found duplicate")):
        return problem.partition(" '")[0]  # the rest names a piece of the file
    return f"{exc.context}, {problem}" if exc.context else problem


class _ValueReader:
    """Walks the nodes once; aliases are followed, so the count of visits bounds what a small file can grow to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[tuple[str | int, ...], int] = {}
        self._visited = 0

    def read_mapping(self, node: MappingNode, at: tuple[str | int, ...]) -> dict[str, object]:
        values: dict[str, object] = {}
        self._count(node, at)
        for key_node, value_node in node.value:
            key = self._read_key(key_node)
            if key in values:
                first = self.lines[(*at, key)]
                raise _error_at(self.path, key_node, f"the key {key!r} is written twice, first in line {first}")
            self.lines[(*at, key)] = key_node.start_mark.line + 1
            values[key] = self._read(value_node, (*at, key))
        return values

    def _read(self, node: Node, at: tuple[str | int, ...]) -> object:
        if isinstance(node, MappingNode) and node.tag == f"{_TAG}map":
            return self.read_mapping(node, at)
        if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
            items: list[object] = []
            self._count(node, at)
            for index, item in enumerate(node.value):
                self.lines[(*at, index)] = item.start_mark.line + 1
                items.append(self._read(item, (*at, index)))
            return items
        if isinstance(node, ScalarNode):
            return self._read_scalar(node)
        raise _error_at(self.path, node, "this tag is not allowed; only plain YAML values are")

    def _count(self, node: MappingNode | SequenceNode, at: tuple[str | int, ...]) -> None:
        self._visited += len(node.value)
        if self._visited > _MAX_NODES:
            raise _error_at(self.path, node, f"more than {_MAX_NODES:,} values once aliases are followed")
        if len(at) > _MAX_DEPTH:
            raise _error_at(self.path, node, _TOO_DEEP)

    def _read_key(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            raise _error_at(self.path, node, "a key must be plain text")
        if node.tag == f"{_TAG}merge":
            raise _error_at(self.path, node, "merge keys (<<) are not supported; write the keys out")
        return str(node.value)

    def _read_scalar(self, node: ScalarNode) -> object:
        text = str(node.value)
        match node.tag.removeprefix(_TAG):
            case "str" | "merge":
                return text
            case "null":
                return None
            case "bool" if text in {"true", "false"}:
                return text == "true"
            case "int" if re.fullmatch(r"-?[0-9]{1,18}", text):
                return int(text)
            case "float" if re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", text):
                return float(text)
        raise _error_at(self.path, node, "this tag is not allowed; only plain YAML values are")


def _error_at(path: Path, node: Node, problem: str) -> ConfigError:
    return ConfigError(f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}: {problem}")
