"""The metrics file: the fact that purging has stopped, as monitoring reads it."""

from dataclasses import replace
from pathlib import Path

import pytest

from meltline.app.status.metrics import text_of, write_metrics
from meltline.domain.deletion.withheld import Why, Withheld
from meltline.domain.errors import StoreRefused
from meltline.domain.purging.purge_status import HaltReason, PurgeStatus
from tests.lake.lake import T0, Lake
from tests.unit.status.nightly import NightlyLake


@pytest.fixture
def nightly(tmp_path: Path) -> NightlyLake:
    return NightlyLake(tmp_path / "metrics" / "meltline.prom")


def test_each_night_replaces_the_file_with_what_its_report_found(nightly: NightlyLake) -> None:
    for day in range(1, 25):
        nightly.night(day)
        samples = nightly.samples()
        at = nightly.lake.clock.now().timestamp()
        assert samples["meltline_last_success_timestamp_seconds", ""] == at
        assert {samples["meltline_purge_stopped", str(reason)] for reason in HaltReason} == {0}
        assert samples["meltline_overdue_bytes", ""] == 0
        assert samples["meltline_tables", "live"] == 1
    assert samples["meltline_stage_bytes", "active"] > 0
    assert samples["meltline_stage_bytes", "failsafe"] > 0
    assert [file.name for file in nightly.file.parent.iterdir()] == ["meltline.prom"]
    assert nightly.file.stat().st_mode & 0o777 == 0o644


def test_every_cause_of_a_stop_has_a_sample_so_that_its_alert_ends(nightly: NightlyLake) -> None:
    dark = nightly.lake.table("lake.dark.t")
    content = nightly.lake.spoil(dark.metadata_location)
    nightly.night(1)
    assert nightly.samples()["meltline_purge_stopped", "tables_unread"] == 1
    nightly.lake.mend(dark.metadata_location, content)
    nightly.night(2)
    assert nightly.samples()["meltline_purge_stopped", "tables_unread"] == 0


def test_what_is_held_back_and_what_waits_is_counted(nightly: NightlyLake) -> None:
    nightly.nights(*range(1, 20))
    held = Withheld("sweep", Why.OUTSIDE, "lake.a.t", "s3://b/x", "", files=2, bytes=77)
    nightly.lake.control.places.save_withheld("sweep", [held])
    nightly.lake.limits = replace(nightly.lake.limits, approve_above=0)
    nightly.night(20)
    samples = nightly.samples()
    assert samples["meltline_held_back_bytes", "outside"] == 77
    assert samples["meltline_held_back_bytes", "link"] == 0
    assert samples["meltline_waiting_approvals", ""] == 1


def test_no_table_is_named_in_it(nightly: NightlyLake) -> None:
    nightly.lake.spoil(nightly.lake.table("lake.dark.secret").metadata_location)
    nightly.night(1)
    text = nightly.file.read_text()
    assert "secret" not in text and "busy" not in text


def test_a_run_that_fails_on_its_way_writes_it_too(nightly: NightlyLake) -> None:
    nightly.night(1)
    before = nightly.samples()["meltline_last_success_timestamp_seconds", ""]
    nightly.lake.control.database.set_generation(7)
    nightly.lake.on(2)
    with pytest.raises(Exception, match="generations"):
        nightly.run()
    samples = nightly.samples()
    assert samples["meltline_purge_stopped", "ledger_refused"] == 1
    assert samples["meltline_last_success_timestamp_seconds", ""] == before


def test_a_file_that_cannot_be_written_is_a_note_of_the_run_and_ends_nothing(
    tmp_path: Path,
) -> None:
    blocked = tmp_path / "a file, and no folder"
    blocked.write_text("")
    summary = NightlyLake(blocked / "meltline.prom").night(1)
    assert summary.exit_code == 4
    assert any("metrics file" in note for note in summary.notes)


def test_a_draft_that_cannot_take_the_files_place_leaves_the_file_as_it_was(
    tmp_path: Path,
) -> None:
    with pytest.raises(StoreRefused, match="metrics file"):
        write_metrics(tmp_path, PurgeStatus(T0))


def test_without_a_name_for_it_no_file_is_written(tmp_path: Path) -> None:
    nightly = NightlyLake(tmp_path / "unused.prom", Lake())
    nightly.lake.run()
    assert list(tmp_path.iterdir()) == []


def test_the_same_state_is_the_same_text() -> None:
    status = PurgeStatus(T0, held_back={Why.LINK: 3}, tables={"live": 2})
    assert text_of(status) == text_of(status)
    assert 'meltline_held_back_bytes{reason="link"} 3\n' in text_of(status)
