"""A small shop as SQL files: its rows, and what happens on the next day. The same for the same seed, on every machine.

python examples/orders/generate.py OUT_DIR [--orders 2000] [--seed 7]
"""

from __future__ import annotations

import argparse
import random
from datetime import date, timedelta
from pathlib import Path

REGIONS = ("NORTH", "SOUTH", "EAST", "WEST")
NAMES = ("Ada", "Boris", "Chen", "Dora", "Emil", "Fatima", "Goran", "Hana", "Ivo", "Jana")
PRODUCTS = ("kettle", "lamp", "chair", "desk", "clock", "rug", "shelf", "mirror", "stool", "vase", "bowl", "fan")
FIRST, DAYS = date(2024, 1, 1), 60
LOAD = """CREATE NAMESPACE IF NOT EXISTS shop;
CREATE TABLE shop.customers (customer_id bigint, customer_name string, region string);
CREATE TABLE shop.products (product_id bigint, product_name string, category string, price decimal(10,2));
CREATE TABLE shop.orders (order_id bigint, customer_id bigint, product_id bigint, quantity int, ordered_on date);
INSERT INTO shop.customers VALUES {customers};
INSERT INTO shop.products VALUES {products};
INSERT INTO shop.orders VALUES {orders};
"""
NEXT_DAY = """-- orders come, one is cancelled, one goes to another customer, a customer moves, a price changes
INSERT INTO shop.orders VALUES {orders};
DELETE FROM shop.orders WHERE order_id = 17;
UPDATE shop.orders SET customer_id = 3 WHERE order_id = 42;
UPDATE shop.customers SET region = 'WEST' WHERE customer_id = 7;
UPDATE shop.products SET price = price + 1 WHERE product_id = 5;
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--orders", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    given.folder.mkdir(parents=True, exist_ok=True)
    days = [FIRST + timedelta(days=number * DAYS // given.orders) for number in range(given.orders)]
    rows = [make_order(number, day, chance) for number, day in enumerate(days, start=1)]
    (given.folder / "load.sql").write_text(
        LOAD.format(customers=customers(chance), products=products(chance), orders=", ".join(rows))
    )
    late = [make_order(given.orders + number, FIRST + timedelta(days=DAYS), chance) for number in range(1, 31)]
    (given.folder / "next_day.sql").write_text(NEXT_DAY.format(orders=", ".join(late)))


def customers(chance: random.Random) -> str:
    made = [(number, f"{chance.choice(NAMES)} {number}", chance.choice(REGIONS)) for number in range(1, 101)]
    return ", ".join(f"({number}, '{name}', '{region}')" for number, name, region in made)


def products(chance: random.Random) -> str:
    made = [(number, name, chance.randint(500, 20_000) / 100) for number, name in enumerate(PRODUCTS, start=1)]
    return ", ".join(f"({number}, '{name}', 'home', {price:.2f})" for number, name, price in made)


def make_order(number: int, day: date, chance: random.Random) -> str:
    customer, product = chance.randint(1, 100), chance.randint(1, len(PRODUCTS))
    return f"({number}, {customer}, {product}, {chance.randint(1, 5)}, DATE '{day}')"


if __name__ == "__main__":
    main()
