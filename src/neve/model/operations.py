"""The JSON operations of document 003, each word by word. A word that cannot be honoured is refused by its name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from neve.errors import InvalidName
from neve.model.names import CATALOG, Namespace, TableName, check_part, parse_namespace, quote
from neve.model.queries import Aggregation, Filter, Join, Name, Projection, Sort, Words

MOST_ROWS = 100_000
Records = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_ROWS)]
Moment = str | int
Filters = Annotated[list[Filter], Field(min_length=1)]


def _refused(instead: str) -> BeforeValidator:
    """For a word that the document knows and this service does not take, unless it says nothing."""

    def check(value: object) -> None:
        if value not in (None, False, [], {}):
            raise ValueError(f"not taken here; {instead}")

    return BeforeValidator(check)


def _check_name(part: str, *, what: str) -> str:
    """Spark would put something else in the place of `${…}`, and so lead elsewhere."""
    if "${" in part:
        raise InvalidName(f"{what} name {part!r} holds ${{", hint="use letters, digits, _ or -")
    return check_part(part, what=what)


class Request(Words):
    """Where it is done. A tenant's namespaces lie below its own name; no name is ever changed."""

    tenant_id: Name | None = None
    namespace: Name = "default"

    @property
    def place(self) -> Namespace:
        parts = (self.namespace,) if self.tenant_id is None else (self.tenant_id, self.namespace)
        if parts[0] == CATALOG:  # which a dotted name drops from its front: nobody may be called so
            raise InvalidName(f"`{CATALOG}` is the catalog's own name", hint="choose another")
        for part in parts:
            _check_name(part, what="namespace")
        return parse_namespace(".".join(map(quote, parts)))


class TableRequest(Request):
    table: Name

    @property
    def name(self) -> TableName:
        return self.beside(self.table)

    def beside(self, table: str) -> TableName:
        """A table of the same namespace."""
        return TableName(self.place, _check_name(table, what="table"))


class FieldSpec(Words):
    """A column. `type` is a word of the document, or of SQL, such as decimal(10,2)."""

    type: Name
    required: bool = False
    nullable: bool | None = None
    items: FieldSpec | Name | None = None
    key_type: Name | None = None
    value_type: FieldSpec | Name | None = None
    fields: dict[str, FieldSpec] | None = None

    @model_validator(mode="after")
    def _fits(self) -> FieldSpec:
        if self.required and self.nullable:
            raise ValueError("a required field cannot be nullable")
        wanted = {"array": {"items"}, "map": {"key_type", "value_type"}, "struct": {"fields"}}.get(self.type, set())
        given = {word for word in ("items", "key_type", "value_type", "fields") if getattr(self, word) is not None}
        if wanted != given:
            raise ValueError(f"the type {self.type} goes with {', '.join(sorted(wanted)) or 'none of these'}")
        return self

    @property
    def is_required(self) -> bool:
        return self.required or self.nullable is False


class SchemaSpec(Words):
    fields: dict[str, FieldSpec] = Field(min_length=1)
    primary_key: list[Name] = Field([])


class PartitionField(Words):
    field: Name
    transform: Literal["identity", "year", "month", "day", "hour", "bucket"] = "identity"
    name: Name | None = None
    num_buckets: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _fits(self) -> PartitionField:
        if (self.transform == "bucket") != (self.num_buckets is not None):
            raise ValueError("num_buckets goes with the transform bucket, and only with it")
        return self


class PartitionSpec(Words):
    partitions: list[PartitionField]


class TableProperties(Words):
    compression: Literal["zstd", "snappy", "gzip", "lz4", "uncompressed"] | None = None
    file_format: Literal["parquet"] | None = None
    description: str | None = None


class CreateTable(TableRequest):
    operation: Literal["CREATE_TABLE"]
    columns: SchemaSpec = Field(alias="schema")
    partition: PartitionSpec | None = None
    properties: TableProperties = TableProperties()
    if_not_exists: bool = True


class ListTables(Request):
    operation: Literal["LIST_TABLES"]


class DescribeTable(TableRequest):
    operation: Literal["DESCRIBE_TABLE"]


class DropTable(TableRequest):
    operation: Literal["DROP_TABLE"]
    purge: bool = Field(False, description="remove its files now; else it stays in the trash for a while")


class DropNamespace(Request):
    operation: Literal["DROP_NAMESPACE"]


