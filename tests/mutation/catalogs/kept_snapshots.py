"""Snapshots that expire though somebody may still read them."""

from tests.mutation.mutation import Mutation

KEEP = ("tests/unit/retention/test_keep_set.py",)
CHAIN = ("tests/unit/plan/test_chain.py",)

KEPT_SNAPSHOTS = (
    Mutation(
        "no grace for readers of what was superseded just now",
        "domain/retention/retained_snapshots.py",
        "        if end is not None and since <= end < request.as_of - request.window:\n",
        "        if end is not None and end < since < end:\n",
        KEEP + CHAIN,
    ),
    Mutation(
        "the gate gives readers no grace",
        "app/gate/expire_evidence.py",
        "        window = max(policy.window, account.reader_grace)\n",
        "        window = policy.window\n",
        CHAIN,
    ),
    Mutation(
        "a snapshot off main counts from where the log begins, though the log names it",
        "domain/retention/snapshot_observations.py",
        "        return max(ends)\n",
        "        return log[0].at\n",
        KEEP,
    ),
    Mutation(
        "a log is kept by its lines alone, though engines read it by its times",
        "domain/retention/retained_snapshots.py",
        "    for log in (request.state.snapshot_log, log_by_time(request.state)):\n",
        "    for log in (request.state.snapshot_log,):\n",
        KEEP,
    ),
)
