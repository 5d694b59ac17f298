"""Settings → what Spark's Iceberg catalog, PyIceberg and pyarrow each want to hear. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from pydantic import SecretStr

from neve.config.layers import LoadedSettings
from neve.config.settings import S3Settings
from neve.model.names import CATALOG, DEFAULT_NAMESPACE

_BUSY_MS = 30_000
_MIB = 1024 * 1024
SQL_CATALOGS = ("sqlite", "postgresql")
_AWS_KEYS = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
}
_MEANING = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}


def table_defaults(loaded: LoadedSettings) -> dict[str, str]:
    """Properties of a new table: format 3, merge-on-read, patient commits, few manifests, sizes of the profile."""
    write, commit = loaded.settings.write, loaded.settings.commit
    return {
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.merge.mode": "merge-on-read",
        "write.target-file-size-bytes": str(write.target_file_size_mb * _MIB),
        "write.parquet.compression-codec": write.compression_codec,
        "write.parquet.row-group-size-bytes": str(write.parquet_row_group_size * 1024),
        "commit.retry.num-retries": str(commit.retries),
        "commit.retry.min-wait-ms": str(commit.min_wait_ms),
        "commit.retry.max-wait-ms": str(commit.max_wait_ms),
        "commit.manifest.min-count-to-merge": "10",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "100",
    }


def spark_meaning(loaded: LoadedSettings) -> dict[str, str]:
    """The settings of Spark that decide what a query answers."""
    return {key: loaded.settings.spark.conf.get(key, value) for key, value in _MEANING.items()}


def spark_catalog(loaded: LoadedSettings) -> dict[str, str]:
    """The `spark.sql.catalog.lake.…` settings."""
    catalog = loaded.settings.catalog
    options = {
        "type": "jdbc" if catalog.type in SQL_CATALOGS else catalog.type,
        "warehouse": loaded.warehouse_location,
        "default-namespace": ".".join(DEFAULT_NAMESPACE),
        "cache-enabled": "false",
        "unique-table-location": "true",
        **_spark_connection(loaded),
        **_s3_io(loaded),
        "table-default.format-version": "3",
        **{f"table-default.{key}": value for key, value in table_defaults(loaded).items()},
        **catalog.properties,
    }
    prefix = f"spark.sql.catalog.{CATALOG}"
    return {prefix: "org.apache.iceberg.spark.SparkCatalog"} | {f"{prefix}.{k}": v for k, v in options.items()}


def sql_catalog_uri(loaded: LoadedSettings) -> str:
    """The address of a SQL catalog's database, with the user and password that the settings give apart from it."""
    catalog, uri = loaded.settings.catalog, loaded.catalog_uri or ""
    parts = urlsplit(uri)
    if catalog.type != "postgresql" or not (catalog.user or catalog.password):
        return uri
    user = quote(catalog.user or unquote(parts.username or ""), safe="")
    password = _secret(catalog.password) or unquote(parts.password or "")
    host = parts.netloc.rpartition("@")[2]
    login = f"{user}:{quote(password, safe='')}" if password else user
    return urlunsplit(parts._replace(netloc=f"{login}@{host}"))


def _spark_connection(loaded: LoadedSettings) -> dict[str, str]:
    catalog, uri = loaded.settings.catalog, loaded.catalog_uri or ""
    match catalog.type:
        case "sqlite":
            path = uri.removeprefix("sqlite:///")
            return {"uri": f"jdbc:sqlite:{path}?busy_timeout={_BUSY_MS}&journal_mode=WAL", "jdbc.schema-version": "V1"}
        case "postgresql":
            parts = urlsplit(uri)
            host = parts.netloc.rpartition("@")[2]
            query = f"?{parts.query}" if parts.query else ""
            user = catalog.user or (unquote(parts.username) if parts.username else None)
            password = _secret(catalog.password) or (unquote(parts.password) if parts.password else None)
            return {
                "uri": f"jdbc:postgresql://{host}{parts.path}{query}",
                "jdbc.schema-version": "V1",
                **({"jdbc.user": user} if user else {}),
                **({"jdbc.password": password} if password else {}),
            }
        case _:
            token = _secret(catalog.token)
            return {**({"uri": uri} if uri else {}), **({"token": token} if token else {})}


