"""`claims`: which tables are being worked on, by whom, and until when.

As with leases, a row outlives its claim for the sake of its fence. A job claims all its tables at once or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from neve.database import Database
from neve.model.work import Claim
from neve.store.rows import columns, select, to_record, to_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """`lapsed` are the claims that were taken over: their workers died, or lost touch."""

    claims: tuple[Claim, ...]
    lapsed: tuple[Claim, ...]


class Claims:
    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(
        self, tables: Mapping[str, str], *, action: str, owner: str, ttl: timedelta, now: datetime
    ) -> Claimed | None:
        """Claim these tables, names by uuid; None when somebody holds one of them. It waits for nobody."""
        if ttl <= timedelta(0):
            raise ValueError(f"a claim of {ttl} would never be held")
        keys = sorted(tables)
        for key in keys:
            self._database.write(
                """INSERT INTO claims (table_uuid, table_name, action, owner, fence, claimed_at, expires_at)
                VALUES (?, ?, '', NULL, 0, ?, ?) ON CONFLICT (table_uuid) DO NOTHING""",
                *(key, tables[key], to_text(now), to_text(now)),
            )
        marks = ", ".join("?" for _ in keys)
        with self._database.transaction():
            rows = self._database.read(
                f"SELECT {columns(Claim)} FROM claims WHERE table_uuid IN ({marks}) ORDER BY table_uuid"  # noqa: S608
                f"{self._database.skip_locked}",
                *keys,
            )
            before = [to_record(Claim, row) for row in rows if row["owner"] is not None]
            if len(rows) < len(keys) or any(claim.expires_at > now for claim in before):
                return None
            for key in keys:
                self._database.write(
                    """UPDATE claims SET table_name = ?, action = ?, owner = ?, fence = fence + 1, claimed_at = ?,
                        expires_at = ? WHERE table_uuid = ?""",
                    *(tables[key], action, owner, to_text(now), to_text(now + ttl), key),
                )
            taken = self._database.read(select("claims", Claim, f"WHERE table_uuid IN ({marks})"), *keys)
            return Claimed(claims=tuple(to_record(Claim, row) for row in taken), lapsed=tuple(before))

    def renew(self, claims: Iterable[Claim], ttl: timedelta, now: datetime) -> Sequence[Claim]:
        """Hold on for another `ttl`, even after expiry as long as nobody has taken over; those that were lost."""
        with self._database.transaction():
            return [
                claim
                for claim in sorted(claims, key=lambda claim: claim.table_uuid)
                if not self._database.write(
                    "UPDATE claims SET expires_at = ? WHERE table_uuid = ? AND fence = ? AND owner = ?",
                    *(to_text(now + ttl), claim.table_uuid, claim.fence, claim.owner),
                )
            ]

    def release(self, claim: Claim) -> bool:
        """Free the table. False, and no harm done, when it is not this holder's any more."""
        return bool(
            self._database.write(
                "UPDATE claims SET owner = NULL WHERE table_uuid = ? AND fence = ? AND owner = ?",
                *(claim.table_uuid, claim.fence, claim.owner),
            )
        )

    def held(self) -> Mapping[str, Claim]:
        """Those that were not released, expired ones too, by uuid."""
        rows = self._database.read(select("claims", Claim, "WHERE owner IS NOT NULL"))
        return {claim.table_uuid: claim for claim in (to_record(Claim, row) for row in rows)}
