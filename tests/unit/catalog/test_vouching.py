"""A person's word for a table that cannot be read: for one metadata file, and for nothing else."""

from dataclasses import dataclass

import pytest

from meltline.app.catalog.live_catalogs import look_afresh
from meltline.app.catalog.management import attach, detach
from meltline.app.doctor.doctor import examine
from meltline.app.safety.findings import Finding
from meltline.domain.errors import MetadataUnreadable, UsageInvalid
from meltline.domain.iceberg.names import TableName
from tests.lake.lake import Lake, Table

DARK = TableName.parse("lake.dark.t")
REASON = "scratch of the night team"


@dataclass
class Night:
    """A table of which files have departed, and one beside it that nobody can read."""

    lake: Lake
    table: Table

    @classmethod
    def begins(cls) -> "Night":
        lake = Lake()
        table = lake.table("t")
        table.append("old")
        night = cls(lake, table)
        night.hide(lake.table(str(DARK)))
        return night

    def hide(self, dark: Table) -> None:
        """An engine has written metadata that only it can read."""
        self.lake.spoil(dark.metadata_location)

    def is_replaced(self) -> None:
        """The unreadable table is dropped; another takes its name, with files of the first one."""
        self.lake.catalogs["lake"].drop(DARK)
        self.lake.unique = lambda: "another"
        self.hide(self.lake.clone(self.table, str(DARK)))

    def old_files_depart(self) -> None:
        self.lake.on(1)
        self.lake.run()
        self.table.overwrite("new")
        for day in (20, 21):
            self.lake.on(day).run()

    def vouch(self, *more: TableName) -> None:
        detach(self.lake.services(), [DARK, *more], REASON)

    def purges(self) -> bool:
        """Whether what has departed is deleted once its time has come."""
        before = len(self.lake.deleter.deleted)
        summary = self.lake.on(40).run()
        has_purged = len(self.lake.deleter.deleted) > before
        assert summary.exit_code == (0 if has_purged else 4), "a reason ends the nightly alarm"
        return has_purged

    def finding(self, code: str) -> Finding | None:
        found = [one for one in examine(self.lake.services()) if one.code == code]
        assert len(found) < 2
        return found[0] if found else None


@pytest.fixture
def night() -> Night:
    return Night.begins()


def test_a_table_that_was_never_read_holds_back_all_purging_until_somebody_vouches_for_it(
    night: Night,
) -> None:
    night.old_files_depart()
    assert not night.purges()
    night.vouch()
    assert night.purges()


def test_a_word_for_a_table_is_no_word_for_the_next_one_under_its_name(night: Night) -> None:
    night.vouch()
    night.is_replaced()
    night.old_files_depart()
    assert not night.purges()
    assert look_afresh(night.lake.services()).unreadable[""], "nor does a gate let it go on"


def test_what_cannot_be_read_under_the_name_of_a_table_that_was_is_another_table() -> None:
    lake = Lake()
    table, other = lake.table("t"), lake.table("other")
    table.append("old")
    lake.run()
    lake.catalogs["lake"].drop(other.name)
    lake.unique = lambda: "another"
    lake.spoil(lake.clone(table, str(other.name)).metadata_location)
    Night(lake, table).old_files_depart()
    assert not Night(lake, table).purges()
    assert look_afresh(lake.services()).unreadable[""], "nor does a gate let it go on"


def test_a_table_that_was_read_and_whose_format_is_new_holds_back_all_purging_too() -> None:
    """Since it was read it may have come to refer to any file."""
    lake = Lake()
    table, other = lake.table("t"), lake.table("other")
    table.append("old")
    other.append("own")
    lake.run()
    other.edit(lambda document: document.update({"format-version": 4}))
    night = Night(lake, table)
    night.old_files_depart()
    assert not night.purges()
    detach(lake.services(), [other.name], REASON)
    assert night.purges()


