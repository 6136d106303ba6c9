"""Random lives behind a REST server: refs come during commits, runs die at them, none is lost."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import strategies as st

from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.policy import FOREVER_MS
from tests.lake.lake import MINUTE, Table
from tests.lives.kills import Killed, Process
from tests.lives.random_engines import OTHERS, WRITES, Engines
from tests.lives.recorded import live, rule
from tests.lives.unlucky_lives import UnluckyLifecycles
from tests.lives.watched_lake import WatchedLake
from tests.seeds import beginnings
from tests.unit.lives.test_random_lifecycles import LATER, some

_TAGS = 20


@dataclass
class Comers:
    """Those who tag just before the server carries out a commit; and a run that dies at it.

    Attributes:
        numbers: Which snapshot each of the next commits' comers tags; empty is nobody. One above
            `_TAGS` keeps a tag that is there for ever instead.
        followers: How many commits of others come right after ours, before its answer.
        process: The run that dies when its next commit is made, before the answer comes.
        tagged: The tags that were made so, by table, and what each is on.
    """

    numbers: list[int] = field(default_factory=list)
    followers: int = 0
    process: Process | None = None
    tagged: dict[tuple[TableName, str], int] = field(default_factory=dict)
    names: Iterator[int] = field(default_factory=count)


class RestLifecycles(UnluckyLifecycles):
    """One lake's life behind a server; its runs meet bad luck of any other kind, too."""

    def __init__(self) -> None:
        super().__init__()
        self.comers = Comers()
        self.lake = WatchedLake(
            other_catalogs=("theirs",),
            behind_rest=True,
            interrupt=self._somebody_comes,
            answering=self._somebody_follows,
        )
        self.engines = Engines(self.lake)

    def _somebody_comes(self, name: TableName) -> None:
        table = Table(self.lake, name)
        if not self.comers.numbers or not table.snapshots:  # one that was started over has none
            return
        number = self.comers.numbers.pop()
        tag = f"late{next(self.comers.names)}"
        snapshot = table.snapshots[number % len(table.snapshots)]
        tags = [
            n for n, ref in sorted(table.refs.items()) if ref["type"] == "tag" and "__" not in n
        ]
        if number > _TAGS and tags:
            tag = tags[number % len(tags)]
            snapshot = table.refs[tag]["snapshot-id"]
        table.tag(tag, snapshot, **{"max-ref-age-ms": FOREVER_MS})
        self.comers.tagged[name, tag] = snapshot

    def _somebody_follows(self, name: TableName) -> None:
        followers, self.comers.followers = self.comers.followers, 0
        for _ in range(followers):
            Table(self.lake, name).append(self.engines.new_file())
        process, self.comers.process = self.comers.process, None
        if process is not None:
            process.dead = True
            raise Killed(str(name))

    @rule(
        span=LATER,
        numbers=st.lists(st.integers(0, 2 * _TAGS), min_size=1, max_size=4),
        followers=st.integers(0, 2),
        dies=st.booleans(),
        actions=some(*WRITES, *OTHERS),
    )
    def refs_come_while_it_is_committed(
        self,
        span: timedelta,
        numbers: list[int],
        followers: int,
        dies: bool,
        actions: list[tuple[str, int, int]],
    ) -> None:
        """Of a run that died others know nothing; they go on before the next one comes."""
        self.pass_time(span)
        self.comers.tagged = {}
        process = Process()
        self.comers.numbers, self.comers.process = list(numbers), process if dies else None
        self.comers.followers = followers
        with suppress(Killed):
            self.lake.run(services=process.of(self.lake.services()))
        self.comers.numbers, self.comers.followers, self.comers.process = [], 0, None
        if process.dead:
            self.lake.let_leases_end()
            self.happens([("append", 0, 0)], MINUTE)
            self.lake.run()
        self._all_have_stayed()
        self.happens(actions, MINUTE)

    def _all_have_stayed(self) -> None:
        """Tags without end go by nobody's hand but a person's."""
        for (name, tag), snapshot in self.comers.tagged.items():
            ref = Table(self.lake, name).document["refs"].get(tag, {})
            assert ref.get("snapshot-id") == snapshot, f"{tag} of {name} is lost"


@pytest.mark.slow("random lives")
def test_no_life_behind_a_server_loses_what_came_while_it_was_committed() -> None:
    for begin, lives in beginnings(few=2, many=6):
        live(RestLifecycles, lives=lives, moves=30, begin=begin)
