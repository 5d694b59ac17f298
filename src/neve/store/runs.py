"""`runs`: every operation, from its start to its end."""

from __future__ import annotations

from datetime import datetime
from typing import NoReturn, cast

from neve.database import Database
from neve.errors import AlreadyExists, Conflict, InvalidInput, RunNotFound
from neve.model.runs import CROCKFORD, RUN_ID_LENGTH, FinalState, JsonObject, Run, RunState
from neve.store.rows import insert, select, to_json, to_record, to_text, to_values, without_unstorable

_SHORTEST_PREFIX = 4
_CANDIDATES_SHOWN = 5


class Runs:
    def __init__(self, database: Database) -> None:
        self._database = database

    def start(self, run: Run) -> None:
        """Raises AlreadyExists when there is a run of that id."""
        try:
            self._database.write(insert("runs", Run), *to_values(run))
        except AlreadyExists as exc:
            raise AlreadyExists(f"a run {run.run_id} is already recorded") from exc

    def finish(
        self,
        run_id: str,
        *,
        state: FinalState,
        finished_at: datetime,
        result: JsonObject | None = None,
        snapshot_after: int | None = None,
        error_code: str | None = None,
        error_message: str | None = None,
        undo: str | None = None,
    ) -> None:
        """End the run, once. What is None stays as `start` recorded it.

        Raises:
            RunNotFound: no run has exactly this id.
            Conflict: the run has already ended.
        """
        with self._database.transaction():
            ended = self._database.write(
                """UPDATE runs SET state = ?, finished_at = ?, result = COALESCE(?, result),
                    snapshot_after = COALESCE(?, snapshot_after), error_code = COALESCE(?, error_code),
                    error_message = COALESCE(?, error_message), undo = COALESCE(?, undo)
                WHERE run_id = ? AND state IN ('queued', 'running')""",
                state,
                to_text(finished_at),
                None if result is None else to_json(result),
                snapshot_after,
                error_code,
                None if error_message is None else without_unstorable(error_message),
                undo,
                run_id,
            )
            if not ended:
                self._raise_ended(run_id)

    def note(self, run_id: str, result: JsonObject) -> None:
        """Leaves what a run is about to have achieved, for whoever ends it if its process dies."""
        self._database.write(
            "UPDATE runs SET result = ? WHERE run_id = ? AND state = 'running'", to_json(result), run_id
        )

    def ask_to_end(self, run_id: str, now: datetime) -> None:
        """Leaves word for the process of a run that it is to end; once more changes nothing.

        Raises:
            RunNotFound: no run has exactly this id.
            Conflict: the run has already ended.
        """
        with self._database.transaction():
            asked = self._database.write(
                """UPDATE runs SET cancel_asked_at = COALESCE(cancel_asked_at, ?)
                WHERE run_id = ? AND state IN ('queued', 'running')""",
                to_text(now),
                run_id,
            )
            if not asked:
                self._raise_ended(run_id)

    def asked_to_end(self) -> tuple[str, ...]:
        """Runs that go on though they are to end."""
        rows = self._database.read("SELECT run_id FROM runs WHERE state = 'running' AND cancel_asked_at IS NOT NULL")
        return tuple(str(row["run_id"]) for row in rows)

    def _raise_ended(self, run_id: str) -> NoReturn:
        rows = self._database.read("SELECT state FROM runs WHERE run_id = ?", run_id)
        if not rows:
            raise _not_found(run_id)
        raise Conflict(f"the run {run_id} has already ended: {rows[0]['state']}")

    def get(self, run_id: str) -> Run:
        """The run of this id, or of the one id that begins so (four characters or more, in either case).

        Raises:
            RunNotFound: no id begins so.
            InvalidInput: several do; the message names them.
        """
        prefix = run_id.upper()
        if not _SHORTEST_PREFIX <= len(prefix) <= RUN_ID_LENGTH or not set(prefix) <= set(CROCKFORD):
            raise _not_found(run_id)
        # Bounds of full length keep to the index, and mean the same in every collation.
        rows = self._database.read(
            select("runs", Run, "WHERE run_id BETWEEN ? AND ? ORDER BY run_id DESC LIMIT ?"),
            prefix.ljust(RUN_ID_LENGTH, CROCKFORD[0]),
            prefix.ljust(RUN_ID_LENGTH, CROCKFORD[-1]),
            _CANDIDATES_SHOWN + 1,
        )
        if not rows:
            raise _not_found(run_id)
        if len(rows) > 1:
            raise _ambiguous(run_id, [str(row["run_id"]) for row in rows])
        return to_record(Run, rows[0])

    def list(
        self, *, table: str | None = None, kind: str | None = None, state: RunState | None = None, limit: int = 50
    ) -> tuple[Run, ...]:
        """Newest first."""
        wanted = {"table_name": table, "kind": kind, "state": state}
        chosen = {column: value for column, value in wanted.items() if value is not None}
        where = f"WHERE {' AND '.join(f'{column} = ?' for column in chosen)}" if chosen else ""
        sql = select("runs", Run, f"{where} ORDER BY started_at DESC, run_id DESC LIMIT ?")
        return tuple(to_record(Run, row) for row in self._database.read(sql, *chosen.values(), limit))

    def errors(self) -> dict[str, int]:
        """How many runs failed, by their error; refreshes have a history of their own."""
        rows = self._database.read(
            "SELECT COALESCE(error_code, 'error') AS code, COUNT(*) AS n FROM runs"
            " WHERE state = 'failed' AND kind <> 'refresh' GROUP BY COALESCE(error_code, 'error')"
        )
        return {str(row["code"]): cast("int", row["n"]) for row in rows}

    def unfinished(self) -> tuple[Run, ...]:
        """Those that run, or were running when their process died; oldest first."""
        sql = select("runs", Run, "WHERE state = 'running' ORDER BY started_at, run_id")
        return tuple(to_record(Run, row) for row in self._database.read(sql))


def _not_found(run_id: str) -> RunNotFound:
    hint = (
        f"give the id, or at least its first {_SHORTEST_PREFIX} characters"
        if len(run_id) < _SHORTEST_PREFIX
        else "`neve runs list` shows the latest runs"
    )
    return RunNotFound(f"there is no run {run_id}", hint=hint)


def _ambiguous(prefix: str, candidates: list[str]) -> InvalidInput:
    shown = ", ".join(candidates[:_CANDIDATES_SHOWN])
    more = " and more" if len(candidates) > _CANDIDATES_SHOWN else ""
    return InvalidInput(f"several runs begin with {prefix}: {shown}{more}", hint="give more of the id")
