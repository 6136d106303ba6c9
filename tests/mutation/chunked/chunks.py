"""Ways in which a chunk could leave hot unproved, too young, or with rows that came late."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

DURABLE, DUE, STAMPS = (
    (f"tests/unit/chunks/domain/test_{name}.py",)
    for name in ("durability", "due_chunks", "stamping")
)
GATE = ("tests/unit/chunks/test_drop_gate.py",)
LOOK = "app/chunks/gate.py"
SUITES = "gates/suites.py"
SQL = ("tests/unit/sql/test_lakets_functions.py",)
CALLED = "app/sql/lakets/chunk_functions.py"
DURABILITY = "domain/chunks/durability.py"
CHUNK = "domain/chunks/chunk.py"

RULE = ("tests/unit/chunks/domain/test_complete.py",)
LOOKS = ("tests/unit/chunks/test_complete_rows.py",)
STATEMENTS = ("tests/unit/sql/test_complete_tables.py",)
COMPLETE = "domain/chunks/complete.py"
ROWS = "app/chunks/reading/complete_rows.py"
TABLES = "app/sql/statements.py"

CHUNKS = (
    Mutation(
        "chunks: cold is cut as hot is, however coarsely", "app/chunks/replication/synced_table.py",
        '    shape["default-spec-id"] = separating_spec(shape, layout)\n', "", ("tests/unit/lives/test_kept_lives.py",),
    ),
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
        "    cutoff = policy.drop_after.before(as_of)\n", "    cutoff = (policy.tier_after or policy.drop_after).before(as_of)\n", GATE,
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
        "        if change.snapshot_id not in own_drops:\n", "        if change.snapshot_id:\n", STAMPS,
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
    # --- the gate's facts ------------------------------------------------------------------------
    Mutation(
        "chunks: the gate takes whatever items are stored", LOOK,
        "            plan.digest_of(self.items) == plan.digest and len", "            len", GATE,
    ),
    Mutation(
        "chunks: the gate does not count the items", LOOK,
        " and len(self.items) == plan.files\n", "\n", GATE,
    ),
    Mutation(
        "chunks: what could not be read is forgotten", LOOK,
        "            self.unreadable.append(f\"{error.message}: {error.found}\")\n", "            del error\n", GATE,
    ),
    Mutation(
        "chunks: what could not be read is as good as it can be", LOOK,
        "self._read(self._written_since, everything)", "self._read(self._written_since, [])", GATE,
    ),
    Mutation(
        "chunks: a base that main has left is one", LOOK,
        "        return [] if self._tracking.hot.since(base) is not None and base else [str(base)]\n", "        return [] if base else [str(base)]\n", GATE,
    ),
    Mutation(
        "chunks: what came after the plan removes nothing", "app/chunks/tracking.py",
        "{file.times for file in (*change.added, *change.removed)}", "{file.times for file in change.added}", GATE,
    ),
    Mutation(
        "chunks: the gate does not ask what came after the plan", "app/chunks/tracking.py",
        "    return sorted(touched)\n", "    return sorted(touched)[:0]\n", GATE,
    ),
    Mutation(
        "chunks: nothing was written since a base that main has left", "app/chunks/tracking.py",
        "    if since is None:\n        return sorted(chunks)\n", "    if since is None:\n        return []\n", GATE,
    ),
    Mutation(
        "chunks: a drop does not ask what came after its gate", "app/chunks/drop.py",
        "        if written_since(context.chunk_files, tracking.hot, layout, base, plan.chunks):\n", "        if not layout:\n", GATE,
    ),
    Mutation(
        "chunks: the gate does not ask for holds", LOOK,
        "if self._table.observed.held else []", "if self._table.observed.drop else []", GATE,
    ),
    Mutation(
        "chunks: the gate does not ask how old chunks are", LOOK,
        "        return [c.name for c in self._chunks() if c.end is None or c.end > cutoff]\n", "        return [c.name for c in self._chunks() if not cutoff]\n", GATE,
    ),
    Mutation(
        "chunks: a table without a policy lets all chunks go", LOOK,
        "            return list(self.plan.chunks)\n        cutoff", "            return []\n        cutoff", GATE,
    ),
    Mutation(
        "chunks: force is about all chunks of a table", LOOK,
        "            return [name for name in self.plan.chunks if name not in self.force.chunks]\n", "            return []\n", GATE,
    ),
    Mutation(
        "chunks: the gate lets the latest go", LOOK,
        "        return [name for name in self.plan.chunks if name in latest]\n", "        return [name for name in latest if name is None]\n", GATE,
    ),
    Mutation(
        "chunks: the gate keeps the latest by the clock of another day", LOOK,
        "policy.keep_latest, self.plan.as_of)", "policy.keep_latest, self.plan.as_of.replace(year=9999))", GATE,
    ),
    Mutation(
        "chunks: in the gate an empty chunk is one of the latest", DURABILITY,
        "c.start <= as_of and _has_files(c))", "c.start <= as_of)", GATE,
    ),
    Mutation(
        "chunks: rows without a time may go", LOOK,
        "[c for c in everything if self._end(c) is None]", "[c for c in everything if not c]", GATE,
    ),
    Mutation(
        "chunks: files that live and are not planned are none", LOOK,
        "        return sorted(live ^ {item.path for item in self.items})\n", "        return sorted({item.path for item in self.items} - live)\n", GATE,
    ),
    Mutation(
        "chunks: files that are planned and do not live are none", LOOK,
        "        return sorted(live ^ {item.path for item in self.items})\n", "        return sorted(live - {item.path for item in self.items})\n", GATE,
    ),
    Mutation(
        "chunks: files with rows of other chunks go with a chunk", LOOK,
        "        return sorted(listed.get(SPANNING, ()))\n", "        return sorted(listed.get(\"\", ()))\n", GATE,
    ),
    Mutation(
        "chunks: the gate does not compare positions", LOOK,
        " for d in waiting.values()]\n", " for d in waiting.values() if not d.reason]\n", GATE,
    ),
    Mutation(
        "chunks: the gate does not compare rows", LOOK,
        "if hot_rows.get(n) != cold_rows.get(n)]", "if not (hot_rows or cold_rows)]", GATE,
    ),
    Mutation(
        "chunks: cold that cannot be read has everything", LOOK,
        "            self.cold_unreadable.append(f\"{error.message}: {error.found}\")\n            return list(self.plan.chunks)\n", "            del error\n            return []\n", GATE,
    ),
    Mutation(
        "chunks: cold that does not say what it alone has is read all the same", "app/chunks/proofs.py",
        "            read_dropped(table.state.properties)  # a drop adds to it\n", "            pass\n", GATE,
    ),
    Mutation(
        "chunks: a table that is not synced has its rows in cold", LOOK,
        "        if sync is None:\n            return list(self.plan.chunks)\n", "        if sync is None:\n            return []\n", GATE,
    ),
    Mutation(
        "chunks: however much of a table may go at once", LOOK,
        "        return self.sources.config.chunks.max_drop_share - self.plan.bytes / total\n", "        return 1 - self.plan.bytes / total\n", GATE,
    ),
    Mutation(
        "chunks: what no engine has listed is proved", LOOK,
        "0 if listed is None else len(plan.chunks)", "len(plan.chunks)", GATE,
    ),
    Mutation(
        "chunks: force passes over holds", LOOK,
        "\"planned_held\": self._read(self._held, [str(plan.table)]),", "\"planned_held\": [] if self.force else self._read(self._held, [str(plan.table)]),", GATE,
    ),
    Mutation(
        "chunks: a chunk may go that may be in cold already, or may not", LOOK,
        "if not with_standings(c, line).is_told]", "if not with_standings(c, line)]", GATE,
    ),
    Mutation(
        "chunks: the gate takes the ledger's answer about earlier drops on another line", LOOK,
        "if not with_standings(c, line).is_told]", "if not (c.is_told and line)]", GATE,
    ),
    Mutation(
        "chunks: one chunk of which nobody can tell stops all", LOOK,
        '    "drops_unknown": Deferral.UNKNOWN_DROP,\n', "", GATE,
    ),
    Mutation(
        "chunks: the look of the gate is given ports that write", LOOK,
        "import ReadSources\n", "import ReadContext as ReadSources\n", ("tests/unit/house/test_gate_reads.py",),
    ),
    Mutation(
        "chunks: a port that the gate reads rows by learns to write", "ports/chunks.py",
        "class ChunkRows(Protocol):\n", "class ChunkRows(Protocol):\n    def delete(self) -> None: ...\n\n", ("tests/unit/house/test_gate_reads.py",),
    ),
    Mutation(
        "chunks: the look of the gate gets ports that write, under types that read", "app/services.py",
        "        return replace(_part(ReadSources, self), cold=cold, control=control)\n", "        return self\n", GATE,
    ),
    Mutation(
        "chunks: nobody is gated", LOOK,
        "        return policy is None or is_gated(self._table.sync, policy.type)\n", "        return policy is None\n", GATE,
    ),
    *(
        Mutation(f"chunks: the gate's suite leaves out {fact}", SUITES, f'            _none("{fact}", "{meaning}"),\n', "", GATE)
        for fact, meaning in (
            ("base_lost", "whether main does not come from the planned snapshot any more"),
            ("chunks_written_since", "planned chunks that were written since the plan"),
            ("drops_unknown", "planned chunks that may be in cold already, or may not"),
            ("chunks_young", "planned chunks that no policy allows to drop yet"),
            ("chunks_latest", "planned chunks among the latest that are kept"),
            ("chunks_without_time", "planned chunks that have no range of time"),
            ("files_differ", "files that are planned and not live in the chunks, or not so"),
            ("files_reaching_beyond", "planned files with rows of other chunks"),
            ("not_durable", "planned chunks that are not in cold up to their last write"),
            ("rows_differ", "planned chunks whose rows, nulls or checksum cold has not"),
        )
    ),
    Mutation(
        "chunks: one that differs stops all others", "app/chunks/rounds.py",
        "            if drop.plan.state is not PlanState.REFUSED or not drop.apart or not rest:\n", "            if True:\n",
        ("tests/unit/chunks/test_drop_rounds.py",),
    ),
    Mutation(
        "chunks: a table that cannot be planned anew stops all others", "app/chunks/rounds.py",
        "        except MeltlineError as error:  # stops no other table\n", "        except PlanStale as error:\n",
        ("tests/unit/chunks/test_drop_rounds.py",),
    ),
    Mutation(
        "chunks: nobody hears of a table that cannot be planned anew", "app/chunks/run.py",
        "        for table, error in judged.errors:\n", "        for table, error in judged.errors[:0]:\n",
        ("tests/unit/chunks/test_drop_rounds.py",),
    ),
    Mutation(
        "chunks: what a drop has only prepared counts as dropped", "domain/chunks/chunk.py",
        "        return self.only_copy.base if self.only_copy else None\n", "        return self.cold_base if self.was_dropped else None\n",
        ("tests/unit/chunks/test_only_copies.py",),
    ),
    Mutation(
        "chunks: a lost ledger asks cold for nothing", "app/chunks/replication/one_pass.py",
        "        if unknown := cold.unknown_drops():\n", "        if unknown := dict[str, int]():\n",
        ("tests/unit/chunks/test_only_copies.py",),
    ),
    Mutation(
        "chunks: the ledger does not note what a drop prepares", "app/chunks/drop.py",
        "        if not all(self.context.control.chunks.move(moves)):\n", "        if False:\n",
        ("tests/unit/chunks/test_only_copies.py",),
    ),
    # --- said in SQL -----------------------------------------------------------------------------
    Mutation(
        "lakets: a force that names no chunks is about all of them", "app/chunks/manual_runs.py",
        "    due = due_to_drop(tracking.chunks, table.drop_policy, now, most).due\n", "    due = [c for c in tracking.chunks.values() if c.files][:most]\n", SQL,
    ),
    Mutation(
        "lakets: every call is a forced one", CALLED,
        "    if values[\"p_force\"]:\n", "    if values is not None:\n", SQL,
    ),
    Mutation(
        "lakets: a call that says nothing of force is forced", CALLED,
        "Type.BOOLEAN, default=False)", "Type.BOOLEAN, default=True)", SQL,
    ),
    Mutation(
        "lakets: a force past the age needs no reason", CALLED,
        " for text in values[\"p_chunks\"]), reason)\n", " for text in values[\"p_chunks\"]), reason or \"-\")\n", SQL,
    ),
    Mutation(
        "lakets: chunks that are named without a force are passed over", CALLED,
        "        _require_no_words(values)\n", "        pass\n", SQL,
    ),
    Mutation(
        "lakets: a chunk of another table is taken for one of this", CALLED,
        "    if of != table:\n", "    if not of:\n", SQL,
    ),
    Mutation(
        "lakets: a force is not told by name in the audit", "app/chunks/drop.py",
        "        names = f\": {', '.join(self.plan.chunks)}\" if self.force else \"\"\n", "        names = \"\"\n", SQL,
    ),
)  # fmt: skip

COMPLETE_ROWS = (
    Mutation(
        "all rows: late copies in cold count beside hot's own", COMPLETE,
        "            whole.add(file.path)\n", "            pass\n", RULE,
    ),
    Mutation(
        "all rows: late copies are counted by real code as well", COMPLETE,
        "            whole.add(file.path)\n", "            pass\n", LOOKS,
    ),
    Mutation(
        "all rows: a file of several chunks counts for all of them", COMPLETE,
        "            parts[copies].add(file.path)\n", "            pass\n", RULE,
    ),
    Mutation(
        "all rows: what was dropped is taken for a late copy", "domain/chunks/cold/late_files.py",
        "file.sequence_number > base and file_key", "file.sequence_number >= base and file_key", ("tests/unit/chunks/domain/test_late_files.py",),
    ),
    Mutation(
        "all rows: the first drop says what is late", "domain/chunks/chunk.py",
        "        return drops[-1] if drops else None\n", "        return drops[0] if drops else None\n", RULE,
    ),
    Mutation(
        "all rows: a drop that the ledger has not noted is missed", ROWS,
        "for chunk in news.on(self.hot, line)}\n", "for chunk in ()}\n", LOOKS,
    ),
    Mutation(
        "all rows: a rollback while it looks is not noticed", ROWS,
        "        if not (is_same and _goes_on_from(now, hot)):\n", "        if not is_same:\n", LOOKS,
    ),
    Mutation(
        "all rows: cold is looked at before hot", ROWS,
        "        hot = load_table(context, name)\n        cold, tracked = _cold(context, hot), require_tracked(context, hot)\n",
        "        cold = _cold(context, load_table(context, name))\n        context.control.chunks.of(load_table(context, name).uuid)\n        hot = load_table(context, name)\n        tracked = require_tracked(context, hot)\n", LOOKS,
    ),
    Mutation(
        "all rows: the ledger is read before cold", ROWS,
        "        cold, tracked = _cold(context, hot), require_tracked(context, hot)\n        chunks = context.control.chunks.of(hot.uuid)\n",
        "        chunks = context.control.chunks.of(hot.uuid)\n        cold, tracked = _cold(context, hot), require_tracked(context, hot)\n", LOOKS,
    ),
    Mutation(
        "all rows: cold's word about a drop that the ledger lost is passed over", ROWS,
        "            if chunk is None or chunk.cold_base is None:\n", "            if False:\n", LOOKS,
    ),
    Mutation(
        "all rows: cold that is gone was never there", ROWS,
        "        if sync.committed is None and not any(c.only_copy_base for c in chunks):\n", "        if True:\n", LOOKS,
    ),
    Mutation(
        "all rows: a table of that name is not looked for", TABLES,
        "        return None if table is None or self.is_there(name) else table\n", "        return table\n", STATEMENTS,
    ),
    Mutation(
        "all rows: a statement may write to them", TABLES,
        "        if named.table(write.target) is not None:\n", "        if False:\n", STATEMENTS,
    ),
)  # fmt: skip
