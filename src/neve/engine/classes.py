"""Java's static methods by name, looked up once: py4j would ask Java for every part of a name, at each use.

That is of account where a commit is made several times a second, as each question waits for its turn among threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=64)
def static(java: Any, name: str, method: str) -> Any:
    """A static method of a class. `java` is the session's view of its JVM."""
    return getattr(getattr(java, name), method)


@lru_cache(maxsize=8)
def json_mapper(java: Any) -> Any:
    """What reads and writes JSON as Iceberg does; threads may share it."""
    return static(java, "org.apache.iceberg.util.JsonUtil", "mapper")()


def scala_seq(java: Any, items: Sequence[Any]) -> Any:
    """The items as Scala's methods take them."""
    held = java.java.util.ArrayList()
    for item in items:
        held.add(item)
    return java.scala.jdk.javaapi.CollectionConverters.asScala(held).toSeq()
