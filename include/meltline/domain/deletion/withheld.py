"""Withheld files: unreferenced by their own path, but kept; with the reason and the remedy.

Plans, gates and purges record them, and `meltline doctor` and the reports show them.
"""

from dataclasses import dataclass
from enum import StrEnum

from meltline.domain.path_aliases import is_local, store_of
from meltline.domain.safe_text import quote
from meltline.domain.units import format_size

MOVE_AWAY = (
    "the catalog's own garbage collection deletes there; move other catalogs' tables to a place "
    "that is not its own, and what they need no more goes there"
)
"""The remedy if a catalog shows only a part of a location's references."""


class Why(StrEnum):
    """Why a file is kept although its own path is unreferenced."""

    OUTSIDE = "outside every root"
    MAYBE_THE_SAME = "maybe the same"
    LINK = "a link"
    HALF_SEEN = "half seen"
    UNPROVED = "no proved copy in cold"
    FOREIGN = "foreign owner"
    UNCLAIMED = "unclaimed"
    OUTSIDE_TABLES = "outside every table"
    NOT_AS_RECORDED = "not as recorded"


@dataclass(frozen=True, slots=True)
class Withheld:
    """Files of one table that a step kept for one reason.

    Attributes:
        step: The kind of plan they were left out of: `expire`, `purge` or `sweep`; `delete` for
            files that a purge planned and then kept.
        table: The table that owns them.
        place: The folder or store they are in.
        claimant: The name by which they are, or may be, referenced; empty for other reasons.
        files: How many; `bytes` is their size.
    """

    step: str
    why: Why
    table: str
    place: str
    claimant: str
    files: int
    bytes: int

    @property
    def line(self) -> str:
        """The line of the configuration that resolves it; empty if none does."""
        if self.why in (Why.OUTSIDE, Why.OUTSIDE_TABLES):
            return f"storage-roots: [{self.place}]"
        if self.why is not Why.MAYBE_THE_SAME or is_local(self.place) or is_local(self.claimant):
            return ""
        pair = f"[[{_bare(self.place)}, {_bare(self.claimant)}]]"
        return f"different: {pair}"

    @property
    def notice(self) -> str:
        """A sentence that says which files are kept, and why."""
        subject = f"{self.table}: {self.files} files, {format_size(self.bytes)}, are kept"
        if self.why is Why.OUTSIDE:
            return f"{subject}: {self.place} lies outside every root"
        if self.why is Why.LINK:
            return f"{subject}: in {self.place} they are links, or lead out of every root"
        if self.why is Why.HALF_SEEN:
            return f"{subject}: of what {self.place} is needed for, a catalog shows only a part"
        if self.why is Why.UNPROVED:
            return f"{subject}: of what is in {self.place} nobody can vouch for the copy in cold"
        if self.why is Why.FOREIGN:
            return f"{subject}: {self.place} has another owner: {self.claimant}"
        if self.why is Why.UNCLAIMED:
            return f"{subject}: in {self.place} no path says that it is the table's"
        if self.why is Why.OUTSIDE_TABLES:
            return f"{subject}: the table named them in {self.place}, which is no table's folder"
        if self.why is Why.NOT_AS_RECORDED:
            return f"{subject}: in {self.place} their size or time is not what was recorded"
        return f"{subject}: in {self.place} they may be the same as what {self.claimant} names"

    @property
    def fix(self) -> str:
        """The remedy, for an operator."""
        if self.why is Why.OUTSIDE:
            return f"add to the configuration: {self.line}"
        if self.why is Why.OUTSIDE_TABLES:
            return f"where nobody else needs what lies there, add to the configuration: {self.line}"
        if self.why is Why.LINK:
            return "put a file in the link's place, or delete the link by hand"
        if self.why is Why.HALF_SEEN:
            return MOVE_AWAY
        if self.why is Why.UNPROVED:
            return (
                f"`meltline cold verify {quote(self.table)}` names the copies; they go once each "
                "copy, or "
                "the original under its path, has again the bytes that were recorded"
            )
        if self.why is Why.FOREIGN:
            return "`meltline doctor` names the owners, and how to allow each once it is gone"
        if self.why is Why.UNCLAIMED:
            return (
                f"where only this table writes there: `meltline sweep allow {quote(self.place)} "
                "--reason TEXT`"
            )
        if self.why is Why.NOT_AS_RECORDED:
            return (
                "`meltline sweep` takes each as a file of its own, with the size that it has, and "
                "it goes after its failsafe; or delete it by hand"
            )
        if not self.line:
            return f"they go once nothing refers to them as {self.claimant} any more"
        pair = self.line.removeprefix("different: ")
        return f"add to the configuration: same: {pair} if these are one place, else {self.line}"


def order(withheld: Withheld) -> tuple[str, str, str, str]:
    """The sort key of withheld rows; it is unique within a step."""
    return withheld.why, withheld.table, withheld.place, withheld.claimant


def _bare(store: str) -> str:
    return store_of(store).rstrip("/")
