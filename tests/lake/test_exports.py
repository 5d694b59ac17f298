"""Who may fetch an export, and for how long. No JVM; how rows become CSV is in tests/spark/test_service.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.lake.serving import Client, serving

from neve.http import create_app
from neve.lake import Lake
from neve.model.exports import Export

ID = "A" * 43


@pytest.fixture
def client(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(lake, "warm_up", lambda: None)
    with serving(create_app(lake)) as opened:
        yield opened


def lay(lake: Lake, name: str = ID, *, tenant: str | None = "acme", hours: float = 1) -> Path:
    """An export as EXPORT_CSV leaves it."""
    folder = lake.root / ".neve" / "exports" / name
    (folder / "rows").mkdir(parents=True)
    for number, text in enumerate(("1\n", "2\n")):
        (folder / "rows" / f"part-0000{number}-x.csv").write_text(text)
    end = datetime.now(UTC) + timedelta(hours=hours)
    export = Export(tenant=tenant, filename="größe.csv", header="id\n", rows=2, expires_at=end)
    (folder / "export.json").write_text(export.model_dump_json())
    return folder


def test_an_export_is_its_tenants(client: Client, lake: Lake) -> None:
    lay(lake)
    found = client.get(f"/exports/{ID}")  # there are no keys yet: this machine is the admin
    assert (found.status, found.text, found.headers["content-length"]) == (200, "id\n1\n2\n", "7")
    assert "filename*=UTF-8''gr%C3%B6%C3%9Fe.csv" in found.headers["content-disposition"]
    keys = {tenant: lake.keys.create(tenant, "reader") for tenant in ("acme", "globex", None)}
    answers = {
        tenant: client.get(f"/exports/{ID}", Authorization=f"Bearer {key.key}").status for tenant, key in keys.items()
    }
    assert answers == {"acme": 200, "globex": 404, None: 200}
    assert client.get(f"/exports/{ID}").status == 401
    logged = [(row.action, row.tenant, row.status) for row in lake.keys.audit()]
    assert sorted(logged, key=repr) == [
        ("GET /exports", "acme", 200),
        ("GET /exports", "globex", 404),
        ("GET /exports", None, 200),
    ]
    lay(lake, "B" * 43, tenant=None)
    assert client.get(f"/exports/{'B' * 43}", Authorization=f"Bearer {keys['acme'].key}").status == 404


def test_an_export_ends_and_its_files_go(client: Client, lake: Lake) -> None:
    folder = lay(lake, hours=-1)
    assert client.get(f"/exports/{ID}").status == 404
    lake.database.remove_exports()
    assert folder.exists(), "whoever began to fetch it in time is let finish"
    os.utime(folder, (0, 0))
    lake.database.remove_exports()
    assert not folder.exists()


def test_an_id_is_never_a_path(client: Client, lake: Lake) -> None:
    lay(lake)
    lay(lake, "C" * 43 + ".part")
    for name in (
        "",
        ".",
        "..",
        f"..%2fexports%2f{ID}",
        f"%2e%2e/exports/{ID}",
        f"{ID}%00",
        f"{ID}/rows",
        "C" * 43 + ".part",
    ):
        assert client.get(f"/exports/{name}").status == 404, name
