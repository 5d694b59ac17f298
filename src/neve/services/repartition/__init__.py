"""A folder's rows into another folder under other keys: in parts that are each committed, so that it can be resumed."""

from __future__ import annotations

from neve.services.repartition.request import RepartitionRequest
from neve.services.repartition.work import estimate, repartition

__all__ = ["RepartitionRequest", "estimate", "repartition"]
