"""`lake.dynamic`: dynamic tables; `lake.dynamic("totals")` is one."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from neve.errors import InvalidInput
from neve.model.delta import Step
from neve.model.dynamic import CreateDynamic
from neve.model.history import RefreshRecord
from neve.model.names import TableName
from neve.model.refresh import Difference, DynamicDetails, DynamicGraph, DynamicRow, RecoveredRow, RefreshReceipt
from neve.model.results import (
    Receipt,
)
from neve.services.context import Context

if TYPE_CHECKING:
    from neve.services.dynamic.rounds import Round


class DynamicTables:
    """Tables that are declared by a query and kept equal to it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self, name: str) -> DynamicTable:
        return DynamicTable(self._context, TableName.parse(name))

    def create(self, sql: str) -> builtins.list[Receipt]:
        """Runs CREATE DYNAMIC TABLE statements: each table is made, and filled unless it waits for its schedule.

        All are read before the first is made; a table may read those before it.
        """
        from neve.services.dynamic.declaring import create_dynamic

        return [receipt for asked in _declarations(sql) for receipt in create_dynamic(self._context, asked)]

    def validate(self, sql: str) -> Step:
        """How declared tables would follow changes; raises what is wrong with them. Nothing is run."""
        from neve.services.dynamic.validation import validate_script

        return validate_script(self._context, _declarations(sql))

    def list(self) -> builtins.list[DynamicRow]:
        """Every dynamic table: how fresh it is, how it is refreshed, and how that went last."""
        from neve.services.dynamic.look import list_dynamic

        return list_dynamic(self._context)

    def graph(self, name: str | None = None) -> DynamicGraph:
        """Who reads whom, in the order of refreshes; of one table, what it needs and what needs it."""
        from neve.services.dynamic.look import graph_of

        return graph_of(self._context, None if name is None else TableName.parse(name))

    def history(
        self, name: str | None = None, *, failed: bool = False, limit: int = 20
    ) -> builtins.list[RefreshRecord]:
        """The latest refreshes of a table, or of all, newest first; only those that failed, if wanted."""
        from neve.services.dynamic.look import refresh_history

        table = None if name is None else TableName.parse(name)
        return refresh_history(self._context, table, failed=failed, limit=limit)

    def recover(self) -> builtins.list[RecoveredRow]:
        """Writes what the state database keeps of dynamic tables anew, from the catalog; what was missing."""
        from neve.services.dynamic.history import recover

        return recover(self._context)

    def refresh(
        self, names: Sequence[str] = (), *, downstream: bool = False, parallel: int | None = None, dry_run: bool = False
    ) -> builtins.list[RefreshReceipt]:
        """Refreshes the named tables, or all, in the order of their graph; `+t` and `t+` reach along it.

        Raises:
            RefreshFailed: tables failed; the others had their turn. Where one table was refreshed, its own error.
        """
        done = self.round(names, downstream=downstream, parallel=parallel, dry_run=dry_run)
        done.check()
        return done.receipts

    def round(
        self, names: Sequence[str] = (), *, downstream: bool = False, parallel: int | None = None, dry_run: bool = False
    ) -> Round:
        """As `refresh`, but tables that failed are told in the answer among the others."""
        from neve.services.dynamic.laps import RoundRequest
        from neve.services.dynamic.rounds import run_round

        selectors = [f"{name}+" if downstream and not name.endswith("+") else name for name in _several(names)]
        return run_round(self._context, RoundRequest(selectors=selectors, parallel=parallel, dry_run=dry_run))

    def explain(self, name: str) -> Step:
        from neve.services.dynamic.look import explain_dynamic

        return explain_dynamic(self._context, TableName.parse(name))

    def verify(self, name: str) -> Difference:
        """Computes the query anew at the table's frontier and compares."""
        return self.verify_all([name])[0]

    def verify_all(self, names: Sequence[str] = ()) -> builtins.list[Difference]:
        """As `verify`, for several tables (`t`, `+t`, `t+`) or all."""
        from neve.services.dynamic.verify import verify_tables

        return verify_tables(self._context, _several(names))

    def drop(self, name: str, *, cascade: bool = False) -> builtins.list[Receipt]:
        from neve.services.dynamic.statements import drop_dynamic

        return drop_dynamic(self._context, TableName.parse(name), cascade=cascade)


def _several(names: Sequence[str]) -> Sequence[str]:
    """A text is one name, and not a sequence of letters."""
    return [names] if isinstance(names, str) else names


class DynamicTable:
    """One dynamic table."""

    def __init__(self, context: Context, name: TableName) -> None:
        self._context = context
        self.name = name

    def __repr__(self) -> str:
        return f"DynamicTable({str(self.name)!r})"

    def show(self) -> DynamicDetails:
        from neve.services.dynamic.showing import show_dynamic

        return show_dynamic(self._context, self.name)

    def alter(self, options: Mapping[str, str] | None = None, *, unset: Sequence[str] = ()) -> Receipt:
        """Gives options other values, by the names that SQL has for them, or their defaults; in one commit."""
        from neve.services.dynamic.altering import alter_options
        from neve.sql.dynamic_options import fields_from_words, options_from_words

        put = options_from_words(options or {})
        return alter_options(self._context, self.name, put=put, unset=fields_from_words(unset))

    def suspend(self) -> list[Receipt]:
        """Rounds leave it out, and the tables that read it; by name it can still be refreshed."""
        from neve.services.dynamic.altering import suspend

        return suspend(self._context, self.name)

    def resume(self) -> list[Receipt]:
        from neve.services.dynamic.altering import resume

        return resume(self._context, self.name)

    def rename(self, new_name: str) -> Receipt:
        from neve.services.dynamic.altering import rename_dynamic

        receipt = rename_dynamic(self._context, self.name, TableName.parse(new_name))
        self.name = TableName.parse(new_name)
        return receipt

    def swap(self, other: str) -> Receipt:
        """Exchanges names with another dynamic table, in one step."""
        from neve.services.dynamic.altering import swap_dynamic

        return swap_dynamic(self._context, self.name, TableName.parse(other))

    def refresh(self) -> RefreshReceipt:
        """One round of this table, and of those above it that must be brought along; its own receipt."""
        from neve.services.dynamic.rounds import refresh_tables

        return refresh_tables(self._context, [self.name.short])[-1]

    def explain(self) -> Step:
        from neve.services.dynamic.look import explain_dynamic

        return explain_dynamic(self._context, self.name)

    def verify(self) -> Difference:
        """Computes the query anew at the table's frontier and compares."""
        from neve.services.dynamic.verify import verify_tables

        return verify_tables(self._context, [self.name.short])[0]

    def drop(self, *, cascade: bool = False) -> list[Receipt]:
        from neve.services.dynamic.statements import drop_dynamic

        return drop_dynamic(self._context, self.name, cascade=cascade)


def _declarations(sql: str) -> list[CreateDynamic]:
    from neve.sql.dynamic import is_dynamic
    from neve.sql.statements import read_script

    statements = read_script(sql)
    if not statements or not all(is_dynamic(statement.text) for statement in statements):
        return [_declaration(sql)]  # a `;` too early, most likely: the whole says what is wrong
    return [_declaration(statement.placed) for statement in statements]


def _declaration(sql: str) -> CreateDynamic:
    from neve.sql.dynamic import parse_dynamic

    statement = parse_dynamic(sql)
    if not isinstance(statement, CreateDynamic):
        raise InvalidInput("this statement declares no table", hint="write CREATE DYNAMIC TABLE … AS SELECT …")
    return statement
