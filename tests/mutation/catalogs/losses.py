"""What a table has lost since it was last seen: commits that vanished, and heads that broke."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

TORN = ("tests/unit/stopping/test_torn_heads.py",)
VANISHED = ("tests/unit/stopping/test_vanished_commits.py",)

LOSSES = (
    Mutation(
        "losses: a commit that vanishes is no incident",
        "app/observe/losses/vanished_commits.py",
        "    if lost:\n",
        "    if lost and not before:\n",
        VANISHED,
    ),
    Mutation(
        "losses: every head that is gone has vanished",
        "app/observe/losses/vanished_commits.py",
        "        if is_left or any(",
        "        if missing or any(",
        VANISHED,
    ),
    Mutation(
        "losses: what a table keeps of a vanished commit is purged like the rest",
        "app/observe/losses/vanished_commits.py",
        "reasons.items() if uuid in stands}",
        "reasons.items() if uuid not in stands}",
        VANISHED,
    ),
    Mutation(
        "losses: a head on a line that a pointer left is not missed",
        "app/observe/losses/vanished_commits.py",
        "        is_left = base is None or snapshot_id not in base.snapshots\n",
        "        is_left = base is None\n",
        VANISHED,
    ),
    Mutation(
        "losses: a branch that was removed has lost its head",
        "app/observe/losses/vanished_commits.py",
        "any(name == MAIN or name in after.refs for name in branches)",
        "bool(branches)",
        VANISHED,
    ),
    Mutation(
        "losses: a commit of a cut log has vanished",
        "app/observe/losses/vanished_commits.py",
        "    return line[shared[-1] :] if shared else []\n",
        "    return line[shared[-1] :] if shared else line\n",
        VANISHED,
    ),
    Mutation(
        "losses: a recovered commit has vanished still",
        "app/drop/recover.py",
        "            end_vanished(context, uuid, snapshot)\n",
        "",
        VANISHED,
    ),
    Mutation(
        "losses: a table whose main still has its snapshot has lost none",
        "app/catalog/metadata.py",
        """*(ref.get("snapshot-id") for ref in refs)}""",
        """*(ref.get("snapshot-id") for ref in [])}""",
        VANISHED,
    ),
    Mutation(
        "losses: what a pointer left is missed after its retention",
        "app/observe/losses/vanished_commits.py",
        "    return drop is not None and not drop.is_restorable(now)\n",
        "    return drop is not None and now < drop.at\n",
        ("tests/unit/drop/test_older_metadata.py",),
    ),
    Mutation(
        "losses: no run names a commit that vanished",
        "app/run/summary.py",
        "_NOTED = (DeletedWhileNamed.__name__, VANISHED, TORN)",
        "_NOTED = (DeletedWhileNamed.__name__, TORN)",
        VANISHED,
    ),
    Mutation(
        "torn: a run looks at no head again",
        "app/observe/losses/torn_heads.py",
        "    torn = torn_heads(_head_files(context, due), due)\n    if torn:",
        "    torn = torn_heads(_head_files(context, due), due)\n    if torn and not due:",
        TORN,
    ),
    Mutation(
        "torn: a run looks at the heads that moved alone",
        "app/observe/losses/torn_heads.py",
        "        if seen[state.uuid, state.name] != state.metadata_location or is_due(state.uuid, now)",
        "        if seen[state.uuid, state.name] != state.metadata_location",
        TORN,
    ),
    Mutation(
        "torn: a head that moved waits for its night",
        "app/observe/losses/torn_heads.py",
        "        if seen[state.uuid, state.name] != state.metadata_location or is_due(state.uuid, now)",
        "        if is_due(state.uuid, now)",
        TORN,
    ),
    Mutation(
        "torn: every head is looked at every night",
        "app/observe/losses/torn_heads.py",
        "    return (crc32(uuid.encode()) + day + day // _NIGHTS) % _NIGHTS == 0\n",
        "    return bool(uuid) or not day\n",
        TORN,
    ),
    Mutation(
        "torn: a shorter manifest is whole",
        "app/observe/losses/torn_heads.py",
        "(stat.file is None or stat.file.bytes < sizes[path])",
        "stat.file is None",
        TORN,
    ),
    Mutation(
        "torn: a shorter list is read as what it is",
        "app/observe/losses/torn_heads.py",
        "        if len(content) < length:\n",
        "        if len(content) < 0:\n",
        TORN,
    ),
    Mutation(
        "torn: a missing list is no matter",
        "app/observe/losses/torn_heads.py",
        "            return {at: length}\n        if",
        "            return {}\n        if",
        TORN,
    ),
    Mutation(
        "torn: what leads back is a head as torn",
        "app/observe/losses/torn_heads.py",
        "        if not files.torn(state.uuid, earlier.snapshots[head]):\n",
        "        if files.torn(state.uuid, earlier.snapshots[head]):\n",
        TORN,
    ),
    Mutation(
        "torn: a head that is whole again is torn still",
        "app/observe/losses/torn_heads.py",
        "lambda incident: incident.id not in torn and incident.table_uuid in over,",
        "lambda incident: incident.table_uuid in ended,",
        TORN,
    ),
    Mutation(
        "torn: the look that plans has not heard of it",
        "app/run/lifecycle.py",
        "observation.tables], before):\n                observation = self.look_anew()\n",
        "observation.tables], before):\n                pass\n",
        TORN,
    ),
)
