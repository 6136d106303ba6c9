"""The sections of `meltline.yaml` and what each value must look like.

Pydantic checks them and writes the JSON Schema. Values arrive as text, as they were written;
errors here say what was expected and never repeat a value.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError

from meltline.domain.locations import split_location
from meltline.domain.names import split_name
from meltline.domain.orphans import FLOOR
from meltline.domain.policy import INFINITE
from meltline.domain.quantities import parse_duration, parse_size

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

_NAME = re.compile(r"^[A-Za-z0-9_-]+$")

# How the addresses of a catalog begin, and one to show.
_URIS = {
    "rest": (("http://", "https://"), "https://catalog.example.com"),
    "hive": (("thrift://",), "thrift://metastore.example.com:9083"),
}


@dataclass(frozen=True)
class Surroundings:
    """What the check of one value must know of the rest of the file (Pydantic's context)."""

    directory: Path
    catalogs: tuple[str, ...]
    observed: frozenset[str]
    sandbox: bool

    @classmethod
    def of(cls, tree: Mapping[str, Any], directory: Path) -> "Surroundings":
        """Takes it from the tree that is about to be checked, as far as that is in shape."""
        catalogs = catalogs_in(tree)
        observed = {name for name, catalog in catalogs.items() if _is_yes(catalog, "observe-only")}
        return cls(directory, tuple(catalogs), frozenset(observed), _is_yes(tree, "sandbox"))


def catalogs_in(tree: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The catalogs of a tree that has not been checked yet, those that are mappings."""
    catalogs = tree.get("catalogs")
    if not isinstance(catalogs, dict):
        return {}
    return {name: catalog for name, catalog in catalogs.items() if isinstance(catalog, dict)}


def _is_yes(section: Mapping[str, Any], key: str) -> bool:
    return str(section.get(key, "")).strip().lower() in {"true", "yes", "on", "y", "t", "1"}


def _wrong(expected: str, fix: str = "") -> PydanticCustomError:
    return PydanticCustomError("meltline", "{expected}", {"expected": expected, "fix": fix})


def _around(info: ValidationInfo) -> Surroundings:
    assert isinstance(info.context, Surroundings)
    return info.context


def _to_duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return timedelta(0) if value.strip() == "0" else parse_duration(value)
    except (ValueError, OverflowError):
        raise _wrong("a duration", "write a whole number and d, h, m or s, such as 6h") from None


def _to_size(value: object) -> object:
    try:
        return parse_size(value) if isinstance(value, str) else value
    except ValueError:
        raise _wrong("a size", "write bytes, or a number and KiB to PiB, such as 1TiB") from None


def _to_retention(value: object) -> object:
    word = str(value).strip().lower()
    if word != INFINITE and not (word.isdecimal() and word.isascii()):
        raise _wrong(f"a whole number of days, or {INFINITE}")
    return INFINITE if word == INFINITE else int(word)


def _positive(span: timedelta) -> timedelta:
    if not span:
        raise _wrong("a duration longer than 0", "write one such as 6h")
    return span


def _old_enough(span: timedelta) -> timedelta:
    if span < FLOOR:
        raise _wrong("a duration of at least 24h", "write one such as 3d")
    return span


def _namespace(value: str) -> str:
    try:
        parts = split_name(value)
    except ValueError:
        raise _wrong("a namespace such as meltline or ops.meltline") from None
    if parts[0] == "meltline_dropped":
        raise _wrong("another namespace than that of dropped tables", "write meltline")
    return value


def _catalog_name(value: str) -> str:
    if not _NAME.match(value):
        raise _wrong("a name of letters, digits, _ and -", "rename the catalog")
    return value


def _sqlalchemy_url(value: str, info: ValidationInfo) -> str:
    scheme, separator, rest = value.partition("://")
    if not separator or not scheme:
        raise _wrong("a SQLAlchemy URL", "write one such as sqlite:///control.db")
    if scheme.partition("+")[0] != "sqlite":
        return value
    database, mark, query = rest.removeprefix("/").partition("?")
    if not rest.startswith("/") or database in {"", ":memory:"} or database.startswith("file:"):
        raise _wrong("a SQLite file", "write one such as sqlite:///control.db")
    # SQLAlchemy decodes the path and ends it at a question mark; all else in it stays raw.
    directory = str(_around(info).directory).replace("%", "%25").replace("?", "%3F")
    return f"{scheme}:///{os.path.normpath(Path(directory, database))}{mark}{query}"


def _control(value: str, info: ValidationInfo) -> str:
    if value.partition("://")[0].partition("+")[0] not in {"sqlite", "postgresql"}:
        raise _wrong("a SQLAlchemy URL of sqlite or postgresql", "write sqlite:///control.db")
    return _sqlalchemy_url(value, info)


def _local_warehouse(value: str, directory: Path) -> str:
    location = split_location(value)
    if location.scheme != "file":
        return value
    if location.authority:
        fix = "write file:///path for an absolute path, or a bare relative one"
        raise _wrong("a local path without a host", fix)
    return "file://" + os.path.normpath(directory / location.path)


_Duration: TypeAlias = Annotated[
    timedelta,
    BeforeValidator(_to_duration),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^(0|\d+(ms|s|m|h|d))$"}),
]
_Size: TypeAlias = Annotated[
    int,
    BeforeValidator(_to_size),
    WithJsonSchema(
        {"type": ["string", "integer"], "pattern": r"^\d+(\.\d+)?\s*(B|[KMGTP]iB)?$", "minimum": 0}
    ),
]
_Days: TypeAlias = Annotated[int, Field(ge=0)]
_RetentionDays: TypeAlias = Annotated[
    int | str,
    BeforeValidator(_to_retention),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": INFINITE}]}),
]
_CatalogName: TypeAlias = Annotated[
    str, AfterValidator(_catalog_name), WithJsonSchema({"type": "string", "pattern": _NAME.pattern})
]
_Property: TypeAlias = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})]


def _written(text: str, description: str = "") -> Any:
    """A default in the file's own words; it is checked like any other value."""
    return Field(text, description=description)


def _profile_decides() -> Any:
    """The default of a key that has none; a file cannot say null."""
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


# A section whose keys are all commented out says nothing, which is no mistake.
_EMPTY_IS_DEFAULT = BeforeValidator(lambda value: {} if value == "" else value)


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
    __pydantic_extra__: dict[str, _Property] = Field(init=False)

    type: CatalogType
    uri: str = Field(
        "", description="Where it answers; a relative SQLite file counts from this file's folder."
    )
    warehouse: str = Field("", description="Where tables go that are given no location.")
    catalog_name: str = Field("", description="The name in the SQL catalog's rows, if another.")
    observe_only: bool = Field(False, description="Read for reachability, never changed.")

    @field_validator("uri")
    @classmethod
    def _reachable(cls, value: str, info: ValidationInfo) -> str:
        kind = info.data.get("type", "")
        if kind == "sql":
            return _sqlalchemy_url(value, info)
        beginnings, example = _URIS.get(kind, ((), ""))
        if beginnings and not value.startswith(beginnings):
            raise _wrong(f"an address that begins with {beginnings[0]}", f"write, say, {example}")
        return value

    @field_validator("warehouse")
    @classmethod
    def _absolute(cls, value: str, info: ValidationInfo) -> str:
        kind = info.data.get("type", "")
        if kind == "sql" and not value:
            raise _wrong("a folder or bucket", "write, say, file:///data/warehouse")
        if not value or (kind == "rest" and not value.startswith(("/", "file:"))):
            return value  # a REST server may know its warehouse by a name
        return _local_warehouse(value, _around(info).directory)


class AccountSection(Section):
    """The account's retention and failsafe; absent keys are the profile's to decide."""

    profile: ProfileName = "business"
    retention_days: _RetentionDays | None = _profile_decides()
    min_retention_days: _Days = 0
    failsafe_days: _Days | None = _profile_decides()
    transient_failsafe_days: _Days | None = _profile_decides()
    reader_grace: _Duration = _written("6h", "0 only in a sandbox.")

    @field_validator("reader_grace")
    @classmethod
    def _leaves_readers_time(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        if not value and not _around(info).sandbox:
            raise _wrong("a duration longer than 0", "write one such as 6h, or set sandbox: true")
        return value


class LimitsSection(Section):
    """How much a plan may do."""

    max_head_loss: int = Field(0, ge=0, description="Files of any head; never approvable.")
    max_delete_ratio: float = Field(
        0.95, ge=0, le=1, description="Planned / (planned + still referenced) bytes."
    )
    max_growth: float = Field(
        5.0, gt=0, allow_inf_nan=False, description="Against the median of the last ten plans."
    )
    approve_above: _Size = _written("1TiB", "A person must approve larger purges.")
    full_proof_above: _Size = _written("1TiB", "Larger plans are proved from the files.")
    delete_keys_per_second: int = Field(3000, ge=1)
    lock_wait: _Duration = _written("10m", "Then the table is skipped.")


class GatesSection(Section):
    """How long a verdict lasts."""

    ttl: Annotated[_Duration, AfterValidator(_positive)] = _written("6h")
    full_proof_every: _Duration = _written("30d")


class SweepSection(Section):
    """When a file that no commit has named may depart."""

    minimum_age: Annotated[_Duration, AfterValidator(_old_enough)] = _written(
        "3d", "Since it was modified; at least 24h."
    )
    listings_apart: Annotated[_Duration, AfterValidator(_positive)] = _written(
        "12h", "Between the two listings that must show it unchanged."
    )
    inventory_age: Annotated[_Duration, AfterValidator(_positive)] = _written(
        "2d", "Of an inventory that stands in for a listing."
    )


class BatchesSection(Section):
    """How the DAG shares out the plans of a run over Spark apps."""

    most_apps: int = Field(8, ge=1, le=100, description="For each kind of plan.")
    files_per_app: int = Field(
        1_000_000, ge=1, description="What an app has to do; a plan counts as 1000 files more."
    )


class ConfigFile(Section):
    """meltline.yaml: what Meltline looks after, and how."""

    model_config = ConfigDict(title="meltline.yaml")

    control: Annotated[str, AfterValidator(_control)] = Field(
        "sqlite:///control.db", description="SQLAlchemy URL of the control ledger."
    )
    sandbox: bool = Field(False, description="Allows MELTLINE_NOW in a marked warehouse.")
    ledger_namespace: Annotated[str, AfterValidator(_namespace)] = "meltline"
    catalogs: dict[_CatalogName, CatalogSection]
    hot: str = Field("lake", description="The catalog that is lived in; one of catalogs.")
    account: Annotated[AccountSection, _EMPTY_IS_DEFAULT] = _all_defaults(AccountSection)
    limits: Annotated[LimitsSection, _EMPTY_IS_DEFAULT] = _all_defaults(LimitsSection)
    gates: Annotated[GatesSection, _EMPTY_IS_DEFAULT] = _all_defaults(GatesSection)
    sweep: Annotated[SweepSection, _EMPTY_IS_DEFAULT] = _all_defaults(SweepSection)
    batches: Annotated[BatchesSection, _EMPTY_IS_DEFAULT] = _all_defaults(BatchesSection)

    @field_validator("catalogs")
    @classmethod
    def _one_at_least(cls, value: dict[str, CatalogSection]) -> dict[str, CatalogSection]:
        if not value:
            raise _wrong("one catalog at least", "add one such as lake")
        return value

    @field_validator("hot")
    @classmethod
    def _changeable(cls, value: str, info: ValidationInfo) -> str:
        around = _around(info)
        if around.catalogs and value not in around.catalogs:
            known = ", ".join(around.catalogs)
            raise _wrong(f"the name of a catalog: {known}", "name one of them, or add it")
        if value in around.observed:
            fix = "name another, or take observe-only from it"
            raise _wrong("a catalog that is not observe-only", fix)
        return value
