"""What is not cloned and why, and the guard that a clone sets on its source."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.clone.clone import clone
from meltline.app.drop.drop import drop
from meltline.app.run.lifecycle import Run, run_chain
from meltline.app.safety.audit import decisions
from meltline.domain.errors import (
    CatalogReadOnly,
    CloneNotSupported,
    FilesClaimed,
    LockHeld,
    MeltlineError,
    NameConflict,
    NamespaceNotFound,
    ObjectDropped,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.objects import ObjectKind
from meltline.domain.retention.policy import PROFILES, AccountPolicy
from meltline.ports import Claim
from tests.lake.lake import MINUTE, Lake, Table, of_catalogs
from tests.unit.clone.test_clones import COPY, NAME, a_database, copied, daily, live, names

# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        ("lake.air.no", COPY, TableNotFound),
        (NAME, NAME, NameConflict),
        (NAME, "lake.no.copy", NamespaceNotFound),
        (NAME, "theirs.air.copy", UsageInvalid),
        (NAME, "copy", UsageInvalid),
        (NAME, "lake.meltline.copy", CatalogReadOnly),
        (NAME, "lake.meltline_dropped.copy", ObjectDropped),
        ("theirs.air.t", "theirs.air.copy", CatalogReadOnly),
        ("lake.meltline", "lake.copy", CatalogReadOnly),
        ("lake.air", "lake.air.inside", UsageInvalid),
        ("lake.air", "lake.sea", NameConflict),
    ],
)
def test_what_cannot_be_cloned_says_why_and_changes_nothing(
    source: str, target: str, error: type[MeltlineError]
) -> None:
    # TT-39
    lake = Lake(other_catalogs=("theirs",))
    lake.on(0).table("t").append("a")
    lake.table("theirs.air.t").append("a")
    lake.table("lake.sea.other").append("o")
    lake.table("lake.meltline.snapshots")
    before = lake.paths()
    with pytest.raises(error) as refused:
        clone(lake.services(), source, target)
    assert refused.value.next and lake.paths() == before and lake.control.vetoes.all() == []


def test_a_dropped_table_has_to_come_back_first() -> None:
    lake, _ = daily()
    drop(lake.services(), NAME)
    with pytest.raises(ObjectDropped) as refused:
        copied(lake)
    assert "meltline undrop lake.air.t" in refused.value.next


def test_a_profile_without_clones_says_so() -> None:
    # ML-32, C-24
    lake = Lake(account=AccountPolicy(PROFILES["ducklake_managed"]))
    lake.on(0).table("t").append("a")
    with pytest.raises(CloneNotSupported, match="ducklake_managed"):
        copied(lake)


def test_a_dry_run_checks_everything_and_changes_nothing() -> None:
    lake, table = daily()
    before, document = lake.paths(), table.document
    done = clone(lake.services(), NAME, COPY, dry_run=True)
    assert [(str(o.table), o.uuid, o.snapshot_id) for o in done.created] == [(COPY, "", table.head)]
    assert (lake.paths(), table.document, names(lake)) == (before, document, {NAME})
    assert lake.control.registrations.sharing() == [] and lake.control.vetoes.all() == []
    with pytest.raises(NameConflict):
        clone(lake.services(), NAME, NAME, dry_run=True)


def test_what_a_purge_has_begun_to_delete_is_refused_by_name_and_nothing_is_left() -> None:
    lake, table = daily()
    lake.run()
    lake.on(20).run()
    plan = lake.control.plans.find()[-1]
    before, document = lake.paths(), table.document
    with lake.control.locks.take("a purge", "somebody", wait=timedelta(0), lease=MINUTE) as lock:
        lake.control.claims.take([Claim(plan.id, 9, lock, [table.data("f3")])])
        with pytest.raises(FilesClaimed) as refused:
            copied(lake)
    assert table.data("f3") in refused.value.object
    assert (lake.paths(), table.document) == (before, document)
    assert lake.control.vetoes.all() == [] and lake.control.registrations.sharing() == []


def test_while_a_run_works_on_the_table_nothing_is_cloned() -> None:
    lake, table = daily()
    with (
        lake.control.locks.take(table.uuid, "a run", wait=timedelta(0), lease=MINUTE),
        pytest.raises(LockHeld),
    ):
        copied(lake)
    assert names(lake) == {NAME}


def test_a_name_that_somebody_takes_at_the_last_moment_leaves_everything_as_it_was() -> None:
    lake, tables = a_database()
    catalog = lake.catalogs["lake"]
    services = lake.services()

    class Late:
        """A catalog in which an engine makes the namespace just before we do."""

        def __getattr__(self, name: str) -> Any:
            if name == "create":
                catalog.set_namespace_properties(("copy",), {"theirs": "yes"})
            return getattr(catalog, name)

    services = replace(services, **of_catalogs({"lake": Late()}))
    before = names(lake)
    with pytest.raises(NameConflict):
        clone(services, "lake.air", "lake.copy", ObjectKind.DATABASE)
    assert names(lake) == before and lake.control.vetoes.all() == []
    assert all("gc.enabled" not in t.document["properties"] for t in tables.values())
    assert lake.paths("file:///w/copy") == set()
    assert catalog.listing().namespaces["copy",] == {"theirs": "yes"}


def test_who_cloned_what_is_remembered_on_both_sides() -> None:
    lake, table = daily()
    copied(lake)
    (of_source,) = [e for e in decisions(lake.services(), NAME) if e.action == "clone"]
    (of_clone,) = [e for e in decisions(lake.services(), COPY) if e.action == "clone"]
    assert COPY in of_source.detail and f"{NAME}@{table.head}" in of_clone.detail
    assert of_source.who == "tester"


# --- the guard ------------------------------------------------------------------------------------


def guard(table: Table) -> tuple[str | None, str | None]:
    said = table.document["properties"]
    return said.get("gc.enabled"), said.get("meltline.gc-enabled-before")


@pytest.mark.parametrize(
    ("before", "while_shared"),
    [(None, ("false", "not set")), ("true", ("false", "true")), ("false", ("false", None))],
)
def test_engines_leave_both_alone_until_nothing_is_shared_any_more(
    before: str | None, while_shared: tuple[str, str | None]
) -> None:
    lake, table = daily(**({"gc.enabled": before} if before else {}))
    copy = copied(lake)
    assert guard(table) == guard(copy) == while_shared
    lake.run()
    assert guard(table) == guard(copy) == while_shared
    copy.overwrite("own")
    lake.run()
    assert guard(table) == guard(copy) == while_shared  # the clone's history still shares
    for day in (12, 13):
        lake.on(day).run()
    assert guard(table) == guard(copy) == (before, None)
    commits = (table.metadata_location, copy.metadata_location)
    lake.run()
    assert (table.metadata_location, copy.metadata_location) == commits


def test_a_dropped_clone_shares_until_it_is_let_go() -> None:
    lake, table = daily()
    copied(lake)
    lake.run()
    drop(lake.services(), COPY)
    lake.on(10).run()
    assert guard(table)[0] == "false"
    for day in (12, 20, 21, 29):
        assert lake.on(day).run().exit_code == 0
    assert names(lake) == {NAME} and guard(table) == (None, None)


def test_a_clone_that_comes_while_the_report_looks_keeps_the_guard() -> None:
    lake, table = daily()
    copy = copied(lake)
    lake.run()
    copy.overwrite("own")
    lake.on(12).run()
    services = lake.services()
    late = copied(lake, "lake.air.late")  # nobody has observed it yet
    assert guard(table)[0] == "false"
    Run(services, lake.request()).report()
    assert guard(table)[0] == "false" and live(late) == live(table)


def test_a_guard_stays_while_a_table_of_the_group_cannot_be_read() -> None:
    lake, table = daily()
    copy = copied(lake)
    lake.run()
    copy.overwrite("own")
    content = lake.spoil(copy.metadata_location)
    for day in (12, 13):
        run_chain(lake.on(day).services(), lake.request())
    assert guard(table)[0] == "false"
    lake.mend(copy.metadata_location, content)
