"""A private, throw-away PostgreSQL server for tests: its own cluster, on a loopback port, gone with the session."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

USER = "neve"
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    port: int
    password: str

    def uri(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """The URI of a new, empty database."""
        name = f"test_{secrets.token_hex(6)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.uri(name)

    def create_schema(self) -> str:
        """As `create_database`, ten times faster: a new, empty schema of one database, first in the search path."""
        name = f"test_{secrets.token_hex(6)}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.uri()}?options=-csearch_path%3D{name}"

    def execute(self, sql: str) -> None:
        """As superuser, outside any transaction."""
        import psycopg

        with psycopg.connect(self.uri(), autocommit=True) as connection:
            connection.execute(sql.encode())


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    """One server per test process. Without its binaries the tests are skipped, or fail if NEVE_REQUIRE_POSTGRES=1."""
    missing = _reason_not_to_run()
    if missing is None:
        with running_cluster() as cluster:
            yield cluster
    elif os.environ.get("NEVE_REQUIRE_POSTGRES") == "1":
        pytest.fail(missing)
    else:
        pytest.skip(f"SUITE NOT RUN: {missing}")


@contextlib.contextmanager
def running_cluster() -> Iterator[Cluster]:
    binaries = find_binaries()
    assert binaries is not None
    with tempfile.TemporaryDirectory(prefix="neve-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        server = _Server(binaries=binaries, folder=folder, account=_account())
        password = secrets.token_hex(8)
        server.initialise(password)
        port = server.start()
        try:
            yield Cluster(port=port, password=password)
        finally:
            server.run("pg_ctl", "stop", "-D", str(server.data), "-m", "immediate")


def find_binaries() -> Path | None:
    """The folder of `initdb` and `pg_ctl`: the newest that a distribution installed, else the one on PATH."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    found = str(installed[-1]) if installed else shutil.which("initdb")
    if found is None:
        return None
    folder = Path(found).resolve().parent
    return folder if (folder / "pg_ctl").exists() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    binaries: Path
    folder: Path
    account: pwd.struct_passwd | None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def initialise(self, password: str) -> None:
        secret = self.folder / "password"
        secret.write_text(password)
        if self.account is not None:
            for path in (self.folder, secret):
                os.chown(path, self.account.pw_uid, self.account.pw_gid)
        self.run(
            "initdb", "-D", str(self.data), "--username", USER, "--pwfile", str(secret), "--auth", "scram-sha-256",
            "--encoding", "UTF8", "--locale", "C", "--no-sync",
        )  # fmt: skip

    def start(self) -> int:
        """Another process may take the port between our look and the server's: then try another."""
        for attempt in range(_ATTEMPTS):
            port = _free_port()
            options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
            log = self.folder / "log"
            try:
                self.run("pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(log), "-o", options)
            except RuntimeError as exc:
                if attempt == _ATTEMPTS - 1:
                    raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}") from exc
            else:
                return port
        raise AssertionError

    def run(self, program: str, *arguments: str) -> None:
        """PostgreSQL refuses to run as root: then it runs as `account`."""
        with (self.folder / f"{program}.out").open("w+") as output:
            done = subprocess.run(
                [str(self.binaries / program), *arguments],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                user=None if self.account is None else self.account.pw_uid,
                group=None if self.account is None else self.account.pw_gid,
                extra_groups=None if self.account is None else (),
            )
            output.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program} failed:\n{output.read()}")


def _reason_not_to_run() -> str | None:
    if find_binaries() is None:
        return "no PostgreSQL server on this machine; install it with `apt-get install postgresql`"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return 'no PostgreSQL driver; install it with `pip install "neve[postgresql]"`'
    return None


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
