"""What must be there in CI: a test that is skipped there fails, save for those that are named here.

A browser, Postgres, Java, a server's jar: elsewhere who has none is told what is missing, and goes
on. In CI a part that is missing would take its tests away without a word.
"""

# ruff: noqa: E501 - tests are named as sentences

from collections.abc import Mapping

_IN_MEMORY = "a ledger in memory reads every manifest wholly"
MAY_BE_SKIPPED: Mapping[str, str] = {
    "test_listing.py::test_what_a_snapshot_added_is_kept_whether_or_not_it_was_recorded_or_has_lost_it_since[memory]": _IN_MEMORY,
    "test_listing.py::test_namesakes_are_found_among_what_snapshots_added[memory]": _IN_MEMORY,
    **{
        f"test_nessie.py::{test}": "run by hand: a jar of 245 MB and another Java"
        for test in (
            "test_nothing_in_the_warehouse_of_a_nessie_goes_and_other_tables_go_on",
            "test_a_probe_finds_a_nessie_out_and_says_where_nothing_may_be_deleted",
        )
    },
    "test_two_names_on_disk.py::test_a_mount_of_its_folder_is_another_name": "needs root",
}
"""Tests, and why a clean machine may skip them."""


def is_ci(environment: Mapping[str, str]) -> bool:
    """Whether this is a run that decides what goes in."""
    return environment.get("CI", "").lower() not in {"", "0", "false"}


def must_run(test: str, environment: Mapping[str, str]) -> bool:
    """Whether a skip of this test is a failure.

    Args:
        test: Its node id.
        environment: Where it runs.
    """
    return is_ci(environment) and not any(test.endswith(name) for name in MAY_BE_SKIPPED)
