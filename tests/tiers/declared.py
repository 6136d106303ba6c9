"""Declares the tier of each test file, and which real parts raise the tier of a single case.

`tests/conftest.py` reads it to select tests, `tests/tiers/__main__.py` to run them, and
`tests/tiers/durations.py` to report minutes by tier.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum

TIER_VARIABLE = "MELTLINE_TIER"
"""The tier of a test run. Without it every selected test runs, in the sizes of `make test`."""


class Tier(IntEnum):
    """A tier of tests. Each includes those before it."""

    QUICK = 1
    TEST = 2
    ALL = 3
    NIGHTLY = 4


FILES: Mapping[str, Tier] = {
    "unit": Tier.QUICK,
    "unit/catalog/test_hive_rows.py": Tier.TEST,
    "unit/clone/test_clone_races.py": Tier.TEST,
    "unit/command/test_commands_without_spark.py": Tier.TEST,
    "unit/command/test_demo_processes.py": Tier.TEST,
    "unit/command/test_slips_of_the_pen.py": Tier.TEST,
    "unit/command/test_terminal.py": Tier.TEST,
    "unit/command/test_what_is_loaded.py": Tier.TEST,
    "unit/driver/test_driver.py": Tier.TEST,
    "unit/house/test_gate_reads.py": Tier.TEST,
    "unit/house/test_mutations.py": Tier.TEST,
    "unit/house/test_real_parts.py": Tier.TEST,
    "unit/house/test_soak.py": Tier.TEST,
    "unit/house/test_tiers.py": Tier.TEST,
    "unit/index/test_weighing.py": Tier.TEST,
    "unit/lives": Tier.TEST,
    "unit/lives/test_kept_guards.py": Tier.ALL,
    "unit/manifests/test_avro_datums.py": Tier.TEST,
    "unit/manifests/test_damaged_files.py": Tier.TEST,
    "unit/manifests/test_evidence_reader.py": Tier.TEST,
    "unit/plan/test_busy_tables.py": Tier.TEST,
    "unit/plan/test_growth.py": Tier.TEST,
    "unit/plan/test_refused_plans.py": Tier.TEST,
    "unit/prune/test_cold_prune.py": Tier.TEST,
    "unit/purge/test_crash_protocol.py": Tier.ALL,
    "unit/retention/test_random_keep_sets.py": Tier.TEST,
    "unit/run/test_steps_in_batches.py": Tier.TEST,
    "unit/safety/test_access.py": Tier.TEST,
    "contract": Tier.QUICK,
    "contract/catalogs/test_other_owners.py": Tier.TEST,
    "contract/catalogs/test_rest_registration.py": Tier.TEST,
    "contract/catalogs/test_rest_shares.py": Tier.TEST,
    "contract/catalogs/test_server_probe.py": Tier.TEST,
    "contract/gate": Tier.TEST,
    "contract/ledger/test_control_ledger_locks.py": Tier.TEST,
    "contract/object_store/test_cold_copies.py": Tier.TEST,
    "contract/object_store/test_object_stats.py": Tier.TEST,
    "contract/object_store/test_object_store.py": Tier.TEST,
    "contract/object_store/test_silent_store.py": Tier.ALL,
    "contract/object_store/test_storage_class.py": Tier.TEST,
    "spark": Tier.TEST,
    "spark/archive/test_cold_reading.py": Tier.ALL,
    "spark/chunks/test_chunk_commands.py": Tier.ALL,
    "spark/chunks/test_chunk_rows.py": Tier.NIGHTLY,
    "spark/chunks/test_crashes.py": Tier.ALL,
    "spark/chunks/test_dropper.py": Tier.ALL,
    "spark/chunks/test_file_reader.py": Tier.NIGHTLY,
    "spark/chunks/test_following.py": Tier.ALL,
    "spark/chunks/test_guarded_statements.py": Tier.ALL,
    "spark/chunks/test_guarded_writes.py": Tier.ALL,
    "spark/chunks/test_holes.py": Tier.ALL,
    "spark/chunks/test_matrix.py": Tier.NIGHTLY,
    "spark/chunks/test_parted.py": Tier.ALL,
    "spark/chunks/test_races.py": Tier.ALL,
    "spark/chunks/test_replicator.py": Tier.ALL,
    "spark/chunks/cold/test_unknown_drops.py": Tier.ALL,
    "spark/command/test_lakets_statements.py": Tier.ALL,
    "spark/command/test_secrets.py": Tier.ALL,
    "spark/command/test_session_start.py": Tier.ALL,
    "spark/command/test_sql.py": Tier.ALL,
    "spark/command/test_vacuum.py": Tier.ALL,
    "spark/faults": Tier.ALL,
    "spark/lives/test_demo_chunks.py": Tier.ALL,
    "spark/lives/test_demo_numbers.py": Tier.ALL,
    "spark/lives/test_lines.py": Tier.ALL,
    "spark/lives/test_staging.py": Tier.ALL,
    "spark/rollups/test_outliving.py": Tier.ALL,
    "spark/rollups/test_statements.py": Tier.ALL,
    "spark/tables/test_consumers.py": Tier.ALL,
    "spark/tables/test_edits.py": Tier.ALL,
    "spark/tables/test_letting_go.py": Tier.ALL,
    "spark/tables/test_streaming.py": Tier.ALL,
    "dags": Tier.TEST,
    "dags/approval/test_approved_for_real.py": Tier.ALL,
    "dags/approval/test_asking.py": Tier.ALL,
    "dags/browser": Tier.ALL,
    "dags/chunks/test_days_for_real.py": Tier.ALL,
    "dags/driver/test_killed_driver.py": Tier.ALL,
    "dags/driver/test_killed_scheduler.py": Tier.ALL,
    "dags/test_busy_nights.py": Tier.ALL,
    "dags/test_cold_night.py": Tier.ALL,
    "dags/test_three_ways.py": Tier.ALL,
    "stacks": Tier.ALL,
    "stacks/airflow": Tier.NIGHTLY,
    "stacks/azure": Tier.NIGHTLY,
    "stacks/cluster/test_submitted_steps.py": Tier.NIGHTLY,
    "stacks/cluster/test_worker_kills.py": Tier.NIGHTLY,
    "stacks/gcs": Tier.NIGHTLY,
    "stacks/package/test_extras.py": Tier.NIGHTLY,
    "stacks/postgres/test_database_troubles.py": Tier.NIGHTLY,
    "stacks/rest/test_rest_on_s3.py": Tier.NIGHTLY,
}
"""Files and folders below `tests/`. The longest entry that a path begins with is its tier."""

PARTS: Mapping[str, Tier] = {
    "local": Tier.TEST,
    "s3": Tier.TEST,
    "sqlite": Tier.TEST,
    "rest": Tier.TEST,
    "spark": Tier.TEST,
    "airflow": Tier.TEST,
    "postgres": Tier.ALL,
}
"""Real parts. A case that is marked or parametrized with one, or asks for its server, runs in this
tier or a later one.

