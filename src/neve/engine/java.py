"""Finding a Java that Spark 4.1 starts on: 17 or 21. Newer ones fail, older ones too."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from neve.errors import SparkUnavailable

SUPPORTED = (17, 21)
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)[^"]*"', re.MULTILINE)
_FULL_VERSION = re.compile(r'^JAVA_(?:RUNTIME_)?VERSION="([^"]+)"', re.MULTILINE)
_PLACES = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/java")


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    major: int
    version: str


def find_java(env: Mapping[str, str]) -> Java:
    """The Java to use: JAVA_HOME, then the one on PATH, then any installed one; the first that Spark can run on."""
    seen = [java for home in _homes(env) if (java := read_java(home)) is not None]
    for java in seen:
        if java.major in SUPPORTED:
            return java
    found = f"found only Java {', '.join(sorted({str(java.major) for java in seen}))}" if seen else "found no Java"
    raise SparkUnavailable(
        f"Spark needs Java 17 or 21; {found}",
        hint="install one (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME",
    )


def read_java(home: Path) -> Java | None:
    """What is installed at a Java home, read from its `release` file: no process is started."""
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    major, full = _VERSION.search(release), _FULL_VERSION.search(release)
    if major is None or not (home / "bin" / "java").exists():
        return None
    return Java(home, int(major[1]), full[1] if full else major[1])


def _homes(env: Mapping[str, str]) -> Iterator[Path]:
    if home := env.get("JAVA_HOME"):
        yield Path(home)
    if binary := shutil.which("java", path=env.get("PATH", os.defpath)):
        yield Path(binary).resolve().parent.parent
    for place in map(Path, _PLACES):
        if place.is_dir():
            for child in sorted(place.iterdir()):
                yield child
                yield child / "Contents" / "Home"
