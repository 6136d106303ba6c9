"""Ways to take a drop for in force, or for undone, that nobody has proved."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

LINE = "domain/chunks/main_line.py"
RULE = ("tests/unit/chunks/domain/test_drop_standings.py",)
KEPT = "tests/unit/lives/test_kept_lives.py::test_a_life_that_failed_once_does_not_fail_again"
LAKE = ("tests/unit/chunks/test_unknown_drops.py",)

DROP_STANDINGS = (
    Mutation(
        "drops: a line that begins later comes from the drop",
        LINE,
        "        return drop.standing if self.is_judged else Standing.UNKNOWN\n\n",
        "        return drop.standing\n\n",
        LAKE,
    ),
    Mutation(
        "drops: a rollback undoes no drop",
        LINE,
        "            return Standing.UNDONE\n",
        "            pass\n",
        ("tests/unit/chunks/test_only_copies.py",),
    ),
    Mutation(
        "drops: what cold alone tells of is in force on every line",
        LINE,
        "            return drop.standing if self.is_judged else Standing.UNKNOWN\n",
        "            return Standing.IN_FORCE\n",
        LAKE,
    ),
    Mutation(
        "drops: a commit that left the line needs a number",
        LINE,
        "        if drop.snapshot_id in self.left_behind or self._began_before(drop):\n",
        "        if self._began_before(drop):\n",
        RULE,
    ),
    Mutation(
        "drops: what the history shows is not believed",
        LINE,
        "        if drop.snapshot_id in self.snapshots:\n",
        "        if False:\n",
        RULE,
    ),
    Mutation(
        "drops: an observation records nothing",
        "app/observe/observe.py",
        "    record_drops_of_tables(context, readable)\n",
        "",
        LAKE,
    ),
    Mutation(
        "drops: expirations take the evidence with them",
        "app/gate/expire_evidence.py",
        "() if ended else _text(facts.lost_drops(state, planned))",
        "()",
        LAKE,
    ),
    Mutation(
        "drops: the gate's suite leaves out drop_evidence_lost",
        "gates/suites.py",
        '            _none("drop_evidence_lost", "drops of chunks that nobody could '
        'tell from then on"),\n',
        "",
        LAKE,
    ),
    Mutation(
        "drops: the view guesses where nobody can tell",
        "app/chunks/reading/complete_rows.py",
        "        if doubled:\n",
        "        if False:\n",
        LAKE,
    ),
    Mutation(
        "drops: the view asks though hot has no row",
        "app/chunks/reading/complete_rows.py",
        "        doubled = [name for name in unknown if resident is None or name in resident]\n",
        "        doubled = [*unknown]\n",
        LAKE,
    ),
    Mutation(
        "drops: a pass copies where nobody can tell",
        "app/chunks/replication/one_pass.py",
        "        if unknown := tracking.unknown:\n",
        "        if unknown := list[str]():\n",
        LAKE,
    ),
    Mutation(
        "drops: a chunk that nobody can tell is due",
        "domain/chunks/durability.py",
        "        elif chunk.status is ChunkStatus.UNKNOWN:\n",
        "        elif False:\n",
        ("tests/unit/chunks/domain/test_due_chunks.py",),
    ),
    Mutation(
        "drops: an empty chunk waits for an answer",
        LINE,
        "    return replace(answered(chunk, Standing.IN_FORCE), status=ChunkStatus.DROPPED)\n",
        "    return replace(chunk, status=ChunkStatus.UNKNOWN)\n",
        RULE,
    ),
    Mutation(
        "drops: cold's former count stands where hot had all rows meanwhile",
        LINE,
        "        after = replace(after, rows=None, digest=None)\n",
        "        pass\n",
        RULE,
    ),
    Mutation(
        "drops: what cold has is noted anew before it has been brought to what hot has",
        "app/chunks/tracking.py",
        "replace(drop, rows=None, digest=None) if",
        "replace(drop, base=None, rows=None, digest=None) if",
        ("tests/unit/chunks/test_only_copies.py",),
    ),
    Mutation(
        "drops: an answer is for drops that history tells, too",
        LINE,
        "    if last is None or last.standing is not Standing.UNKNOWN:\n",
        "    if last is None:\n",
        RULE,
    ),
    Mutation(
        "drops: undone is believed of chunks that hot has not back",
        "app/chunks/settle.py",
        "        if answer is DropAnswer.UNDONE and not only:\n",
        "        if False:\n",
        LAKE,
    ),
    Mutation(
        "drops: a commit of ours that a replaced main leaves out was never made",
        LINE,
        "        return (news | left_out) - recorded\n",
        "        return news - recorded\n",
        LAKE,
    ),
    Mutation(
        "drops: a plan that was begun and whose commit has expired was never carried out",
        "app/observe/own_drops.py",
        "            if plan.kind is PlanKind.DROP_CHUNKS and plan.id not in told:\n",
        "            if False:\n",
        LAKE,
    ),
    Mutation(
        "drops: a begun plan is given up before anybody noted that it may have been carried out",
        "app/chunks/drop.py",
        "            tracking_of(context, self.table)  # records the drop before the plan is given up\n",
        "",
        LAKE,
    ),
    Mutation(
        "drops: an observation does not note what a replaced main leaves out",
        "app/observe/drop_evidence.py",
        "    every = {**chunks, **unrecorded.beside(state)}\n",
        "    every = dict(chunks)\n",
        LAKE,
    ),
    Mutation(
        "drops: manifests of a drop that cannot be read end the observation of all tables",
        "app/observe/drop_evidence.py",
        "suppress(LockHeld, CommitConflict, MetadataUnreadable)\n",
        "suppress(LockHeld, CommitConflict)\n",
        LAKE,
    ),
    Mutation(
        "counts: what cold heard of before a rollback is taken for what hot has",
        "app/chunks/tracking.py",
        "spans=0, generation=generation)\n",
        "spans=0)\n",
        (f"{KEPT}[cold_still_has_late_rows_of_before_a_rollback_once_its_owner_compacted_it]",),
    ),
    Mutation(
        "kept: a word that cannot be carried out is recorded",
        "app/chunks/replication/one_pass.py",
        "        deletes = replace(self._keeper, sync=decided).kept(tracking, changes)\n        self._say(decided)\n",
        "        self._say(decided)\n        deletes = replace(self._keeper, sync=decided).kept(tracking, changes)\n",
        (f"{KEPT}[a_word_that_cold_cannot_carry_out_is_not_recorded]",),
    ),
    Mutation(
        "drops: a commit of ours that main left before anybody noted it was never made",
        LINE,
        "            if DROP_PLAN in snapshot.summary and id not in line\n        }\n",
        "            if DROP_PLAN in snapshot.summary and id not in line\n        }\n        beside = {i: of for i, of in beside.items() if of.isdisjoint(line)}\n",
        (f"{KEPT}[main_goes_back_over_a_drop_that_a_dying_run_has_not_noted]",),
    ),
    Mutation(
        "drops: a drop to which main returns is another one",
        "app/chunks/tracking.py",
        "            drops=before.drops if is_noted else (*before.drops, drop),\n",
        "            drops=(*before.drops, drop),\n",
        (f"{KEPT}[main_returns_to_drops_that_a_copy_had_forgotten]",),
    ),
    Mutation(
        "drops: a pass goes on over drops of which nobody has noted what cold had",
        "app/chunks/replication/one_pass.py",
        "        if forgotten := self._keeper.without_base(tracking):\n",
        "        if forgotten := []:\n",
        (f"{KEPT}[main_returns_to_drops_that_a_copy_had_forgotten]",),
    ),
    Mutation(
        "drops: cold's word about an earlier drop than the last is that of a lost ledger",
        "app/chunks/replication/cold_content.py",
        "        return self._told[name] in bases\n",
        "        return self._told[name] in bases[:1]\n",
        (f"{KEPT}[two_drops_of_a_chunk_are_undone_one_after_the_other]",),
    ),
    Mutation(
        "drops: a pass that dies after it forgot a drop does not know cold's word about it",
        "app/chunks/replication/kept_chunks.py",
        "replace(c.without_undone_bases, cold_base=cold.word(c))",
        "c.without_undone_bases",
        (f"{KEPT}[two_drops_of_a_chunk_are_undone_and_the_copy_of_what_is_back_dies]",),
    ),
)  # fmt: skip
