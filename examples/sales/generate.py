"""Daily sales files with the dirt that real ones have: the same files for the same seed, on every machine.

    python examples/sales/generate.py OUT_DIR [--later DIR] [--days 31] [--rows 80] [--seed 7]

Dirty on purpose: lower-case regions, zero and negative quantities, prices that are no numbers. What comes later: a day
that was delivered again, a day that came late, and a day with a column more.
"""

from __future__ import annotations

import argparse
import csv
import random
from datetime import date, timedelta
from pathlib import Path

REGIONS = ("NORTH", "SOUTH", "EAST", "WEST")
FIRST = date(2024, 1, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--later", type=Path)
    parser.add_argument("--days", type=int, default=31)
    parser.add_argument("--rows", type=int, default=80)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for offset in range(given.days):
        day = FIRST + timedelta(days=offset)
        write_day(given.folder / f"sales_{day}.csv", day, rows=given.rows, seed=given.seed)
    if given.later is not None:
        write_later(given.later, rows=given.rows, seed=given.seed)


def write_later(folder: Path, *, rows: int, seed: int) -> None:
    """Deliveries after those of January."""
    folder.mkdir(parents=True, exist_ok=True)
    again, late, wider = FIRST + timedelta(days=14), FIRST - timedelta(days=1), FIRST + timedelta(days=31)
    write_day(folder / f"sales_{again}.csv", again, rows=rows, seed=seed + 1)
    write_day(folder / f"sales_{late}.csv", late, rows=rows, seed=seed)
    path = folder / f"sales_{wider}.csv"
    write_day(path, wider, rows=rows, seed=seed)
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    wide = [f"{head},channel", *(f"{line},{'web' if number % 3 else 'shop'}" for number, line in enumerate(lines))]
    path.write_text("\r\n".join(wide) + "\r\n", encoding="utf-8", newline="")


def write_day(path: Path, day: date, *, rows: int, seed: int) -> None:
    """One delivery."""
    chance = random.Random(f"{seed}-{day}")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["date", "product_id", "quantity", "price", "customer_id", "region"])
        for _ in range(rows + chance.randint(-rows // 4, rows // 4)):
            writer.writerow(make_row(day, chance))


def make_row(day: date, chance: random.Random) -> list[str]:
    region = chance.choice(REGIONS)
    quantity = chance.randint(1, 9)
    price = f"{chance.randint(100, 50_000) / 100:.2f}"
    dirt = chance.random()
    if dirt < 0.02:
        quantity = -quantity if dirt < 0.01 else 0
    elif dirt < 0.03:
        price = "n/a"
    elif dirt < 0.15:
        region = f" {region.lower()}"
    return [day.isoformat(), f"P{chance.randint(1, 19):03}", str(quantity), price, str(chance.randint(1, 500)), region]


if __name__ == "__main__":
    main()
