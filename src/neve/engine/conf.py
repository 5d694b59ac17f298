"""Settings and the machine → Spark's configuration. Pure: what is asked for by `spark.conf` wins over all of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from neve.config import LoadedSettings
from neve.config.connections import spark_catalog, spark_meaning, spark_s3
from neve.engine.java import Java
from neve.model.names import CATALOG
from neve.plan.masters import in_one_process

LOCAL = "local[*]"
"""The master of a Spark that belongs to no lake."""

_GIB = 1024**3
_LOG4J = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LISTING_JOBS = "spark.sql.sources.parallelPartitionDiscovery.threshold"  # paths; below it the driver lists them


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    cores: int
    memory_bytes: int
    is_linux: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What starting a session depends on besides the settings."""

    machine: Machine
    java: Java
    jars: Sequence[Path]
    log_file: Path
    archive: Path | None = None
    dump_archive_to: Path | None = None


def master_of(loaded: LoadedSettings) -> str:
    """The address of Spark's master; `spark.conf` has the last word, as in all."""
    spark = loaded.settings.spark
    return spark.conf.get("spark.master", spark.master)


def is_local(loaded: LoadedSettings) -> bool:
    """Whether Spark has no executors beside this process and its JVM."""
    return in_one_process(master_of(loaded))


def spark_conf(loaded: LoadedSettings, launch: Launch) -> dict[str, str]:
    """The whole configuration of a session."""
    spark = loaded.settings.spark
    conf = {
        "spark.master": spark.master,
        "spark.app.name": "neve",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": spark.driver_memory or _memory(launch.machine),
        **spark_meaning(loaded),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": CATALOG,
        "spark.sql.shuffle.partitions": str(spark.shuffle_partitions or max(4, 2 * launch.machine.cores)),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(launch.log_file.parent / "spark-warehouse"),
        "spark.scheduler.mode": "FAIR",
        "spark.sql.legacy.javaCharsets": "true",  # else Spark reads no file of a Windows machine
        "spark.sql.ui.explainMode": "simple",  # every plan is written out, for pages that are off
        "spark.sql.codegen.hugeMethodLimit": "8000",  # a longer method is never compiled by Java
        "spark.sql.codegen.cache.maxEntries": "2000",  # a worker comes back to each of its tables, and finds its code
        **_class_path(loaded, launch.jars),
        **({_LISTING_JOBS: "100000"} if is_local(loaded) else {}),
        **spark_catalog(loaded),
        **spark_s3(loaded),
        **spark.conf,
    }
    return conf | {_JAVA_OPTIONS: " ".join([*_java_options(launch), spark.conf.get(_JAVA_OPTIONS, "")]).strip()}


def same_lake(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether a session with one configuration does for the other; how Java was started does not matter."""
    return {**one, _JAVA_OPTIONS: ""} == {**other, _JAVA_OPTIONS: ""}


def archive_name(java: Java, jars: Sequence[Path], spark_version: str, spark_home: Path) -> str:
    """The name of a class-data archive: it fits one Java, one Spark in its place, and one set of jars."""
    spark = f"{spark_version} {spark_home}"
    parts = [java.version, str(java.home), spark, *(f"{jar} {jar.stat().st_size}" for jar in jars)]
    return f"{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:16]}.jsa"


def _class_path(loaded: LoadedSettings, jars: Sequence[Path]) -> dict[str, str]:
    """Local: on the driver's class path, so nothing is copied. Cluster: shipped to the executors."""
    if not jars:
        return {}
    if is_local(loaded):
        return {"spark.driver.extraClassPath": ":".join(map(str, jars))}
    return {"spark.jars": ",".join(map(str, jars)), "spark.driver.extraClassPath": ":".join(map(str, jars))}


def _java_options(launch: Launch) -> list[str]:
    options = [
        f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}",
        f"-Dneve.log={launch.log_file}",
        f"-XX:ErrorFile={launch.log_file.with_name('java-crash.log')}",
        "-Xlog:disable",
        "-Xlog:all=error:stderr",
        # Hadoop starts a `chmod` for each file that it makes; so it starts sooner.
        *(["-Djdk.lang.Process.launchMechanism=VFORK"] if launch.machine.is_linux else []),
    ]
    if launch.dump_archive_to is not None:
        return [*options, f"-XX:ArchiveClassesAtExit={launch.dump_archive_to}"]
    if launch.archive is not None:
        return [*options, f"-XX:SharedArchiveFile={launch.archive}"]
    return options


def _memory(machine: Machine) -> str:
    """Half of the machine, between 1 and 16 GiB."""
    return f"{min(16, max(1, machine.memory_bytes // _GIB // 2))}g"


def read_machine(cores: int, meminfo: str) -> Machine:
    """The machine's size from its core count and the text of /proc/meminfo, which Linux has; else 4 GiB."""
    fields: Mapping[str, str] = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    total = fields.get("MemTotal", "").split()
    memory = int(total[0]) * 1024 if total else 4 * _GIB
    return Machine(cores=cores, memory_bytes=memory, is_linux=bool(total))
