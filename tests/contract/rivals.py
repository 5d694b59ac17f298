"""Other processes, for tests of what happens when several work at once or one dies.

Run as `python -m tests.contract.rivals VERB URI [ARGUMENT…]`. A rival prints `ready`, waits for a line on its standard
input, does its deed as fast as it can, and prints what came of it, a line per attempt.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial

from tests.contract.records import NOW, make_run, make_table, make_trashed

from neve.errors import LeaseHeld, NeveError
from neve.model.runs import Lease, RegisteredTable
from neve.store import Store

BATCH = 5


class Rival:
    """A running rival, seen from the test."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.rivals", *arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        """Its next line; empty when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def hear_all(self) -> list[str]:
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines()
        assert self.process.wait() == 0
        return lines

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def started(*commands: Sequence[str]) -> Iterator[list[Rival]]:
    """Rivals that are all ready, and go at the same moment; none outlives the block."""
    rivals: list[Rival] = []
    try:
        rivals.extend(Rival(*command) for command in commands)
        for rival in rivals:
            assert rival.hear() == "ready"
        for rival in rivals:
            rival.say_go()
        yield rivals
    finally:
        for rival in rivals:
            rival.kill()
            assert rival.process.stdin is not None
            assert rival.process.stdout is not None
            rival.process.stdin.close()
            rival.process.stdout.close()


# ------------------------------------------------------------------------------------ what happens in the other process


def open_store(uri: str) -> None:
    wait_for_go()
    with Store.open(uri) as store:
        say(f"version {store.schema_version()}")


def open_as_nobody(uri: str) -> None:
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    wait_for_go()
    attempt(lambda: Store.open(uri).close())


def acquire(uri: str, owner: str, rounds: str) -> None:
    with Store.open(uri) as store:
        wait_for_go()
        for number in range(int(rounds)):
            attempt(partial(take, store, f"lease {number}", owner))


def take(store: Store, name: str, owner: str) -> Lease:
    return store.leases.acquire(name, owner=owner, ttl=timedelta(hours=1), now=NOW)


def rename_and_remove(uri: str, *deeds: str) -> None:
    """`OLD=NEW` renames a table, `UUID` takes one out of the trash."""
    with Store.open(uri) as store:
        wait_for_go()
        for deed in deeds:
            name, renames, new = deed.partition("=")
            attempt(partial(store.registry.rename, name, new, NOW) if renames else partial(store.trash.remove, name))


def write_forever(uri: str) -> None:
    """Transactions of BATCH runs and BATCH trashed tables; one line after each."""
    with Store.open(uri) as store:
        wait_for_go()
        number = 0
        while True:
            with store.transaction():
                for _ in range(BATCH):
                    store.runs.start(make_run(kind=f"batch {os.getpid()} {number}"))
                for place in range(BATCH):
                    store.trash.put(make_trashed(f"{os.getpid()} {number} {place}", table_name=f"{number}"))
            number += 1
            say(f"wrote {number}")


def write_half(uri: str) -> None:
    with Store.open(uri) as store:
        wait_for_go()
        with store.transaction():
            store.registry.put(make_table("half"))
            store.runs.start(make_run())
            say("half")
            time.sleep(600)


def read_then_put(uri: str, times: str) -> None:
    """Count up in one row, reading and writing in one transaction, under a lease as the store demands."""
    with Store.open(uri) as store:
        wait_for_go()
        for _ in range(int(times)):
            with held(store, "counter"), store.transaction():
                table = store.registry.get("counter")
                assert table is not None
                store.registry.put(RegisteredTable.model_validate({**dict(table), "config": {"n": count(table) + 1}}))


def claim_and_count(uri: str, seed: str, times: str) -> None:
    """Claim some tables at once and count up in the row of each; reading and writing apart, only claims help."""
    draw, counted = random.Random(seed), Counter[str]()
    with Store.open(uri) as store:
        wait_for_go()
        while counted.total() < int(times):
            names = draw.sample("abcdef", draw.choice([1, 2, 3]))
            tables = {name: name for name in names}
            taken = store.claims.claim(tables, action="count", owner=seed, ttl=timedelta(hours=1), now=NOW)
            if taken is None:
                continue
            for name in names:
                table = store.registry.get(name)
                assert table is not None
                store.registry.put(table.model_copy(update={"config": {"n": count(table) + 1}}))
            counted.update(names)
            assert all(store.claims.release(claim) for claim in taken.claims)
    say(json.dumps(counted))


def count(table: RegisteredTable) -> int:
    number = table.config["n"]
    assert isinstance(number, int)
    return number


@contextlib.contextmanager
def held(store: Store, name: str) -> Iterator[None]:
    lease = None
    while lease is None:
        try:
            lease = take(store, name, str(os.getpid()))
        except LeaseHeld:
            time.sleep(0.002)
    yield
    assert store.leases.release(lease)


def attempt(deed: Callable[[], object]) -> None:
    try:
        say(f"done {deed()}")
    except NeveError as exc:
        say(f"{type(exc).__name__} {exc} | {exc.hint}")


def wait_for_go() -> None:
    say("ready")
    assert sys.stdin.readline() == "go\n"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


VERBS: dict[str, Callable[..., None]] = {
    verb.__name__: verb
    for verb in (
        *(open_store, open_as_nobody, acquire, rename_and_remove, write_forever, write_half, read_then_put),
        claim_and_count,
    )
}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
