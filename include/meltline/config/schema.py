"""The schema of `meltline.yaml`: its sections, and the constraints of each value.

Pydantic validates them and generates the JSON Schema. `config.values` defines how each kind of
value is written.
"""

from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from meltline.config.values import (
    HOT,
    CatalogName,
    Days,
    Duration,
    Property,
    QuietWindow,
    RetentionDays,
    Size,
    around,
    control_url,
    is_store,
    lasting,
    local_warehouse,
    namespace,
    old_enough,
    positive,
    sqlalchemy_url,
    wrong,
)
from meltline.domain.deletion.limits import MOST_PARALLEL
from meltline.domain.path_aliases import StoreNames

ColdWord: TypeAlias = Literal["none", "all", "daily", "weekly", "monthly"]
CatalogType: TypeAlias = Literal["sql", "rest", "hive", "glue"]
ProfileName: TypeAlias = Literal[
    "business",
    "lite_paid",
    "lite_free",
    "snowflake_standard",
    "snowflake_enterprise",
    "ducklake_managed",
    "ducklake_byob",
    "lakehouse",
]

# The prefixes of a catalog's addresses, and an example.
_URIS = {
    "rest": (("http://", "https://"), "https://catalog.example.com"),
    "hive": (("thrift://",), "thrift://metastore.example.com:9083"),
}


def _written(text: str, description: str = "") -> Any:
    """Declares a default as written in the file; it is validated like any other value."""
    return Field(text, description=description)


def _profile_decides() -> Any:
    """Declares the default of a key without one; a file cannot contain null."""
    return Field(
        None,
        validate_default=False,
        description="Absent: the profile decides.",
        json_schema_extra=_without_null,
    )


def _without_null(schema: dict[str, Any]) -> None:
    choices = [choice for choice in schema.pop("anyOf") if choice.get("type") != "null"]
    schema.update(choices[0] if len(choices) == 1 else {"anyOf": choices})
    del schema["default"]


# A section whose keys are all commented out is empty, which is no mistake.
_EMPTY_IS_DEFAULT = BeforeValidator(lambda raw: {} if raw == "" else raw)


# --- the sections ----------------------------------------------------------------------------


class Section(BaseModel):
    """A mapping of the file: kebab-case keys, unknown ones refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )


def _all_defaults(section: type[Section]) -> Any:
    return Field(default_factory=section)


class CatalogSection(Section):
    """A catalog; further keys are PyIceberg properties such as s3.endpoint."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Property] = Field(init=False)

    type: CatalogType
    uri: str = Field(
        "", description="Where it answers; a relative SQLite file counts from this file's folder."
    )
    warehouse: str = Field("", description="Where tables go that are given no location.")
    catalog_name: str = Field("", description="The name in the SQL catalog's rows, if another.")
    observe_only: bool = Field(False, description="Read for reachability, never changed.")

    @field_validator("uri")
    @classmethod
    def _reachable(cls, uri: str, info: ValidationInfo) -> str:
        kind = info.data.get("type", "")
        if kind == "sql":
            return sqlalchemy_url(uri, info)
        beginnings, example = _URIS.get(kind, ((), ""))
        if beginnings and not uri.startswith(beginnings):
            raise wrong(f"an address that begins with {beginnings[0]}", f"write, say, {example}")
        return uri

    @field_validator("warehouse")
    @classmethod
    def _absolute(cls, warehouse: str, info: ValidationInfo) -> str:
        kind = info.data.get("type", "")
        if kind == "sql" and not warehouse:
            raise wrong("a folder or bucket", "write, say, file:///data/warehouse")
        if not warehouse or (kind == "rest" and not warehouse.startswith(("/", "file:"))):
            return warehouse  # a REST server may use a plain name for its warehouse
        return local_warehouse(warehouse, around(info).directory)


class AccountSection(Section):
    """The account's retention and failsafe; the profile decides absent keys."""

    profile: ProfileName = "business"
    retention_days: RetentionDays | None = _profile_decides()
    min_retention_days: Days = 0
    failsafe_days: Days | None = _profile_decides()
    transient_failsafe_days: Days | None = _profile_decides()
    reader_grace: Duration = _written("6h", "0 only in a sandbox.")
    cold: ColdWord = Field("none", description="Which expired snapshots the archive keeps.")
    cold_retention_days: Days = Field(2557, description="How long it keeps them, at least.")
    deep: bool = Field(False, description="Whether permanent copies are made as well.")
    writer_keep: Duration = _written("30d", "How long a silent writer's mark counts.")
    consumer_keep: Annotated[Duration, AfterValidator(lasting)] = _written(
        "30d", "How long a consumer stays after its last move."
    )

    @field_validator("reader_grace")
    @classmethod
    def _leaves_readers_time(cls, span: timedelta, info: ValidationInfo) -> timedelta:
        if not span and not around(info).sandbox:
            raise wrong("a duration longer than 0", "write one such as 6h, or set sandbox: true")
        return span


