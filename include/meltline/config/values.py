"""Parses and validates the kinds of values in `meltline.yaml`.

Values arrive as text, as written; errors say what was expected and never repeat a value.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from meltline.domain.archive.cold_paths import lies_under
from meltline.domain.deletion.orphans import FLOOR
from meltline.domain.iceberg.locations import split_location
from meltline.domain.iceberg.names import split_name
from meltline.domain.retention.consumers import LONGEST, SHORTEST
from meltline.domain.retention.policy import INFINITE
from meltline.domain.units import format_duration, parse_duration, parse_size

HOT = "lake"
"""The default name of the hot catalog."""

_NAME = re.compile(r"^[A-Za-z0-9_-]+$")


@dataclass(frozen=True)
class FileContext:
    """The parts of the file that the validation of one value depends on (Pydantic's context)."""

    directory: Path
    catalogs: tuple[str, ...]
    observed: frozenset[str]
    sandbox: bool
    hot: str
    warehouses: Mapping[str, str]

    @classmethod
    def of(cls, tree: Mapping[str, Any], directory: Path) -> "FileContext":
        """Extracts it from the tree before validation, as far as that has the right structure."""
        catalogs = catalogs_in(tree)
        observed = {name for name, catalog in catalogs.items() if _is_yes(catalog, "observe-only")}
        return cls(
            directory,
            tuple(catalogs),
            frozenset(observed),
            _is_yes(tree, "sandbox"),
            str(tree.get("hot", HOT)),
            {name: str(catalog.get("warehouse", "")) for name, catalog in catalogs.items()},
        )

    def nested_with(self, catalog: str) -> list[str]:
        """Returns other catalogs whose warehouse is inside this one's, or contains it."""
        place = self.warehouses[catalog]
        return [
            name
            for name, peer in self.warehouses.items()
            if name != catalog and place and peer and nested(place, peer, self.directory)
        ]


def catalogs_in(tree: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the catalogs of a tree before validation, if they are mappings."""
    catalogs = tree.get("catalogs")
    if not isinstance(catalogs, dict):
        return {}
    return {name: catalog for name, catalog in catalogs.items() if isinstance(catalog, dict)}


def _is_yes(section: Mapping[str, Any], key: str) -> bool:
    return str(section.get(key, "")).strip().lower() in {"true", "yes", "on", "y", "t", "1"}


_SERVER = "USER:PASSWORD@HOST/DATABASE"
_RIGHT_SCHEMES = {
    "postgres": "postgresql",
    "jdbc:postgresql": "postgresql",
    "jdbc:sqlite": "sqlite",
    "sqlite3": "sqlite",
}
"""Database schemes of other tools, mapped to SQLAlchemy's."""


def wrong(expected: str, fix: str = "") -> PydanticCustomError:
    """Builds the error for a value: the expected value, and the fix."""
    return PydanticCustomError("meltline", "{expected}", {"expected": expected, "fix": fix})


def around(info: ValidationInfo) -> FileContext:
    """Returns the context that Pydantic passes to every validator."""
    assert isinstance(info.context, FileContext)
    return info.context


def _to_duration(raw: object) -> object:
    if not isinstance(raw, str):
        return raw
    try:
        return timedelta(0) if raw.strip() == "0" else parse_duration(raw)
    except (ValueError, OverflowError):
        raise wrong("a duration", "write a whole number and d, h, m or s, such as 6h") from None


def _to_size(raw: object) -> object:
    try:
        return parse_size(raw) if isinstance(raw, str) else raw
    except ValueError:
        raise wrong("a size", "write bytes, or a number and KiB to PiB, such as 1TiB") from None


def _to_retention(raw: object) -> object:
    word = str(raw).strip().lower()
    if word != INFINITE and not (word.isdecimal() and word.isascii()):
        raise wrong(f"a whole number of days, or {INFINITE}")
    return INFINITE if word == INFINITE else int(word)


def _to_window(raw: object) -> object:
    """Parses the minutes after midnight between which batches may begin."""
    if raw == "":
        return None, None
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", str(raw))
    if match is None or match[1] + match[2] == match[3] + match[4]:
        raise wrong("a time of day in UTC and a later one", "write one such as 01:00-05:00")
    hours = [int(part) for part in match.groups()]
    return hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]


def positive(span: timedelta) -> timedelta:
    """Refuses a duration of zero."""
    if not span:
        raise wrong("a duration longer than 0", "write one such as 6h")
    return span


def lasting(span: timedelta) -> timedelta:
    """Refuses a duration outside the limits of a consumer's time to stay."""
    if not SHORTEST <= span <= LONGEST:
        limits = f"{format_duration(SHORTEST)} to {format_duration(LONGEST)}"
        raise wrong(f"a duration from {limits}", "write one such as 30d")
    return span


def old_enough(span: timedelta) -> timedelta:
    """Refuses an age below a sweep's minimum."""
    if span < FLOOR:
        raise wrong("a duration of at least 24h", "write one such as 3d")
    return span


def namespace(name: str) -> str:
    """Refuses an invalid namespace, and the one of dropped tables."""
    try:
        parts = split_name(name)
    except ValueError:
        raise wrong("a namespace such as meltline or ops.meltline") from None
    if parts[0] == "meltline_dropped":
        raise wrong("another namespace than that of dropped tables", "write meltline")
    return name


def _catalog_name(name: str) -> str:
    if not _NAME.match(name):
        raise wrong("a name of letters, digits, _ and -", "rename the catalog")
    return name


def sqlalchemy_url(url: str, info: ValidationInfo) -> str:
    """Resolves a SQLAlchemy URL; a relative SQLite file starts at the configuration's folder."""
    scheme, separator, location = url.partition("://")
    if not separator or not scheme:
        raise wrong("a SQLAlchemy URL", "write one such as sqlite:///control.db")
    if right := _RIGHT_SCHEMES.get(scheme):
        raise wrong(
            f"a SQLAlchemy URL that begins with {right}://", f"write {right}:// for {scheme}://"
        )
    if scheme.partition("+")[0] != "sqlite":
        return url
    database, mark, query = location.removeprefix("/").partition("?")
    if not location.startswith("/") or database in {"", ":memory:"} or database.startswith("file:"):
        raise wrong("a SQLite file", "write one such as sqlite:///control.db")
    # SQLAlchemy decodes the path and ends it at a question mark; all else in it stays raw.
    directory = str(around(info).directory).replace("%", "%25").replace("?", "%3F")
    return f"{scheme}:///{os.path.normpath(Path(directory, database))}{mark}{query}"


def control_url(url: str, info: ValidationInfo) -> str:
    """Resolves the URL of a database that supports the control ledger."""
    scheme = url.partition("://")[0]
    if scheme.partition("+")[0] not in {"sqlite", "postgresql", *_RIGHT_SCHEMES}:
        fix = f"write sqlite:///control.db or postgresql://{_SERVER}"
        raise wrong("a SQLAlchemy URL of sqlite or postgresql", fix)
    return sqlalchemy_url(url, info)


def local_warehouse(place: str, directory: Path) -> str:
    """Normalizes a location; a local one becomes absolute."""
    location = split_location(place)
    if location.scheme != "file":
        return place
    if location.authority:
        fix = "write file:///path for an absolute path, or a bare relative one"
        raise wrong("a local path without a host", fix)
    return "file://" + os.path.normpath(directory / location.path)


def is_store(place: str) -> bool:
    """Whether a value names a whole store: a scheme and a bucket or container, no folder."""
    location = split_location(place)
    return bool(location.authority) and not location.path.strip("/")


Duration: TypeAlias = Annotated[
    timedelta,
    BeforeValidator(_to_duration),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^(0|\d+(ms|s|m|h|d))$"}),
]
Size: TypeAlias = Annotated[
    int,
    BeforeValidator(_to_size),
    WithJsonSchema(
        {"type": ["string", "integer"], "pattern": r"^\d+(\.\d+)?\s*(B|[KMGTP]iB)?$", "minimum": 0}
    ),
]
Days: TypeAlias = Annotated[int, Field(ge=0)]
RetentionDays: TypeAlias = Annotated[
    int | str,
    BeforeValidator(_to_retention),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": INFINITE}]}),
]
CatalogName: TypeAlias = Annotated[
    str, AfterValidator(_catalog_name), WithJsonSchema({"type": "string", "pattern": _NAME.pattern})
]
Property: TypeAlias = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})]
QuietWindow: TypeAlias = Annotated[
    tuple[int | None, int | None],
    BeforeValidator(_to_window),
    WithJsonSchema({"type": "string", "pattern": r"^$|^\d\d:\d\d-\d\d:\d\d$"}),
]


def nested(folder: str, peer: str, directory: Path) -> bool:
    """Whether one folder is the other, or is inside it."""
    places = [f"{local_warehouse(place, directory).rstrip('/')}/-" for place in (folder, peer)]
    folders = [place.removesuffix("/-") for place in places]
    return lies_under(places[0], folders[1]) or lies_under(places[1], folders[0])
