"""A small table to look at: a month of sales, made by formula, the same on every machine."""

from __future__ import annotations

from neve.model.names import TableName
from neve.model.results import TableStatus
from neve.services.changes import create_table
from neve.services.context import Context
from neve.services.queries import run_sql
from neve.services.specs import spec_from_words
from neve.services.status import table_status

NAME = "sales"
_COLUMNS = "id bigint not null, day date not null, product string, region string, quantity int, price decimal(10,2)"
_ROWS = """
INSERT INTO sales
SELECT id,
       date_add(DATE'2024-01-01', CAST(id % 31 AS INT)),
       concat('P', lpad(CAST(id * 7 % 19 AS STRING), 3, '0')),
       element_at(array('NORTH', 'SOUTH', 'EAST', 'WEST'), CAST(id * 13 % 4 AS INT) + 1),
       CAST(id * 31 % 9 AS INT) + 1,
       CAST(id * 17 % 400 AS DECIMAL(10, 2)) + 0.99
FROM range(2239)
ORDER BY 2
"""


def make_demo(context: Context) -> TableStatus:
    """Creates the example table and writes its rows in one commit."""
    spec = spec_from_words(NAME, _COLUMNS, partition_by=["month(day)"], sort_by=["day"], comment="a month of sales")
    create_table(context, spec)
    run_sql(context, _ROWS, write=True)
    return table_status(context, TableName.parse(NAME), None)