class LimitsSection(Section):
    """How much a plan may do."""

    max_head_loss: int = Field(0, ge=0, description="Files of any head; never approvable.")
    max_delete_ratio: float = Field(
        0.95, ge=0, le=1, description="Planned / (planned + still referenced) bytes."
    )
    max_growth: float = Field(
        5.0, gt=0, allow_inf_nan=False, description="Against the median of the last ten plans."
    )
    approve_above: Size = _written("1TiB", "A person must approve larger purges.")
    full_proof_above: Size = _written("1TiB", "Larger plans are proved from the files.")
    delete_keys_per_second: int = Field(3000, ge=1)
    lock_wait: Duration = _written("10m", "Then the table is skipped.")


class GatesSection(Section):
    """How long a verdict is valid."""

    ttl: Annotated[Duration, AfterValidator(positive)] = _written("6h")
    approval_wait: Annotated[Duration, AfterValidator(positive)] = _written(
        "3d", "How long a person is asked about a purge above the limit."
    )
    full_proof_every: Duration = _written("30d")


class SweepSection(Section):
    """When a file that no commit has referenced may be treated as an orphan."""

    minimum_age: Annotated[Duration, AfterValidator(old_enough)] = _written(
        "3d", "Since it was modified, and since it was first seen; at least 24h."
    )
    listings_apart: Annotated[Duration, AfterValidator(positive)] = _written(
        "12h", "Between the two listings that must show it unchanged."
    )
    inventory_age: Annotated[Duration, AfterValidator(positive)] = _written(
        "2d", "Of an inventory that stands in for a listing."
    )


class BatchesSection(Section):
    """How the DAG distributes the plans of a run over Spark apps."""

    most_apps: int = Field(8, ge=1, le=100, description="For each kind of plan.")
    files_per_app: int = Field(
        1_000_000, ge=1, description="What an app has to do; a plan counts as 1000 files more."
    )


class ChunksSection(Section):
    """Limits of replication, and of drops of chunks of time."""

    heartbeat: Annotated[Duration, AfterValidator(positive)] = _written(
        "2h", "Replication that was not heard of for so long proves nothing."
    )
    max_chunks: int = Field(1000, ge=1, description="Dropped in one run, the oldest first.")
    max_drop_share: float = Field(
        0.8, gt=0, le=1, description="Of a table's bytes, in one plan; above it the gate refuses."
    )
    max_foreign_deletes: float = Field(
        0.2, ge=0, le=1, description="Of a table's rows, by others; more is not mirrored unasked."
    )
    foreign_deletes_window: Annotated[Duration, AfterValidator(positive)] = _written(
        "7d", "Deletes by others within this time count together."
    )
    all_suffix: str = Field(
        "_all",
        pattern="^[A-Za-z0-9_]*$",
        description="Behind a table's name in SQL: all rows, of hot and of cold. Empty: never.",
    )


class IoSection(Section):
    """Limits of I/O on the stores, and the hours in which it may begin."""

    store_iops: int = Field(
        0, ge=0, description="Requests per second of the stores; a fifth is used. 0: no limit."
    )
    quiet_window: QuietWindow = _written("", "In UTC, such as 01:00-05:00. Empty: at any time.")
    parallelism: int = Field(
        16, ge=1, le=MOST_PARALLEL, description="Small requests at a time, in one process."
    )


