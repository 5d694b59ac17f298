"""What the address of Spark's master says of where work runs. Pure.

>>> in_one_process("local[*]"), in_one_process("local-cluster[2,1,1024]"), on_one_machine("local-cluster[2,1,1024]")
(True, False, True)
>>> copies_run("local[2]"), copies_run("yarn")
('threads', 'tasks')
"""

from __future__ import annotations

from typing import Literal

Place = Literal["threads", "tasks"]


def in_one_process(master: str) -> bool:
    """Whether Spark's tasks run in the driver: it has no executors of their own."""
    return master == "local" or master.startswith("local[")


def on_one_machine(master: str) -> bool:
    """Whether everything of Spark's runs on this machine; `local-cluster[…]` starts executors here."""
    return in_one_process(master) or master.startswith("local-cluster[")


def copies_run(master: str) -> Place:
    """Where row groups are copied: in threads of this process, or as tasks on executors where there are some.

    On one machine threads win, as a copy waits for the disk, and tasks for processes of Python to start. Executors
    bring disks and networks of their own.
    """
    return "threads" if in_one_process(master) else "tasks"
