"""Cold as a gate sees it: what reads it, and what was found wrong with it."""

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
    """What is wrong with the copies of what a plan lets go of; all empty where nothing is.

    Attributes:
        missing: Snapshots that the policy wants in cold and that are not there.
        unreadable: What of cold, or of its originals, could not be read.
        differing: What of a copy is not what the original has.
        outside: Paths in cold that lead out of it.
        files_missing: Planned files of archived snapshots without a copy of the right size.
        unproved: Planned files whose copy nobody can vouch for, byte for byte.
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
        """As facts of the evidence."""
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
        """Something could not be read."""
        if isinstance(error, MeltlineError):
            self.unreadable.append(
                f"{error.message}: {error.found}" if error.found else error.message
            )
        else:
            self.unreadable.append(repr(error))


@contextmanager
def noted(facts: ColdFacts) -> Iterator[None]:
    """Whatever goes wrong while one plan's copies are read refuses that plan, and no other."""
    try:
        yield
    except Exception as error:
        facts.note(error)


@dataclass(frozen=True)
class Side:
    """The cold tier as the gate sees it, and what reads it."""

    tier: ColdReader
    tables: ListedColdTables
    copies: CopyReader
    rows: RowComparer

    @classmethod
    def of(cls, context: RunContext) -> "Side":
        """Raises ColdMissing where no cold tier, or nothing that reads it, is configured."""
        tier = require_cold(context)
        if context.copies is None or context.rows is None:
            raise no_cold(context.config)
        return cls(tier, ListedColdTables.read(context), context.copies, context.rows)

    def listed(
        self, paths: Sequence[str], facts: ColdFacts, *, of_copies: bool
    ) -> Mapping[str, tuple[ListedCopy, ...]]:
        """The manifests of each manifest list, in cold or in hot; what cannot be read is noted."""
        lists = self.copies.lists(paths, of_copies=of_copies)
        facts.unreadable += [why for why in lists.values() if isinstance(why, str)]
        return {path: listed for path, listed in lists.items() if not isinstance(listed, str)}

    def without_mirror(self, files: Iterable[PlannedFile]) -> list[str]:
        """Those of some files that have no copy, of the same size where it has the same bytes."""
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
        """Where the copies of files lie, if they have any; those that can have none left out.

        Metadata has none: an archived table has metadata of its own.
        """
        by_copy = {}
        for file in (file for file in files if file.kind is not FileKind.METADATA):
            with suppress(ValueError):
                by_copy[mirrored(file.path, self.tier.warehouse)] = file
        return by_copy

    def shown(self, copies: Sequence[str]) -> dict[str, StoredObject]:
        """Copies as their store shows them now; those that are not there left out.

        Raises:
            StoreRefused: Of one of them it does not say.
        """
        stats = self.tier.store.stats(copies)
        for stat in stats:
            if stat.error:
                raise _unmeasured(stat)
        return {stat.path: stat.file for stat in stats if stat.file is not None}

    def leads_out(self, state: TableMetadata, snapshots: Iterable[Snapshot]) -> list[str]:
        """Paths of a cold table's metadata that do not lie in cold."""
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