def _s3_io(loaded: LoadedSettings) -> dict[str, str]:
    if not uses_s3(loaded):
        return {}
    return {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", **_s3_properties(loaded.settings.s3)} | (
        {"client.region": loaded.settings.s3.region} if loaded.settings.s3.region else {}
    )


def uses_s3(loaded: LoadedSettings) -> bool:
    """Whether Iceberg's tables lie on S3."""
    return loaded.warehouse_location.startswith("s3")


def reaches_s3(loaded: LoadedSettings) -> bool:
    """Whether Spark is made to read files on S3: the warehouse lies there, or the settings say something of `s3`."""
    return uses_s3(loaded) or loaded.settings.s3 != S3Settings()


def spark_s3(loaded: LoadedSettings) -> dict[str, str]:
    """The `spark.hadoop.fs.s3a.…` settings, by which Spark reads plain files on S3."""
    if not reaches_s3(loaded):
        return {}
    s3 = loaded.settings.s3
    values = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.endpoint": s3.endpoint,
        "fs.s3a.endpoint.region": s3.region,
        "fs.s3a.path.style.access": "true" if s3.path_style else None,
        "fs.s3a.access.key": _secret(s3.access_key_id),
        "fs.s3a.secret.key": _secret(s3.secret_access_key),
        "fs.s3a.session.token": _secret(s3.session_token),
        "fs.s3a.aws.credentials.provider": _credentials_provider(s3),
    }
    return {f"spark.hadoop.{key}": value for key, value in values.items() if value}


def _credentials_provider(s3: S3Settings) -> str:
    """The keys of the settings, or else what the AWS environment gives to pyarrow too."""
    if s3.access_key_id is None:
        return "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    kind = "SimpleAWSCredentialsProvider" if s3.session_token is None else "TemporaryAWSCredentialsProvider"
    return f"org.apache.hadoop.fs.s3a.{kind}"


def _s3_properties(s3: S3Settings) -> dict[str, str]:
    """Words that Iceberg's S3FileIO and PyIceberg share."""
    values = {
        "s3.endpoint": s3.endpoint,
        "s3.access-key-id": _secret(s3.access_key_id),
        "s3.secret-access-key": _secret(s3.secret_access_key),
        "s3.session-token": _secret(s3.session_token),
        "s3.path-style-access": "true" if s3.path_style else None,
    }
    return {key: value for key, value in values.items() if value}


def pyiceberg_properties(loaded: LoadedSettings) -> dict[str, str]:
    """What PyIceberg's `load_catalog` wants, for catalogs other than our own SQL one."""
    catalog = loaded.settings.catalog
    token = _secret(catalog.token)
    region = loaded.settings.s3.region
    return {
        "type": catalog.type,
        **({"uri": loaded.catalog_uri} if loaded.catalog_uri else {}),
        **({"token": token} if token else {}),
        "warehouse": loaded.warehouse_location,
        **_s3_properties(loaded.settings.s3),
        **({"s3.region": region} if region else {}),
        **catalog.properties,
    }


def arrow_s3(loaded: LoadedSettings) -> Mapping[str, str | bool]:
    """Arguments of pyarrow's S3FileSystem."""
    s3 = loaded.settings.s3
    endpoint = urlsplit(s3.endpoint) if s3.endpoint else None
    values: dict[str, str | bool | None] = {
        "access_key": _secret(s3.access_key_id),
        "secret_key": _secret(s3.secret_access_key),
        "session_token": _secret(s3.session_token),
        "region": s3.region,
        "endpoint_override": endpoint.netloc if endpoint else None,
        "scheme": endpoint.scheme if endpoint else None,
        "force_virtual_addressing": False if s3.path_style else None,
    }
    return {key: value for key, value in values.items() if value is not None}


def with_environment(s3: Mapping[str, str | bool], env: Mapping[str, str]) -> Mapping[str, str | bool]:
    """The same with what pyarrow would find in this process's environment, for processes that have another one."""
    found: dict[str, str | bool] = {}
    if "access_key" not in s3 and env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY"):
        found = {word: env[name] for word, name in _AWS_KEYS.items() if env.get(name)}
    if region := env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION"):
        found["region"] = region
    endpoint = urlsplit(env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or "")
    if endpoint.netloc:
        found |= {"endpoint_override": endpoint.netloc, "scheme": endpoint.scheme}
    return {**found, **s3}


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
