"""Statements about dynamic tables: CREATE, ALTER, DROP, SHOW, DESCRIBE, EXPLAIN DYNAMIC TABLE. Spark has none of them.

The words around the query are read here; the query itself is left as it was written, with its place.
"""

from __future__ import annotations

from neve.model.dynamic import (
    AlterDynamic,
    CreateDynamic,
    DropDynamic,
    DynamicOptions,
    DynamicStatement,
    LookDynamic,
)
from neve.sql.dynamic_options import read_change, read_option, read_unset
from neve.sql.reader import Reader, tokens


def is_dynamic(text: str) -> bool:
    """Whether a statement speaks of dynamic tables.

    >>> is_dynamic("create or replace dynamic table t ..."), is_dynamic("SELECT 'CREATE DYNAMIC TABLE t'")
    (True, False)
    """
    words = [token.text.upper() for token, _ in zip(tokens(text), range(5), strict=False)]
    if not words or words[0] not in {"CREATE", "ALTER", "DROP", "SHOW", "DESCRIBE", "DESC", "EXPLAIN"}:
        return False
    rest = words[3:] if words[1:3] == ["OR", "REPLACE"] else words[1:]
    return rest[:1] == ["DYNAMIC"]


def parse_dynamic(text: str) -> DynamicStatement:
    """What a statement asks for.

    Raises:
        InvalidQuery: it cannot be read; with the line and column of the word that is wrong.
    """
    reader = Reader(text)
    match reader.one_of("CREATE", "ALTER", "DROP", "SHOW", "DESCRIBE", "DESC", "EXPLAIN"):
        case "CREATE":
            return _create(reader)
        case "ALTER":
            return _alter(reader)
        case "DROP":
            return _drop(reader)
        case "SHOW":
            return _show(reader)
        case word:
            reader.expect("DYNAMIC", "TABLE")
            name = reader.name()
            reader.end()
            return LookDynamic(action="explain" if word == "EXPLAIN" else "describe", name=name)


def _create(reader: Reader) -> CreateDynamic:
    replace = reader.take("OR", "REPLACE")
    reader.expect("DYNAMIC", "TABLE")
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.name()
    columns = _columns(reader) if reader.peek() == "(" else ()
    given: dict[str, object] = {}
    while reader.peek() != "AS":
        key, value = read_option(reader)
        if key in given:
            reader.fail(f"{key.upper()} is given twice")
        given[key] = value
    if "target_lag" not in given:
        reader.fail("TARGET_LAG is needed", hint="write TARGET_LAG = '5 minutes', or DOWNSTREAM")
    reader.expect("AS")
    query, line, column = reader.rest()
    if not query:
        reader.fail("a query is expected here")
    options = DynamicOptions(**given)  # type: ignore[arg-type]
    return CreateDynamic(
        name=name,
        query=query,
        options=options,
        line=line,
        column=column,
        columns=columns,
        replace=replace,
        if_not_exists=if_not_exists,
    )


def _columns(reader: Reader) -> tuple[tuple[str, str | None], ...]:
    reader.expect("(")
    found: list[tuple[str, str | None]] = []
    while True:
        name = reader.word()
        found.append((name, reader.value() if reader.take("COMMENT") else None))
        if reader.one_of(",", ")") == ")":
            return tuple(found)


def _alter(reader: Reader) -> AlterDynamic:
    reader.expect("DYNAMIC", "TABLE")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name()

    def altered(action: str, **what: object) -> AlterDynamic:
        reader.end()
        return AlterDynamic(name=name, action=action, if_exists=if_exists, **what)  # type: ignore[arg-type]

    match reader.one_of("SET", "UNSET", "SUSPEND", "RESUME", "RENAME", "REFRESH", "SWAP"):
        case "SET":
            return altered("set", set=_settings(reader))
        case "UNSET":
            return altered("unset", unset=_unset(reader))
        case "RENAME":
            reader.expect("TO")
            return altered("rename", other=reader.name())
        case "SWAP":
            reader.expect("WITH")
            return altered("swap", other=reader.name())
        case word:
            return altered(word.lower())


def _settings(reader: Reader) -> dict[str, object]:
    found: dict[str, object] = {}
    while reader.peek() not in ("", ";"):
        key, value = read_change(reader)
        if key in found:
            reader.fail(f"{key.upper()} is given twice")
        found[key] = value
        reader.take(",")
    if not found:
        reader.fail("an option is expected here", hint="such as TARGET_LAG = '10 minutes'")
    return found


def _unset(reader: Reader) -> tuple[str, ...]:
    found = [read_unset(reader)]
    while reader.take(","):
        found.append(read_unset(reader))
    return tuple(found)


def _drop(reader: Reader) -> DropDynamic:
    reader.expect("DYNAMIC", "TABLE")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name()
    cascade = reader.take("CASCADE")
    reader.end()
    return DropDynamic(name=name, if_exists=if_exists, cascade=cascade)


def _show(reader: Reader) -> LookDynamic:
    reader.expect("DYNAMIC")
    reader.expect("TABLES")
    pattern = reader.value() if reader.take("LIKE") else None
    reader.end()
    return LookDynamic(action="show", pattern=pattern)
