"""Reads the cold tier for gates, and collects the defects of copies.

The gate's cold evidence, copy proofs and repairs use it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from meltline.app.archive.cold_tables import ListedColdTables, no_cold, require_cold
from meltline.app.services import ColdReader, RunContext
from meltline.domain.archive.cold_paths import lies_under, mirrored
from meltline.domain.errors import MeltlineError, StoreRefused
from meltline.domain.iceberg.files import FileKind, PlannedFile
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports import CopyReader, ListedCopy, ObjectStat, RowComparer, StoredObject

_SAME_BYTES = (FileKind.DATA, FileKind.EQUALITY_DELETE)
_CONTENT = (*_SAME_BYTES, FileKind.POSITION_DELETE, FileKind.DELETION_VECTOR)


@dataclass
class ColdFacts:
    """Defects of the copies that a plan depends on; all empty if there are none.

    Attributes:
        missing: Snapshots that the policy wants in cold and that are not in it.
        unreadable: Unreadable files of cold, or of its originals.
        differing: Differences between copies and originals.
        outside: Paths in cold that lead out of it.
        files_missing: Planned files of archived snapshots without a copy of the right size.
        unproved: Planned files whose copy is not proved byte for byte.
        rows_differ: Sampled rows that are not equal on both sides.
    """

    missing: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    files_missing: list[str] = field(default_factory=list)
    unproved: list[str] = field(default_factory=list)
    rows_differ: list[str] = field(default_factory=list)

    def as_facts(self) -> dict[str, Collection[str]]:
        """Returns the defects as facts of the evidence."""
        return {
            "cold_missing": self.missing,
            "cold_unreadable": self.unreadable,
            "cold_differs": self.differing,
            "cold_outside": self.outside,
            "cold_files_missing": self.files_missing,
            "cold_unproved": self.unproved,
            "cold_rows_differ": self.rows_differ,
        }

    def note(self, error: Exception) -> None:
        """Records a read error."""
        if isinstance(error, MeltlineError):
            self.unreadable.append(
                f"{error.message}: {error.found}" if error.found else error.message
            )
        else:
            self.unreadable.append(repr(error))


@contextmanager
def noted(facts: ColdFacts) -> Iterator[None]:
    """Records any error while one plan's copies are read: it refuses that plan, and no other."""
    try:
        yield
    except Exception as error:
        facts.note(error)


@dataclass(frozen=True)
class Side:
    """The cold tier as the gate reads it, and its readers."""

    tier: ColdReader
    tables: ListedColdTables
    copies: CopyReader
    rows: RowComparer

    @classmethod
    def of(cls, context: RunContext) -> "Side":
        """Builds it. Raises ColdMissing if no cold tier, or no reader of it, is configured."""
        tier = require_cold(context)
        if context.copies is None or context.rows is None:
            raise no_cold(context.config)
        return cls(tier, ListedColdTables.read(context), context.copies, context.rows)

    def listed(
        self, paths: Sequence[str], facts: ColdFacts, *, of_copies: bool
    ) -> Mapping[str, tuple[ListedCopy, ...]]:
        """Returns each manifest list's manifests, in cold or in hot; records read errors."""
        lists = self.copies.lists(paths, of_copies=of_copies)
        facts.unreadable += [why for why in lists.values() if isinstance(why, str)]
        return {path: listed for path, listed in lists.items() if not isinstance(listed, str)}

    def without_mirror(self, files: Iterable[PlannedFile]) -> list[str]:
        """Returns files without a copy; where bytes must be equal, its size must be too."""
        content = [file for file in files if file.kind in _CONTENT]
        places = self.places(content)
        shown = self.shown(list(places))
        copies = {file.path: shown.get(copy) for copy, file in places.items()}

        def is_right(file: PlannedFile) -> bool:
            stored = copies.get(file.path)
            return stored is not None and (
                stored.bytes == file.bytes if file.kind in _SAME_BYTES else stored.bytes > 0
            )

        return [file.path for file in content if not is_right(file)]

    def places(self, files: Iterable[PlannedFile]) -> dict[str, PlannedFile]:
        """Returns the path of each file's copy, without files that can have none.

        Metadata has none: an archived table has its own metadata.
        """
        by_copy = {}
        for file in (file for file in files if file.kind is not FileKind.METADATA):
            with suppress(ValueError):
                by_copy[mirrored(file.path, self.tier.warehouse)] = file
        return by_copy

    def shown(self, copies: Sequence[str]) -> dict[str, StoredObject]:
        """Returns the copies that exist, as their store shows them now.

        Raises:
            StoreRefused: The store does not answer about one of them.
        """
        stats = self.tier.store.stats(copies)
        for stat in stats:
            if stat.error:
                raise _unmeasured(stat)
        return {stat.path: stat.file for stat in stats if stat.file is not None}

    def leads_out(self, state: TableMetadata, snapshots: Iterable[Snapshot]) -> list[str]:
        """Returns paths in a cold table's metadata that are not in cold."""
        paths = [state.metadata_location, *state.metadata_log, *state.owned_locations]
        paths += [file.path for file in state.statistics]
        paths += [path for s in snapshots for path in (s.manifest_list, *s.inline_manifests)]
        return [p for p in paths if p and not lies_under(p, self.tier.warehouse)]


def _unmeasured(stat: ObjectStat) -> StoreRefused:
    return StoreRefused(
        f"cannot measure {stat.path}: {stat.error}",
        object=stat.path,
        expected="an answer from the store of cold",
        found=stat.error,
        next="check that store, and run again",
    )
