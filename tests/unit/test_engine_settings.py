"""Settings → Spark's configuration, jars, Java; Java's errors → ours. No JVM is started and no pyspark imported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from neve.config import LoadedSettings, load_settings
from neve.config.connections import (
    arrow_s3,
    pyiceberg_properties,
    spark_catalog,
    spark_s3,
    table_defaults,
    uses_s3,
    with_environment,
)
from neve.engine.conf import Launch, Machine, archive_name, read_machine, spark_conf
from neve.engine.errors import from_java
from neve.engine.jars import AVRO, AWS, ICEBERG, POSTGRESQL, S3A, SQLITE, coordinates, find_jars, ivy_folder
from neve.engine.java import Java, find_java, read_java
from neve.engine.session import drop_stale_archives
from neve.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    JobFailed,
    NamespaceNotFound,
    SparkUnavailable,
    TableNotFound,
)

GIB = 1024**3


def loaded(root: Path, **flags: str) -> LoadedSettings:
    return load_settings(root, flags={key.replace("__", "."): value for key, value in flags.items()}, env={})


def launch(root: Path, *, cores: int = 4, memory: int = 8 * GIB, jars: tuple[Path, ...] = ()) -> Launch:
    return Launch(
        machine=Machine(cores=cores, memory_bytes=memory),
        java=Java(Path("/java"), 17, "17.0.1"),
        jars=jars,
        log_file=root / ".neve" / "spark.log",
    )


def test_a_session_is_quiet_utc_and_strict(tmp_path: Path) -> None:
    conf = spark_conf(loaded(tmp_path), launch(tmp_path))
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert conf["spark.sql.ansi.enabled"] == "true"
    assert conf["spark.ui.showConsoleProgress"] == "false"
    assert conf["spark.sql.defaultCatalog"] == "lake"
    assert conf["spark.sql.catalog.lake.type"] == "jdbc"
    assert conf["spark.sql.catalog.lake.jdbc.schema-version"] == "V1"
    assert conf["spark.sql.catalog.lake.unique-table-location"] == "true"
    assert conf["spark.sql.catalog.lake.warehouse"] == str(tmp_path / "warehouse")
    assert "log4j2" in conf["spark.driver.extraJavaOptions"]
    assert "VFORK" not in conf["spark.driver.extraJavaOptions"], "only Linux knows it"
    linux = replace(launch(tmp_path), machine=Machine(cores=2, memory_bytes=GIB, is_linux=True))
    assert "launchMechanism=VFORK" in spark_conf(loaded(tmp_path), linux)["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(("memory", "expected"), [(1, "1g"), (8, "4g"), (64, "16g")])
def test_memory_is_sized_from_the_machine(tmp_path: Path, memory: int, expected: str) -> None:
    conf = spark_conf(loaded(tmp_path), launch(tmp_path, memory=memory * GIB))
    assert conf["spark.driver.memory"] == expected
    assert spark_conf(loaded(tmp_path, spark__driver_memory="3g"), launch(tmp_path))["spark.driver.memory"] == "3g"


def test_what_is_asked_for_wins(tmp_path: Path) -> None:
    settings = load_settings(
        tmp_path,
        flags={},
        env={
            "NEVE_SPARK__CONF": '{"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Dx=y"}',
            "NEVE_CATALOG__PROPERTIES": '{"cache-enabled": "true"}',
        },
    )
    conf = spark_conf(settings, launch(tmp_path))
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.driver.extraJavaOptions"].endswith("-Dx=y")
    assert "log4j2" in conf["spark.driver.extraJavaOptions"]
    assert conf["spark.sql.catalog.lake.cache-enabled"] == "true"


def test_jars_are_on_the_class_path_and_shipped_to_a_cluster(tmp_path: Path) -> None:
    jars = (tmp_path / "a.jar", tmp_path / "b.jar")
    local = spark_conf(loaded(tmp_path), launch(tmp_path, jars=jars))
    assert local["spark.driver.extraClassPath"] == f"{jars[0]}:{jars[1]}"
    assert "spark.jars" not in local
    cluster = spark_conf(loaded(tmp_path, spark__master="spark://host:7077"), launch(tmp_path, jars=jars))
    assert cluster["spark.jars"] == f"{jars[0]},{jars[1]}"


def test_a_postgresql_catalog_gets_its_password_apart_from_its_uri(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path, catalog__type="postgresql", catalog__uri="postgresql://me:p%40ss@host:5433/db?sslmode=require"
    )
    conf = spark_catalog(settings)
    prefix = "spark.sql.catalog.lake."
    assert conf[f"{prefix}uri"] == "jdbc:postgresql://host:5433/db?sslmode=require"
    assert conf[f"{prefix}jdbc.user"] == "me"
    assert conf[f"{prefix}jdbc.password"] == "p@ss"


def test_s3_speaks_to_spark_pyiceberg_and_arrow_alike(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path, warehouse="s3://bucket/w", s3__endpoint="http://host:9000", s3__region="eu-west-1",
        s3__access_key_id="key", s3__secret_access_key="secret", s3__path_style="true", catalog__type="rest",
        catalog__uri="https://host/api", catalog__token="token",
    )  # fmt: skip
    assert uses_s3(settings)
    spark = spark_catalog(settings)
    assert spark["spark.sql.catalog.lake.io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert spark["spark.sql.catalog.lake.s3.path-style-access"] == "true"
    assert spark["spark.sql.catalog.lake.client.region"] == "eu-west-1"
    assert spark["spark.sql.catalog.lake.token"] == "token"
    theirs = pyiceberg_properties(settings)
    assert theirs["type"] == "rest"
    assert theirs["uri"] == "https://host/api"
    assert theirs["s3.endpoint"] == "http://host:9000"
    assert theirs["s3.region"] == "eu-west-1"
    plain = spark_s3(settings)
    assert plain["spark.hadoop.fs.s3a.endpoint"] == "http://host:9000"
    assert plain["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert plain["spark.hadoop.fs.s3a.secret.key"] == "secret"
    assert plain["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith("SimpleAWSCredentialsProvider")
    for_a_while = loaded(tmp_path, s3__access_key_id="k", s3__secret_access_key="s", s3__session_token="t")
    assert spark_s3(for_a_while)["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith(
        "TemporaryAWSCredentialsProvider"
    )
    by_environment = spark_s3(loaded(tmp_path, s3__region="eu-west-1"))
    assert by_environment["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith(".DefaultCredentialsProvider")
    said = [name.removeprefix("spark.hadoop.fs.") for name in by_environment]
    assert said == ["s3.impl", "s3a.endpoint.region", "s3a.aws.credentials.provider"]
    assert spark_s3(loaded(tmp_path)) == {}
    arrow = arrow_s3(settings)
    assert arrow["endpoint_override"] == "host:9000"
    assert arrow["scheme"] == "http"
    assert arrow["secret_key"] == "secret"


def test_executors_reach_s3_by_what_this_process_has() -> None:
    """Settings come first; keys are never mixed."""
    env = {
        "AWS_ACCESS_KEY_ID": "ada",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "http://store:9000",
    }
    assert with_environment({}, {}) == {}
    assert with_environment({}, env) == {
        "access_key": "ada",
        "secret_key": "s3cret",
        "session_token": "token",
        "region": "eu-west-1",
        "endpoint_override": "store:9000",
        "scheme": "http",
    }
    own = {"access_key": "own", "secret_key": "key", "region": "us-east-1"}
    assert with_environment(own, env) == own | {"endpoint_override": "store:9000", "scheme": "http"}


def test_properties_of_new_tables_follow_the_settings(tmp_path: Path) -> None:
    found = table_defaults(loaded(tmp_path, write__target_file_size_mb="7", commit__retries="9"))
    assert found["write.target-file-size-bytes"] == str(7 * 1024 * 1024)
    assert found["commit.retry.num-retries"] == "9"
    assert found["write.delete.mode"] == found["write.merge.mode"] == "merge-on-read"
    assert found["commit.manifest.min-count-to-merge"] == "10"


def test_the_jars_that_settings_need(tmp_path: Path) -> None:
    assert coordinates(loaded(tmp_path)) == (ICEBERG, AVRO, SQLITE)
    postgresql = loaded(tmp_path, catalog__type="postgresql", catalog__uri="postgresql://h/d", warehouse="s3://b/w")
    assert coordinates(postgresql) == (ICEBERG, AVRO, POSTGRESQL, AWS, *S3A)
    assert coordinates(loaded(tmp_path, s3__region="eu-west-1")) == (ICEBERG, AVRO, SQLITE, AWS, *S3A)
    assert coordinates(loaded(tmp_path, catalog__type="glue")) == (ICEBERG, AVRO, AWS)
    assert coordinates(loaded(tmp_path, spark__packages="g:a:1"))[-1] == "g:a:1"


def test_jars_in_the_cache_are_found_and_the_others_named(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    settings = loaded(tmp_path)
    assert find_jars(settings, env).missing == (ICEBERG, AVRO, SQLITE)
    kept = ivy_folder(env) / "jars"
    kept.mkdir(parents=True)
    (kept / "org.xerial_sqlite-jdbc-3.50.3.0.jar").touch()
    found = find_jars(settings, env)
    assert [path.name for path in found.paths] == ["org.xerial_sqlite-jdbc-3.50.3.0.jar"]
    assert found.missing == (ICEBERG, AVRO)


def test_an_offline_folder_is_used_instead(tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    folder.mkdir()
    settings = loaded(tmp_path, spark__jars="jars")
    with pytest.raises(SparkUnavailable, match="iceberg-spark-runtime"):
        find_jars(settings, {})
    (folder / "iceberg-spark-runtime-4.1_2.13-1.12.0.jar").touch()
    assert find_jars(settings, {}).missing == ()


def install(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_RUNTIME_VERSION="{version}+9"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.mark.parametrize(("version", "major"), [("17.0.9", 17), ("21", 21), ("1.8.0_392", 8), ("25.0.1", 25)])
def test_a_java_is_known_by_its_release_file(tmp_path: Path, version: str, major: int) -> None:
    java = read_java(install(tmp_path / "java", version))
    assert java is not None
    assert (java.major, java.version) == (major, f"{version}+9")


def test_java_home_comes_first_and_must_fit(tmp_path: Path) -> None:
    old, good = install(tmp_path / "old", "11.0.1"), install(tmp_path / "good", "21.0.1")
    path = f"{good / 'bin'}"
    assert find_java({"JAVA_HOME": str(good), "PATH": ""}).home == good
    assert find_java({"JAVA_HOME": str(old), "PATH": path}).home == good
    assert read_java(tmp_path / "nowhere") is None
    (tmp_path / "odd" / "bin").mkdir(parents=True)
    (tmp_path / "odd" / "release").write_text("nothing")
    assert read_java(tmp_path / "odd") is None


def test_no_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neve.engine.java._PLACES", (str(tmp_path / "nowhere"),))
    with pytest.raises(SparkUnavailable, match="found no Java"):
        find_java({"PATH": ""})
    install(tmp_path / "old", "11.0.1")
    with pytest.raises(SparkUnavailable, match="only Java 11") as caught:
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})
    assert "apt-get install" in str(caught.value.hint)


def test_an_archive_fits_one_java_and_one_set_of_jars(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_text("1")
    java, home = Java(Path("/j"), 17, "17.0.1"), Path("/venv/pyspark")
    name = archive_name(java, [jar], "4.1.0", home)
    assert name == archive_name(java, [jar], "4.1.0", home)
    assert name != archive_name(Java(Path("/j"), 17, "17.0.2"), [jar], "4.1.0", home)
    assert name != archive_name(java, [jar], "4.1.1", home)
    assert name != archive_name(java, [jar], "4.1.0", Path("/elsewhere/pyspark"))  # Java checks where classes lie
    jar.write_text("22")
    assert name != archive_name(java, [jar], "4.1.0", home)


def test_archives_of_a_spark_that_is_gone_go_too(tmp_path: Path) -> None:
    for name, home in (("kept", tmp_path), ("gone", tmp_path / "gone")):
        (tmp_path / f"{name}.jsa").write_text("classes")
        (tmp_path / f"{name}.home").write_text(str(home))
    drop_stale_archives(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"kept.jsa", "kept.home"}


def test_the_size_of_the_machine() -> None:
    assert read_machine(2, "MemTotal:       8388608 kB\nMemFree: 1 kB\n") == Machine(
        cores=2, memory_bytes=8 * GIB, is_linux=True
    )
    assert read_machine(2, "").memory_bytes == 4 * GIB


ICE = "org.apache.iceberg.exceptions"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (f"An error occurred calling o1.\n: {ICE}.CommitFailedException: Cannot commit", CommitConflict, "Cannot"),
        (f"x\nCaused by: {ICE}.ValidationException: Found conflicts\n\tat y", CommitConflict, "Found conflicts"),
        (f": {ICE}.CommitStateUnknownException: lost\nCaused by: {ICE}.CommitFailedException: x", CommitUnknown, "l"),
        (f": {ICE}.NoSuchTableException: Table does not exist: a.b", TableNotFound, "does not exist"),
        (f": {ICE}.NoSuchNamespaceException: Namespace does not exist: a", NamespaceNotFound, "a"),
        (f": {ICE}.AlreadyExistsException: Table already exists: a", AlreadyExists, "already exists"),
        ("An error occurred while calling o9.\n: java.lang.OutOfMemoryError: Java heap space", JobFailed, "heap space"),
        ("", JobFailed, "unknown error"),
    ],
)  # fmt: skip
def test_javas_errors_become_ours(text: str, kind: type[Exception], message: str) -> None:
    error = from_java(text)
    assert type(error) is kind
    assert message in str(error)
    assert "An error occurred while calling" not in str(error)
