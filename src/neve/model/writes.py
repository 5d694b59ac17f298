"""Words for writes that may be sent twice and happen once."""

from __future__ import annotations

from pydantic import AwareDatetime

from neve.model.runs import Record, RunId


class WriteKey(Record):
    """A key that came with a WRITE. `scope` is whose keys these are, `fingerprint` what was asked with it."""

    scope: str
    key: str
    fingerprint: str
    run_id: RunId
    made_at: AwareDatetime
