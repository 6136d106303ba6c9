"""Words of people and lifted guards, in every control ledger."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from meltline.domain.iceberg.names import TableName
from meltline.ports import ControlLedger, VouchedFile
from tests.contract.ledger.control_ledgers import (
    ODD_NAMES,
    Shop,
    ledger,
    postgres_server,
    shop,
)

__all__ = ["ledger", "postgres_server", "shop"]

AT = datetime(2026, 3, 1, 12, 0, 0, 123000, tzinfo=UTC)
WORD = VouchedFile(
    table=TableName.parse("lake.dark.t"),
    location="s3://lake/dark/t/metadata/00000-a.metadata.json",
    size=12,
    sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    who="ana",
    reason="it's a scratch table",
    at=AT,
)


def test_words_are_kept_by_table_until_they_are_taken_back(
    shop: Shop, ledger: ControlLedger
) -> None:
    unread = replace(WORD, table=TableName.parse("lake.dark.a"), size=None, sha256="")
    ledger.decisions.save_vouched([WORD, unread])
    assert list(shop.handle().decisions.vouched()) == [unread, WORD]
    assert shop.handle().decisions.forget_vouched(WORD.table)
    assert list(ledger.decisions.vouched()) == [unread]
    assert not ledger.decisions.forget_vouched(WORD.table)


def test_a_later_word_for_a_table_replaces_the_earlier_one(ledger: ControlLedger) -> None:
    later = replace(WORD, location="s3://lake/dark/t/metadata/00001-b.metadata.json", size=13)
    ledger.decisions.save_vouched([WORD])
    ledger.decisions.save_vouched([later])
    assert list(ledger.decisions.vouched()) == [later]
    ledger.decisions.save_vouched([])
    assert list(ledger.decisions.vouched()) == [later]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_come_back_as_they_were(ledger: ControlLedger, name: str) -> None:
    word = replace(WORD, table=TableName.parse(name))
    ledger.decisions.save_vouched([word])
    assert list(ledger.decisions.vouched()) == [word]
    assert ledger.decisions.forget_vouched(word.table)


def test_lifted_guards_are_kept_until_a_table_shares_files_again(
    shop: Shop, ledger: ControlLedger
) -> None:
    for uuid in ("a", "b", "a"):
        ledger.decisions.save_lifted_guard(uuid)
    assert shop.handle().decisions.lifted_guards() == {"a", "b"}
    ledger.decisions.forget_lifted_guard("a")
    ledger.decisions.forget_lifted_guard("none")
    assert shop.handle().decisions.lifted_guards() == {"b"}
