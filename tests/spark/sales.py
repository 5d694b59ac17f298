"""Sales of January 2024, dirty on purpose, and what cleaning makes of them, worked out without Spark."""

from __future__ import annotations

import csv
from datetime import date, timedelta
from pathlib import Path

from examples.sales.generate import write_day

Rows = list[tuple[object, ...]]
DATASET = """
name: sales
columns:
  - {name: date, type: DATE}
  - {name: product_id, type: VARCHAR, transform: trim}
  - {name: quantity, type: INTEGER}
  - {name: price, type: DOUBLE}
  - {name: customer_id, type: INTEGER}
  - {name: region, type: VARCHAR, transform: [trim, upper]}
filters:
  - {column: quantity, operator: ">", value: 0}
  - {column: price, operator: ">", value: 0}
"""
COLUMNS = "date, product_id, quantity, price, customer_id, region"


def model(path: Path) -> tuple[Rows, int]:
    """The rows of a file that are taken, and how many are not."""
    taken, rejected = [], 0
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            try:
                price = float(row["price"])
            except ValueError:
                rejected += 1
                continue
            if int(row["quantity"]) <= 0 or price <= 0:
                rejected += 1
                continue
            taken.append(
                (
                    date.fromisoformat(row["date"]),
                    row["product_id"].strip(),
                    int(row["quantity"]),
                    price,
                    int(row["customer_id"]),
                    row["region"].strip().upper(),
                )
            )
    return sorted(taken, key=repr), rejected


def write_days(folder: Path, first: date, days: int, *, rows: int = 20, seed: int = 3) -> list[Path]:
    """A file per day: `sales_2024-01-01.csv` and on."""
    folder.mkdir(exist_ok=True)
    dates = [first + timedelta(days=step) for step in range(days)]
    paths = [folder / f"sales_{day}.csv" for day in dates]
    for path, day in zip(paths, dates, strict=True):
        write_day(path, day, rows=rows, seed=seed)
    return paths
