"""Random dynamic tables over random tables and over each other, through random changes: after each round every table
equals its query, as a bag.

`make fuzz SPARK_N=…` searches further. A case that fails is written to .reports/fuzz; cut it down and put it into
`regressions/` to keep it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp
from sqlglot.transforms import eliminate_qualify
from tests.spark.dynamic_cases import Case, random_case
from tests.spark.dynamic_oracle import Difference, differences
from tests.spark.searching import SEARCHED

from neve.errors import NeveError
from neve.lake import Lake
from neve.model.names import TableName
from neve.model.refresh import RefreshReceipt
from neve.services import repair

CASES = int(SEARCHED or 60)
TABLES, STEPS = 12, 2
ENOUGH = TABLES // 2  # tables that followed changes: without a search, a life ends then
REGRESSIONS = sorted(Path(__file__).with_name("regressions").glob("*.json"))
FAILED = Path(".reports") / "fuzz"
MOMENTS = [datetime(2024, month, 10, tzinfo=UTC) for month in (1, 2, 3, 4)]  # dates of the rows lie between
_ROLL_BACK = re.compile(r"ROLL BACK (\S+) TO (\d+)")


class Life:
    """A case, lived through on real tables."""

    def __init__(self, lake: Lake, spark: SparkSession, namespace: str, case: Case, *, parallel: int = 1) -> None:
        self.lake, self.spark, self.namespace, self.case, self.parallel = lake, spark, namespace, case, parallel

    def begin(self) -> None:
        for statement in self.case.sources:
            self.run(statement)
        for name, query in self.case.tables.items():
            options = "TARGET_LAG = '5 minutes' INITIALIZE = ON_SCHEDULE"
            text = f"CREATE DYNAMIC TABLE {{ns}}.{name} {options} AS {query}"
            self.lake.dynamic.create(text.replace("{ns}", self.namespace))

    def run(self, statement: str) -> None:
        text = statement.replace("{ns}", self.namespace)
        if told := _ROLL_BACK.fullmatch(text):
            there = self.lake._context.catalog.facts(TableName.parse(told[1])).snapshots
            if not there:
                return
            text = f"CALL lake.system.set_current_snapshot('lake.{told[1]}', {there[int(told[2]) % len(there)].id})"
        self.spark.sql(text).collect()

    def refresh(self) -> list[RefreshReceipt]:
        names = [f"{self.namespace}.{name}" for name in self.case.tables]
        return self.lake.dynamic.refresh(names, parallel=self.parallel)

    def differences(self, moment: datetime) -> dict[str, Difference]:
        texts = {f"{self.namespace}.{n}": q.replace("{ns}", self.namespace) for n, q in self.case.tables.items()}
        return differences(self.lake, self.spark, {name: as_written(text, moment) for name, text in texts.items()})


def as_written(query: str, moment: datetime) -> str:
    """The user's own query at a moment; QUALIFY, for which Spark has no word, is spelled out."""
    text = query.replace("CURRENT_DATE", f"DATE '{moment.date()}'")
    if "QUALIFY" not in text:
        return text
    tree = sqlglot.parse_one(text, read="spark")
    return tree.transform(lambda node: eliminate_qualify(node) if isinstance(node, exp.Select) else node).sql("spark")


def live(life: Life, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RefreshReceipt]]:
    """One round after each step, each held to the oracle."""
    # By the clock of these lives a run began before its process did, and would be thought dead.
    monkeypatch.setattr(repair, "is_alive", lambda *_: True)
    life.begin()
    for moment, statements in zip(MOMENTS, [[], *life.case.steps], strict=False):
        for statement in statements:
            life.run(statement)
        monkeypatch.setattr(life.lake._context, "clock", lambda moment=moment: moment)
        told = "; ".join(statements) or "the first round"
        try:
            receipts = life.refresh()
        except NeveError as exc:
            raise AssertionError(f"{told}\n{type(exc).__name__}: {exc}") from exc
        for name, (missing, surplus) in life.differences(moment).items():
            how = next(r for r in receipts if r.table == name)
            raise AssertionError(
                f"{told}\n{name} by {how.refresh}: {how.reason}\n"
                f" missing {missing}\n surplus {surplus}\n{life.case.tables[name.rpartition('.')[2]]}"
            )
        yield receipts


@pytest.mark.parametrize("seed", range(max(1, CASES // TABLES)))
def test_every_table_equals_its_query_after_every_round(
    spark_lake: Lake, quick: SparkSession, namespace: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that do not read each other side by side in every other life."""
    case = random_case(seed, tables=TABLES, steps=STEPS)
    life = Life(spark_lake, quick, namespace, case, parallel=1 + seed % 2)
    actions: Counter[str | None] = Counter()
    try:
        for receipts in live(life, monkeypatch):
            actions.update(receipt.refresh for receipt in receipts)
            if actions["INCREMENTAL"] >= ENOUGH and not SEARCHED:
                break
    except (AssertionError, NeveError, PySparkException) as exc:
        pytest.fail(f"seed {seed}, kept as {case.keep(FAILED, f'life_{seed}')}\n{exc}")
    assert actions["INCREMENTAL"] >= ENOUGH, actions


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_failed_once_holds(
    spark_lake: Lake, quick: SparkSession, namespace: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in live(Life(spark_lake, quick, namespace, Case.load(path)), monkeypatch):
        pass
