"""Ways in which a chunk could leave hot unproved, too young, or with rows that came late."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

DURABLE, DUE, STAMPS = (
    (f"tests/unit/chunks/test_{name}.py",) for name in ("durability", "due_chunks", "stamping")
)
DURABILITY = "domain/chunks/durability.py"
CHUNK = "domain/chunks/chunk.py"

CHUNKS = (
    # --- proved by position ----------------------------------------------------------------------
    Mutation(
        "chunks: a table whose sync was stopped passes for a synced one", DURABILITY,
        "    if sync is None or sync.state is SyncState.STOPPED:\n", "    if sync is None:\n", DURABLE,
    ),
    Mutation(
        "chunks: a diverged copy is named like any other failure", DURABILITY,
        "    if sync.state is SyncState.FAILED and sync.reason == Deferral.DIVERGED:\n",
        "    if sync.state is SyncState.FAILED and not sync.reason:\n", DURABLE,
    ),
    Mutation(
        "chunks: whatever replication does, it passes for streaming", DURABILITY,
        "    if sync.state is not SyncState.STREAMING:\n", "    if not sync.state:\n", DURABLE,
    ),
    Mutation(
        "chunks: a first copy that is not verified passes", DURABILITY,
        "    if sync.state is not SyncState.STREAMING:\n", "    if sync.state in (SyncState.FAILED, SyncState.LAGGING):\n", DURABLE,
    ),
    Mutation(
        "chunks: one that lags passes", DURABILITY,
        "    if sync.state is not SyncState.STREAMING:\n", "    if sync.state in (SyncState.FAILED, SyncState.COPYING):\n", DURABLE,
    ),
    Mutation(
        "chunks: replication that was never heard of is heard", DURABILITY,
        "        sync.heartbeat is None\n        or not", "        sync.heartbeat is not None\n        and not", DURABLE,
    ),
    Mutation(
        "chunks: however long ago it was heard of is early enough", DURABILITY,
        " <= oldest + _AHEAD\n", "\n", DURABLE,
    ),
    Mutation(
        "chunks: a heartbeat of tomorrow is heard today", DURABILITY,
        "not timedelta(0) <= now - sync.heartbeat", "not now - sync.heartbeat", DURABLE,
    ),
    Mutation(
        "chunks: two clocks may not differ at all", DURABILITY,
        "_AHEAD = timedelta(minutes=5)", "_AHEAD = timedelta(0)", DURABLE,
    ),
    Mutation(
        "chunks: a chunk that nobody has looked at is written nowhere", DURABILITY,
        "        return Deferred(chunk.name, Deferral.NO_WRITE_POSITION)\n", "        return None\n", DURABLE,
    ),
    Mutation(
        "chunks: what cold has not verified counts", DURABILITY,
        "        return Deferred(chunk.name, Deferral.NOT_STREAMING, \"nothing is verified in cold\")\n", "        return None\n", DURABLE,
    ),
    Mutation(
        "chunks: a position of an older sync compares with one of today", DURABILITY,
        "    if not chunk.generation == sync.generation == sync.committed.generation:\n",
        "    if not sync.generation == sync.committed.generation:\n", DURABLE,
    ),
    Mutation(
        "chunks: what an older sync has committed compares with what this one needs", DURABILITY,
        "    if not chunk.generation == sync.generation == sync.committed.generation:\n",
        "    if not chunk.generation == sync.generation:\n", DURABLE,
    ),
    Mutation(
        "chunks: a chunk passes one commit before its last write is in cold", DURABILITY,
        "    if chunk.last_write > sync.committed.place:\n", "    if chunk.last_write > sync.committed.place + 1:\n", DURABLE,
    ),
    Mutation(
        "chunks: a chunk whose last write is just in cold waits", DURABILITY,
        "    if chunk.last_write > sync.committed.place:\n", "    if chunk.last_write >= sync.committed.place:\n", DURABLE,
    ),
    Mutation(
        "chunks: plain retention of a synced table is not gated", DURABILITY,
        "    return sync is not None or policy is not PolicyType.RETENTION\n",
        "    return policy is not PolicyType.RETENTION\n", DURABLE,
    ),
    Mutation(
        "chunks: tiered retention of a table that is not synced is not gated", DURABILITY,
        "    return sync is not None or policy is not PolicyType.RETENTION\n",
        "    return sync is not None\n", DURABLE,
    ),
    # --- due -------------------------------------------------------------------------------------
    Mutation(
        "chunks: one that ends after the cutoff is old enough", DURABILITY,
        "if c.is_resident and c.end and c.end <= cutoff]", "if c.is_resident and c.start and c.start <= cutoff]", DUE,
    ),
    Mutation(
        "chunks: one that ends at the cutoff waits", DURABILITY,
        "and c.end <= cutoff]", "and c.end < cutoff]", DUE,
    ),
    Mutation(
        "chunks: one that is in cold alone is due", DURABILITY,
        "    resident = [c for c in chunks.values() if c.is_resident and c.end", "    resident = [c for c in chunks.values() if c.end", DUE,
    ),
    Mutation(
        "chunks: the newest come first", DURABILITY,
        "    return sorted(resident, key=lambda chunk: chunk.name)\n", "    return sorted(resident, key=lambda chunk: chunk.name, reverse=True)\n", DUE,
    ),
    Mutation(
        "chunks: age counts for tiering where it is about drops", DURABILITY,
        "    cutoff = policy.drop_after.before(as_of)\n", "    cutoff = (policy.tier_after or policy.drop_after).before(as_of)\n", DUE,
    ),
    Mutation(
        "chunks: the latest are not kept", DURABILITY,
        "        if chunk.name in latest:\n", "        if chunk.name in latest and not chunk.files:\n", DUE,
    ),
    Mutation(
        "chunks: a chunk without rows is one of the latest", DURABILITY,
        "c.start <= as_of and _has_files(c))", "c.start <= as_of)", DUE,
    ),
    Mutation(
        "chunks: a row of a year to come is the latest chunk", DURABILITY,
        "if c.start and c.start <= as_of and _has_files(c))", "if c.start and _has_files(c))", DUE,
    ),
    Mutation(
        "chunks: files that reach into others go with a chunk", DURABILITY,
        "        elif chunk.spans:\n", "        elif chunk.spans and not chunk.files:\n", DUE,
    ),
    Mutation(
        "chunks: one without files is due", DURABILITY,
        "        elif chunk.files:\n            due", "        else:\n            due", DUE,
    ),
    Mutation(
        "chunks: all go at once, however many a run may take", DURABILITY,
        "    return DueChunks(due[:most], deferred)\n", "    return DueChunks(due, deferred)\n", DUE,
    ),
    Mutation(
        "chunks: nobody hears of rows without a time", DURABILITY,
        "(unbounded := chunks.get(UNBOUNDED)) and unbounded.files:", "(unbounded := chunks.get(UNBOUNDED)) and not unbounded.files:", DUE,
    ),
    Mutation(
        "chunks: nobody hears of a chunk that straddles the cutoff", DURABILITY,
        "chunk.start < cutoff < chunk.end and _has_files(chunk):", "chunk.end < cutoff < chunk.start and _has_files(chunk):", DUE,
    ),
    # --- stamps ----------------------------------------------------------------------------------
    Mutation(
        "chunks: a commit does not stamp what it removed", "domain/chunks/layout.py",
        "return chunks_of(layout, (*self.added, *self.removed)) if not", "return chunks_of(layout, self.added) if not", STAMPS,
    ),
    Mutation(
        "chunks: a compaction stamps like a write", "domain/chunks/layout.py",
        "        return self.operation == \"replace\"\n", "        return self.operation == \"rewrite\"\n", STAMPS,
    ),
    Mutation(
        "chunks: a commit of unknown reach stamps none", CHUNK,
        "    for name in sorted(after if touched is None else touched):\n        chunk = after", "    for name in sorted(touched or ()):\n        chunk = after", STAMPS,
    ),
    Mutation(
        "chunks: one that is proved stays so when it is written", CHUNK,
        "        status = ChunkStatus.ACTIVE if self.status is ChunkStatus.TIERED else self.status\n",
        "        status = self.status\n", STAMPS,
    ),
    Mutation(
        "chunks: a write leaves the time of the proof", CHUNK,
        "            tiered_at=None if status is ChunkStatus.ACTIVE else self.tiered_at,\n", "", STAMPS,
    ),
    Mutation(
        "chunks: a write is stamped under the generation before", CHUNK,
        "            generation=generation,\n        )\n\n\ndef new_chunk", "        )\n\n\ndef new_chunk", STAMPS,
    ),
    Mutation(
        "chunks: our own drop stamps the chunks that it drops", CHUNK,
        "        if change.snapshot_id not in dropped_by:\n", "        if change.snapshot_id:\n", STAMPS,
    ),
    Mutation(
        "chunks: rows that come after a drop leave the chunk dropped", CHUNK,
        "            chunk = replace(chunk, status=ChunkStatus.REOPENED)\n", "            pass\n", STAMPS,
    ),
    Mutation(
        "chunks: a file of nobody knows which chunks opens none", CHUNK,
        "(added is None or name in added):", "name in (added or ()):", STAMPS,
    ),
    Mutation(
        "chunks: a delete alone opens a dropped chunk", CHUNK,
        "(file for file in change.added if file.kind is FileKind.DATA))\n    for name in sorted(after", "change.added)\n    for name in sorted(after", STAMPS,
    ),
    Mutation(
        "chunks: deletes are counted as files with rows", CHUNK,
        "            if file.kind is FileKind.DATA:\n                rows, size", "            if file.kind:\n                rows, size", STAMPS,
    ),
    Mutation(
        "chunks: what was removed is still counted", CHUNK,
        "((1, change.added), (-1, change.removed))", "((1, change.added),)", STAMPS,
    ),
    Mutation(
        "chunks: a file of several chunks counts for each as its own", CHUNK,
        "        is_within = names is not None and len(names) == 1\n", "        is_within = names is not None\n", STAMPS,
    ),
    Mutation(
        "chunks: a chunk that comes later knows nothing of files of unknown reach", CHUNK,
        "        if everywhere and everywhere.spans:\n", "        if everywhere and not everywhere.spans:\n", STAMPS,
    ),
)  # fmt: skip
