"""Words of people and lifted guards, in every control ledger."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from meltline.domain.iceberg.names import TableName
from meltline.ports import VouchedFile
from tests.contract.test_control_ledger import (
    ODD_NAMES,
    Ledger,
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


def test_words_are_kept_by_table_until_they_are_taken_back(shop: Shop, ledger: Ledger) -> None:
    unread = replace(WORD, table=TableName.parse("lake.dark.a"), size=None, sha256="")
    ledger.save_vouched([WORD, unread])
    assert list(shop.handle().vouched()) == [unread, WORD]
    assert shop.handle().forget_vouched(WORD.table)
    assert list(ledger.vouched()) == [unread]
    assert not ledger.forget_vouched(WORD.table)


def test_a_later_word_for_a_table_replaces_the_earlier_one(ledger: Ledger) -> None:
    later = replace(WORD, location="s3://lake/dark/t/metadata/00001-b.metadata.json", size=13)
    ledger.save_vouched([WORD])
    ledger.save_vouched([later])
    assert list(ledger.vouched()) == [later]
    ledger.save_vouched([])
    assert list(ledger.vouched()) == [later]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_come_back_as_they_were(ledger: Ledger, name: str) -> None:
    word = replace(WORD, table=TableName.parse(name))
    ledger.save_vouched([word])
    assert list(ledger.vouched()) == [word]
    assert ledger.forget_vouched(word.table)


def test_lifted_guards_are_kept_until_a_table_shares_files_again(
    shop: Shop, ledger: Ledger
) -> None:
    for uuid in ("a", "b", "a"):
        ledger.save_lifted_guard(uuid)
    assert shop.handle().lifted_guards() == {"a", "b"}
    ledger.forget_lifted_guard("a")
    ledger.forget_lifted_guard("none")
    assert shop.handle().lifted_guards() == {"b"}
