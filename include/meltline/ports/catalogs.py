"""Catalogs, and how an expiration is committed to one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from meltline.domain.names import TableName


@dataclass(frozen=True)
class CatalogEntry:
    """One table as its catalog lists it."""

    name: TableName
    metadata_location: str


@dataclass(frozen=True)
class CatalogListing:
    """Everything a catalog holds at one moment; namespaces of every level with properties."""

    entries: tuple[CatalogEntry, ...]
    namespaces: Mapping[tuple[str, ...], Mapping[str, str]]


class Catalog(Protocol):
    """One configured catalog."""

    @property
    def name(self) -> str: ...

    @property
    def observe_only(self) -> bool: ...

    def listing(self) -> CatalogListing:
        """Lists every namespace level and table; views and non-Iceberg tables are passed over.

        Raises:
            CatalogUnlistable: Any part of it could not be listed.
        """
        ...

    def set_table_properties(
        self, name: TableName, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None: ...

    def set_namespace_properties(
        self, namespace: tuple[str, ...], updates: Mapping[str, str]
    ) -> None:
        """Sets properties on a namespace and creates it when it is not there."""
        ...


@dataclass(frozen=True)
class CommitOutcome:
    """What an expiration commit did: the metadata file it replaced and the one it wrote."""

    base_location: str
    new_location: str


class Committer(Protocol):
    """Commits an expiration: one metadata-only compare-and-set per table."""

    def expire(
        self, table: TableName, base_location: str, snapshots: Sequence[int], refs: Sequence[str]
    ) -> CommitOutcome | None:
        """Removes exactly these snapshots and refs if the table still stands at the base.

        Returns:
            What was done, or None when the table has moved on and nothing was committed.
        """
        ...
