"""Deleting that stops in silence, or one table's error that ends more than itself."""

from tests.mutation.mutation import Mutation

HEADS = ("tests/unit/plan/test_refused_heads.py",)
UNFINISHED = ("tests/unit/plan/test_unfinished_plans.py",)
CONTRADICTORY = ("tests/unit/plan/test_contradictory_tables.py",)
FAILURES = ("tests/spark/faults/test_engine_failures.py",)

STOPPING = (
    Mutation(
        "stopping: a head that Iceberg refuses is planned like any other",
        "app/observe/open_commits.py",
        "    if why := load_refusal(state):\n",
        '    if why := load_refusal(state) and "":\n',
        HEADS,
    ),
    Mutation(
        "stopping: clocks may not differ at all",
        "domain/iceberg/refused_heads.py",
        "timedelta(minutes=1)",
        "timedelta(minutes=0)",
        HEADS,
    ),
    Mutation(
        "stopping: only the newest head is looked at, and not the log behind it",
        "domain/iceberg/refused_heads.py",
        "pairwise([*times, state.last_updated])",
        "pairwise([*times[-1:], state.last_updated])",
        HEADS,
    ),
    Mutation(
        "stopping: the next run is always said to finish a plan",
        "app/doctor/plan_findings.py",
        "        is_stuck = times > 1\n",
        "        is_stuck = times > 100\n",
        UNFINISHED,
    ),
    Mutation(
        "stopping: what runs met counts, whether or not it was the same",
        "app/doctor/plan_findings.py",
        "    same = list(takewhile(newest.__eq__, told))\n",
        "    same = told\n",
        UNFINISHED,
    ),
    Mutation(
        "stopping: what PySpark makes of Java's exceptions is not caught",
        "adapters/spark/engine_failures.py",
        "ENGINE_FAILURES = (Py4JError, PySparkException)",
        "ENGINE_FAILURES = (Py4JError,)",
        FAILURES,
    ),
    Mutation(
        "stopping: a table that contradicts itself may need any file",
        "app/catalog/management.py",
        "any(row.incomplete and row.status != CONTRADICTORY for row in rows)",
        "any(row.incomplete for row in rows)",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: a list that ends after its header is one that was read",
        "app/observe/ingest.py",
        "            if not reading.manifests:",
        "            if not reading:",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: snapshots of a table with flawed metadata expire",
        "app/observe/open_commits.py",
        "    if state.flaws:\n",
        "    if not state.flaws and state.flaws:\n",
        CONTRADICTORY,
    ),
)
