"""Writes the tables of docs/incremental.md: what follows changes, and by which rules. `--check` only compares.

The queries are those of TPC-H (the public specification, with its default parameters), one per construct of the
survey of incremental systems, and some of our own. Nothing is run: the analysis alone says it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from neve.model.delta import Step
from neve.sql.columns import parse_columns
from neve.sql.delta import Moments, Schema, analyse, derive, explain

HERE = Path(__file__).parent
DOCUMENT = HERE.parent / "docs" / "incremental.md"
QUERIES = HERE / "incremental"
MOMENTS = Moments(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
_TITLE = re.compile(r"^-- (.+)$", re.MULTILINE)


def cases(name: str) -> Iterator[tuple[str, str]]:
    """The queries of a file, each below a line `-- title`."""
    text = (QUERIES / f"{name}.sql").read_text()
    titles = list(_TITLE.finditer(text))
    for title, after in zip(titles, [*titles[1:], None], strict=True):
        yield title[1], text[title.end() : None if after is None else after.start()].strip().rstrip(";")


def schemas() -> dict[str, Schema]:
    tables = dict(cases("tables"))
    return {name: parse_columns(columns) for name, columns in tables.items()}


def rules_of(step: Step) -> list[str]:
    """The rules of a derivation from the top, each once; sources and projections go without saying."""
    plain = {"source", "projection", "constant"}
    found = [step.rule, *(rule for item in step.inputs for rule in rules_of(item))]
    return [rule for rule in dict.fromkeys(found) if rule not in plain]


def rows(name: str) -> Iterator[str]:
    known = schemas()
    yield "| query | refresh | how the table is changed | rules below |"
    yield "|---|---|---|---|"
    for title, query in cases(name):
        analysis = analyse(query, known)
        if analysis.incremental:
            derive(analysis, frozenset(known), moments=MOMENTS)
            step = explain(analysis)
            below = ", ".join(dict.fromkeys(rule for item in step.inputs for rule in rules_of(item))) or "–"
            yield f"| {title} | incremental | {step.rule} | {below} |"
        else:
            said = "; ".join(map(str, analysis.reasons))
            yield f"| {title} | **full** | {said} | |"


def filled(text: str) -> str:
    """The document with what stands between each pair of marks written anew."""
    for name in ("tpch", "constructs", "shapes"):
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        text = "\n".join([f"{before}{start}", *rows(name), f"{end}{after}"])
    return text


def main() -> int:
    text = DOCUMENT.read_text()
    new = filled(text)
    if "--check" in sys.argv[1:]:
        return int(new != text)
    DOCUMENT.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
