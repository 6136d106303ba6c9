"""Random lives in which runs are killed or meet faults, and those whose ledger was restored."""

import pytest

from tests.seeds import beginnings, examples
from tests.unit.copied_lives import CopiedLifecycles
from tests.unit.recorded import live
from tests.unit.restored_ledgers import RestoredLedgers
from tests.unit.unlucky_lives import UnluckyLifecycles
from tests.unit.wrong_clocks import WrongClocks


@pytest.mark.parametrize("kind", [UnluckyLifecycles, RestoredLedgers, WrongClocks])
def test_lives_with_bad_luck_keep_every_invariant(kind: type[UnluckyLifecycles]) -> None:
    for begin, lives in beginnings(examples(6)):
        live(kind, lives=lives, moves=30, begin=begin)


def test_lives_with_copies_keep_every_invariant() -> None:
    """The same ones each time, until new seeds seldom find a file that is kept too long."""
    for begin, lives in beginnings(examples(10), draws_new=False):
        live(CopiedLifecycles, lives=lives, moves=30, begin=begin)
