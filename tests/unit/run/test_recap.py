"""A run says what it did, in words."""

from typing import Any

import pytest

from meltline.app.run.recap import judged, recap
from meltline.app.run.run_document import merge


def line(table: str, **counts: Any) -> dict[str, Any]:
    return {"table": table, **counts}


def test_what_was_done_to_one_table_is_one_sentence_with_its_name() -> None:
    tables = [
        line("lake.air.flights", files_departed=205, bytes_departed=2 * 1024**2),
        *(line(f"lake.air.t{n}", skipped="unreadable") for n in range(3)),
    ]
    assert recap({"tables": tables}) == [
        "205 files, 2.0 MiB of `lake.air.flights` began to wait; 3 tables skipped"
    ]


def test_of_several_tables_the_sum_comes_first_and_each_has_its_sentence() -> None:
    tables = [
        line("lake.a.t", snapshots_expired=3, files_departed=1, bytes_departed=10),
        line("lake.a.u", files_purged=1200, bytes_purged=1024, refused="too much"),
        line("lake.a.v"),
    ]
    assert recap({"tables": tables}) == [
        "3 snapshots of `lake.a.t` expired; 1 file, 10 B of `lake.a.t` began to wait; "
        "1,200 files, 1.0 KiB of `lake.a.u` deleted; 1 table refused",
        "`lake.a.t`: 3 snapshots expired; 1 file, 10 B began to wait",
        "`lake.a.u`: 1,200 files, 1.0 KiB deleted",
    ]


@pytest.mark.parametrize(
    "document, words",
    [
        ({"tables": []}, "nothing was done"),
        ({"tables": [line("lake.a.t")]}, "nothing was done"),
        ({"tables": [line("lake.a.t", failed="gone")]}, "nothing was done; 1 table failed"),
        ({"dry_run": True, "tables": [line("lake.a.t")]}, "a dry run; nothing would be done"),
    ],
)
def test_a_run_that_did_nothing_says_so(document: dict[str, Any], words: str) -> None:
    assert recap(document) == [words]


def test_a_run_over_chunks_says_what_was_dropped_and_what_waits() -> None:
    done = {"commits_followed": 2, "rows_copied": 40, "chunks_tiered": 1, "chunks_dropped": 3}
    waiting = [
        {"table": "lake.a.t", "chunk": f"2026-01-0{day}", "reason": reason, "detail": ""}
        for day, reason in enumerate(["BEHIND", "HELD", "BEHIND"], 1)
    ]
    assert recap(
        {"tables": [line("lake.a.t", **done, bytes_dropped=2048)], "deferred": waiting}
    ) == [
        "2 commits of `lake.a.t` followed by cold; 40 rows of `lake.a.t` copied to cold; "
        "1 chunk of `lake.a.t` proved to be in cold; "
        "3 chunks, 2.0 KiB of `lake.a.t` dropped from hot; 3 chunks wait: 2 BEHIND, 1 HELD"
    ]
    assert recap({"tables": [line("lake.a.t")], "deferred": waiting[:1]}) == [
        "nothing was done; 1 chunk waits: 1 BEHIND"
    ]


def test_a_run_says_how_many_buckets_of_rollups_it_aggregated() -> None:
    assert recap({"tables": [line("lake.a._rollup_hourly", buckets_refreshed=5)]}) == [
        "5 buckets of `lake.a._rollup_hourly` aggregated anew"
    ]


def test_a_run_that_is_not_armed_says_which_chunks_it_would_have_dropped() -> None:
    judged_plan = {
        "kind": "drop_chunks", "table": "lake.a.t", "gate": "passed", "state": "passed",
        "snapshots": 0, "files": 4, "bytes": 2048, "chunks": 3,
    }  # fmt: skip
    counts = {"catalog": "lake", "drops": 0, "orphans": 0, "orphan_bytes": 0}
    document = {"tables": [line("lake.a.t")], "plans": [judged_plan], "not_armed": counts}
    assert recap({**document, "dry_run": False})[0] == (
        "not armed: would have dropped 3 chunks from hot, 4 files (2.0 KiB); "
        "`meltline arm lake --reason TEXT`"
    )


def test_a_dry_run_says_what_would_be_done() -> None:
    plans = [
        {"kind": "expire", "files": 5, "bytes": 2048},
        {"kind": "expire", "files": 2, "bytes": 0},
        {"kind": "purge", "files": 1, "bytes": 7},
    ]
    assert recap({"dry_run": True, "plans": plans}) == [
        "a dry run; 2 plans would expire 7 files, 2.0 KiB; 1 plan would purge 1 file, 7 B"
    ]


def test_a_name_with_backticks_keeps_its_own() -> None:
    assert recap({"tables": [line("lake.a.`it's u`", snapshots_expired=1)]}) == [
        "1 snapshot of lake.a.`it's u` expired"
    ]


def test_a_gate_says_how_many_plans_it_let_pass() -> None:
    plans = [{"gate": "passed"}, {"gate": "passed"}, {"gate": "refused"}, {"gate": "none"}]
    assert judged({"plans": plans}) == "2 plans passed, 1 plan refused"
    assert judged({}) == "no plan was judged"


def test_the_steps_of_a_run_are_told_as_one() -> None:
    steps = [
        {"run_id": "r", "tables": [line("lake.a.t", snapshots_expired=2)]},
        {"run_id": "r", "tables": [line("lake.a.t", files_purged=1, bytes_purged=3)]},
    ]
    assert merge(steps)["recap"] == [
        "2 snapshots of `lake.a.t` expired; 1 file, 3 B of `lake.a.t` deleted"
    ]
