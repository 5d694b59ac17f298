"""One quiet Spark session per process, started when the first piece of work needs it."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.config import LoadedSettings
from neve.engine.classes import static
from neve.engine.conf import Launch, archive_name, is_local, master_of, read_machine, same_lake, spark_conf
from neve.engine.interrupts import Handler, current_handler, give_back, quieten_py4j, take_over
from neve.engine.jars import UNWANTED, Jars, cache_folder, find_jars, ivy_folder
from neve.engine.java import find_java
from neve.engine.marks import mark_thread
from neve.errors import SparkUnavailable
from neve.model.names import CATALOG
from neve.plan.masters import on_one_machine

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

Tell = Callable[[str], None]


@dataclass(slots=True)
class _Running:
    """The one Spark of this process: whose it is, and who uses it."""

    root: Path
    conf: Mapping[str, str]
    spark: SparkSession
    gateway: JavaGateway
    handler_before: Handler
    users: set[int] = field(default_factory=set)


class _Process:
    """This process, and its Spark if one runs."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.running: _Running | None = None


_process = _Process()
_HOME = ".home"


class Session:
    """The session of a lake. `tell` hears what takes time before there is any result.

    A process has one Spark: lakes of the same folder and settings share it, and the last to stop it ends the JVM.
    Another lake is refused while it runs; never does it see the tables of the first.
    """

    def __init__(self, loaded: LoadedSettings, *, env: Mapping[str, str], tell: Tell) -> None:
        self._loaded = loaded
        self._env = env
        self._tell = tell
        self._spark: SparkSession | None = None

    @property
    def started(self) -> bool:
        return self._spark is not None

    @property
    def is_gone(self) -> bool:
        """Whether Spark was started and does not answer any more: its JVM has died, or was stopped by somebody."""
        from py4j.protocol import Py4JError

        if self._spark is None:
            return False
        try:
            return bool(self._spark.sparkContext._jsc.sc().isStopped())
        except (Py4JError, OSError, AttributeError):
            return True

    @property
    def log_file(self) -> Path:
        return self._loaded.root / ".neve" / "spark.log"

    @property
    def spark(self) -> SparkSession:
        with _process.lock:
            if self._spark is None:
                self._spark = self._join(self._launch(self.jars()))
            spark = self._spark
        mark_thread(spark.sparkContext)
        return spark

    def jars(self) -> Jars:
        return find_jars(self._loaded, self._env)

    def archive(self) -> Path:
        """Where the class-data archive for this Java, Spark and set of jars lies, or would lie."""
        import pyspark

        name = archive_name(find_java(self._env), self.jars().paths, pyspark.__version__, _spark_home())
        return cache_folder(self._env) / "cds" / name

    def cancel_jobs(self, mark: str | None = None) -> None:
        """Ends every job that runs now, if Spark does; only those of one mark where it is given."""
        if self._spark is None:
            return
        if mark is None:
            self._spark.sparkContext.cancelAllJobs()
        else:
            from py4j.protocol import Py4JError

            with suppress(Py4JError, OSError, AttributeError):  # it has died, and its jobs with it
                self._spark.sparkContext.cancelJobsWithTag(mark)

    def stop(self) -> None:
        """Leaves the session; the last to leave ends its JVM, and waits for the JVM to go."""
        with _process.lock:
            self._spark = None
            running = _process.running
            if running is None or id(self) not in running.users:
                return
            running.users.discard(id(self))
            if not running.users:
                _process.running = None
                with suppress(OSError):  # its JVM may have died before
                    running.spark.stop()
                give_back(running.handler_before)
                _end_gateway(running.gateway)

    def fetch_jars(self) -> None:
        """Downloads missing jars with Spark's own Ivy into the cache, once for all lakes of this user."""
        missing = self.jars().missing
        if not missing:
            return
        self._tell(f"fetching {len(missing)} jars, once: {', '.join(c.split(':')[1] for c in missing)}")
        conf = {
            "spark.jars.packages": ",".join(missing),
            "spark.jars.excludes": ",".join(UNWANTED),
            "spark.jars.ivy": str(ivy_folder(self._env)),
        }
        _end_gateway(self._launch_gateway(conf))
        if still := self.jars().missing:
            raise SparkUnavailable(
                f"could not fetch {', '.join(still)}; the reasons are in {self.log_file}",
                hint="check the network, or set spark.jars to a folder that holds the jars",
            )

    def build_archive(self, warm_up: Callable[[SparkSession], None]) -> Path:
        """Runs `warm_up` in a JVM that saves its loaded classes, so that later sessions start faster."""
        target = self.archive()
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_suffix(f".{os.getpid()}.tmp")
        with _process.lock:
            spark = self._join(replace(self._launch(self.jars()), dump_archive_to=unfinished, archive=None))
            try:
                warm_up(spark)
            finally:
                self.stop()
        if not unfinished.exists():
            raise SparkUnavailable("Java wrote no class-data archive", hint=f"see {self.log_file}")
        drop_stale_archives(target.parent)
        target.with_suffix(_HOME).write_text(str(_spark_home()))
        return unfinished.replace(target)

    def _launch(self, jars: Jars) -> Launch:
        if jars.missing:
            self.fetch_jars()
            jars = self.jars()
        archive = self.archive()
        return Launch(
            machine=read_machine(os.cpu_count() or 1, _meminfo()),
            java=find_java(self._env),
            jars=jars.paths,
            log_file=self.log_file,
            archive=archive if archive.is_file() and is_local(self._loaded) else None,
        )

    def _join(self, launch: Launch) -> SparkSession:
        """The Spark of this process, started if there is none.

        Raises:
            SparkUnavailable: it belongs to another lake, or to somebody else.
        """
        conf = spark_conf(self._loaded, launch)
        running = _process.running
        if running is None:
            self._refuse_foreign()
            running = _process.running = self._start_anyhow(launch)
        elif not same_lake(running.conf, conf):
            other = f"the lake {running.root}" if running.root != self._loaded.root else "this lake, set otherwise"
            raise SparkUnavailable(
                f"Spark runs in this process for {other}",
                hint="a process has one Spark: close that lake first (Lake.close), or use another process",
            )
        running.users.add(id(self))
        return running.spark

    @staticmethod
    def _refuse_foreign() -> None:
        from pyspark import SparkContext

        if SparkContext._active_spark_context is not None:
            raise SparkUnavailable(
                "a Spark that Névé did not start runs in this process",
                hint="stop it first (SparkSession.stop), or use another process",
            )

    def _start_anyhow(self, launch: Launch) -> _Running:
        """Java dies of a class-data archive that was cut short: it starts without, and the archive goes."""
        try:
            return self._start(spark_conf(self._loaded, launch))
        except SparkUnavailable:
            if launch.archive is None:
                raise
            running = self._start(spark_conf(self._loaded, replace(launch, archive=None)))
            with suppress(OSError):
                launch.archive.unlink()
            return running

    def _start(self, conf: Mapping[str, str]) -> _Running:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        _quieten_pyspark()
        quieten_py4j()
        before = current_handler()
        self._tell("starting Spark…")
        began = time.monotonic()
        gateway = self._launch_gateway(conf)
        try:
            context = SparkContext(conf=SparkConf(loadDefaults=False).setAll(list(conf.items())), gateway=gateway)
            session = SparkSession(context)
            _make_no_checksum_files(session)
            take_over(context, before)
        except BaseException as exc:
            give_back(before)
            _end_gateway(gateway)
            if not isinstance(exc, Exception):
                raise
            raise SparkUnavailable(
                f"Spark did not start: {str(exc).splitlines()[0] if str(exc) else type(exc).__name__}",
                hint=f"see {self.log_file}, and run `neve doctor`",
            ) from exc
        self._tell(f"starting Spark… {time.monotonic() - began:.0f} s")
        return _Running(self._loaded.root, conf, session, gateway, before)

    def _launch_gateway(self, conf: Mapping[str, str]) -> JavaGateway:
        """A JVM whose own chatter goes to the log file."""
        from pyspark import SparkConf
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway

        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        os.environ["JAVA_HOME"] = str(find_java(self._env).home)
        if on_one_machine(master_of(self._loaded)):
            _keep_to_loopback()
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # its workers import Névé
        with self.log_file.open("ab") as log:
            options: dict[str, Any] = {"stdout": log, "stderr": log}
            try:
                return launch_gateway(  # type: ignore[no-untyped-call]
                    SparkConf(loadDefaults=False).setAll(list(conf.items())), options
                )
            except PySparkRuntimeError as exc:
                raise SparkUnavailable(
                    f"the JVM did not start: {_last_cause(self.log_file) or exc}",
                    hint=f"see {self.log_file}, and run `neve doctor`",
                ) from exc


