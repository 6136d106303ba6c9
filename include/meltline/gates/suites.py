"""Expectation suites: the facts that each kind of plan must show before it may be applied.

Plain data, evaluated by an adapter. An expectation without a usable fact fails: a missing fact, a
fact of another type, NaN and infinity all refuse the plan (PX-2).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from meltline.domain.deletion.limits import Limits
from meltline.domain.deletion.plan import PlanKind


@dataclass(frozen=True)
class Expectation:
    """The required value of one gate fact: a flag that is true, or a number within bounds.

    Attributes:
        fact: The fact's name.
        meaning: The fact's meaning, for the reader of a refusal.
        minimum: The smallest number allowed; None for no lower bound.
        maximum: The largest number allowed; None for no upper bound.
        flag: Whether the fact is a flag instead of a number; it must then be true.
    """

    fact: str
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    flag: bool = False

    def __post_init__(self) -> None:
        bounds = [bound for bound in (self.minimum, self.maximum) if bound is not None]
        if self.flag == bool(bounds):
            raise ValueError(
                f"{self.fact} needs bounds if it is a number, and none if it is a flag"
            )
        if not all(_number(bound) is not None for bound in bounds):
            raise ValueError(f"{self.fact} has a bound that is no finite number: {bounds}")

    def __str__(self) -> str:
        if self.flag:
            return f"{self.fact} is true"
        if self.minimum is None:
            return f"{self.fact} is at most {self.maximum}"
        if self.maximum is None:
            return f"{self.fact} is at least {self.minimum}"
        if self.minimum == self.maximum:
            return f"{self.fact} is {self.minimum}"
        return f"{self.fact} is between {self.minimum} and {self.maximum}"

    def reading(self, facts: Mapping[str, object]) -> float | bool | None:
        """Returns the fact in the expected type; None if it is missing or has another type."""
        fact = facts.get(self.fact)
        if self.flag:
            return fact if isinstance(fact, bool) else None
        return _number(fact)

    def observed(self, facts: Mapping[str, object]) -> str:
        """Returns the fact's value as text."""
        fact = facts.get(self.fact, "missing")
        if isinstance(fact, bool):
            return str(fact).lower()
        is_word = isinstance(fact, str) and self.fact in facts
        return repr(fact) if is_word else str(fact)


@dataclass(frozen=True)
class Suite:
    """The expectations that a plan of one kind must all meet.

    Causes precede their possible consequences (`domain.gate.FOLLOWS`): a refusal lists its failures
    in this order.
    """

    name: str
    kind: PlanKind
    expectations: tuple[Expectation, ...]

    def __post_init__(self) -> None:
        facts = [expectation.fact for expectation in self.expectations]
        if len(set(facts)) < len(facts):
            raise ValueError(f"suite {self.name} asks twice about one fact: {sorted(facts)}")


def expire_suite(limits: Limits) -> Suite:
    """Builds the suite for a plan that expires snapshots (PX-4).

    Raises:
        ValueError: A limit is no finite number, so that it would bound nothing.
    """
    return Suite(
        "expire",
        PlanKind.EXPIRE,
        (
            _true("digest_matches", "the stored items give the stored digest"),
            _none("unreadable", "metadata, lists and manifests that could not be read"),
            _none("planned_heads", "heads of branches among the planned snapshots"),
            _none("planned_ref_targets", "planned snapshots that a remaining ref reaches"),
            _none("planned_young_refs", "planned refs that are not past their age"),
            _none("planned_main", "whether main is among the planned refs"),
            _none("planned_held", "planned snapshots under a hold or a share"),
            _none("planned_guarded", "tables in the plan whose owner forbids deletions"),
            _none("planned_leased", "planned snapshots that a reader has leased"),
            _none("planned_unread", "planned snapshots that a consumer has still to read"),
            _none("planned_in_window", "planned snapshots still in their retention window"),
            _none("planned_writer_walks", "planned snapshots on a writer's way back to its mark"),
            _none("drop_evidence_lost", "drops of chunks whose status would become unknown"),
            _none("planned_not_in_metadata", "planned ids and refs that the table does not have"),
            _none("planned_referenced", "planned files that a remaining snapshot references"),
            _none("planned_unowned", "planned files outside every prefix their table owns"),
            _none("planned_outside_roots", "planned files that lie, or lead, outside every root"),
            _none("planned_half_seen", "planned files where a catalog shows only a part"),
            _none("planned_unknown", "planned files without a row in the ledger"),
            _none("planned_protected", "planned metadata files, hints and files of the engine"),
            _at_most("head_files_lost", limits.max_head_loss, "files of any head in the plan"),
            _at_most("delete_ratio", limits.max_delete_ratio, "planned share of the bytes"),
            _at_most("growth", limits.max_growth, "size against the median of the last plans"),
            _none("head_totals_differ", "heads whose live files differ from their totals"),
            *_copies(),
            _at_least("tables_read", 1, "tables whose metadata was read for this proof"),
            _at_least("manifests_read", 0, "manifests that were opened for this proof"),
        ),
    )


