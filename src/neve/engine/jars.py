"""The jars that Spark needs for Iceberg and its catalogs: which ones, where they lie, how they get there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from neve.config import LoadedSettings
from neve.config.connections import reaches_s3
from neve.errors import SparkUnavailable

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"  # not among the jars of PySpark
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
POSTGRESQL = "org.postgresql:postgresql:42.7.14"
AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
S3A = (
    "org.apache.hadoop:hadoop-aws:3.4.2",  # of the Hadoop that PySpark brings
    "software.amazon.awssdk:apache-client:2.54.17",  # these two are of the AWS SDK that is in the bundle of Iceberg
    "software.amazon.awssdk:s3-transfer-manager:2.54.17",
)
"""What Spark needs to read plain files on S3, beside Iceberg's bundle."""
UNWANTED = ("software.amazon.awssdk:bundle", "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3")
"""What Maven would bring along: the AWS SDK once more, with every service there is, 640 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jars:
    """Jars found, and Maven coordinates still to be fetched."""

    paths: tuple[Path, ...]
    missing: tuple[str, ...]


def cache_folder(env: Mapping[str, str]) -> Path:
    """Where downloads are kept for every lake of this user."""
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path(os.path.expanduser("~/.cache"))) / "neve"  # noqa: PTH111


def ivy_folder(env: Mapping[str, str]) -> Path:
    return cache_folder(env) / "ivy"


def coordinates(loaded: LoadedSettings) -> tuple[str, ...]:
    """The Maven coordinates that these settings need."""
    settings = loaded.settings
    drivers = {"sqlite": (SQLITE,), "postgresql": (POSTGRESQL,)}.get(settings.catalog.type, ())
    s3 = S3A if reaches_s3(loaded) else ()
    aws = (AWS,) if s3 or settings.catalog.type == "glue" else ()
    return (ICEBERG, AVRO, *drivers, *aws, *s3, *settings.spark.packages)


def find_jars(loaded: LoadedSettings, env: Mapping[str, str]) -> Jars:
    """Jars from the offline folder when one is set, else from the cache."""
    if loaded.jars_folder is not None:
        return _offline(loaded.jars_folder)
    kept = ivy_folder(env) / "jars"
    paths = {coordinate: kept / _file_name(coordinate) for coordinate in coordinates(loaded)}
    found = {coordinate: path for coordinate, path in paths.items() if path.is_file()}
    return Jars(paths=tuple(found.values()), missing=tuple(c for c in paths if c not in found))


def _offline(folder: Path) -> Jars:
    paths = tuple(sorted(folder.glob("*.jar")))
    if not any("iceberg-spark-runtime" in path.name for path in paths):
        raise SparkUnavailable(
            f"the jar folder {folder} holds no iceberg-spark-runtime jar",
            hint=f"put {ICEBERG} and the catalog's driver there, or unset spark.jars",
        )
    return Jars(paths=paths, missing=())


def _file_name(coordinate: str) -> str:
    """How Ivy names a fetched jar.

    >>> _file_name("org.xerial:sqlite-jdbc:3.50.3.0")
    'org.xerial_sqlite-jdbc-3.50.3.0.jar'
    """
    group, artifact, version = coordinate.split(":")[:3]
    return f"{group}_{artifact}-{version}.jar"
