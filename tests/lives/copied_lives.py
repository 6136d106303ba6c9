"""Random lives in which tables are copied, moved, set back and rewritten, on top of all else."""

from datetime import timedelta

from tests.lives.random_engines import COPIES, WRITES
from tests.lives.recorded import rule
from tests.lives.unlucky_lives import UnluckyLifecycles
from tests.unit.lives.test_random_archives import RandomArchives
from tests.unit.lives.test_random_lifecycles import LATER, some


class CopiedLifecycles(UnluckyLifecycles):
    """One such lake's life."""

    @rule(actions=some(*COPIES, *WRITES[::3]), span=LATER)
    def tables_are_copied(self, actions: list[tuple[str, int, int]], span: timedelta) -> None:
        self.happens(actions, span)


class CopiedArchives(RandomArchives):
    """The same with a tier in cold."""

    tables_are_copied = CopiedLifecycles.tables_are_copied