def _keep_to_loopback() -> None:
    """A local Spark talks to itself alone: it needs no name service, and opens no port to the network."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")


def _last_cause(log_file: Path) -> str | None:
    """The last reason that Java gave in its log, on one line."""
    lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-400:]
    causes = [line for line in lines if line.startswith(("Caused by: ", "Exception in thread"))]
    return causes[-1].removeprefix("Caused by: ") if causes else None


def running_session() -> SparkSession | None:
    """The Spark that this process has already, whoever started it."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def drop_stale_archives(folder: Path) -> None:
    """An archive is large, and of no use to any other virtual environment than its own."""
    for note in folder.glob(f"*{_HOME}"):
        if not Path(note.read_text()).exists():
            note.with_suffix(".jsa").unlink(missing_ok=True)
            note.unlink(missing_ok=True)


def fresh_session(spark: SparkSession) -> SparkSession:
    """A session with settings, views and a current namespace of its own, for one piece of work.

    It shares the catalog of the first: Spark would open another for each session, and never close its connections.
    """
    use_in_thread(spark)
    session = spark.newSession()
    catalogs = [each._jsparkSession.sessionState().catalogManager() for each in (spark, session)]
    field: Any = catalogs[1].getClass().getDeclaredField("catalogs")
    field.setAccessible(True)
    field.get(catalogs[1]).put(CATALOG, catalogs[0].catalog(CATALOG))
    return session


