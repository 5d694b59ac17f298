"""Writers, compaction, expiry and refreshes at once, for minutes: what was acknowledged is there once, and no more."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from neve.engine.session import fresh_session, use_in_thread
from neve.errors import CommitConflict, NeveError
from neve.lake import Lake, LakeTable

pytestmark = [pytest.mark.spark, pytest.mark.soak]
SECONDS = float(os.environ.get("SOAK_SECONDS", "120"))
CONFLICTS = ("CommitFailed", "ValidationException", "Found conflicting", "Missing required files", "not an ancestor")
"""What writers are told when another was first, or when the snapshot that they began at is expired."""


class Model:
    """Rows that were acknowledged, by the one thread that writes them."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.conflicts = self.next = 0


def test_everything_at_once(spark_lake: Lake, make_table: Callable[..., LakeTable], namespace: str) -> None:
    table = make_table("busy", "id bigint, v int, part int", partition_by=("part",))
    modes = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update", "merge"))
    spark_lake.sql(f"ALTER TABLE {table.name.sql} SET TBLPROPERTIES ({modes})", write=True)
    spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES (-1, 0, 0)", write=True)
    spark_lake.dynamic.create(
        f"CREATE DYNAMIC TABLE {namespace}.sums TARGET_LAG = '1 hour' AS "
        f"SELECT part, count(*) AS n, sum(v) AS s FROM {namespace}.busy GROUP BY part"
    )
    until = time.monotonic() + SECONDS
    models = [Model() for _ in range(2)]
    failures: list[BaseException] = []
    upkeep: Counter[str] = Counter()

    def spin(work: Callable[[], None]) -> None:
        try:
            while time.monotonic() < until and not failures:
                work()
        except BaseException as exc:  # noqa: BLE001 - told by the test
            failures.append(exc)

    def writer(number: int) -> Callable[[], None]:
        dice, model = random.Random(number), models[number]
        session: list[SparkSession] = []

        def work() -> None:
            if not session:
                session.append(fresh_session(spark_lake.spark))
            use_in_thread(session[0])
            _write(session[0], table, number, dice, model)

        return work

    def compact() -> None:
        try:
            done = table.compact(force=True)
            upkeep["compacted"] += done.compacted
            upkeep["conflicts"] += done.conflicts
        except CommitConflict:
            upkeep["lost"] += 1
        stored = spark_lake.table(f"{namespace}.sums")
        try:
            upkeep["stored compacted"] += stored.compact(force=True).compacted
        except CommitConflict:
            upkeep["lost"] += 1

    def expire() -> None:
        upkeep["expired"] += len(table.expire(retention_hours=0, keep_last=2).expired)
        time.sleep(3)

    def refresh() -> None:
        try:
            upkeep[f"refresh {spark_lake.dynamic(f'{namespace}.sums').refresh().refresh}"] += 1
        except NeveError as exc:
            if not isinstance(exc, CommitConflict) and "meanwhile" not in exc.message:
                raise
            upkeep["refresh lost"] += 1

    threads = [threading.Thread(target=spin, args=(work,)) for work in (writer(0), writer(1), compact, expire, refresh)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    wanted = {-1: 0} | models[0].rows | models[1].rows
    found = [tuple(row) for row in spark_lake.sql(f"SELECT id, v FROM {table.name.sql}").collect()]
    told = f"{dict(upkeep)}, {len(wanted)} rows, {[model.conflicts for model in models]} conflicts of writers"
    (spark_lake.root / "soak.txt").write_text(told)
    assert Counter(found) == Counter(wanted.items())
    spark_lake.dynamic(f"{namespace}.sums").refresh()
    anew = f"SELECT part, count(*), sum(v) FROM {table.name.sql} GROUP BY part"
    kept = f"SELECT part, n, s FROM {namespace}.sums"
    assert sorted(map(tuple, spark_lake.sql(kept).collect())) == sorted(map(tuple, spark_lake.sql(anew).collect()))
    assert upkeep["compacted"] > 3
    assert upkeep["expired"] > 3
    assert upkeep["refresh INCREMENTAL"] > 1


def _write(session: SparkSession, table: LakeTable, number: int, dice: random.Random, model: Model) -> None:
    """One statement; the model follows once it is acknowledged. A writer has ids of its own."""
    kind = dice.choice(["insert", "insert", "delete", "merge"])
    some = dice.sample(sorted(model.rows), min(3, len(model.rows)))
    new = {number + 2 * (model.next + step): step for step in range(3)}
    model.next += 3
    name = table.name.sql
    if kind == "insert" or not some:
        rows = ", ".join(f"({key}L, {value}, {key % 3})" for key, value in new.items())
        text, after = f"INSERT INTO {name} VALUES {rows}", model.rows | new
    elif kind == "delete":
        text = f"DELETE FROM {name} WHERE id IN ({', '.join(map(str, some))})"
        after = {key: value for key, value in model.rows.items() if key not in some}
    else:
        changed = {key: model.rows[key] + 1 for key in some} | new
        rows = ", ".join(f"({key}L, {value}, {key % 3})" for key, value in changed.items())
        text = (
            f"MERGE INTO {name} t USING (SELECT * FROM VALUES {rows} AS s (id, v, part)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
        )
        after = model.rows | changed
    try:
        session.sql(text)
    except Exception as exc:
        if not any(word in str(exc) for word in CONFLICTS):
            raise
        model.conflicts += 1
        return
    model.rows = after
