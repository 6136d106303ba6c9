"""What a sweep does where it cannot see everything, or takes somebody else's word."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from meltline.app.run.lifecycle import run_step
from meltline.app.run.steps import SWEEP
from meltline.domain.deletion.orphans import Inventory, OrphanCandidate
from meltline.domain.errors import (
    LockHeld,
    StoreRefused,
    UsageInvalid,
)
from meltline.ports import StopSwitch, StoredObject
from tests.doubles.sweeper import InventoryContent
from tests.lake.lake import DAY, T0, WAREHOUSE
from tests.lake.swept import FIRST, SECOND, Meanwhile, Swept, a_lake

# --- what cannot be seen -------------------------------------------------------------------------


def test_a_table_that_contradicts_itself_keeps_its_strays_and_others_go_on() -> None:
    swept = Swept()
    other = swept.lake.table("other")
    other.append("b")
    swept.lake.run()
    swept.leave("orphan")
    its = swept.leave(other.data("orphan"))
    swept.table.append("late")
    swept.table.edit(_miscounted)
    summary = swept.sweep_twice()
    assert swept.waiting() == {its}
    assert summary.exit_code == 4
    assert [note for note in summary.notes if "files not judged: lake.air.t" in note]


def _miscounted(document: dict[str, Any]) -> None:
    document["snapshots"][-1]["summary"]["total-data-files"] = "99"


def test_what_shares_files_with_a_table_that_cannot_be_read_keeps_its_strays() -> None:
    swept = Swept()
    copy = swept.lake.clone(swept.table, "lake.air.copy")
    swept.lake.run()
    swept.leave("orphan")
    swept.lake.spoil(copy.manifests(copy.append("late"))[-1])
    assert swept.sweep_twice().exit_code == 4
    assert swept.waiting() == set()


def test_where_a_dropped_table_that_was_never_read_completely_lay_too_nothing_departs() -> None:
    swept = Swept()
    odd = swept.lake.table("odd", location=swept.table.location)
    swept.lake.spoil(odd.manifests(odd.append("o"))[0])
    swept.lake.run()
    odd.drop()
    swept.leave("orphan")
    summary = swept.sweep_twice()
    assert swept.waiting() == set()
    assert [note for note in summary.notes if "never read completely" in note]


def test_while_a_table_was_never_read_nothing_departs_but_the_listing_counts() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    new = swept.lake.on(FIRST).table("new")
    (manifest,) = new.manifests(new.append("n"))
    before = swept.lake.spoil(manifest)
    first, second = swept.sweep(FIRST), swept.sweep(SECOND)
    assert swept.waiting() == set()
    assert (first.exit_code, second.exit_code) == (4, 4)
    assert any("nothing departs" in note and "lake.air.new" in note for note in second.notes)
    swept.lake.mend(manifest, before)
    swept.sweep(SECOND)
    assert swept.waiting() == {orphan}


def test_while_a_catalog_cannot_be_listed_nothing_departs_but_the_listing_counts() -> None:
    swept = Swept(a_lake(other_catalogs=("partner",)))
    orphan = swept.leave("orphan")
    partner = swept.lake.catalogs["partner"]
    partner.unlistable = "it is down"
    assert swept.sweep_twice().exit_code == 4
    assert swept.waiting() == set()
    partner.unlistable = ""
    swept.sweep(SECOND)
    assert swept.waiting() == {orphan}


def test_a_table_of_a_catalog_that_cannot_be_listed_keeps_what_lies_with_it() -> None:
    swept = Swept(a_lake(other_catalogs=("partner",)))
    swept.lake.table("partner.air.t", location=swept.table.location).append("p")
    swept.lake.run()
    swept.leave("orphan")
    swept.lake.catalogs["partner"].unlistable = "it is down"
    summary = swept.sweep_twice()
    assert [note for note in summary.notes if "partner.air.t lies there too" in note]
    assert swept.sweeper.commits == 0


@dataclass
class Shut:
    """A store that cannot list a folder."""

    store: Any
    folder: str

    def list(self, prefix: str) -> Iterator[StoredObject]:
        if prefix.startswith(self.folder):
            raise StoreRefused("cannot list it: permission denied", object=prefix)
        yield from self.store.list(prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def test_while_a_folder_cannot_be_listed_nothing_departs_but_what_was_listed_counts() -> None:
    swept = Swept()
    other = swept.lake.table("other")
    other.append("b")
    swept.lake.run()
    orphan = swept.leave("orphan")
    swept.sweeper._store = Shut(swept.lake.store, other.location)
    summary = swept.sweep_twice()
    assert (swept.waiting(), summary.exit_code) == (set(), 4)
    assert any(other.location in n and "permission denied" in n for n in summary.notes)
    swept.sweeper._store = swept.lake.store
    swept.sweep(SECOND)
    assert swept.waiting() == {orphan}


def test_while_stopped_nothing_departs() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    swept.lake.control.switch.set(StopSwitch("somebody", "looking", swept.lake.clock.now()))
    assert swept.sweep_twice().exit_code == 4
    assert swept.waiting() == set()
    swept.lake.control.switch.set(None)
    swept.sweep(SECOND)
    assert swept.waiting() == {orphan}


def test_two_sweeps_at_once_do_not_get_in_each_others_way() -> None:
    swept = Swept()
    nested: list[BaseException] = []

    def again() -> None:
        with pytest.raises(LockHeld) as held:
            run_step(SWEEP, swept.services(), swept.lake.request())
        nested.append(held.value)

    swept.sweep(FIRST, swept.services(sweeper=Meanwhile(swept.sweeper, again)))
    assert len(nested) == 1


# --- an inventory instead of a listing -----------------------------------------------------------


def inventory(swept: Swept, day: float, *rows: OrphanCandidate, name: str = "inv") -> Inventory:
    """What somebody listed on a day: everything in the store, and further rows."""
    listed = [
        OrphanCandidate(o.path, o.bytes, o.modified_at) for o in swept.lake.store.list(WAREHOUSE)
    ]
    content = InventoryContent(T0 + day * DAY, (*listed, *rows))
    swept.sweeper.inventories[name] = content
    return Inventory(name)


def test_an_inventory_replaces_the_listing() -> None:
    swept = Swept()
    orphan = swept.leave("orphan")
    swept.leave(f"{WAREHOUSE}/air/t_backup/f")
    swept.sweep(FIRST, inventory=inventory(swept, FIRST - 1))
    # The same again is no second listing.
    swept.sweep(FIRST + 1, inventory=Inventory("inv"))
    assert swept.waiting() == set()
    swept.sweep(SECOND, inventory=inventory(swept, SECOND - 2))
    assert swept.waiting() == {orphan}


@pytest.mark.parametrize("day", [SECOND - 2.01, SECOND + 0.01])
def test_an_inventory_that_is_old_or_of_a_time_to_come_is_refused(day: float) -> None:
    swept = Swept()
    with pytest.raises(UsageInvalid, match="inv does not show"):
        swept.sweep(SECOND, inventory=inventory(swept, day))


def test_what_an_inventory_does_not_tell_keeps_a_file_and_what_is_gone_is_left() -> None:
    swept = Swept()
    at = swept.table.data
    rows = (
        OrphanCandidate(at("no size"), None, T0),
        OrphanCandidate(at("no time"), 5, None),
        OrphanCandidate(at("gone since"), 5, T0),
    )
    swept.sweep(FIRST, inventory=inventory(swept, FIRST, *rows))
    said = swept.sweep(SECOND, inventory=inventory(swept, SECOND, *rows)).as_json()["sweep"]
    assert (swept.waiting(), said["odd_files"]) == (set(), 3)
