"""Words of people and records of guards, in every control ledger."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from meltline.domain.iceberg.names import TableName
from meltline.ports import ControlLedger, GuardKind, GuardRecord, VouchedFile
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


def test_records_of_guards_are_kept_by_table_and_kind_until_they_are_taken_away(
    shop: Shop, ledger: ControlLedger
) -> None:
    lifted = GuardRecord("a", GuardKind.LIFTED, "ana", "it shares no file any more", AT)
    made = replace(lifted, kind=GuardKind.SET, reason="it shares files")
    other = replace(lifted, table_uuid="b")
    for record in (lifted, made, other, replace(made, who="bob")):
        ledger.decisions.save_guard(record)
    assert list(shop.handle().decisions.guards()) == [lifted, replace(made, who="bob"), other]
    ledger.decisions.forget_guard("a", GuardKind.LIFTED)
    ledger.decisions.forget_guard("none", GuardKind.LIFTED)
    ledger.decisions.forget_guard("b", GuardKind.OVERRIDDEN)
    assert list(shop.handle().decisions.guards()) == [replace(made, who="bob"), other]
