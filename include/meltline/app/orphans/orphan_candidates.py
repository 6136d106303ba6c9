"""Orphan candidates: classifies listed files that no metadata references.

The sweep calls it, and decides afterwards, by age and observations, which become departures.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from meltline.app.observe.held_back import leading_out, needed_elsewhere
from meltline.app.observe.observe import Observation
from meltline.app.orphans.scan_roots import Claims, FolderClaim
from meltline.app.services import RunContext
from meltline.config.load import Config
from meltline.domain.deletion.foreign_owners import ForeignSign, carries
from meltline.domain.deletion.orphans import (
    OrphanCandidate,
    SweptPlaces,
    is_metadata,
    same_file_perhaps,
    same_place,
)
from meltline.domain.deletion.withheld import Why, Withheld
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import Listing, Sweeper

_FLINK_JOB = "flink.job-id"


@dataclass(frozen=True)
class Candidate:
    """A listed file that may be an orphan of its owner."""

    stray: OrphanCandidate
    owner: TableMetadata
    claim: FolderClaim

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.stray.path


@dataclass
class Candidates:
    """The candidates of a sweep, and what was excluded so far.

    Attributes:
        candidates: Files that may be orphans.
        reasons: Why a file stays although no table references it, by path.
        refused: Why a table gets no departures, by name.
        notes: Files that were not evaluated, for output.
        doubtful: Why files stay that are still signs of owners, by path: removed last.
        signs: Signs of foreign owners; None if a catalog could not be asked.
        withheld: Files that are kept because of a foreign owner, or because one may own them.
    """

    candidates: list[Candidate]
    reasons: dict[str, str] = field(default_factory=dict)
    refused: dict[TableName, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    doubtful: dict[str, str] = field(default_factory=dict)
    signs: Sequence[ForeignSign] | None = None
    withheld: dict[tuple[Why, str, str, str], Withheld] = field(default_factory=dict)

    def withhold(
        self, why: Why, candidate: Candidate, places: SweptPlaces, claimant: str = ""
    ) -> None:
        """Counts a file that is withheld for a reason; the caller removes it."""
        table, size = str(candidate.owner.name), candidate.stray.bytes or 0
        root = places.prefix_of(candidate.path.rpartition("/")[0])
        before = self.withheld.get((why, table, root, claimant))
        files, total = (before.files, before.bytes) if before else (0, 0)
        self.withheld[why, table, root, claimant] = Withheld(
            "sweep", why, table, root, claimant, files=files + 1, bytes=total + size
        )

    def stop(self, signs: Iterable[ForeignSign], places: SweptPlaces) -> None:
        """Removes all candidates below the folders that some signs block."""
        by_prefix = {sign.stops: sign for sign in signs}
        stopped = SweptPlaces(by_prefix)
        free: list[Candidate] = []
        for candidate in self.candidates:
            sign = by_prefix.get(stopped.prefix_of(candidate.path.rpartition("/")[0]))
            if sign is None:
                free.append(candidate)
                continue
            self.withhold(Why.FOREIGN, candidate, places, sign.message)
            self.refused.setdefault(candidate.owner.name, f"not swept: {sign.message}; {sign.fix}")
        self.candidates = free

    def keep(self, reasons: Mapping[str, str]) -> None:
        """Removes files, each with its reason."""
        self.reasons.update(reasons)
        self.candidates = [
            candidate for candidate in self.candidates if candidate.path not in reasons
        ]

    def refuse(self, owner: TableName, why: str) -> None:
        """Removes all files of a table, because its metadata cannot be relied on."""
        self.refused.setdefault(owner, why)
        self.candidates = [
            candidate for candidate in self.candidates if candidate.owner.name != owner
        ]


def sift(
    context: RunContext,
    observation: Observation,
    claims: Claims,
    places: SweptPlaces,
    listing: Listing,
) -> Candidates:
    """Excludes files that are in use, Meltline's own, or of an unknown owner."""
    strays = listing.strays()
    own = own_places(context.config)
    keys = Counter(location_key(stray.path) for stray in strays)
    needed = _needed_again(context, observation, strays)
    refused: Counter[str] = Counter()
    sifted = Candidates([])
    for stray in strays:
        claim = claims.on(stray.path)
        if claim.refused:
            refused[claim.refused] += 1
        elif claim.owner is None or stray.path in needed:
            continue
        elif location_key(stray.path).startswith(own):
            sifted.reasons[stray.path] = "it is Meltline's own, or a catalog's database"
        elif not _is_claimed(stray, claim):
            sifted.withhold(Why.UNCLAIMED, Candidate(stray, claim.owner, claim), places)
        else:
            sifted.candidates.append(Candidate(stray, claim.owner, claim))
            if keys[location_key(stray.path)] > 1:
                sifted.doubtful[stray.path] = "another file's name may mean the same file"
    sifted.notes += [f"{count} files not judged: {why}" for why, count in sorted(refused.items())]
    sifted.doubtful |= _of_engines(sifted.candidates)
    return sifted


