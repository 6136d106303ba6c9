"""Ways in which upkeep of cold by its owner could double, lose or bring back rows."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

RECORD = "domain/chunks/cold/late_files.py"
REPLICATION = "domain/chunks/replication.py"
SIDES = "domain/chunks/cold/sides.py"
KEPT = "tests/unit/lives/test_kept_lives.py::test_a_life_that_failed_once_does_not_fail_again"
STAGED = "app/chunks/replication/staged_copy.py"
MIXED = "app/chunks/replication/one_pass.py"
PASS = "app/chunks/replication/one_pass.py"
ROWS = "app/chunks/reading/complete_rows.py"
UPKEEP = ("tests/unit/chunks/cold/test_maintenance.py",)
FILES = ("tests/unit/chunks/domain/test_late_files.py",)

COLD_UPKEEP = (
    Mutation(
        "cold's upkeep: a recorded file that a compaction took is not missed", RECORD,
        "            if any(n > base and key not in keys for key, n in self._of(name).items())\n",
        "            if False\n", UPKEEP,
    ),
    Mutation(
        "cold's upkeep: a file that was dropped with its chunk is missed", RECORD,
        "            if any(n > base and key not in keys for key, n in self._of(name).items())\n",
        "            if any(key not in keys for key, n in self._of(name).items())\n", FILES,
    ),
    Mutation(
        "cold's upkeep: a table without a record has no late rows", RECORD,
        "            return cls(None)\n", "            return cls({})\n", UPKEEP,
    ),
    Mutation(
        "cold's upkeep: what a rollback may make late again is forgotten", RECORD,
        "                if key not in gone and number <= resolved.get(name, number)\n",
        "                if key not in gone and name not in resolved\n", FILES,
    ),
    Mutation(
        "cold's upkeep: mixed files stay missed after they were told apart", RECORD,
        "                if key not in gone and number <= resolved.get(name, number)\n",
        "                if key not in gone\n", UPKEEP,
    ),
    Mutation(
        "cold's upkeep: late files are not recorded", STAGED,
        "                    for name in layout.reached(file.times, self.cold.sides.bases):\n",
        "                    for name in ():\n", UPKEEP,
    ),
    Mutation(
        "cold's upkeep: what cold alone has is recorded as late once separated", STAGED,
        "            if SYNC_DROPPED in snapshot.summary:\n", "            if False:\n", UPKEEP,
    ),
    Mutation(
        "cold's upkeep: rows that were told apart are not proved", STAGED,
        "        if self.request.mixed is not None:\n", "        if False:\n", UPKEEP,
    ),
    Mutation(
        "cold's upkeep: a mixed file counts as what was dropped", SIDES,
        " or not (is_told and is_within) else", " or not is_within else", UPKEEP,
    ),
    Mutation(
        "cold's upkeep: a file that reaches into a resident chunk stays", SIDES,
        " or not (is_told and is_within) else", " or not is_told else", FILES,
    ),
    Mutation(
        "cold's upkeep: late files beside mixed ones are not looked into", REPLICATION,
        "(*mixed, *shared), kept)", "(*mixed,), kept)", FILES,
    ),
    Mutation(
        "cold's upkeep: mixed rows wait until hot changes them", PASS,
        " and not cold.lost:\n", ":\n", UPKEEP,
    ),
    Mutation(
        "cold's upkeep: what a drop took that was rolled back is not late again", MIXED,
        "        return (at, *(parent for parent in parents if parent is not None))\n",
        "        return (at,)\n", UPKEEP,
    ),
    Mutation(
        "cold's upkeep: where history that tells has expired it is guessed", MIXED,
        "        if unknown:\n", "        if False:\n", UPKEEP,
    ),
    Mutation(
        "all rows: mixed rows that hot has changed since are taken from cold", ROWS,
        "        if written:\n", "        if False:\n", UPKEEP,
    ),
    Mutation(
        "all rows: late rows count in hot and in mixed files of cold", ROWS,
        "sides.layout, chunks, copies, lost)\n", "sides.layout, chunks, copies)\n", UPKEEP,
    ),
    Mutation(
        "sides: all that cold has of a dropped chunk is late where no base is noted", SIDES,
        "told.get(chunk.name, EVERYTHING)\n", "told.get(chunk.name, 0)\n", ("tests/unit/chunks/domain/test_complete.py",),
    ),
    Mutation(
        "sides: cold's word about an earlier drop is about the last one, too", SIDES,
        "    return EVERYTHING if any(drop.base == base for drop in chunk.drops) else base\n",
        "    return base\n", (f"{KEPT}[main_returns_to_a_delete_that_a_person_had_cold_keep]",),
    ),
    Mutation(
        "sides: what cold had at an undone drop is the only copy after it got all of hot's rows",
        "app/chunks/replication/one_pass.py",
        "            self._keeper.forget_undone(cold)\n", "",
        (f"{KEPT}[main_returns_to_a_delete_that_a_person_had_cold_keep]",),
    ),
    Mutation(
        "sides: cold alone has rows of chunks whose drops are all undone", "domain/chunks/main_history.py",
        "    status = ChunkStatus.DROPPED if stood.last_drop else ChunkStatus.ACTIVE\n",
        "    status = ChunkStatus.DROPPED if stood.drops else ChunkStatus.ACTIVE\n", ("tests/unit/chunks/domain/test_complete.py",),
    ),
    Mutation(
        "sides: the gate takes rows of a chunk for late ones up to no base", "app/chunks/proofs.py",
        "    late = [f.path for f in live if f.kind is FileKind.DATA and sides.late_chunks(f)]\n",
        "    late = [f.path for f in live if f.kind is FileKind.DATA]\n", ("tests/unit/chunks/test_only_copies.py",),
    ),
)  # fmt: skip
