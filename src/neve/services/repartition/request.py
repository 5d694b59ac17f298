"""What is asked of a repartition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from neve.errors import InvalidInput, Refused
from neve.plan.folders import overlap
from neve.services.directories import check_local


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionRequest:
    source: str
    target: str
    columns: tuple[str, ...]
    compression: str = "zstd"
    batch_size: int = 1_000_000
    target_file_size_mb: int = 128
    chunk_mb: int = 4096
    sort_by: Sequence[str] = ()
    transform: Callable[[Any], Any] | None = None
    delete_source: bool = False
    validate: bool = True
    dry_run: bool = False
    resume: bool = True
    swap_with_source: bool = False

    def check(self) -> None:
        for name in ("batch_size", "target_file_size_mb", "chunk_mb"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"{name} must be more than 0, not {getattr(self, name)}")
        check_local(self.target)
        if overlap(self.source, self.target):
            raise Refused(f"{self.target} and {self.source} overlap", hint="repartition into a folder of its own")
