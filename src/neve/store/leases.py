"""`leases`: who may work on what, and until when.

A row outlives its lease, because it keeps the fence: a number that grows with each holder, by which a holder who
overslept is told from the one who took over. Processes on several hosts need clocks that agree within the time to live.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from neve.database import Database, Row
from neve.errors import LeaseHeld
from neve.model.runs import Lease
from neve.store.rows import select, to_record, to_text


class Leases:
    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(
        self,
        name: str,
        *,
        owner: str,
        ttl: timedelta,
        now: datetime,
        process: str | None = None,
        ended: Lease | None = None,
    ) -> Lease:
        """Take a lease that is free or has expired; it is not re-entrant, whoever holds it.

        `ended` is a lease whose holder is known to run no more: nobody need wait until it expires.

        Raises:
            LeaseHeld: somebody has it; the message says who, and until when.
        """
        if ttl <= timedelta(0):
            raise ValueError(f"a lease of {ttl} would never be held")
        with self._database.transaction():
            taken = self._database.write(
                """INSERT INTO leases (name, owner, fence, expires_at, acquired_at, process) VALUES (?, ?, 1, ?, ?, ?)
                ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, fence = leases.fence + 1,
                    expires_at = excluded.expires_at, acquired_at = excluded.acquired_at, process = excluded.process
                WHERE leases.owner IS NULL OR leases.expires_at <= excluded.acquired_at OR leases.fence = ?""",
                name,
                owner,
                to_text(now + ttl),
                to_text(now),
                process,
                0 if ended is None else ended.fence,
            )
            row = self._read(name)
            if not taken or row is None:
                raise _held(name, row)
            return to_record(Lease, row)

    def renew(self, lease: Lease, ttl: timedelta, now: datetime) -> Lease:
        """Hold on for another `ttl` from now, even after expiry as long as nobody has taken over.

        Raises:
            LeaseHeld: it was released, or somebody took over; the work under it must stop.
        """
        with self._database.transaction():
            renewed = self._database.write(
                "UPDATE leases SET expires_at = ? WHERE name = ? AND fence = ? AND owner = ?",
                to_text(now + ttl),
                lease.name,
                lease.fence,
                lease.owner,
            )
            row = self._read(lease.name)
            if not renewed or row is None:
                raise _held(lease.name, row)
            return to_record(Lease, row)

    def release(self, lease: Lease) -> bool:
        """Free the lease. False, and no harm done, when it is not this holder's any more."""
        return bool(
            self._database.write(
                "UPDATE leases SET owner = NULL WHERE name = ? AND fence = ? AND owner = ?",
                lease.name,
                lease.fence,
                lease.owner,
            )
        )

    def held(self, name: str) -> Lease | None:
        """The lease as somebody holds it, expired or not."""
        row = self._read(name)
        return None if row is None or row["owner"] is None else to_record(Lease, row)

    def _read(self, name: str) -> Row | None:
        rows = self._database.read(select("leases", Lease, "WHERE name = ?"), name)
        return rows[0] if rows else None


def _held(name: str, row: Row | None) -> LeaseHeld:
    if row is None or row["owner"] is None:
        return LeaseHeld(f"the lease on {name} is no longer held", hint="start the operation again")
    return LeaseHeld(
        f"{name} is being worked on by {row['owner']} until {row['expires_at']}",
        hint="wait for it to finish; a holder that died loses the lease at that time",
    )
