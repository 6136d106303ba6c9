"""The keep set over whole lives: thousands of random histories, with the nightly runs in between.

What a run expires leaves the metadata, and with it the log and the ancestry that later nights are
decided on. Each night is held against a brute-force statement of what was promised.
"""

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from meltline.domain.iceberg.table_metadata import Snapshot, SnapshotRef
from meltline.domain.retention.retained_snapshots import KeepSet
from meltline.domain.units import to_millis
from tests.lives import oracle
from tests.lives.histories import BRANCHING, PLAIN, STEPS, days, history, instant, tell
from tests.seeds import SEED, examples

EXAMPLES = 10 * examples(few=50, many=100)
NIGHTS = ("run", "run", "run", "run past")
ELSEWHERE = ("expired elsewhere",)
MANY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=False,
    suppress_health_check=list(HealthCheck),
)


class Life:
    """A table's story with nightly runs, and what an outsider knows of it."""

    def __init__(self, window: float) -> None:
        self.story = history().commit("S0", day=0)
        self.window = window
        self.day = 0.0
        self.truth = oracle.Story()

    def document(self) -> oracle.Document:
        """The story as the metadata file would have it."""
        return {
            "snapshots": [_snapshot(snapshot) for snapshot in self.story.snapshots.values()],
            "refs": {name: _ref(ref) for name, ref in self.story.refs.items()},
            "snapshot-log": [
                {"timestamp-ms": to_millis(entry.at), "snapshot-id": entry.snapshot_id}
                for entry in self.story.log
            ],
            "properties": self.story.properties,
        }

    def tell(self, draw: st.DrawFn, operation: str) -> None:
        """One event; main's truth is the builder's own."""
        tell(draw, self.story, operation, self.day)
        self.truth.heads = [(held.at, held.snapshot_id) for held in self.story.truth]
        if operation == "observe":
            self.truth.observed(self.document(), instant(self.day))

    def night(self, back: float = 0.0) -> tuple[KeepSet, dict[int, str]]:
        """A run: an observation, the keep set, and what was promised."""
        now = instant(self.day)
        self.story.observe(self.day)
        self.truth.observed(self.document(), now)
        as_of = max(instant(0), now - days(back))
        keeps = self.story.keeps(0, self.window, as_of=as_of)
        told = oracle.promised(self.document(), self.truth, as_of, days(self.window))
        broken = {sid: told[sid] for sid in set(keeps.expired) & told.keys()}
        assert not broken, f"promised, and expired: {broken}"
        return keeps, told

    def apply(self, keeps: KeepSet) -> None:
        """What the expiration commit does to the metadata."""
        names = {sid: name for name, sid in self.story.ids.items()}
        for ref in keeps.expired_refs:
            self.story.drop_ref(ref)
        for sid in keeps.expired:
            self.story.expired_elsewhere(names[sid])


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
    found = {
        "snapshot-id": snapshot.snapshot_id,
        "timestamp-ms": to_millis(snapshot.committed_at),
    }
    if snapshot.parent_id is not None:
        found["parent-snapshot-id"] = snapshot.parent_id
    return found


def _ref(ref: SnapshotRef) -> dict[str, Any]:
    found = {"type": "branch" if ref.is_branch else "tag", "snapshot-id": ref.snapshot_id}
    if ref.max_ref_age_ms is not None:
        found["max-ref-age-ms"] = ref.max_ref_age_ms
    return found


def live(draw: st.DrawFn, window: float, operations: tuple[str, ...]) -> Life:
    """Lives a random life, with its nights checked."""
    life = Life(window)
    for operation in draw(st.lists(st.sampled_from(operations), max_size=25)):
        life.day += draw(st.sampled_from(STEPS))
        if operation in NIGHTS:
            keeps, _ = life.night(back=draw(st.integers(0, 9)) if operation == "run past" else 0)
            life.apply(keeps)
        else:
            life.tell(draw, operation)
    return life


WINDOWS = st.sampled_from([0, 0.5, 1, 3, 7])


@seed(SEED)
@MANY
@given(st.data(), WINDOWS)
def test_no_night_expires_what_answers_for_an_instant_of_the_window(
    data: st.DataObject, window: float
) -> None:
    live(data.draw, window, PLAIN + BRANCHING + NIGHTS + ELSEWHERE)


@seed(SEED)
@MANY
@given(st.data(), WINDOWS)
def test_a_second_run_of_the_same_night_expires_nothing(data: st.DataObject, window: float) -> None:
    life = live(data.draw, window, PLAIN + BRANCHING + NIGHTS + ELSEWHERE)
    life.apply(life.night()[0])
    again, _ = life.night()
    assert (again.expired, again.expired_refs) == ((), ())


@seed(SEED)
@MANY
@given(st.data(), WINDOWS)
def test_once_all_is_quiet_nothing_but_refs_and_their_fewest_is_left(
    data: st.DataObject, window: float
) -> None:
    life = live(data.draw, window, PLAIN + BRANCHING + NIGHTS + ELSEWHERE)
    for _ in range(3):
        life.day += 30
        life.apply(life.night()[0])
    document = life.document()
    far = instant(life.day + 1000)
    kept = oracle.promised(document, oracle.Story(), far, timedelta(0))
    kept |= dict.fromkeys(oracle.logged(document, far), "the log's last entry")
    assert life.story.snapshots.keys() == kept.keys()


@seed(SEED)
@MANY
@given(st.data(), WINDOWS)
def test_where_the_log_is_whole_a_night_keeps_what_was_promised_and_nothing_else(
    data: st.DataObject, window: float
) -> None:
    telling = ("commit", "rollback", "tag", "stage", "branch", "branch commit", "observe")
    life = live(data.draw, window, (*telling, "commit", "consumer"))
    keeps, told = life.night()
    start = instant(life.day) - days(window)
    staged = {sid for sid, first in life.truth.missed.items() if first >= start}
    staged -= {entry.snapshot_id for entry in life.story.log}  # those were main's head
    assert keeps.reasons.keys() == told.keys() | staged


def test_a_life_is_really_lived() -> None:
    """The nights above expire something, and the story goes on without it."""
    life = Life(window=1)
    for day in range(1, 6):
        life.day = day
        life.story.commit(f"S{day}", day=day)
        life.truth.heads = [(held.at, held.snapshot_id) for held in life.story.truth]
    keeps, told = life.night()
    assert set(keeps.expired) == {1, 2, 3} and told.keys() == {4, 5, 6}
    life.apply(keeps)
    assert life.story.names(life.story.snapshots) == {"S3", "S4", "S5"}
    assert [entry.snapshot_id for entry in life.story.log] == [4, 5, 6]
