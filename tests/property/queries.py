"""Random queries of every construct that has a rule, nested up to three deep, in the SQL that Spark and DuckDB share.

Ties that the two would break differently are avoided by ordering by every column; everything else is left to chance.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from tests.property.contents import Table

Columns = list[tuple[str, str]]
NUMBERS = ("int", "bigint", "double", "decimal(10,2)")
ORDERED = (*NUMBERS, "string", "date")


@dataclass
class Rel:
    """A query and its columns."""

    sql: str
    columns: Columns

    def of(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.columns if kind in kinds]


class QueryMaker:
    """Makes queries, and counts the constructs that it used. Names that it gives are numbered, after `first`."""

    def __init__(self, rng: random.Random, tables: tuple[Table, ...], *, first: int = 0) -> None:
        self.rng = rng
        self.tables = tables
        self.used: Counter[str] = Counter()
        self.number = first
        self.ctes: list[str] = []
        self.columns: Columns = []

    def query(self) -> str:
        """A query; `columns` are then those of its result."""
        rel = self.any(self.rng.choice([1, 1, 1, 2, 2, 2, 2, 3]))
        names = [f"{name} AS c{i}" for i, (name, _) in enumerate(rel.columns)]
        sql, self.columns = rel.sql, rel.columns
        if self.rng.random() < 0.1:
            sql = f"SELECT {', '.join(names)} FROM ({sql}) AS z"
            self.columns = [(f"c{i}", kind) for i, (_, kind) in enumerate(rel.columns)]
        return f"WITH {', '.join(self.ctes)} {sql}" if self.ctes else sql

    def any(self, depth: int) -> Rel:
        if depth == 0:
            return self.base()
        makers = [
            self.filter, self.project, self.join, self.join, self.outer, self.outer, self.group, self.group, self.group,
            self.distinct, self.sets, self.sets, self.exists, self.within, self.not_within, self.scalar,
            self.correlated,
            self.window, self.window, self.qualify, self.explode, self.limit, self.rollup, self.cte, self.mark,
            self.semi_join, self.values_join, self.self_join,
        ]  # fmt: skip
        made = self.rng.choice(makers)(depth - 1)
        seen: set[str] = set()
        columns = [c for c in made.columns if not (c[0] in seen or seen.add(c[0]))]  # type: ignore[func-returns-value]
        return Rel(made.sql, columns)

    # ------------------------------------------------------------------------------------------------------ pieces

    def say(self, *constructs: str) -> None:
        self.used.update(constructs)

    def alias(self) -> str:
        self.number += 1
        return f"r{self.number}"

    def name(self) -> str:
        self.number += 1
        return f"v{self.number}"

    def base(self) -> Rel:
        table = self.rng.choice(self.tables)
        self.say("table")
        return Rel(f"SELECT * FROM {table.name}", list(table.columns))

    def item(self, depth: int) -> tuple[str, str, Rel]:
        """Something for FROM: its text with an alias, the alias, and what it holds."""
        alias = self.alias()
        if depth == 0:
            table = self.rng.choice(self.tables)
            return f"{table.name} AS {alias}", alias, Rel("", list(table.columns))
        rel = self.any(depth)
        return f"({rel.sql}) AS {alias}", alias, rel

    def pick(self, rel: Rel, alias: str, *, most: int = 4) -> tuple[str, Columns]:
        """Some of the columns under fresh names, as a select list."""
        chosen = self.rng.sample(rel.columns, min(len(rel.columns), self.rng.randint(1, most)))
        named = [(self.name(), name, kind) for name, kind in chosen]
        return ", ".join(f"{alias}.{own} AS {new}" for new, own, _ in named), [(new, kind) for new, _, kind in named]

    def value(self, kind: str) -> str:
        return {
            "int": lambda: str(self.rng.randint(0, 3)),
            "bigint": lambda: str(self.rng.randint(0, 3)),
            "double": lambda: "CAST(1.5 AS DOUBLE)",
            "decimal(10,2)": lambda: "CAST(1.25 AS DECIMAL(10, 2))",
            "string": lambda: self.rng.choice(["'a'", "'b'"]),
            "date": lambda: "DATE '2024-01-15'",
            "boolean": lambda: "TRUE",
        }[kind]()

    def condition(self, rel: Rel, alias: str) -> str:
        usable = [(n, k) for n, k in rel.columns if k in (*ORDERED, "boolean")]
        if not usable:
            return "TRUE"
        name, kind = self.rng.choice(usable)
        column = f"{alias}.{name}"
        simple = [
            f"{column} {self.rng.choice(['=', '<>', '<', '>=', '<=>'])} {self.value(kind)}",
            f"{column} IS {self.rng.choice(['', 'NOT '])}NULL",
            f"NOT ({column} = {self.value(kind)})",
            f"COALESCE({column}, {self.value(kind)}) = {self.value(kind)}",
            f"{column} IN ({self.value(kind)}, {self.value(kind)})",
        ]
        first = self.rng.choice(simple)
        if self.rng.random() < 0.25:
            self.say("OR")
            return f"({first} OR {self.condition(rel, alias)})"
        return first

    def expression(self, rel: Rel, alias: str) -> tuple[str, str]:
        """An expression over a relation, and its type."""
        name, kind = self.rng.choice(rel.columns)
        column = f"{alias}.{name}"
        if kind in ("int", "bigint"):
            return self.rng.choice([(f"{column} + 1", kind), (f"{column} * 2", kind), (f"-{column}", kind)])
        if kind == "string":
            return self.rng.choice([(f"UPPER({column})", kind), (f"CONCAT({column}, 'z')", kind)])
        if kind in (*ORDERED, "boolean") and self.rng.random() < 0.6:
            self.say("CASE")
            other = self.value(kind)
            return f"CASE WHEN {self.condition(rel, alias)} THEN {column} ELSE {other} END", kind
        return column, kind

    def on(self, left: Rel, one: str, right: Rel, two: str) -> str:
        """A join condition: equal, equal and more, or anything but equal."""
        pairs = [(a, b) for a, ka in left.columns for b, kb in right.columns if ka == kb and ka in ORDERED]
        ints = [(a, b) for a in left.of("int", "bigint") for b in right.of("int", "bigint")]
        if not pairs:
            return "TRUE"
        a, b = self.rng.choice(pairs)
        shape = self.rng.random()
        if shape < 0.5 or not ints:
            self.say("equi join")
            return f"{one}.{a} = {two}.{b}"
        c, d = self.rng.choice(ints)
        if shape < 0.62:
            self.say("null-safe join")
            return f"{one}.{a} <=> {two}.{b}"
        if shape < 0.82:
            self.say("equi join with more")
            return f"{one}.{a} = {two}.{b} AND {one}.{c} {self.rng.choice(['<', '<>', '>='])} {two}.{d}"
        self.say("non-equi join")
        return f"{one}.{c} {self.rng.choice(['<', '>='])} {two}.{d}"

    # ----------------------------------------------------------------------------------------------- row operators

    def filter(self, depth: int) -> Rel:
        text, alias, rel = self.item(depth)
        self.say("filter")
        dates = rel.of("date")
        if dates and self.rng.random() < 0.8:
            self.say("present moment")
            compare = self.rng.choice(["<=", ">"])
            test = f"{alias}.{self.rng.choice(dates)} {compare} CURRENT_DATE"
            return Rel(f"SELECT * FROM {text} WHERE {test} AND {self.condition(rel, alias)}", rel.columns)
        return Rel(f"SELECT * FROM {text} WHERE {self.condition(rel, alias)}", rel.columns)

    def project(self, depth: int) -> Rel:
        text, alias, rel = self.item(depth)
        self.say("project")
        made = [(self.name(), *self.expression(rel, alias)) for _ in range(self.rng.randint(1, 3))]
        numbers = [name for name, _, kind in made if kind in ("int", "bigint")]
        if numbers and self.rng.random() < 0.5:
            self.say("alias used again")
            made.append((self.name(), f"{self.rng.choice(numbers)} * 3", "bigint"))
        chosen, columns = self.pick(rel, alias, most=3)
        listed = ", ".join([chosen, *(f"{sql} AS {name}" for name, sql, _ in made)])
        return Rel(f"SELECT {listed} FROM {text}", [*columns, *((name, kind) for name, _, kind in made)])

    def explode(self, depth: int) -> Rel:
        text, alias, rel = self.item(depth)
        lists = rel.of("array<int>")
        self.say("explode")
        chosen, columns = self.pick(rel, alias, most=3)
        column = f"{alias}.{self.rng.choice(lists)}" if lists else "array(1, 2, 2)"
        made = self.name()
        view = f"LATERAL VIEW EXPLODE({column}) e AS {made}"
        return Rel(f"SELECT {chosen}, {made} FROM {text} {view}", [*columns, (made, "int")])

    # ------------------------------------------------------------------------------------------------------- joins

    def _join(self, kind: str, depth: int) -> Rel:
        deeper, other = (depth, 0) if self.rng.random() < 0.5 else (0, depth)
        left_text, one, left = self.item(deeper)
        right_text, two, right = self.item(other)
        chosen, columns = self.pick(left, one)
        more, others = self.pick(right, two)
        on = "" if kind == "CROSS" else f" ON {self.on(left, one, right, two)}"
        tail = ""
        if self.rng.random() < 0.3:
            third_text, three, third = self.item(0)
            tail = f" {self.rng.choice(['JOIN', 'LEFT JOIN'])} {third_text} ON {self.on(left, one, third, three)}"
            extra, added = self.pick(third, three, most=2)
            more, others = f"{more}, {extra}", [*others, *added]
            self.say("three-way join")
        where = f" WHERE {self.condition(left, one)}" if self.rng.random() < 0.3 else ""
        sql = f"SELECT {chosen}, {more} FROM {left_text} {kind} JOIN {right_text}{on}{tail}{where}"
        return Rel(sql, [*columns, *others])

    def join(self, depth: int) -> Rel:
        kind = self.rng.choice(["INNER", "INNER", "INNER", "CROSS"])
        self.say(f"{kind.lower()} join")
        return self._join(kind, depth)

    def outer(self, depth: int) -> Rel:
        kind = self.rng.choice(["LEFT", "LEFT", "RIGHT", "FULL"])
        self.say(f"{kind.lower()} join")
        return self._join(kind, depth)

    def self_join(self, depth: int) -> Rel:
        table = self.rng.choice(self.tables)
        self.say("self join")
        rel = Rel("", list(table.columns))
        chosen, columns = self.pick(rel, "p", most=3)
        more, others = self.pick(rel, "q", most=3)
        kind = self.rng.choice(["INNER", "LEFT", "FULL"])
        on = self.on(rel, "p", rel, "q")
        return Rel(
            f"SELECT {chosen}, {more} FROM {table.name} p {kind} JOIN {table.name} q ON {on}", [*columns, *others]
        )

    def semi_join(self, depth: int) -> Rel:
        text, one, left = self.item(depth)
        other, two, right = self.item(0)
        kind = self.rng.choice(["SEMI", "ANTI"])
        self.say(f"{kind.lower()} join")
        chosen, columns = self.pick(left, one)
        return Rel(f"SELECT {chosen} FROM {text} LEFT {kind} JOIN {other} ON {self.on(left, one, right, two)}", columns)

    def values_join(self, depth: int) -> Rel:
        text, one, left = self.item(depth)
        self.say("values")
        chosen, columns = self.pick(left, one)
        right = Rel("", [("i", "int"), ("n", "string")])
        values = "VALUES (0, 'zero'), (1, 'one'), (CAST(NULL AS INT), 'none')"
        kind = self.rng.choice(["INNER", "LEFT", "RIGHT"])
        on = self.on(left, one, right, "w")
        made, number = self.name(), self.name()
        sql = f"SELECT {chosen}, w.i AS {number}, w.n AS {made} FROM {text} {kind} JOIN ({values}) AS w(i, n) ON {on}"
        return Rel(sql, [*columns, (number, "int"), (made, "string")])

    # -------------------------------------------------------------------------------------------------- subqueries

    def exists(self, depth: int) -> Rel:
        text, one, left = self.item(depth)
        other, two, right = self.item(0)
        negated = self.rng.choice(["", "NOT "])
        self.say(f"{negated}EXISTS")
        inside = f"SELECT 1 FROM {other} WHERE {self.on(left, one, right, two)}"
        if self.rng.random() < 0.3:
            inside += f" AND {self.condition(right, two)}"
        return Rel(f"SELECT * FROM {text} WHERE {negated}EXISTS ({inside})", left.columns)

    def _pair(self, left: Rel, right: Rel) -> tuple[str, str] | None:
        pairs = [(a, b) for a, ka in left.columns for b, kb in right.columns if ka == kb and ka in ORDERED]
        return self.rng.choice(pairs) if pairs else None

    def _in(self, depth: int, word: str) -> Rel:
        text, one, left = self.item(depth)
        other, two, right = self.item(self.rng.choice([0, 0, min(depth, 1)]))
        pair = self._pair(left, right)
        if pair is None:
            return Rel(f"SELECT * FROM {text}", left.columns)
        self.say(word)
        where = f" WHERE {self.condition(right, two)}" if self.rng.random() < 0.5 else ""
        inside = f"SELECT {two}.{pair[1]} FROM {other}{where}"
        if self.rng.random() < 0.25 and left.of("int") and right.of("int"):
            self.say("correlated IN")
            link = f"{two}.{self.rng.choice(right.of('int'))} = {one}.{self.rng.choice(left.of('int'))}"
            inside += f"{' AND' if where else ' WHERE'} {link}"
        return Rel(f"SELECT * FROM {text} WHERE {one}.{pair[0]} {word} ({inside})", left.columns)

    def within(self, depth: int) -> Rel:
        return self._in(depth, "IN")

    def not_within(self, depth: int) -> Rel:
        return self._in(depth, "NOT IN")

    def mark(self, depth: int) -> Rel:
        """Subqueries where they are not a condition by themselves: under OR, or in the select list."""
        text, one, left = self.item(depth)
        other, two, right = self.item(0)
        pair = self._pair(left, right)
        if pair is None:
            return Rel(f"SELECT * FROM {text}", left.columns)
        inside = f"SELECT {two}.{pair[1]} FROM {other}"
        test = f"{one}.{pair[0]} {self.rng.choice(['IN', 'NOT IN'])} ({inside})"
        if self.rng.random() < 0.5:
            test = f"EXISTS ({inside} WHERE {self.on(left, one, right, two)})"
        if self.rng.random() < 0.5:
            self.say("subquery under OR")
            return Rel(f"SELECT * FROM {text} WHERE {test} OR {self.condition(left, one)}", left.columns)
        self.say("subquery in SELECT")
        chosen, columns = self.pick(left, one)
        made = self.name()
        sure = f"COALESCE({test}, FALSE)"  # Spark has FALSE where DuckDB has NULL
        return Rel(f"SELECT {chosen}, {sure} AS {made} FROM {text}", [*columns, (made, "boolean")])

    def scalar(self, depth: int) -> Rel:
        text, one, left = self.item(depth)
        other, two, right = self.item(self.rng.choice([0, min(depth, 1)]))
        numbers, mine = right.of("int"), left.of("int")
        self.say("scalar subquery")
        call = self.rng.choice([f"MAX({two}.{n})" for n in numbers] + ["COUNT(*)"])
        subquery = f"(SELECT {call} FROM {other})"
        if mine and self.rng.random() < 0.5:
            compare = self.rng.choice(["<", "=", ">="])
            return Rel(f"SELECT * FROM {text} WHERE {one}.{self.rng.choice(mine)} {compare} {subquery}", left.columns)
        chosen, columns = self.pick(left, one)
        made = self.name()
        return Rel(f"SELECT {chosen}, {subquery} AS {made} FROM {text}", [*columns, (made, "bigint")])

    def correlated(self, depth: int) -> Rel:
        text, one, left = self.item(depth)
        other, two, right = self.item(0)
        pair = self._pair(left, right)
        if pair is None:
            return Rel(f"SELECT * FROM {text}", left.columns)
        self.say("correlated scalar subquery")
        numbers = right.of("int")
        calls = (
            ["COUNT(*)", "COUNT(*) + 1"]
            + [f"{f}({two}.{n})" for n in numbers for f in ("SUM", "MIN", "COUNT")]
            + [f"COALESCE(SUM({two}.{n}), 0)" for n in numbers]
        )
        subquery = f"(SELECT {self.rng.choice(calls)} FROM {other} WHERE {two}.{pair[1]} = {one}.{pair[0]})"
        mine = left.of("int")
        if mine and self.rng.random() < 0.4:
            return Rel(f"SELECT * FROM {text} WHERE {one}.{self.rng.choice(mine)} < {subquery}", left.columns)
        chosen, columns = self.pick(left, one)
        made = self.name()
        return Rel(f"SELECT {chosen}, {subquery} AS {made} FROM {text}", [*columns, (made, "bigint")])

    # -------------------------------------------------------------------------------------------------- aggregates

    def call(self, rel: Rel, alias: str) -> tuple[str, str]:
        """An aggregate call, and its type."""
        options: list[tuple[str, str, str]] = [("COUNT(*)", "bigint", "COUNT(*)")]
        for name, kind in rel.columns:
            column = f"{alias}.{name}"
            options += [(f"COUNT({column})", "bigint", "COUNT")]
            if kind in ORDERED:
                options += [(f"MIN({column})", kind, "MIN"), (f"MAX({column})", kind, "MAX")]
                options += [(f"COUNT(DISTINCT {column})", "bigint", "COUNT DISTINCT")]
            if kind in ("int", "bigint"):
                options += [(f"SUM({column})", "bigint", "SUM int"), (f"AVG({column})", "double", "AVG")]
                options += [(f"SUM(DISTINCT {column})", "bigint", "SUM DISTINCT")]
                options += [(f"SUM({column} * 2 + 1)", "bigint", "SUM of an expression")]
                options += [(f"SORT_ARRAY(COLLECT_LIST({column}))", "list", "collect_list")]
                options += [(f"MEDIAN({column})", "double", "MEDIAN")]
            if kind == "double":
                options += [(f"SUM({column})", "double*", "SUM double")]
            if kind == "decimal(10,2)":
                options += [(f"SUM({column})", "decimal", "SUM decimal")]
            if kind == "boolean":
                options += [
                    (f"COUNT_IF({column})", "bigint", "COUNT_IF"),
                    (f"BOOL_AND({column})", "boolean", "BOOL_AND"),
                ]
        word = self.rng.choice(sorted({word for _, _, word in options}))
        sql, kind, _ = self.rng.choice([option for option in options if option[2] == word])
        self.say(word)
        if self.rng.random() < 0.15 and "LIST" not in sql:
            self.say("FILTER")
            return f"{sql} FILTER (WHERE {self.condition(rel, alias)})", kind
        return sql, kind

    def group(self, depth: int) -> Rel:
        text, alias, rel = self.item(depth)
        usable = [(n, k) for n, k in rel.columns if k != "double*"]
        count = self.rng.choice([0, 1, 1, 1, 2])
        keys = self.rng.sample(usable, min(len(usable), count))
        self.say("GROUP BY" if keys else "global aggregate")
        named = [(self.name(), f"{alias}.{n}", k) for n, k in keys]
        if named and self.rng.random() < 0.2:
            sql, kind = self.expression(rel, alias)
            named[0] = (named[0][0], sql, kind)
            self.say("GROUP BY expression")
        calls = [(self.name(), *self.call(rel, alias)) for _ in range(self.rng.randint(1, 3))]
        shown = named if self.rng.random() < 0.85 else named[:-1]
        if len(shown) < len(named):
            self.say("key not selected")
        if self.rng.random() < 0.15:
            calls.append((self.name(), "COUNT(*) * 2 + 1", "bigint"))
            self.say("expression of aggregates")
        listed = ", ".join(f"{sql} AS {name}" for name, sql, _ in (*shown, *calls))
        by = f" GROUP BY {', '.join(sql for _, sql, _ in named)}" if named else ""
        where = f" WHERE {self.condition(rel, alias)}" if self.rng.random() < 0.3 else ""
        having = ""
        if self.rng.random() < 0.2:
            self.say("HAVING")
            having = f" HAVING COUNT(*) {self.rng.choice(['>', '<', '='])} {self.rng.randint(0, 2)}"
        sql = f"SELECT {listed} FROM {text}{where}{by}{having}"
        return Rel(sql, [(name, kind) for name, _, kind in (*shown, *calls)])

    def rollup(self, depth: int) -> Rel:
        text, alias, rel = self.item(depth)
        usable = [n for n, k in rel.columns if k in (*ORDERED, "boolean")]
        if len(usable) < 2:
            return self.group(depth)
        one, two = (f"{alias}.{n}" for n in self.rng.sample(usable, 2))
        kinds = {f"{alias}.{n}": k for n, k in rel.columns}
        word = self.rng.choice(["GROUPING SETS", "GROUPING SETS", "ROLLUP", "CUBE"])
        self.say(word)
        sets = {
            "GROUPING SETS": f"GROUPING SETS (({one}, {two}), ({one}), ({two}))",
            "ROLLUP": f"{one}, ROLLUP ({two})",
            "CUBE": f"{one}, CUBE ({two})",
        }[word]
        calls = [(self.name(), *self.call(rel, alias)) for _ in range(2)]
        a, b, g = self.name(), self.name(), self.name()
        listed = ", ".join([f"{one} AS {a}", f"{two} AS {b}", *(f"{sql} AS {name}" for name, sql, _ in calls)])
        grouping = f", CAST(GROUPING({two}) AS INT) AS {g}" if self.rng.random() < 0.4 else ""
        columns = [(a, kinds[one]), (b, kinds[two]), *((name, kind) for name, _, kind in calls)]
        columns += [(g, "int")] if grouping else []
        return Rel(f"SELECT {listed}{grouping} FROM {text} GROUP BY {sets}", columns)

    # ------------------------------------------------------------------------------------- sets, windows, the rest

    def distinct(self, depth: int) -> Rel:
        text, alias, rel = self.item(depth)
        chosen, columns = self.pick(Rel("", [c for c in rel.columns if c[1] != "double*"] or rel.columns), alias)
        self.say("DISTINCT")
        return Rel(f"SELECT DISTINCT {chosen} FROM {text}", columns)

    def sets(self, depth: int) -> Rel:
        word = self.rng.choice(["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        self.say(word)
        one_text, one, left = self.item(depth)
        two_text, two, right = self.item(0)
        pairs = [(a, b, ka) for a, ka in left.columns for b, kb in right.columns if ka == kb]
        if not pairs:
            return Rel(f"SELECT * FROM {one_text}", left.columns)
        chosen = self.rng.sample(pairs, min(len(pairs), self.rng.randint(1, 3)))
        names = [self.name() for _ in chosen]
        first = ", ".join(f"{one}.{a} AS {name}" for name, (a, _, _) in zip(names, chosen, strict=True))
        second = ", ".join(f"{two}.{b}" for _, b, _ in chosen)
        sql = f"SELECT {first} FROM {one_text} {word} SELECT {second} FROM {two_text}"
        return Rel(sql, [(name, kind) for name, (_, _, kind) in zip(names, chosen, strict=True)])

    def window(self, depth: int) -> Rel:
        text, alias, rel = self.item(depth)
        keys = [n for n, k in rel.columns if k in (*ORDERED, "boolean")]
        if not keys:
            return Rel(f"SELECT * FROM {text}", rel.columns)
        part = f"PARTITION BY {alias}.{self.rng.choice(keys)}"
        order = f"{alias}.{self.rng.choice(keys)}"
        every = ", ".join(f"{alias}.{n}" for n, _ in rel.columns)
        numbers = rel.of("int")
        calls = [(f"RANK() OVER ({part} ORDER BY {order})", "int", "RANK")]
        calls += [(f"ROW_NUMBER() OVER ({part} ORDER BY {every})", "int", "ROW_NUMBER")]
        calls += [(f"COUNT(*) OVER ({part})", "bigint", "COUNT OVER")]
        for n in numbers:
            calls += [(f"SUM({alias}.{n}) OVER ({part} ORDER BY {order})", "bigint", "SUM OVER RANGE")]
            rows = "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
            calls += [(f"SUM({alias}.{n}) OVER ({part} ORDER BY {every} {rows})", "bigint", "SUM OVER ROWS")]
            calls += [(f"LAG({alias}.{n}) OVER ({part} ORDER BY {every})", "int", "LAG")]
        self.say("window")
        chosen, columns = self.pick(rel, alias)
        made: Columns = []
        listed = [chosen]
        for sql, kind, word in self.rng.sample(calls, min(len(calls), self.rng.randint(1, 2))):
            self.say(word)
            made.append((self.name(), kind))
            listed.append(f"{sql} AS {made[-1][0]}")
        if self.rng.random() < 0.3:
            other = f"PARTITION BY {alias}.{self.rng.choice(keys)}"
            made.append((self.name(), "bigint"))
            listed.append(f"COUNT(*) OVER ({other}) AS {made[-1][0]}")
            self.say("two partitionings")
        return Rel(f"SELECT {', '.join(listed)} FROM {text}", [*columns, *made])

    def qualify(self, depth: int) -> Rel:
        text, alias, rel = self.item(depth)
        keys = [n for n, k in rel.columns if k in (*ORDERED, "boolean")]
        if not keys:
            return Rel(f"SELECT * FROM {text}", rel.columns)
        self.say("QUALIFY")
        every = ", ".join(f"{alias}.{n}" for n, _ in rel.columns)
        call = f"ROW_NUMBER() OVER (PARTITION BY {alias}.{self.rng.choice(keys)} ORDER BY {every})"
        test = self.rng.choice([f"{call} = 1", f"{call} <= 2", f"COUNT(*) OVER (PARTITION BY {alias}.{keys[0]}) > 1"])
        return Rel(f"SELECT {alias}.* FROM {text} QUALIFY {test}", rel.columns)

    def limit(self, depth: int) -> Rel:
        text, alias, rel = self.item(depth)
        self.say("LIMIT")
        chosen, columns = self.pick(rel, alias)
        order = ", ".join(name for name, _ in columns)
        offset = f" OFFSET {self.rng.randint(0, 2)}" if self.rng.random() < 0.3 else ""
        sql = f"SELECT {chosen} FROM {text} ORDER BY {order} LIMIT {self.rng.randint(1, 3)}{offset}"
        return Rel(f"SELECT * FROM ({sql}) AS {self.alias()}", columns)

    def cte(self, depth: int) -> Rel:
        rel = self.any(depth) if depth else self.filter(0)
        name = f"t{len(self.ctes)}_{self.alias()}"
        self.ctes.append(f"{name} AS ({rel.sql})")
        self.say("CTE")
        if self.rng.random() < 0.6:
            return Rel(f"SELECT * FROM {name}", rel.columns)
        self.say("CTE used twice")
        inner = Rel("", rel.columns)
        chosen, columns = self.pick(inner, "p", most=3)
        more, others = self.pick(inner, "q", most=2)
        kind = self.rng.choice(["INNER", "LEFT"])
        sql = f"SELECT {chosen}, {more} FROM {name} p {kind} JOIN {name} q ON {self.on(inner, 'p', inner, 'q')}"
        return Rel(sql, [*columns, *others])