def test_a_word_is_no_word_for_other_bytes_in_the_same_file(night: Night) -> None:
    night.vouch()
    at = night.lake.catalogs["lake"].location(DARK)
    same_length = bytes(reversed(night.lake.store.read(at)))
    night.lake.store.write(at, same_length)
    night.old_files_depart()
    assert not night.purges()


def test_a_word_for_a_file_that_nobody_could_get_ends_when_its_bytes_are_there(
    night: Night,
) -> None:
    at = night.lake.catalogs["lake"].location(DARK)
    content = night.lake.store.read(at)
    night.lake.store.delete([at])
    (word,) = detach(night.lake.services(), [DARK], REASON)
    assert word.vouched is not None and (word.vouched.size, word.vouched.sha256) == (None, "")
    assert night.finding("purging_held_back") is None
    night.lake.store.write(at, content)
    assert night.finding("purging_held_back") is not None


def test_attaching_takes_a_word_back_while_the_table_is_still_unreadable(night: Night) -> None:
    night.vouch()
    attach(night.lake.services(), DARK)
    assert night.lake.control.decisions.vouched() == []
    night.old_files_depart()
    assert not night.purges()
    with pytest.raises(MetadataUnreadable):
        attach(night.lake.services(), DARK)


@pytest.mark.parametrize("reason", ["", "  "])
def test_without_a_reason_nothing_is_vouched_for_and_no_table_of_the_list_is_touched(
    night: Night, reason: str
) -> None:
    before, audited = night.table.metadata_location, night.lake.control.audit.entries()
    with pytest.raises(UsageInvalid) as refused:
        detach(night.lake.services(), [night.table.name, DARK], reason)
    assert str(DARK) in refused.value.object and str(night.table.name) not in refused.value.object
    assert night.table.metadata_location == before
    assert (
        night.lake.control.decisions.vouched() == []
        and night.lake.control.audit.entries() == audited
    )


def test_a_table_that_can_be_read_needs_no_reason_and_no_word(night: Night) -> None:
    night.lake.run()
    (done,) = detach(night.lake.services(), [night.table.name], "")
    assert done.vouched is None
    assert night.table.document["properties"]["meltline.enabled"] == "false"


def test_a_dry_run_says_what_would_be_vouched_for_and_stores_nothing(night: Night) -> None:
    (done,) = detach(night.lake.services(), [DARK], REASON, dry_run=True)
    assert done.vouched is not None and done.vouched.size is not None
    assert night.lake.control.decisions.vouched() == []


def test_what_is_vouched_for_of_a_table_with_a_lost_manifest_is_its_metadata_as_detached(
    night: Night,
) -> None:
    """Detaching is a commit of its own; the next commit is nothing that anybody vouched for."""
    broken = night.lake.table("broken")
    night.lake.spoil(broken.manifests(broken.append("b"))[0])
    night.lake.run()
    night.vouch(broken.name)
    words = {word.table: word.location for word in night.lake.control.decisions.vouched()}
    assert words[broken.name] == broken.metadata_location
    assert night.finding("purging_held_back") is None
    broken.append("c")
    found = night.finding("purging_held_back")
    assert found is not None and found.object == str(broken.name)


def test_the_doctor_prints_the_line_that_vouches_for_all_and_names_who_did(night: Night) -> None:
    odd = TableName.parse("lake.dark.`it's`")
    night.hide(night.lake.table(str(odd)))
    found = night.finding("purging_held_back")
    assert found is not None and found.level == "error"
    assert """meltline detach 'lake.dark.`it'"'"'s`' lake.dark.t --reason""" in found.fix
    night.vouch(odd)
    assert night.finding("purging_held_back") is None
    told = [f for f in examine(night.lake.services()) if f.code == "table_vouched_for"]
    assert [one.object for one in told] == [str(odd), str(DARK)]
    assert all(REASON in one.message and "tester" in one.message for one in told)
