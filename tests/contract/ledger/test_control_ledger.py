"""Every control ledger, in memory, on SQLite and on a real Postgres: readiness and time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Table, create_engine, make_url, select, text

from meltline.adapters.sql_ledger.database import scrubbed
from meltline.adapters.sql_ledger.tables import chunk_tables, decision_tables, place_tables, schema
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.arming import Arming
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.deletion.foreign_owners import AllowedOwner, ForeignSign
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.deletion.withheld import Withheld
from meltline.domain.epochs import Epoch
from meltline.domain.errors import (
    ConfigInvalid,
    SetupMissing,
)
from meltline.domain.iceberg.locations import Ownership
from meltline.domain.retention.retained_snapshots import SnapshotObservation
from meltline.ports import (
    Approval,
    AuditEntry,
    ControlLedger,
    DisownedTime,
    GuardRecord,
    Incident,
    KnownTable,
    Lease,
    PurgeVeto,
    Rejection,
    RememberedMetadata,
    RunRecord,
    StatementRecord,
    StopSwitch,
    VouchedFile,
)
from tests.contract.ledger.control_ledgers import (
    LEASE,
    NOW,
    SOON,
    SQL,
    OpenSql,
    Shop,
    a_plan,
    a_result,
    a_table,
    add_plan,
    ledger,
    open_sql,
    postgres_server,
    shop,
    url,
)
from tests.contract.ledger.postgres import PostgresServer

__all__ = ["ledger", "open_sql", "postgres_server", "shop", "url"]


def test_a_ledger_is_prepared_once_and_the_second_time_changes_nothing(shop: Shop) -> None:
    ledger = shop.handle()
    assert not ledger.database.is_prepared()
    ledger.database.prepare()
    ledger.database.set_generation(3)
    ledger.registrations.save([a_table()])
    shop.handle().database.prepare()
    assert shop.handle().database.is_prepared()
    assert ledger.database.generation() == 3
    assert list(ledger.registrations.all()) == [a_table()]


@pytest.mark.parametrize(
    "use",
    [
        lambda ledger: ledger.registrations.all(),
        lambda ledger: ledger.database.newest_time(),
        lambda ledger: ledger.database.now(),
        lambda ledger: add_plan(ledger, a_plan()),
        lambda ledger: ledger.plans.get("last"),
        lambda ledger: ledger.switch.stopped(),
        lambda ledger: ledger.locks.take("k", "me", wait=SOON, lease=LEASE).__enter__(),
        lambda ledger: ledger.locks.take_all({"k": "me"}, wait=SOON, lease=LEASE).__enter__(),
    ],
)
def test_a_ledger_that_was_never_prepared_says_what_to_run(
    shop: Shop, use: Callable[[ControlLedger], object]
) -> None:
    with pytest.raises(SetupMissing) as refused:
        use(shop.handle())
    assert refused.value.next == "run `meltline init`"


def test_the_generation_starts_at_nothing_and_is_remembered(
    shop: Shop, ledger: ControlLedger
) -> None:
    assert ledger.database.generation() == 0
    ledger.database.set_generation(7)
    assert shop.handle().database.generation() == 7


def test_epochs_are_told_from_the_newest_that_was_confirmed_on(
    shop: Shop, ledger: ControlLedger
) -> None:
    assert list(ledger.epochs.since()) == []
    first, second, beside, later = (
        Epoch(number, nonce, f"run {nonce}", "me", NOW)
        for number, nonce in ((1, "a"), (2, "b"), (2, "c"), (3, "d"))
    )
    for epoch in (later, beside, second, first):
        ledger.epochs.add(epoch)
    assert list(ledger.epochs.since()) == [first, second, beside, later]
    assert not ledger.epochs.has("run b")
    ledger.epochs.confirm("a")
    ledger.epochs.confirm("b")
    ledger.epochs.confirm("b")
    second = replace(second, confirmed=True)
    assert list(shop.handle().epochs.since()) == [second, beside, later]
    assert list(ledger.epochs.since(1)) == [replace(first, confirmed=True), second, beside, later]
    assert ledger.epochs.has("run b") and not ledger.epochs.has("run d")


def test_approvals_can_be_forgotten_all_at_once(ledger: ControlLedger) -> None:
    ledger.verdicts.approve(Approval("p-1", "d", "me", "why", NOW))
    assert ledger.verdicts.forget_approvals() == 1
    assert ledger.verdicts.approval("p-1", "d") is None
    assert ledger.verdicts.forget_approvals() == 0


def test_the_newest_time_is_that_of_the_newest_write_and_never_goes_back(
    shop: Shop, ledger: ControlLedger
) -> None:
    assert ledger.database.newest_time() is None
    ledger.audit.add(AuditEntry(NOW, "me", "stop", "all"))
    assert ledger.database.newest_time() == NOW
    shop.clock.moment = NOW + timedelta(days=2)
    ledger.registrations.save([a_table()])
    shop.clock.moment = NOW + timedelta(days=1)
    shop.handle().switch.set(None)
    assert ledger.database.newest_time() == NOW + timedelta(days=2)


def test_a_person_s_word_takes_back_the_newest_time_if_it_is_still_that(
    shop: Shop, ledger: ControlLedger
) -> None:
    shop.clock.moment = NOW + timedelta(days=400)
    ledger.switch.set(None)
    ahead, shop.clock.moment = shop.clock.moment, NOW
    word = DisownedTime(ahead, "me", "the battery was empty", NOW)
    assert not ledger.decisions.disown_time(replace(word, recorded=NOW))
    assert ledger.database.newest_time() == ahead and list(ledger.decisions.disowned_times()) == []
    assert ledger.decisions.disown_time(word)
    assert shop.handle().database.newest_time() == NOW
    assert list(shop.handle().decisions.disowned_times()) == [word]
    assert not ledger.decisions.disown_time(word)
    shop.clock.moment = ahead
    ledger.switch.set(None)
    assert ledger.database.newest_time() == ahead
    assert ledger.decisions.disown_time(word)
    assert list(ledger.decisions.disowned_times()) == [word, word]


def test_locks_that_a_clock_took_that_was_ahead_are_free_after_that_and_no_others(
    shop: Shop, ledger: ControlLedger
) -> None:
    ledger.switch.set(None)
    (own,) = ledger.locks.rows.take({"own": "me"}, LEASE)
    shop.real_time.skipped += 86400
    (ahead,) = shop.handle().locks.rows.take({"ahead": "a dead one"}, LEASE)
    shop.real_time.skipped -= 86400
    assert not ledger.locks.rows.take({"ahead": "me"}, LEASE)
    newest = ledger.database.newest_time()
    assert newest is not None
    assert ledger.decisions.disown_time(DisownedTime(newest, "me", "why", NOW))
    (taken,) = ledger.locks.rows.take({"ahead": "me"}, LEASE)
    assert taken.token == ahead.token + 1
    ledger.locks.check(own)


def test_times_that_have_not_come_yet_are_not_the_newest_time(ledger: ControlLedger) -> None:
    assert ledger.database.newest_time() is None
    ledger.verdicts.save([a_result(ran_at=NOW)])
    ledger.leases.save(Lease("l-1", "u-1", 1, NOW + timedelta(days=9)))
    with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE):
        pass
    assert ledger.database.newest_time() == NOW


def test_taking_a_lock_alone_records_no_time(ledger: ControlLedger) -> None:
    with ledger.locks.take("group-1", "run-1", wait=SOON, lease=LEASE) as lock:
        ledger.locks.check(lock)
    assert ledger.database.newest_time() is None


def test_the_database_tells_its_own_time(ledger: ControlLedger) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=2)
    found = ledger.database.now()
    assert before <= found <= datetime.now(UTC) + timedelta(milliseconds=2)
    assert found.utcoffset() == timedelta(0)


STORED: list[tuple[type, Table, set[str]]] = [
    (KnownTable, schema.tables, set()),
    (Ownership, schema.ownerships, {"first_seen_at"}),
    (SnapshotObservation, schema.sightings, {"table_uuid", "snapshot_id"}),
    (Lease, schema.leases, set()),
    (StatementRecord, schema.statements, set()),
    (PurgeVeto, schema.wanted_back, set()),
    (VouchedFile, decision_tables.vouched, set()),
    (GuardRecord, decision_tables.guards, set()),
    (DisownedTime, decision_tables.disowned_times, {"seq"}),
    (Epoch, decision_tables.epochs, set()),
    (Plan, schema.plans, {"seq"}),
    (GateResult, schema.gate_results, {"seq"}),
    (Approval, schema.approvals, {"seq"}),
    (Rejection, decision_tables.rejections, {"seq"}),
    (RunRecord, schema.runs, {"seq"}),
    (StopSwitch, schema.stop_switch, {"id"}),
    (Arming, decision_tables.arming, {"id"}),
    (AuditEntry, schema.audit, {"seq"}),
    (StorageRow, schema.storage, {"day"}),
    (Withheld, place_tables.withheld, set()),
    (ForeignSign, place_tables.foreign_signs, set()),
    (AllowedOwner, place_tables.allowed_owners, set()),
    (Incident, schema.incidents, set()),
    (RememberedMetadata, schema.metadata_documents, set()),
    (CopyProof, schema.copies, set()),
    (Chunk, chunk_tables.chunks, set()),
]
"""Each record that is stored field by field, its table, and what this has beside them."""


@pytest.mark.parametrize(("record", "table", "beside"), STORED)
def test_every_field_of_a_record_has_its_column(
    record: type, table: Table, beside: set[str]
) -> None:
    assert {one.name for one in fields(record)} | beside == set(table.columns.keys())


def test_every_table_is_known_to_the_test_of_fields_or_has_rows_that_are_no_record() -> None:
    checked = {table.name for _, table, _ in STORED}
    # `archived` stores a record with another in it: its own tests bring back what they stored.
    by_hand = {"archived", "batches", "claimed_paths", "entries", "locks"}
    by_hand |= {"marks", "half_seen", "places", "policies", "sharing"}
    by_hand |= {"chunk_policies", "chunked_tables", "rollups", "table_syncs"}  # likewise
    assert checked | by_hand == set(schema.metadata.tables)
    assert not checked & by_hand


@pytest.mark.parametrize("url", SQL, indirect=True)
def test_the_revisions_make_the_schema_that_the_code_expects(url: str, open_sql: OpenSql) -> None:
    ledger = open_sql(url)
    ledger.database.prepare()
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        # Names, keys and indexes; types are plain in the revisions, on purpose.
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
        assert context.get_current_revision() == schema.REVISION
    engine.dispose()


@pytest.mark.parametrize("url", SQL, indirect=True)
def test_processes_that_initialise_at_the_same_time_do_not_disturb_each_other(
    url: str, open_sql: OpenSql
) -> None:
    ledgers = [open_sql(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda ledger: ledger.database.prepare(), ledgers))
    assert all(ledger.database.generation() == 0 for ledger in ledgers)


@pytest.mark.parametrize("url", SQL, indirect=True)
def test_a_ledger_of_a_newer_meltline_is_left_as_it_is(url: str, open_sql: OpenSql) -> None:
    open_sql(url).database.prepare()
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    ledger = open_sql(url)
    assert not ledger.database.is_prepared()
    with pytest.raises(SetupMissing, match="newer Meltline"):
        ledger.database.prepare()


def test_asking_for_a_ledger_creates_no_file(tmp_path: Path, open_sql: OpenSql) -> None:
    assert not open_sql(f"sqlite:///{tmp_path}/c.db").database.is_prepared()
    assert not list(tmp_path.iterdir())


def test_a_reader_of_a_sqlite_ledger_does_not_hold_up_its_writers(
    tmp_path: Path, open_sql: OpenSql
) -> None:
    url = f"sqlite:///{tmp_path}/c.db"
    ledger = open_sql(url)
    ledger.database.prepare()
    engine = create_engine(url)
    with engine.connect() as reader:
        reader.exec_driver_sql("BEGIN")
        assert not reader.execute(select(schema.sharing)).all()
        # A writer that waits for the reader gives up in the end: "database is locked".
        ledger.registrations.add_sharing([("a", "b")])
    engine.dispose()


def test_a_driver_that_repeats_the_password_is_not_quoted() -> None:
    for address in ("postgresql://u:sesame@h/db", "postgresql://u@h/db?password=sesame"):
        said = scrubbed('bad string "password=sesame"', make_url(address))
        assert said == 'bad string "password=***"'


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://meltline:sesame@127.0.0.1:1/db",
        "postgresql+psycopg://meltline:sesame@127.0.0.1:1/db",
        "postgresql://meltline@127.0.0.1:1/db?password=sesame",
        "postgresql://meltline:sesame@127.0.0.1:1/db?nonsense=sesame",
    ],
)
def test_a_database_that_does_not_answer_is_named_without_its_password(
    url: str, open_sql: OpenSql
) -> None:
    with pytest.raises(SetupMissing) as refused:
        open_sql(url).database.prepare()
    assert refused.value.object == "postgresql://127.0.0.1:1/db"
    assert "sesame" not in _everything_said(refused.value)


@pytest.mark.postgres
def test_a_wrong_password_is_not_repeated(
    postgres_server: PostgresServer, open_sql: OpenSql
) -> None:
    url = postgres_server.url("postgres").replace(postgres_server.password, "sesame")
    with pytest.raises(SetupMissing, match="does not answer") as refused:
        open_sql(url).database.is_prepared()
    assert "sesame" not in _everything_said(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://meltline:ses/ame@host:5432/db",
        "mysql://meltline:ses/ame@host/db",
        "ses/ame",
        "",
        "sqlite://",
        "sqlite:///:memory:",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(
    url: str, open_sql: OpenSql
) -> None:
    if url.startswith("postgresql"):
        url = "postgresql://meltline:ses@host:ses/ame/db"
    with pytest.raises(ConfigInvalid) as refused:
        open_sql(url)
    assert refused.value.object == "control"
    assert "ses" not in _everything_said(refused.value).replace("passes", "")


def _everything_said(error: BaseException) -> str:
    said = []
    at: BaseException | None = error
    while at is not None:
        said += [str(at), *map(str, vars(at).values())]
        at = (
            None
            if at.__suppress_context__ and at.__cause__ is None
            else at.__cause__ or at.__context__
        )
    return " ".join(said)
