"""Random lives in which runs are killed or meet faults, and those whose ledger was restored."""

import pytest

from tests.lake.wrong_clocks import WrongClocks
from tests.lives.copied_installations import CopiedInstallations
from tests.lives.copied_lives import CopiedLifecycles
from tests.lives.recorded import live
from tests.lives.restored_ledgers import RestoredLedgers
from tests.lives.unlucky_lives import UnluckyLifecycles
from tests.seeds import beginnings


@pytest.mark.parametrize(
    "kind", [UnluckyLifecycles, RestoredLedgers, CopiedInstallations, WrongClocks]
)
@pytest.mark.slow("random lives")
def test_lives_with_bad_luck_keep_every_invariant(kind: type[UnluckyLifecycles]) -> None:
    for begin, lives in beginnings(few=2, many=6):
        live(kind, lives=lives, moves=30, begin=begin)


@pytest.mark.slow("random lives")
def test_lives_with_copies_keep_every_invariant() -> None:
    """The same ones each time, until new seeds seldom find a file that is kept too long."""
    for begin, lives in beginnings(few=2, many=10, draws_new=False):
        live(CopiedLifecycles, lives=lives, moves=30, begin=begin)
