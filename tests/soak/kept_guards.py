"""Shows that each guard of `tests.soak.guards` has a kept life that fails without it.

    python -m tests.soak.kept_guards RECORDING

lives a recording again on the package that Python finds first, and prints how it failed. The tests
call it on a copy of the package without the guard.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.lives.recorded import KEPT, failure, read_moves
from tests.mutation.__main__ import broken_checkout
from tests.mutation.mutation import Mutation
from tests.unit.lives.test_kept_lives import LIVES

KEPT_LIVES: Mapping[str, str] = {
    "drops: an observation records nothing":
        "a_run_saw_a_rollback_over_a_drop_before_another_tool_expired_its_history",
    "drops: what cold has is noted anew before it has been brought to what hot has":
        "main_returns_to_a_drop_while_a_copy_without_it_died",
    "cold: a sync is declared to a table that another installation writes":
        "a_copied_lake_declares_a_sync_to_the_cold_of_its_original",
    "chunks: whatever type a column has, cold gets it":
        "a_table_is_replaced_with_other_types_after_chunks_were_dropped",
    "a table whose owner forbids deletions is managed":
        "the_owner_of_a_table_sets_gc_enabled_to_false",
    "gc.enabled=false is always Meltline's own":
        "the_owner_of_a_table_sets_gc_enabled_to_false",
    "the owner's word to Meltline alone does not count":
        "the_owner_of_a_table_forbids_deletions_to_meltline_alone",
    "what waits of a table stays due when its owner forbids deletions":
        "an_owner_forbids_deletions_while_files_of_the_table_wait",
    "a metadata file of another table is an orphan like any other":
        "a_view_of_an_unlisted_catalog_lies_in_the_folder_of_a_table",
    "any table's UUID is known in any folder":
        "a_table_of_an_unlisted_catalog_takes_the_location_of_ours",
    "the log of another format stops no sweep":
        "a_hudi_timeline_names_what_a_table_lets_go",
    "files of Paimon and Lance stop no sweep":
        "another_format_has_its_files_beside_a_tables",
    "a purge asks nobody who else may own what a commit named":
        "a_delta_log_names_what_a_table_lets_go",
    "losses: a commit that vanishes is no incident":
        "an_engine_loses_the_newest_commit_of_a_branch",
    "losses: every head that is gone has vanished":
        "a_branch_ends_by_its_age_with_the_only_snapshot_it_had",
    "losses: what a table keeps of a vanished commit is purged like the rest":
        "a_commit_that_vanished_waits_for_a_person_while_runs_come",
    "an unknown mark of a storage root counts as ours":
        "a_copied_installation_runs_after_its_original",
    "a run that destroys leaves no mark in the storage roots":
        "a_copied_installation_runs_after_its_original",
    "drops: a line that begins later comes from the drop":
        "the_history_of_a_rollback_over_a_drop_expires_before_anybody_looks",
    "drops: a rollback undoes no drop":
        "a_user_empties_a_chunk_that_a_rollback_had_brought_back",
    "drops: the view guesses where nobody can tell":
        "the_history_of_a_rollback_over_a_drop_expires_before_anybody_looks",
    "drops: a pass copies where nobody can tell":
        "the_history_of_a_rollback_over_a_drop_expires_before_anybody_looks",
    "drops: a commit of ours that a replaced main leaves out was never made":
        "main_is_replaced_between_a_drop_and_the_note_of_it",
    "counts: a pass counts on whatever cold has":
        "main_returns_to_a_delete_that_a_person_had_cold_keep",
    "checksums: a pass compares none":
        "others_change_a_row_that_cold_alone_has",
    "cold's upkeep: late files are not recorded":
        "rows_that_came_late_to_a_chunk_dropped_before_the_first_copy_are_copied_once",
    "cold's upkeep: a mixed file counts as what was dropped":
        "cold_still_has_late_rows_of_before_a_rollback_once_its_owner_compacted_it",
    "kept: what came before the delete is not copied first":
        "main_returns_to_a_delete_that_a_person_had_cold_keep",
    "kept: a word that cannot be carried out is recorded":
        "a_word_that_cold_cannot_carry_out_is_not_recorded",
}  # fmt: skip
"""The kept life that fails without each guard."""


def failure_without(guard: Mutation, folder: Path) -> str:
    """Lives a guard's kept life on a copy of the package without it; empty if nothing fails."""
    imports, recording = broken_checkout(guard, folder), KEPT / f"{KEPT_LIVES[guard.name]}.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.kept_guards", str(recording)],
        cwd=folder, env=os.environ | imports,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    print(failure(LIVES[json.loads(path.read_text("utf-8"))["life"]], read_moves(path)))