def purge_suite(limits: Limits) -> Suite:
    """Builds the suite for a plan that deletes unreferenced files (PX-4)."""
    return Suite(
        "purge",
        PlanKind.PURGE,
        (
            _true("digest_matches", "the stored items give the stored digest"),
            _none("unreadable", "metadata, lists and manifests that could not be read"),
            _none("planned_not_due", "planned files whose failsafe has not ended"),
            _none("planned_not_in_failsafe", "planned files that are not in failsafe"),
            _none(
                "planned_young_orphans", "planned orphans that were too young when they departed"
            ),
            _none("planned_referenced", "planned files that a snapshot of any table references"),
            _none("planned_unowned", "planned files outside every prefix their table owns"),
            _none("planned_outside_roots", "planned files that lie, or lead, outside every root"),
            _none("planned_half_seen", "planned files where a catalog shows only a part"),
            _none("planned_protected", "planned metadata files, hints and files of the engine"),
            _none("planned_held", "owners of planned files under a hold"),
            _none("planned_guarded", "owners of planned files that forbid deletions"),
            _none("planned_contested", "planned files that owners in no catalog may need"),
            _none("planned_claimed", "planned files that another plan has claimed"),
            *_copies(),
            _none("cold_unproved", "copies not proved equal, byte for byte"),
            _at_least("tables_read", 1, "tables whose metadata was read for this proof"),
        ),
    )


def prune_suite(_: Limits) -> Suite:
    """Builds the suite for a plan that prunes snapshots and files from cold (PX-1)."""
    return Suite(
        "prune",
        PlanKind.PRUNE,
        (
            _true("digest_matches", "the plan that is kept gives the planned digest"),
            _none("unreadable", "tables and files, of cold or hot, that could not be read"),
            _none("planned_newest", "the newest snapshot of the cold table in the plan"),
            _none("planned_not_in_table", "planned snapshots that the cold table does not have"),
            _none("planned_early", "planned snapshots whose retention in cold is not past"),
            _none("planned_held", "tables under a hold whose history is planned"),
            _none("planned_outside", "planned files that do not lie in cold"),
            _none("planned_needed", "planned files that something that stays refers to"),
            _none("planned_not_deep", "what the permanent store must have and has not"),
        ),
    )


def drop_suite(_: Limits) -> Suite:
    """Builds the suite for a plan that drops chunks from hot (LT-11, LT-17, LT-36)."""
    return Suite(
        "drop_chunks",
        PlanKind.DROP_CHUNKS,
        (
            _true("digest_matches", "the stored items give the stored digest"),
            _none("unreadable", "metadata, manifests and rows that could not be read"),
            _none("base_lost", "whether main does not come from the planned snapshot any more"),
            _none("chunks_written_since", "planned chunks that were written since the plan"),
            _none("drops_unknown", "planned chunks that may be in cold already, or may not"),
            _none("planned_held", "tables of the plan under a hold"),
            _none("chunks_young", "planned chunks that no policy allows to drop yet"),
            _none("chunks_latest", "planned chunks among the latest that are kept"),
            _none("chunks_without_time", "planned chunks that have no range of time"),
            _none("files_differ", "files that are planned and not live in the chunks, or not so"),
            _none("files_reaching_beyond", "planned files with rows of other chunks"),
            _none("rollups_behind", "planned chunks with rows that a rollup of theirs has not got"),
            _none("not_durable", "planned chunks that are not in cold up to their last write"),
            _none("cold_unreadable", "whether cold cannot be read now, or is not what was left"),
            _none("rows_differ", "planned chunks whose rows, nulls or checksum cold has not"),
            _at_least("share_allowed", 0, "what is left of the share of the table that may go"),
            _at_least(
                "cold_snapshot",
                0,
                "the snapshot of cold whose rows were compared; 0 where none had to be",
            ),
            _at_least("chunks_proved", 1, "chunks whose files were read again for this proof"),
        ),
    )


def _copies() -> tuple[Expectation, ...]:
    """Returns the expectations on copies in cold; without a cold policy, all are met."""
    return (
        _none("cold_unreadable", "files of cold, or their originals, that could not be read"),
        _none("cold_missing", "snapshots that the policy wants in cold and that cold lacks"),
        _none("cold_differs", "copies that do not have what their originals have"),
        _none("cold_outside", "paths in cold that lead out of it"),
        _none("cold_files_missing", "planned files of archived snapshots without their copy"),
        _none("cold_rows_differ", "samples whose rows are not equal on both sides"),
    )


SuiteOf = Callable[[Limits], Suite]

SUITES: Mapping[PlanKind, SuiteOf] = {
    PlanKind.EXPIRE: expire_suite,
    PlanKind.PURGE: purge_suite,
    PlanKind.PRUNE: prune_suite,
    PlanKind.DROP_CHUNKS: drop_suite,
}


def _true(fact: str, meaning: str) -> Expectation:
    return Expectation(fact, meaning, flag=True)


def _none(fact: str, meaning: str) -> Expectation:
    return Expectation(fact, meaning, minimum=0, maximum=0)


def _at_least(fact: str, least: float, meaning: str) -> Expectation:
    return Expectation(fact, meaning, minimum=least)


def _at_most(fact: str, limit: float, meaning: str) -> Expectation:
    # A missing limit would leave the upper bound open: refuse it instead of skipping the check.
    if _number(limit) is None:
        raise ValueError(f"the limit of {fact} is {limit!r}, not a finite number")
    return Expectation(fact, meaning, minimum=0, maximum=limit)


def _number(fact: object) -> float | None:
    if isinstance(fact, bool) or not isinstance(fact, int | float):
        return None
    try:
        number = float(fact)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
