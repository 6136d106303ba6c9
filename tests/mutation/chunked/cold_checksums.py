"""Ways in which rows that others replace in cold by as many other ones could be missed."""

from tests.mutation.mutation import Mutation

_TESTS = (
    "tests/unit/chunks/cold/test_cold_checksums.py",
    "tests/unit/chunks/domain/test_row_digests.py",
)
_ROWS = "app/chunks/replication/cold_rows.py"
_DIGESTS = "domain/chunks/cold/row_digests.py"

COLD_CHECKSUMS = (
    Mutation(
        "checksums: a drop records none",
        "app/chunks/tracking.py",
        "            digest=before.cold_digest,\n",
        "",
        _TESTS,
    ),
    Mutation(
        "checksums: a pass compares none",
        "app/chunks/replication/one_pass.py",
        "require_recorded_rows(context, self.sync, synced, chunks.values(), rows)\n",
        "require_recorded_rows(context, self.sync, synced, chunks.values())\n",
        _TESTS,
    ),
    Mutation(
        "checksums: a gate compares none",
        "app/chunks/proofs.py",
        "        require_recorded_rows(context, sync, table, chunks, rows)\n",
        "        require_recorded_rows(context, sync, table, chunks)\n",
        _TESTS,
    ),
    Mutation(
        "checksums: what a pass has found stops no reader",
        _ROWS,
        "        if rows is None and sync.reason == COLD_CHANGED:\n",
        "        if False:\n",
        _TESTS,
    ),
    Mutation(
        "checksums: no reader is told what was not compared",
        "app/chunks/reading/complete_rows.py",
        "    if not compared.counted:\n",
        "    if True:\n",
        _TESTS,
    ),
    Mutation(
        "checksums: what was compared is read again by each pass",
        "app/chunks/replication/one_pass.py",
        "            cold_compared=self.compared.after(outcome),\n",
        "",
        _TESTS,
    ),
    Mutation(
        "checksums: what could not be compared is never read",
        _ROWS,
        "return self.upto if outcome is None or self.counted else outcome.snapshot_id\n",
        "return self.upto if outcome is None else outcome.snapshot_id\n",
        _TESTS,
    ),
    Mutation(
        "checksums: a compaction hides what could not be compared",
        _ROWS,
        "    upto = sync.cold_compared if counted else count.synced",
        "    upto = count.synced",
        _TESTS,
    ),
    Mutation(
        "checksums: a commit of replication hides those of others before it",
        _ROWS,
        "            if SYNC_COMMIT not in snapshot.summary:\n                return False\n",
        "            return SYNC_COMMIT in snapshot.summary\n",
        _TESTS,
    ),
    Mutation(
        "checksums: cold with expired snapshots is as replication left it",
        _ROWS,
        "            if SYNC_COMMIT not in snapshot.summary:\n"
        "                return False\n"
        "        return False\n",
        "            if SYNC_COMMIT not in snapshot.summary:\n"
        "                return False\n"
        "        return True\n",
        _TESTS,
    ),
    Mutation(
        "checksums: every chunk is read wherever others have written",
        _ROWS,
        "in digested.items() if names is None or name in names}\n",
        "in digested.items()}\n",
        _TESTS,
    ),
    Mutation(
        "checksums: late rows are added up with dropped ones",
        "domain/chunks/cold/cold_rows.py",
        "return not (self.late[name] or self.doubtful[name] or name in self.mingled)\n",
        "return not (self.doubtful[name] or name in self.mingled)\n",
        _TESTS,
    ),
    Mutation(
        "checksums: what nobody tells apart is compared",
        "domain/chunks/cold/cold_rows.py",
        "        is_apart = name not in self.uncounted and not self.doubtful[name]\n",
        "        is_apart = name not in self.uncounted\n",
        _TESTS,
    ),
    Mutation(
        "checksums: a new generation forgets what was compared",
        "app/chunks/replication/declare.py",
        "        cold_compared=before.cold_compared if cold == before.cold else None,\n",
        "        cold_compared=None,\n",
        _TESTS,
    ),
    Mutation(
        "checksums: what a person accepts keeps its old checksum",
        "app/chunks/cold_overrides.py",
        "dropped[n].with_rows(rows[n], digests.get(n))",
        "dropped[n].with_rows(rows[n], dropped[n].only_copy.digest)",
        _TESTS,
    ),
    Mutation(
        "checksums: what a person accepts waits for the next pass",
        "app/chunks/cold_overrides.py",
        "    if not uncompared:\n",
        "    if False:\n",
        _TESTS,
    ),
    Mutation(
        "checksums: none is recorded for drops that were not counted",
        _ROWS,
        "    digests |= count.digests(rows, _bases(unread), _RECORDED_AT_ONCE)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "checksums: a forced drop waits for cold that cannot be read",
        "app/chunks/drop.py",
        "            if self.force is None:\n                raise\n            return {}\n",
        "            raise\n",
        _TESTS,
    ),
    Mutation(
        "checksums: a column that goes is a change by others",
        _DIGESTS,
        "id in now and _is_date(f) == _is_date(now[id])",
        "id not in now or _is_date(f) == _is_date(now[id])",
        _TESTS,
    ),
    Mutation(
        "checksums: a date that became a time is a change by others",
        _DIGESTS,
        '    return _kind(field) == "date"\n',
        "    return False\n",
        _TESTS,
    ),
    Mutation(
        "checksums: the default of a new column is a change by others",
        _DIGESTS,
        '        field.get("initial-default") is None for field in added\n',
        "        True for field in added\n",
        _TESTS,
    ),
    Mutation(
        "checksums: columns within lists and structs do not count",
        _DIGESTS,
        '            yield from _fields(field["type"])\n',
        "            pass\n",
        _TESTS,
    ),
)