def _make_no_checksum_files(spark: SparkSession) -> None:
    """Hadoop puts a `.crc` beside each file on a local disk, and starts a `chmod` for it as for the file: eight for a
    small INSERT. Files that have one are still checked by it."""
    java: Any = spark._jvm
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    java.org.apache.hadoop.fs.FileSystem.getLocal(conf).setWriteChecksum(False)


def use_in_thread(spark: SparkSession) -> None:
    """Makes a session the one that Java finds in this thread, and its jobs those of the run that it works for."""
    mark_thread(spark.sparkContext)
    if (thread := threading.current_thread()) is not threading.main_thread():
        # Threads share the cores fairly: a long refresh does not keep the short ones waiting.
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", thread.name)
    # Java knows its settings by the thread's active session: a new thread has none, and would find no catalog. Nor has
    # the main thread's, once it has connected to Java anew.
    activate = static(spark._jvm, "org.apache.spark.sql.classic.SparkSession", "setActiveSession")
    activate(spark._jsparkSession)


def _end_gateway(gateway: JavaGateway) -> None:
    """Closes the JVM and waits for it: a class-data archive is only written when it leaves in peace."""
    from pyspark import SparkContext

    process = getattr(gateway, "proc", None)
    with suppress(OSError):
        gateway.shutdown()
    if process is not None:
        with suppress(OSError):
            process.stdin.close()
        process.wait(timeout=120)
    if SparkContext._gateway is gateway:
        SparkContext._gateway = None
        SparkContext._jvm = None


def _quieten_pyspark() -> None:
    """PySpark logs every failed query to stderr by itself; the error we raise says it already."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True


def _meminfo() -> str:
    try:
        return Path("/proc/meminfo").read_text()
    except OSError:
        return ""
