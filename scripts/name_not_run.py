"""Names every suite that did not run, from pytest's own reports: nothing is skipped in silence.

Usage: name_not_run.py FOLDER, which holds one JUnit XML file for each step of the tests.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class Skip(NamedTuple):
    suite: str
    reason: str


def read_skips(report: Path) -> Counter[Skip]:
    """How many tests of each suite were skipped, by reason; an expected failure did run, and is none of them."""
    return Counter(
        Skip(suite_of(case.get("classname", "")), first_line(skipped.get("message", "")))
        for case in ElementTree.parse(report).iter("testcase")
        for skipped in case.iter("skipped")
        if skipped.get("type") != "pytest.xfail"
    )


def suite_of(classname: str) -> str:
    """The folder and file of a test: `tests.contract.test_store.TestLeases` is of `tests/contract/test_store.py`."""
    parts = classname.split(".")
    module = next((i for i, part in enumerate(parts) if part.startswith("test_")), None)
    return classname if module is None else "/".join(parts[: module + 1]) + ".py"


def first_line(message: str) -> str:
    return message.strip().partition("\n")[0]


def is_empty(report: Path) -> bool:
    return next(ElementTree.parse(report).iter("testcase"), None) is None


def main(folder: Path) -> int:
    reports = sorted(folder.glob("*.xml"))
    if not reports:
        print(f"no test report in {folder}: the tests did not run")
        return 1
    lines = [f"  all of step '{report.stem}': no test was collected" for report in reports if is_empty(report)]
    skips = sum((read_skips(report) for report in reports), Counter[Skip]())
    lines += [f"  {skip.suite}: {count} × {skip.reason}" for skip, count in sorted(skips.items())]
    print("\nnot run:\n" + "\n".join(lines) if lines else "\nnot run: nothing, every suite ran")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