def _is_claimed(stray: OrphanCandidate, claim: FolderClaim) -> bool:
    """Returns whether a file is its owner's: by an earlier commit, its path, or its folder."""
    was_named = stray.left_at is not None
    return not claim.contexts or was_named or carries(stray.path, claim.contexts)


def own_places(config: Config) -> tuple[str, ...]:
    """Returns prefixes of Meltline's and SQL catalogs' own files, as location keys: never swept.

    Paths that begin with one of them are included, because SQLite's journals are beside their
    database.
    """
    folder = config.path.parent
    urls = [config.control, *(c.uri for c in config.catalogs.values() if c.type == "sql")]
    databases = [url.partition(":///")[2].partition("?")[0] for url in urls if "sqlite" in url]
    places = [str(config.path), str(folder / "meltline-docs"), *map(unquote, databases)]
    places += config.archives
    return tuple(location_key(place) for place in places if place.strip("/"))


def _needed_again(
    context: RunContext, observation: Observation, strays: Sequence[OrphanCandidate]
) -> set[str]:
    """Returns files that departed before, exist again, and that a snapshot references now."""
    again = [stray.path for stray in strays if stray.left_at is not None]
    return context.files.references.among(again, observation.dead) if again else set()


def _of_engines(candidates: Iterable[Candidate]) -> Iterable[tuple[str, str]]:
    """Yields files that engines may still need, or delete themselves."""
    jobs: dict[str, tuple[str, ...]] = {}
    for candidate in candidates:
        state, name = candidate.owner, candidate.path.rpartition("/")[2]
        if state.uuid not in jobs:
            summaries = (snapshot.summary for snapshot in state.snapshots.values())
            jobs[state.uuid] = tuple({s[_FLINK_JOB] for s in summaries if s.get(_FLINK_JOB)})
        if is_metadata(name) and state.engine_deletes_metadata:
            yield candidate.path, "the engine deletes its metadata files itself"
        elif name.startswith(jobs[state.uuid]) and name.endswith(".avro"):
            yield candidate.path, "a Flink job may yet commit it, from a checkpoint"


def leave_other_names(
    sweeper: Sweeper, places: SweptPlaces, orphans: Sequence[Candidate], sifted: Candidates
) -> None:
    """Excludes orphans that the ledger may know by another name (AR-10, Iceberg #4194).

    If the same path is known under another scheme or authority, the table gets no departures: all
    its files may have such names. If only the end of a path is equal, it may lead to the file
    through a link, and that file stays.
    """
    owners = {candidate.path: candidate.owner.name for candidate in orphans}
    for path, names in sweeper.namesakes(list(owners)).items():
        prefix = places.prefix_of(path.rpartition("/")[0])
        for name in names:
            if same_place(path, name):
                why = f"not swept: {path} is {name} in a table's metadata; which is it?"
                sifted.refuse(owners[path], why)
            elif same_file_perhaps(path, prefix, name):
                sifted.keep({path: f"it may be {name}, which a table refers to"})


def leave_held_back(
    context: RunContext,
    observation: Observation,
    orphans: Sequence[Candidate],
    sifted: Candidates,
) -> None:
    """Excludes orphans outside the roots, and those that a table may reference by another name."""
    paths = [candidate.path for candidate in orphans]
    sifted.keep({path: f"it is {why}" for path, why in leading_out(context, paths).items()})
    elsewhere = needed_elsewhere(context, observation, paths)
    sifted.keep({p: f"it may be {name}, which is needed" for p, name in elsewhere.items()})
