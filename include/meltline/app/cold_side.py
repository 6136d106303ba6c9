"""Cold as a gate sees it: what reads it, and what was found wrong with it."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from meltline.app.cold_tables import ColdTables, no_cold, require_cold
from meltline.app.metadata import at_once
from meltline.app.services import ColdTier, Services
from meltline.domain.cold_paths import lies_under, mirrored
from meltline.domain.errors import MeltlineError
from meltline.domain.files import FileKind, PlannedFile
from meltline.domain.locations import location_key
from meltline.domain.table import Snapshot, TableState
from meltline.ports import CopyReader, RowComparer

_LISTED = 50  # files in a folder, from which on one listing costs less than asking for each
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
        rows_differ: Sampled rows that are not equal on both sides.
    """

    missing: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    files_missing: list[str] = field(default_factory=list)
    rows_differ: list[str] = field(default_factory=list)

    def named(self) -> dict[str, Collection[str]]:
        """As facts of the evidence."""
        return {
            "cold_missing": self.missing,
            "cold_unreadable": self.unreadable,
            "cold_differs": self.differing,
            "cold_outside": self.outside,
            "cold_files_missing": self.files_missing,
            "cold_rows_differ": self.rows_differ,
        }

    def note(self, odd: Exception) -> None:
        """Something could not be read."""
        if isinstance(odd, MeltlineError):
            self.unreadable.append(f"{odd.message}: {odd.found}" if odd.found else odd.message)
        else:
            self.unreadable.append(repr(odd))


@contextmanager
def noted(facts: ColdFacts) -> Iterator[None]:
    """Whatever goes wrong while one plan's copies are read refuses that plan, and no other."""
    try:
        yield
    except Exception as odd:
        facts.note(odd)


@dataclass(frozen=True)
class Side:
    """The cold tier as the gate sees it, and what reads it."""

    tier: ColdTier
    tables: ColdTables
    copies: CopyReader
    rows: RowComparer

    @classmethod
    def of(cls, services: Services) -> "Side":
        """Raises ColdMissing where no cold tier, or nothing that reads it, is configured."""
        tier = require_cold(services)
        if services.copies is None or services.rows is None:
            raise no_cold(services)
        return cls(tier, ColdTables(tier), services.copies, services.rows)

    def without_mirror(self, files: Iterable[PlannedFile]) -> list[str]:
        """Those of some files that have no copy, of the same size where it has the same bytes."""
        lacking: list[str] = []
        folders: dict[str, list[tuple[str, PlannedFile]]] = {}
        for file in files:
            if file.kind not in _CONTENT:
                continue
            try:
                copy = mirrored(file.path, self.tier.warehouse)
            except ValueError:
                lacking.append(file.path)
                continue
            folders.setdefault(copy.rpartition("/")[0], []).append((copy, file))
        sizes = dict(
            pair for found in at_once(self._sizes, list(folders.items())) for pair in found
        )
        for copies in folders.values():
            for copy, file in copies:
                size = sizes.get(location_key(copy))
                right = size == file.bytes if file.kind in _SAME_BYTES else bool(size)
                lacking += [] if right else [file.path]
        return lacking

    def _sizes(
        self, folder: tuple[str, list[tuple[str, PlannedFile]]]
    ) -> list[tuple[str, int | None]]:
        """The sizes of copies in one folder: of many by listing it, of a few one by one."""
        at, copies = folder
        if len(copies) > _LISTED:
            return [(location_key(one.path), one.bytes) for one in self.tier.store.list(at)]
        return [(location_key(copy), self.tier.store.size(copy)) for copy, _ in copies]

    def leads_out(self, state: TableState, snapshots: Iterable[Snapshot]) -> list[str]:
        """Paths of a cold table's metadata that do not lie in cold."""
        named = [state.metadata_location, *state.metadata_log, *state.owned_locations]
        named += [file.path for file in state.statistics]
        named += [path for s in snapshots for path in (s.manifest_list, *s.inline_manifests)]
        return [p for p in named if p and not lies_under(p, self.tier.warehouse)]