class ConfigFile(Section):
    """The configuration of Meltline: catalogs, policies and limits."""

    model_config = ConfigDict(title="meltline.yaml")

    control: Annotated[str, AfterValidator(control_url)] = Field(
        "sqlite:///control.db", description="SQLAlchemy URL of the control ledger."
    )
    sandbox: bool = Field(False, description="Allows MELTLINE_NOW in a marked warehouse.")
    ledger_namespace: Annotated[str, AfterValidator(namespace)] = "meltline"
    catalogs: dict[CatalogName, CatalogSection]
    hot: str = Field(HOT, description="The catalog that is lived in; one of catalogs.")
    cold: str = Field("", description="The catalog that is the archive; one of catalogs.")
    deep: str = Field("", description="Where permanent copies go: file:, s3:, gs: or abfss:.")
    deep_storage_class: str = Field(
        "", description="Of permanent copies on S3, such as DEEP_ARCHIVE; empty: the store's own."
    )
    local_access: Literal["owner", "group"] = Field(
        "owner", description="Who may read and write what Meltline writes on local disk."
    )
    metrics_file: str = Field(
        "", description="Where metrics for Prometheus go, such as /var/lib/metrics/meltline.prom."
    )
    unreadable: Literal["stop", "hold-group"] = Field(
        "stop",
        description="What waits for a table of a format that cannot be managed: the lake, or "
        "what lies at its locations.",
    )
    storage_roots: list[str] = Field(
        [], description="Where tables lie beside the warehouses; elsewhere nothing is deleted."
    )
    same: list[list[str]] = Field(
        [], description="Names of stores that are one place, such as [s3://a, s3://b]."
    )
    different: list[list[str]] = Field(
        [], description="Names of stores that are different places, though keys may be alike."
    )
    account: Annotated[AccountSection, _EMPTY_IS_DEFAULT] = _all_defaults(AccountSection)
    limits: Annotated[LimitsSection, _EMPTY_IS_DEFAULT] = _all_defaults(LimitsSection)
    gates: Annotated[GatesSection, _EMPTY_IS_DEFAULT] = _all_defaults(GatesSection)
    sweep: Annotated[SweepSection, _EMPTY_IS_DEFAULT] = _all_defaults(SweepSection)
    batches: Annotated[BatchesSection, _EMPTY_IS_DEFAULT] = _all_defaults(BatchesSection)
    chunks: Annotated[ChunksSection, _EMPTY_IS_DEFAULT] = _all_defaults(ChunksSection)
    io: Annotated[IoSection, _EMPTY_IS_DEFAULT] = _all_defaults(IoSection)

    @field_validator("catalogs")
    @classmethod
    def _one_at_least(cls, catalogs: dict[str, CatalogSection]) -> dict[str, CatalogSection]:
        if not catalogs:
            raise wrong("one catalog at least", "add one such as lake")
        return catalogs

    @field_validator("hot")
    @classmethod
    def _changeable(cls, catalog: str, info: ValidationInfo) -> str:
        surroundings = around(info)
        if surroundings.catalogs and catalog not in surroundings.catalogs:
            names = ", ".join(surroundings.catalogs)
            raise wrong(f"the name of a catalog: {names}", "name one of them, or add it")
        if catalog in surroundings.observed:
            fix = "name another, or take observe-only from it"
            raise wrong("a catalog that is not observe-only", fix)
        return catalog

    @field_validator("cold")
    @classmethod
    def _apart_from_all_else(cls, catalog: str, info: ValidationInfo) -> str:
        surroundings = around(info)
        if not catalog:
            return catalog
        candidates = [name for name in surroundings.catalogs if name != surroundings.hot]
        if catalog == surroundings.hot or (surroundings.catalogs and catalog not in candidates):
            names = ", ".join(candidates) or "none yet"
            raise wrong(f"a catalog other than the hot one: {names}", "add one for the archive")
        if catalog in surroundings.observed:
            raise wrong("a catalog that is not observe-only", "take observe-only from it")
        for name in surroundings.nested_with(catalog):
            fix = "give the archive a folder or bucket of its own"
            raise wrong(f"a catalog whose warehouse is apart from that of {name}", fix)
        return catalog

    @field_validator("deep")
    @classmethod
    def _a_store(cls, store: str, info: ValidationInfo) -> str:
        return local_warehouse(store, around(info).directory) if store else store

    @field_validator("storage_roots")
    @classmethod
    def _places(cls, places: list[str], info: ValidationInfo) -> list[str]:
        if not all(places):
            raise wrong("folders or buckets", "write, say, [s3://bucket/tables]")
        return [local_warehouse(place, around(info).directory) for place in places]

    @field_validator("same", "different")
    @classmethod
    def _stores(cls, groups: list[list[str]]) -> list[list[str]]:
        for group in groups:
            if len(group) < 2 or not all(map(is_store, group)):
                fix = "write each group such as [s3://one, s3://other]"
                raise wrong("lists of two stores or more, without a path", fix)
        return groups

    @field_validator("different")
    @classmethod
    def _not_the_same_too(cls, groups: list[list[str]], info: ValidationInfo) -> list[list[str]]:
        for pair in StoreNames.of(info.data.get("same", ()), groups).contradictions:
            raise wrong(f"{' and '.join(pair)} to be the same or different", "take one away")
        return groups
