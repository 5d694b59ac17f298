"""Every setting with its default, its limits and the line that explains it in neve.yaml.

Secrets stay out of `repr`, `str` and JSON: as `SecretStr`, or masked where a URL or a free-form property may hold one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Literal, TypeGuard, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, model_validator

from neve.config.secrets import mask_properties, mask_url
from neve.config.values import (
    Count,
    CountOrZero,
    Duration,
    OptionalCount,
    OptionalEndpoint,
    OptionalMemory,
    OptionalSecret,
    OptionalStateUri,
    OptionalText,
    OptionalUrl,
    OptionalWebhook,
    OrphanAge,
    Packages,
    PositiveDuration,
    Properties,
    Share,
    Text,
    Warehouse,
)
from neve.documents import unmet

Profile = Literal["dev", "staging", "prod"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
PROFILE_VALUES: dict[str, dict[tuple[str, ...], int]] = {
    profile: {("compaction", "min_files_to_compact"): files, ("compaction", "opportunistic_check_interval"): writes}
    for profile, files, writes in (("dev", 3, 5), ("staging", 15, 75), ("prod", 20, 100))
}
"""What a profile changes before anybody has written a setting."""

_SCHEMES = {
    "sqlite": ("sqlite:///",),
    "postgresql": ("postgresql://",),
    "rest": ("http://", "https://"),
    "hive": ("thrift://",),
}
_EXAMPLES = {"postgresql": "postgresql://host/database", "rest": "https://host/path", "hive": "thrift://host:9083"}


class Section(BaseModel):
    """A mapping of settings: unknown keys are refused, and a header with nothing below it changes nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_bare_headers(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        return {key: value for key, value in data.items() if value is not None or not cls.holds_several(key)}

    @classmethod
    def holds_several(cls, key: str) -> bool:
        """Whether the key is a section, a list or a mapping, rather than one value."""
        field = cls.model_fields.get(key)
        return field is not None and (is_section(field.annotation) or get_origin(field.annotation) in {dict, tuple})

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            if isinstance(value, dict):
                yield name, mask_properties(value)
            else:
                yield name, mask_url(value) if isinstance(value, str) else value


def is_section(annotation: object) -> TypeGuard[type[Section]]:
    """Whether a field with this annotation holds settings of its own."""
    return isinstance(annotation, type) and issubclass(annotation, Section)


class CatalogSettings(Section):
    """The Iceberg catalog: which tables there are, and the current state of each."""

    type: Literal["sqlite", "postgresql", "rest", "glue", "hive"] = Field(
        "sqlite", description="sqlite, postgresql, rest, glue or hive"
    )
    uri: OptionalUrl = Field(None, description="where it is; unset, sqlite uses catalog.db in the lake folder")
    user: OptionalText = Field(None, description="user name for a postgresql catalog")
    password: OptionalSecret = Field(None, description="better in the environment, as NEVE_CATALOG__PASSWORD")
    token: OptionalSecret = Field(None, description="bearer token of a rest catalog; better as NEVE_CATALOG__TOKEN")
    properties: Properties = Field({}, description="any other catalog property of Iceberg, key: value")

    @model_validator(mode="after")
    def _check_uri(self) -> CatalogSettings:
        if self.uri is None and self.type in _EXAMPLES:
            raise unmet("type", f"a {self.type} catalog needs catalog.uri, such as {_EXAMPLES[self.type]}")
        schemes = _SCHEMES.get(self.type)
        if self.uri is not None and schemes and not self.uri.startswith(schemes):
            raise unmet("uri", f"the uri of a {self.type} catalog must start with {' or '.join(schemes)}")
        return self


class StateSettings(Section):
    """The database of runs, logs and leases."""

    uri: OptionalStateUri = Field(
        None, description="postgresql://user@host/database; unset, .metadata.db in the lake folder"
    )


class SparkSettings(Section):
    """The Spark session."""

    master: Text = Field("local[*]", description="local[*], local[2], spark://host:7077, yarn, k8s://…")
    driver_memory: OptionalMemory = Field(None, description="such as 4g; unset, sized from the machine")
    shuffle_partitions: OptionalCount = Field(None, description="unset, sized from the machine")
    packages: Packages = Field((), description="more jars to fetch, as group:artifact:version")
    jars: OptionalText = Field(None, description="a folder of jars, used instead of fetching any")
    conf: Properties = Field({}, description="any other Spark property, key: value")

    @model_validator(mode="after")
    def _check_jars(self) -> SparkSettings:
        if self.jars is not None and self.packages:
            raise unmet(
                "jars", "nothing is fetched when this is set: put the jars there and leave spark.packages empty"
            )
        return self


class S3Settings(Section):
    """Access to s3://: warehouses and plain files. What is unset comes from the AWS environment."""

    endpoint: OptionalEndpoint = Field(None, description="for stores other than AWS, such as http://localhost:9000")
    region: OptionalText = Field(None, description="such as eu-west-1")
    access_key_id: OptionalSecret = Field(None, description="better in the environment, as NEVE_S3__ACCESS_KEY_ID")
    secret_access_key: OptionalSecret = Field(None, description="better as NEVE_S3__SECRET_ACCESS_KEY")
    session_token: OptionalSecret = Field(None, description="better as NEVE_S3__SESSION_TOKEN")
    path_style: bool = Field(False, description="address buckets as host/bucket, as most stores other than AWS need")

    @model_validator(mode="after")
    def _check_keys(self) -> S3Settings:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            there, lacking = "access_key_id", "secret_access_key"
            if self.access_key_id is None:
                there, lacking = lacking, there
            raise unmet(there, f"needs s3.{lacking} too")
        if self.session_token is not None and self.access_key_id is None:
            raise unmet("session_token", "needs s3.access_key_id and s3.secret_access_key too")
        return self


class WriteSettings(Section):
    """How data files are written."""

    target_file_size_mb: Count = Field(128, description="MiB per data file")
    compression_codec: Literal["zstd", "snappy", "gzip", "lz4", "uncompressed"] = Field(
        "zstd", description="zstd, snappy, gzip, lz4 or uncompressed"
    )
    parquet_row_group_size: Count = Field(8192, description="KiB per Parquet row group")


class CompactionSettings(Section):
    """When small files are worth merging. The profile decides two of the values."""

    enabled: bool = Field(True, description="check after writes whether a table needs compaction")
    small_file_threshold_mb: Count = Field(64, description="a file below this many MiB is small")
    min_files_to_compact: Count = Field(
        3, description="small files that make it worthwhile: dev 3, staging 15, prod 20"
    )
    opportunistic_check_interval: Count = Field(5, description="check every Nth write: dev 5, staging 75, prod 100")
    max_files_per_compaction: Count = Field(100, description="files merged at once, at most")

    @model_validator(mode="after")
    def _check_files(self) -> CompactionSettings:
        if self.max_files_per_compaction < self.min_files_to_compact:
            raise unmet(
                "max_files_per_compaction",
                f"must be at least compaction.min_files_to_compact, {self.min_files_to_compact}",
            )
        return self


class RetentionSettings(Section):
    """How long a table's past is kept. Properties of a table (history.expire.…) are stronger."""

    snapshot_retention_hours: CountOrZero = Field(168, description="snapshots younger than this are kept")
    min_snapshots_to_keep: Count = Field(1, description="the newest of each branch that are kept, however old")
    reader_grace: Duration = Field(
        timedelta(hours=1), description="a snapshot is kept so long after it was current, for queries that still run"
    )
    orphan_age: OrphanAge = Field(
        timedelta(days=7), description="files that no snapshot names are left alone until so old; 24h at least"
    )
    orphan_scan_every: Duration = Field(
        timedelta(days=7), description="how often the worker looks for such files; 0 is never"
    )
    orphan_delete: bool = Field(False, description="whether the worker removes what it finds; it lists them otherwise")


class StatisticsSettings(Section):
    """Distinct values of columns (`neve stats`), as the worker keeps them."""

    tables: Literal["asked", "all", "none"] = Field(
        "asked", description="asked: tables counted once are counted again; all, none"
    )
    stale_after: Share = Field(
        0.2, description="of a table's rows, written since: then they are counted again; 0 is never"
    )


class TrashSettings(Section):
    """Deleted tables, and rows as they were before a change."""

    keep: Duration = Field(
        timedelta(days=7), description="how long deleted tables and rows can come back, such as 12h; 0 keeps nothing"
    )


class CommitSettings(Section):
    """What a writer does when another was first."""

    retries: CountOrZero = Field(50, description="attempts after the first")
    min_wait_ms: Count = Field(10, description="milliseconds before the first retry")
    max_wait_ms: Count = Field(1000, description="milliseconds between later retries, at most")

    @model_validator(mode="after")
    def _check_waits(self) -> CommitSettings:
        if self.max_wait_ms < self.min_wait_ms:
            raise unmet("max_wait_ms", f"must be at least commit.min_wait_ms, {self.min_wait_ms}")
        return self


class WorkerSettings(Section):
    """Scheduled work: `neve worker`."""

    slots: Count = Field(1, description="jobs at once in one worker")
    lease: PositiveDuration = Field(
        timedelta(minutes=1), description="a worker that gives no sign of life for so long is taken for dead"
    )
    poll: PositiveDuration = Field(timedelta(seconds=10), description="at most so long between two looks")


class AlertSettings(Section):
    """Who is told when a table is late beyond twice its lag, fails 3 times in 15 minutes, or turns to FULL."""

    webhook: OptionalWebhook = Field(
        None, description="an address that takes JSON by POST; better as NEVE_ALERTS__WEBHOOK"
    )
    command: OptionalText = Field(None, description="a command that gets the JSON on its standard input")


class OpenLineageSettings(Section):
    """Who hears, by OpenLineage's specification, which run read and wrote which tables."""

    url: OptionalWebhook = Field(None, description="where events are POSTed, such as http://host:5000/api/v1/lineage")
    api_key: OptionalSecret = Field(None, description="sent as a bearer token; better as NEVE_OPENLINEAGE__API_KEY")
    file: OptionalText = Field(None, description="a file that gets a line for each event; a path from the lake folder")
    namespace: Text = Field("neve", description="that of the lake's jobs and tables")


class ProfileSection(Section):
    """All that a profile may set."""

    warehouse: Warehouse = Field(
        "warehouse",
        description="Where the data lives: a path from the lake folder, an absolute path, or s3://bucket/prefix.",
    )
    catalog: CatalogSettings = CatalogSettings()
    state: StateSettings = StateSettings()
    spark: SparkSettings = SparkSettings()
    s3: S3Settings = S3Settings()
    write: WriteSettings = WriteSettings()
    compaction: CompactionSettings = CompactionSettings()
    retention: RetentionSettings = RetentionSettings()
    statistics: StatisticsSettings = StatisticsSettings()
    trash: TrashSettings = TrashSettings()
    commit: CommitSettings = CommitSettings()
    worker: WorkerSettings = WorkerSettings()
    alerts: AlertSettings = AlertSettings()
    openlineage: OpenLineageSettings = OpenLineageSettings()


class _Choice(Section):
    profile: Profile = Field(
        "dev", description="Which defaults apply, and which of the profiles below: dev, staging or prod."
    )


class Settings(ProfileSection, _Choice):
    """The settings of a lake. Made directly, not by `load_settings`, they hold the values of the profile dev."""


class ProfileSections(Section):
    """What each profile changes in this lake."""

    dev: ProfileSection = ProfileSection()
    staging: ProfileSection = ProfileSection()
    prod: ProfileSection = ProfileSection()


class SettingsFile(Settings):
    """What neve.yaml may hold."""

    profiles: ProfileSections = ProfileSections()
