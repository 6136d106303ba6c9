"""Ways in which what goes on writing, or goes on, could be judged by what it was."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

STREAMS = ("tests/unit/retention/test_writers.py",)
LIVES = ("tests/unit/lives/test_random_lifecycles.py",)

WRITERS = (
    Mutation(
        "writers: their marks keep nothing", "domain/retention/retained_snapshots.py",
        "        (KeepReason.WRITER, chain.from_iterable(walks(state, marks).values())),\n", "", STREAMS,
    ),
    Mutation(
        "writers: the way ends one snapshot before the mark", "domain/retention/writers.py",
        "zip(range(steps), line, strict=False)", "zip(range(steps - 1), line, strict=False)", STREAMS,
    ),
    Mutation(
        "writers: the newest mark of a branch decides", "domain/retention/writers.py",
        "max(mark.steps, longest.get(mark.branch, 0))", "min(mark.steps, longest.get(mark.branch, mark.steps))",
        STREAMS,
    ),
    Mutation(
        "writers: only main is walked", "domain/retention/retained_snapshots.py",
        "    heads = {ref.name: ref.snapshot_id for ref in refs if ref.is_branch}\n    return still_counting",
        "    heads = {ref.name: ref.snapshot_id for ref in refs if ref.name == MAIN}\n    return still_counting",
        STREAMS,
    ),
    Mutation(
        "writers: silent ones count for ever", "domain/retention/writers.py",
        "if mark.seen_at >= as_of - keep)", "if mark.seen_at)", STREAMS,
    ),
    Mutation(
        "writers: a mark exactly as old as writer-keep counts no more", "domain/retention/writers.py",
        "if mark.seen_at >= as_of - keep)", "if mark.seen_at > as_of - keep)", STREAMS,
    ),
    Mutation(
        "writers: a mark without an operator is nobody's", "domain/retention/writers.py",
        "    if FLINK_JOB in keys and FLINK_CHECKPOINT in keys:\n",
        "    if FLINK_JOB in keys and FLINK_OPERATOR in keys:\n", STREAMS,
    ),
    Mutation(
        "writers: of two operators of a job one counts", "domain/retention/writers.py",
        'summary[FLINK_OPERATOR] if FLINK_OPERATOR in keys else ""', '""', STREAMS,
    ),
    Mutation(
        "writers: a mark of all operators does not end the walk of one", "domain/retention/writers.py",
        'if met.isdisjoint((writer, replace(writer, operator=""))):', "if writer not in met:", STREAMS,
    ),
    Mutation(
        "writers: Kafka Connect leaves no marks", "domain/retention/writers.py",
        "        if key.startswith(KAFKA_OFFSETS):\n", "        if key == KAFKA_OFFSETS:\n", STREAMS,
    ),
    Mutation(
        "writers: Spark leaves no marks", "domain/retention/writers.py",
        "    if SPARK_QUERY in keys:\n", "    if SPARK_QUERY not in keys and False:\n", STREAMS,
    ),
    Mutation(
        "writers: the gate does not ask", "app/gate/expire_evidence.py",
        '_text(cut_off(state, planned, plan.refs, writers_since))', "[]", STREAMS,
    ),
    Mutation(
        "writers: the gate passes over a snapshot that is a mark itself", "app/gate/expire_evidence.py",
        "        signs = _signs(snapshot)\n",
        "        signs = set() if snapshot.snapshot_id in planned else _signs(snapshot)\n", STREAMS,
    ),
    Mutation(
        "writers: the gate walks main alone", "app/gate/expire_evidence.py",
        "        line = [] if branch in refs else", "        line = [] if branch != \"main\" else", STREAMS,
    ),
    Mutation(
        "writers: the gate refuses for silent ones", "app/gate/expire_evidence.py",
        "if gaps and snapshot.committed_at >= since and", "if gaps and", STREAMS,
    ),
    Mutation(
        "writers: the policy of the table does not count", "app/catalog/tables.py",
        "            writer_keep=retention.writer_keep,\n", "", STREAMS,
    ),
    Mutation(
        "writers: planner and gate forget them together", "domain/retention/policy.py",
        "        writer_keep=writer_keep,\n", "        writer_keep=timedelta(0),\n", LIVES,
    ),
    Mutation(
        "writers: an odd word about them shortens what is kept", "domain/retention/policy.py",
        "    longest = max([own, default, *spans])\n", "    longest = own\n",
        ("tests/unit/retention/test_policy.py",),
    ),
)  # fmt: skip

BUSY = "tests/unit/plan/test_busy_tables.py"

BUSY_TABLES = (
    Mutation(
        "busy tables: the index is to know what came since the plan", "app/gate/expire_evidence.py",
        "is_newer = by_index is None and head not in base.snapshots", "is_newer = False", (BUSY,),
    ),
    Mutation(
        "busy tables: the index need not know what the plan was made on", "app/gate/expire_evidence.py",
        "by_index is None and head not in base.snapshots", "by_index is None", (BUSY,),
    ),
    Mutation(
        "busy tables: heads of the plan's day are not checked any more", "app/gate/expire_evidence.py",
        " | (self.heads & state.snapshots.keys())", "", (BUSY,),
    ),
    Mutation(
        "busy tables: a plan cannot be judged without its base", "app/gate/expire_evidence.py",
        "            return Base.told_by(plan)\n", "            raise\n", (BUSY,),
    ),
    Mutation(
        "busy tables: a planned snapshot that a new ref reaches is let through", "app/gate/expire_evidence.py",
        "[remaining_refs[sid] for sid in planned & remaining_refs.keys()]", "[]", (BUSY,),
    ),
    Mutation(
        "busy tables: manifest lists that came since the plan are not read", "app/gate/proof.py",
        "            if key not in leaving:\n",
        "            if key not in leaving and key in sources.snapshots.known():\n", (BUSY,),
    ),
    Mutation(
        "busy tables: a metadata file deleted before it is read makes a table unreadable", "app/catalog/metadata.py",
        "_LOOKS = 5", "_LOOKS = 0", (BUSY,),
    ),
    Mutation(
        "busy tables: what moved is checked together again before each commit", "app/expire/expire.py",
        "waiting, anew = [[plan] for plan in conflicts], True",
        "waiting, anew = [conflicts] if conflicts else [], True", (BUSY,),
    ),
)  # fmt: skip
