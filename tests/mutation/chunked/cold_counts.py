"""Ways in which a change of dropped chunks in cold by others could be missed."""

from tests.mutation.mutation import Mutation

_TESTS = ("tests/unit/chunks/cold/test_cold_counts.py",)

COLD_COUNTS = (
    Mutation(
        "counts: a pass counts on whatever cold has",
        "app/chunks/replication/one_pass.py",
        "require_recorded_rows(context, self.sync, synced, chunks.values(), rows)\n",
        "require_recorded_rows(context, self.sync, synced, (), rows)\n",
        _TESTS,
    ),
    Mutation(
        "counts: a gate counts on whatever cold has",
        "app/chunks/proofs.py",
        "        require_recorded_rows(context, sync, table, chunks, rows)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "counts: all rows are read from whatever cold has",
        "app/chunks/reading/complete_rows.py",
        "_uncompared(sync, compared_rows(sync, cold, dropped))\n",
        "_uncompared(sync, compared_rows(sync, cold, ()))\n",
        _TESTS,
    ),
    Mutation(
        "counts: the doctor counts on whatever cold has",
        "app/chunks/reading/cold_row_findings.py",
        "require_recorded_rows(context, sync, synced, chunks)\n",
        "require_recorded_rows(context, sync, synced, ())\n",
        _TESTS,
    ),
    Mutation(
        "counts: a drop records no rows",
        "app/chunks/drop.py",
        "replace(c, cold_base=base, cold_rows=rows[name], cold_digest=digests.get(name))",
        "replace(c, cold_base=base, cold_digest=digests.get(name))",
        _TESTS,
    ),
    Mutation(
        "counts: drops that were not counted are never counted",
        "app/chunks/replication/one_pass.py",
        "record_rows(context, synced, tracking.table.layout, chunks, rows)\n",
        "record_rows(context, synced, tracking.table.layout, {}, rows)\n",
        _TESTS,
    ),
    Mutation(
        "counts: rows that others have added are late ones",
        "domain/chunks/cold/cold_rows.py",
        "        return self.doubtful if is_doubtful else self.only\n",
        "        return self.late\n",
        _TESTS,
    ),
    Mutation(
        "counts: late rows count as dropped ones",
        "domain/chunks/cold/cold_rows.py",
        "        if is_late:\n            return self.late\n",
        "",
        _TESTS,
    ),
    Mutation(
        "counts: rows that others delete by position still count",
        "domain/chunks/cold/cold_rows.py",
        "            return self.deleted\n",
        "            return Counter[str]()\n",
        _TESTS,
    ),
    Mutation(
        "counts: deletes by condition change nothing",
        "domain/chunks/cold/cold_rows.py",
        "        if name in self.by_condition:\n",
        "        if False:\n",
        _TESTS,
    ),
    Mutation(
        "counts: fewer rows than were dropped are as good",
        "domain/chunks/cold/cold_rows.py",
        "        if least <= drop.rows <= most and not is_more:\n",
        "        if most <= drop.rows:\n",
        _TESTS,
    ),
    Mutation(
        "counts: more rows than were dropped are as good",
        "domain/chunks/cold/cold_rows.py",
        "        if least <= drop.rows <= most and not is_more:\n",
        "        if drop.rows <= most:\n",
        _TESTS,
    ),
    Mutation(
        "counts: what others commit after a pass that died is its own",
        "app/chunks/replication/one_pass.py",
        "        head = synced.left_by(position) or sync.cold_snapshot",
        "        head = synced.state.current_snapshot_id",
        _TESTS,
    ),
    Mutation(
        "counts: cold may have any number of late rows",
        "domain/chunks/cold/cold_rows.py",
        "        is_more = late is not None and most + self.late[name] > drop.rows + late\n",
        "        is_more = False\n",
        _TESTS,
    ),
)
