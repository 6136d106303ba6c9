"""Ways in which the table in cold could be another one, or get what it cannot hold."""

from tests.mutation.mutation import Mutation

SYNCED_TABLES = (
    Mutation(
        "chunks: a name in cold that was only declared is free",
        "app/chunks/replication/synced_table.py",
        "    promised = {sync.cold for sync in syncs if sync.table_uuid != hot.state.uuid}\n",
        "    promised = set[TableName]()\n",
        ("tests/unit/chunks/cold/test_cold_tables.py",),
    ),
    Mutation(
        "chunks: whatever type a column has, cold gets it",
        "app/chunks/replication/synced_table.py",
        "    if replaced := other_types(hot, synced) or other_specs(hot, synced):\n",
        "    if replaced := other_specs(hot, synced):\n",
        ("tests/unit/chunks/cold/test_cold_tables.py",),
    ),
    Mutation(
        "chunks: a replaced table goes on with what was dropped of the former one",
        "app/chunks/replication/declare.py",
        "            context.control.chunks.forget(hot.state.uuid)\n",
        "",
        ("tests/unit/chunks/cold/test_cold_tables.py",),
    ),
    Mutation(
        "chunks: a backlog is planned at once, however much of the table it is",
        "app/chunks/plan_drops.py",
        "    if force is not None:\n        return ready, deferred\n",
        "    if force is None:\n        return ready, deferred\n",
        ("tests/unit/chunks/test_drop_rounds.py",),
    ),
)
