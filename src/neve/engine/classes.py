"""Java's classes and static methods by name, looked up once: py4j would ask Java for every part of a name, at each use.

For each part that is no class Java looks through all jars: that was an eighth of what Spark's driver did for a small
refresh. And where a commit is made several times a second, each question waits for its turn among threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=64)
def named(java: Any, name: str) -> Any:
    """A class, to make objects of. `java` is the session's view of its JVM."""
    return getattr(java, name)


@lru_cache(maxsize=64)
def static(java: Any, name: str, method: str) -> Any:
    """A static method of a class."""
    return getattr(named(java, name), method)


@lru_cache(maxsize=8)
def only(java: Any, name: str) -> Any:
    """The one object of a class that has just one, which its static `get` gives."""
    return static(java, name, "get")()


@lru_cache(maxsize=8)
def scala_object(java: Any, name: str) -> Any:
    """What Scala calls an object: the one of its class."""
    return getattr(named(java, f"{name}$"), "MODULE$")


@lru_cache(maxsize=8)
def json_mapper(java: Any) -> Any:
    """What reads and writes JSON as Iceberg does; threads may share it."""
    return static(java, "org.apache.iceberg.util.JsonUtil", "mapper")()


def scala_seq(java: Any, items: Sequence[Any]) -> Any:
    """The items as Scala's methods take them."""
    held = named(java, "java.util.ArrayList")()
    for item in items:
        held.add(item)
    return static(java, "scala.jdk.javaapi.CollectionConverters", "asScala")(held).toSeq()
