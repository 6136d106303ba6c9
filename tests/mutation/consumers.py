"""Ways in which what a consumer has still to read could go, or stay for ever."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

KEEP = ("tests/unit/retention/test_keep_set.py",)
BOTH = (*KEEP, "tests/unit/retention/test_consumers.py")
OWN = ("tests/unit/retention/test_consumers.py",)

CONSUMERS = (
    Mutation(
        "consumers: only the snapshot where one stands is kept", "domain/retention/retained_snapshots.py",
        "    yield KeepReason.CONSUMER, still_to_read(request.state, read_to, expired_refs)\n", "", BOTH,
    ),
    Mutation(
        "consumers: the nearest of several counts", "domain/retention/consumers.py",
        "max(places, default=-1)", "min(places, default=-1)", KEEP,
    ),
    Mutation(
        "consumers: main's way on alone is kept", "domain/retention/consumers.py",
        "        if name not in ended:\n", '        if name not in ended and name == "main":\n', BOTH,
    ),
    Mutation(
        "consumers: a branch that goes still leads on", "domain/retention/consumers.py",
        "        if name not in ended:\n", "        if name:\n", KEEP,
    ),
    Mutation(
        "consumers: the whole line is kept, not what comes after", "domain/retention/consumers.py",
        "unread.update(line[: max(places, default=-1) + 1])", "unread.update(line)", BOTH,
    ),
    Mutation(
        "consumers: a tag of ours ends by the table's default", "domain/retention/policy.py",
        "OWN_TAGS = (SHARE_TAG, HOLD_TAG, CONSUMER_TAG, FENCE_TAG)", "OWN_TAGS = (SHARE_TAG, HOLD_TAG)", KEEP,
    ),
    Mutation(
        "consumers: the gate does not look for what lies between", "app/gate/expire_evidence.py",
        "    return needed & set(plan.snapshots)\n", "    return set()\n", OWN,
    ),
    Mutation(
        "consumers: anybody may set one back", "app/retention/consumers.py",
        "    if now is None or reset or state.descends_from(consumer.snapshot_id, now.snapshot_id):\n",
        "    if True:\n", OWN,
    ),
    Mutation(
        "consumers: only the first look keeps one from being set back", "app/retention/consumers.py",
        "        _require_after(state, consumer, reset=reset)\n        pin(", "        pin(", OWN,
    ),
    Mutation(
        "consumers: a new one does not look at what a purge has claimed", "app/retention/consumers.py",
        "with nullcontext() if forward else snapshot_unclaimed(", "with nullcontext() if forward or True else snapshot_unclaimed(",
        (*OWN, "tests/unit/retention/test_holds.py"),
    ),
    Mutation(
        "consumers: its end counts from the snapshot", "domain/iceberg/table_metadata.py",
        "        return max(1, (moment - self.committed_at) // timedelta(milliseconds=1))\n",
        "        return max(1, moment.microsecond)\n", OWN,
    ),
    Mutation(
        "consumers: its own time is forgotten at the next move", "app/retention/consumers.py",
        "    own = expires_after or (None if before is None else before.keep)\n",
        "    own = expires_after\n", OWN,
    ),
    Mutation(
        "consumers: a policy that cannot be read counts the shorter way", "domain/retention/consumers.py",
        "    longest = max([account.consumer_keep, *spans])\n",
        "    longest = min([account.consumer_keep, *spans])\n", OWN,
    ),
    Mutation(
        "consumers: a clone takes its source's with it", "domain/clone/clones.py",
        '"meltline.snapshot-hold.", "meltline.consumer.", _SHARED', '"meltline.snapshot-hold.", _SHARED', OWN,
    ),
)  # fmt: skip
