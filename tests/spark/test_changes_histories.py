"""Random histories: both roads read what EXCEPT ALL of the two snapshots, both ways, says.

`make fuzz` searches more of them; a seed that failed is kept below for good.
"""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from tests.spark.histories import History, head, oracle, quick_session, read
from tests.spark.searching import SEARCHED

from neve.lake import Lake

COUNT = int(SEARCHED or 40)
FAILED_ONCE = (1021,)  # back over a wider type: files hold what the earlier schema cannot
STEPS = 5


@pytest.fixture(scope="module")
def spark(spark_lake: Lake) -> SparkSession:
    return quick_session(spark_lake)


@pytest.mark.parametrize("seed", [*FAILED_ONCE, *({*range(1000, 1000 + COUNT)} - {*FAILED_ONCE})])
def test_both_roads_read_what_changed(spark_lake: Lake, spark: SparkSession, namespace: str, seed: int) -> None:
    history = History.begin(spark_lake, spark, f"{namespace}.h", seed)
    history.grow(STEPS)
    chance = random.Random(seed)
    since, until = chance.sample(history.snapshots, 2) if len(history.snapshots) > 1 else history.snapshots * 2
    if chance.random() < 0.5:
        until = head(history.table)
    earlier, later = history.names_at[since], history.names_at[until]
    names = history.names if until == head(history.table) else later
    chosen = chance.sample(sorted(names), chance.randint(1, len(names)))
    expected = oracle(
        spark,
        history.table,
        since,
        until,
        old=", ".join(earlier.get(key, "CAST(NULL AS STRING)") for key in chosen),
        new=", ".join(later.get(key, "CAST(NULL AS STRING)") for key in chosen),
    )
    columns = [names[key] for key in chosen]
    fast, by_files = read(spark_lake, history.table, since, until, road="auto", columns=columns)
    general, by_rows = read(spark_lake, history.table, since, until, road="general", columns=columns)
    where = f"{since} to {until} of {history.snapshots}, {fast.plan.reason}:\n" + "\n".join(history.told)
    assert by_files == expected, where
    assert by_rows == expected, where
    assert fast.plan.tier in ("nothing", "appends", "diff") or fast.plan.reason.code == "schema_went_back"
    assert general.plan.tier in ("nothing", "compare")
