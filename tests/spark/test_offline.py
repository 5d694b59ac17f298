"""An offline table: sleeper.md §9, case 11, as far as there are scheduled jobs."""

from __future__ import annotations

from collections.abc import Callable

from neve.lake import Lake, LakeTable


def due(lake: Lake, table: LakeTable) -> list[str]:
    return [job.action for job in lake.schedule() if job.table == str(table.name) and job.due]


def test_case_11_an_offline_table_is_left_alone_but_can_be_used(
    spark_lake: Lake, make_table: Callable[..., LakeTable]
) -> None:
    table = make_table(rows="(0, 'a')")
    spark = spark_lake.spark
    for number in range(1, 20):
        spark.sql(f"SELECT {number}L AS id, 'x' AS name").writeTo(table.name.sql).append()
    table.offline()
    assert due(spark_lake, table) == []
    reasons = [job.reason.code for job in spark_lake.schedule() if job.table == str(table.name)]
    assert reasons == ["offline"]
    spark_lake.sql(f"INSERT INTO {table.name.sql} VALUES (20, 'while offline')", write=True)
    assert spark_lake.sql(f"SELECT count(*) FROM {table.name.sql}").collect()[0][0] == 21
    assert [row.online for row in spark_lake.tables.list() if row.table == str(table.name)] == [False]
    table.online()
    assert due(spark_lake, table) == ["compact"]