Of several parts the last one here names the case.
"""

CONTRACTS_ON_SPARK = Tier.ALL
"""The tier of contract suites on Spark: the chain's own tests run on the same adapters before."""

PROOFS_ON_SPARK = "contract/index/test_proofs.py"
"""The only contract suite on Spark in `make test`: gates rely on what it tests."""

SHARED = ("spark", "airflow", "postgres")
"""Real parts that one xdist worker starts once for all cases that need them."""

PLAIN = "plain"
"""The kind of a case that needs no real part."""


def tier_of_file(path: str) -> Tier:
    """Returns the tier of a test file.

    Args:
        path: The file, below `tests/`.

    Raises:
        KeyError: No entry of `FILES` names it.
    """
    parts = path.split("/")
    for length in range(len(parts), 0, -1):
        if tier := FILES.get("/".join(parts[:length])):
            return tier
    raise KeyError(f"tests/{path} is in no tier: name it in tests/tiers/declared.py")


def part_of(names: Iterable[str]) -> str:
    """Returns the real part that a case needs, from its markers and parameters."""
    found = set(names)
    return next((part for part in reversed(PARTS) if part in found), PLAIN)


def group_of(path: str, part: str) -> str:
    """Returns the xdist group of a case: its shared part, or else its file below `tests/`."""
    return part if part in SHARED else path


def without_group(node_id: str) -> str:
    """Returns a node id without the `@group` that xdist appends to it."""
    end = node_id.rfind("@")
    return node_id[:end] if end > node_id.rfind("]") else node_id


def tier_of_case(path: str, part: str) -> Tier:
    """Returns the tier of one case: that of its file, or a later one for its real part."""
    if part == "spark" and path.startswith("contract/") and path != PROOFS_ON_SPARK:
        return max(tier_of_file(path), CONTRACTS_ON_SPARK)
    return max(tier_of_file(path), PARTS.get(part, Tier.QUICK))


def chosen_tier(environment: Mapping[str, str]) -> Tier | None:
    """Returns the tier of this test run, or None where none was named."""
    name = environment.get(TIER_VARIABLE)
    return Tier[name.upper()] if name else None