class Query(TableRequest):
    operation: Literal["QUERY"]
    projection: list[Name | Projection] = Field([], description="all fields unless given")
    filters: list[Filter] = Field([], description="all of them must hold")
    aggregations: list[Aggregation] = Field([])
    group_by: list[Name] = Field([])
    having: list[Filter] = Field([], description="conditions on what is answered")
    sort: list[Sort] = Field([])
    distinct: bool = False
    limit: int | None = Field(None, ge=1, le=MOST_ROWS)
    offset: int = Field(0, ge=0)
    consistency: Literal["strong", "eventual"] = Field("strong", description="every read is strong")
    timeout_ms: int | None = Field(None, ge=1)
    explain: bool = Field(False, description="how it would be done, instead of doing it")
    include_deleted: bool = False
    as_of: Moment | None = Field(None, description="a time, a snapshot or a tag")
    join: list[Join] = Field([], description="tables of the same namespace, one after the other")
    between_times: tuple[Moment, Moment] | None = Field(
        None, description="net changes between two moments: `_w` rows came, or went where it is below 0"
    )
    skip_versioning: Annotated[None, _refused("rows have no hidden versions: as_of reads earlier ones")] = None

    @model_validator(mode="after")
    def _fits(self) -> Query:
        if self.having and not self.group_by:
            raise ValueError("having needs group_by")
        if self.projection and (self.aggregations or self.group_by):
            raise ValueError("projection does not go with group_by: its fields and the aggregations are answered")
        if self.as_of is not None and self.between_times is not None:
            raise ValueError("as_of does not go with between_times, which names two moments")
        if self.join and (self.as_of is not None or self.between_times is not None):
            raise ValueError("join reads tables as they are now: as_of and between_times do not go with it")
        return self


class ExecuteSql(Request):
    operation: Literal["EXECUTE_SQL"]
    sql: Name
    params: list[Any] | dict[str, Any] = Field([], description="values for ? in their order, or for :name")
    timeout_ms: int | None = Field(None, ge=1)


class ExportCsv(TableRequest):
    """As many rows as there are, unless `limit` says otherwise."""

    operation: Literal["EXPORT_CSV"]
    projection: list[Name | Projection] = Field([], description="all fields unless given")
    filters: list[Filter] = Field([], description="all of them must hold")
    sort: list[Sort] = Field([])
    limit: int | None = Field(None, ge=1)
    filename: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\- ]{0,127}$")] | None = Field(
        None, description="what the file is called when it is fetched; the table's name unless given"
    )
    include_header: bool = True
    include_deleted: bool = False
    timeout_ms: int | None = Field(None, ge=1)


class Write(TableRequest):
    operation: Literal["WRITE"]
    records: Records
    mode: Literal["append", "overwrite", "upsert"] = "append"
    columns: SchemaSpec | None = Field(None, alias="schema", description="makes the table, where there is none")
    partition: PartitionSpec | None = None
    properties: TableProperties | None = None

    @model_validator(mode="after")
    def _fits(self) -> Write:
        if self.columns is None and (self.partition or self.properties):
            raise ValueError("partition and properties go with schema: they are for a table that is made")
        return self

    @property
    def creation(self) -> CreateTable | None:
        """The table that is to be there, where the request says what it is like."""
        if self.columns is None:
            return None
        return CreateTable(
            operation="CREATE_TABLE",
            tenant_id=self.tenant_id,
            namespace=self.namespace,
            table=self.table,
            schema=self.columns,
            partition=self.partition,
            properties=self.properties or TableProperties(),
        )


class Update(TableRequest):
    operation: Literal["UPDATE"]
    updates: dict[str, Any] = Field(min_length=1)
    filters: Filters


class Delete(TableRequest):
    operation: Literal["DELETE"]
    filters: Filters
    mode: Literal["soft", "hard"] = "soft"


class HardDelete(TableRequest):
    operation: Literal["HARD_DELETE"]
    filters: Filters
    confirm: bool = False


class Upsert(TableRequest):
    operation: Literal["UPSERT"]
    records: Records
    filters: list[Filter] = Field([], description="which rows get `updates`; `records` come where there are none")
    updates: dict[str, Any] = Field({})

    @model_validator(mode="after")
    def _fits(self) -> Upsert:
        if bool(self.filters) != bool(self.updates):
            raise ValueError("filters and updates go together: without them, the primary key says which rows are meant")
        return self


class Compact(TableRequest):
    operation: Literal["COMPACT"]
    force: bool = False
    target_file_size_mb: float | None = Field(None, gt=0)
    max_files: int | None = Field(None, ge=1)
    partition_filter: dict[str, Any] | None = None
    partition_filters: dict[str, Any] | None = None
    expire_snapshots: bool = True
    snapshot_retention_hours: float | None = Field(None, ge=0, description="168 unless set otherwise")

    @model_validator(mode="after")
    def _fits(self) -> Compact:
        if self.partition_filter and self.partition_filters:
            raise ValueError("partition_filter and partition_filters are one: give one of them")
        return self


Operation = Annotated[
    CreateTable
    | ListTables
    | DescribeTable
    | DropTable
    | DropNamespace
    | Query
    | ExecuteSql
    | ExportCsv
    | Write
    | Update
    | Delete
    | HardDelete
    | Upsert
    | Compact,
    Field(discriminator="operation"),
]
OPERATION: TypeAdapter[Operation] = TypeAdapter(Operation)
