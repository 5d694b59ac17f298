"""The options of a dynamic table: what each is called, and how its value is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from neve.errors import InvalidInput, NeveError, nearest
from neve.model.dynamic import MIN_LAG
from neve.model.layout import parse_sort_field, parse_transform, split_list
from neve.model.units import parse_duration
from neve.sql.reader import Reader

_MODES = {"AUTO": "AUTO", "INCREMENTAL": "INCREMENTAL", "AFFECTED_KEYS": "INCREMENTAL", "FULL": "FULL"}
_UNUSED = {
    "PARALLEL_THRESHOLD": "Spark divides the work by itself",
    "MAX_PARALLELISM": "set spark.master and --parallel instead",
    "WAREHOUSE": "Spark is the warehouse here",
}
_ONLY_FIRST = ("INITIALIZE",)


def read_option(reader: Reader) -> tuple[str, object]:
    """One option and its value, under the name of its field."""
    if reader.take("PARTITIONED", "BY"):
        return "partition_by", _terms(reader, parse_transform)
    if reader.take("CLUSTER", "BY"):
        return "cluster_by", _terms(reader, parse_sort_field)
    if reader.take("IMMUTABLE", "WHERE"):
        return "immutable_where", reader.in_parentheses()
    if reader.take("COMMENT"):
        reader.take("=")
        return "comment", reader.value()
    key = reader.peek()
    if key in _UNUSED:
        reader.fail(f"{key} has no meaning here", hint=_UNUSED[key])
    if key not in _READERS:
        known = [*_READERS, "PARTITIONED BY", "CLUSTER BY", "IMMUTABLE WHERE", "COMMENT", "AS"]
        reader.fail(f"one of {', '.join(known)} is expected here", hint=nearest(key, known) if key else None)
    reader.word()
    reader.expect("=")
    field, read = _READERS[key]
    return field, reader.checked(read, reader.value())


def read_change(reader: Reader) -> tuple[str, object]:
    """One option of a table that is there; what only says how a table begins is refused."""
    if reader.peek() in _ONLY_FIRST:
        reader.fail(f"{reader.peek()} says how a table begins, and cannot be changed later")
    return read_option(reader)


def read_unset(reader: Reader) -> str:
    """The field of an option that is to have its default again."""
    fields = {key: field for key, (field, _) in _READERS.items() if key not in (*_ONLY_FIRST, "TARGET_LAG")}
    fields |= {
        "COMMENT": "comment",
        "IMMUTABLE": "immutable_where",
        "PARTITIONED": "partition_by",
        "CLUSTER": "cluster_by",
    }
    word = reader.one_of(*fields)
    if word == "IMMUTABLE":
        reader.take("WHERE")
    elif word in ("PARTITIONED", "CLUSTER"):
        reader.expect("BY")
    return fields[word]


def options_from_words(words: Mapping[str, str]) -> dict[str, object]:
    """Options as commands and programs give them: `TARGET_LAG=10 minutes`, `PARTITIONED_BY=day(ts)`.

    >>> options_from_words({"refresh_mode": "full", "cluster by": "id desc"})["refresh_mode"]
    'FULL'
    """
    found: dict[str, object] = {}
    for word, value in words.items():
        field, read = _known(word)
        if field in found:
            raise InvalidInput(f"{word} is given twice")
        try:
            found[field] = read(_unquoted(value))
        except NeveError as exc:
            raise InvalidInput(f"{word}: {exc.message}", hint=exc.hint) from exc
    return found


def fields_from_words(words: Sequence[str]) -> tuple[str, ...]:
    """The fields of options that are to have their defaults again."""
    fields = tuple(_known(word)[0] for word in words)
    if "target_lag" in fields:
        raise InvalidInput("a dynamic table always has a TARGET_LAG", hint="set another one")
    return fields


def _known(word: str) -> tuple[str, Callable[[str], object]]:
    key = "_".join(word.upper().split())
    if key in _UNUSED:
        raise InvalidInput(f"{key} has no meaning here", hint=_UNUSED[key])
    if key in _ONLY_FIRST:
        raise InvalidInput(f"{key} says how a table begins, and cannot be changed later")
    known = {**_READERS, **_CLAUSES}
    if key not in known:
        raise InvalidInput(f"no option {word}", hint=nearest(key, known) or f"options: {', '.join(known)}")
    return known[key]


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == "'" else value


def _terms(reader: Reader, read: Callable[[str], object]) -> tuple[object, ...]:
    text = reader.in_parentheses()
    return tuple(reader.checked(read, item) for item in split_list(text))


def _list_of(read: Callable[[str], object]) -> Callable[[str], tuple[object, ...]]:
    return lambda text: tuple(map(read, split_list(text)))


def _lag(text: str) -> timedelta | str:
    if text.upper() == "DOWNSTREAM":
        return "DOWNSTREAM"
    lag = parse_duration(text)
    if lag < MIN_LAG:
        raise InvalidInput(f"a target lag of {text} is less than a minute", hint="give '1 minute' or more")
    return lag


def _word_of(words: Mapping[str, str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.upper() not in words:
            raise InvalidInput(f"{text!r} is not one of {', '.join(words)}", hint=nearest(text.upper(), words))
        return words[text.upper()]

    return read


def _same(*words: str) -> Callable[[str], str]:
    return _word_of({word: word for word in words})


def _flag(text: str) -> bool:
    return _same("TRUE", "FALSE")(text) == "TRUE"


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError as exc:
        raise InvalidInput(f"{text!r} is not a number") from exc
    if not 0 <= share <= 1:
        raise InvalidInput(f"{text} is not between 0 and 1")
    return share


_READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "TARGET_LAG": ("target_lag", _lag),
    "REFRESH_MODE": ("refresh_mode", _word_of(_MODES)),
    "REFRESH_STRATEGY": ("refresh_mode", _word_of(_MODES)),
    "INITIALIZE": ("initialize", _same("ON_CREATE", "ON_SCHEDULE")),
    "DEDUPLICATION": ("deduplication", _flag),
    "CARDINALITY_THRESHOLD": ("cardinality_threshold", _share),
    "FLOAT_SUMS": ("float_sums", _same("EXACT", "FAST")),
}
_CLAUSES: dict[str, tuple[str, Callable[[str], object]]] = {
    "PARTITIONED_BY": ("partition_by", _list_of(parse_transform)),
    "CLUSTER_BY": ("cluster_by", _list_of(parse_sort_field)),
    "IMMUTABLE_WHERE": ("immutable_where", str),
    "COMMENT": ("comment", str),
}
