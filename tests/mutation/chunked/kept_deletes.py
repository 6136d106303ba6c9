"""Ways to lose or double rows of deletes that cold keeps, and to mirror large ones unasked."""

from tests.mutation.mutation import Mutation

APP = "app/chunks/replication"
PASS = f"{APP}/one_pass.py"
LARGE = f"{APP}/large_deletes.py"
RULE = "domain/chunks/kept_deletes.py"
KEPT = ("tests/unit/chunks/deletes/test_kept_deletes.py",)
COUNTED = ("tests/unit/chunks/deletes/test_large_deletes.py",)

KEPT_DELETES = (
    Mutation(
        "kept: what came before the delete is not copied first",
        PASS,
        "            if before := changes.index(delete.first):\n",
        "            if (before := changes.index(delete.first)) < 0:\n",
        KEPT,
    ),
    Mutation(
        "kept: the base of a chunk that was dropped before stays",
        f"{APP}/kept_chunks.py",
        "                drops=(*earlier, drop),\n",
        "                drops=chunk.drops or (drop,),\n",
        KEPT,
    ),
    Mutation(
        "kept: a person's word is stored at the end alone",
        PASS,
        "            self.context.control.syncs.save(self.sync, now)\n",
        "",
        KEPT,
    ),
    Mutation(
        "kept: a pass that begins anew does not look at the history",
        PASS,
        "        if unseen.is_whole and not self._own.unknown(unseen.changes):\n",
        "        if False:\n",
        COUNTED,
    ),
    Mutation(
        "kept: what nothing shows any more is taken for the moment before",
        f"{APP}/unseen_changes.py",
        "        return self.missing == 1 and not any(",
        "        return not any(",
        KEPT,
    ),
    Mutation(
        "kept: late rows of dropped chunks are no rows of others",
        f"{APP}/cold_content.py",
        "                name in late or (",
        "                (",
        KEPT,
    ),
    Mutation(
        "kept: deletes are kept together whatever came between",
        RULE,
        "        if not together or any(other is None or other & reach for other in written):\n",
        "        if not together:\n",
        ("tests/unit/chunks/domain/test_kept_deletes.py",),
    ),
    Mutation(
        "kept: a delete that leaves rows empties its chunks",
        RULE,
        "all(n in finished or not after[n] for n in touched)",
        "touched",
        ("tests/unit/chunks/domain/test_kept_deletes.py",),
    ),
    Mutation(
        "large deletes: each commit counts alone",
        LARGE,
        "if r.at > since or r is last]",
        "if r is last]",
        COUNTED,
    ),
    Mutation(
        "large deletes: they count together for ever",
        LARGE,
        "if r.at > since or r is last]",
        "]",
        COUNTED,
    ),
    Mutation(
        "large deletes: what was mirrored before is forgotten",
        LARGE,
        "        past, removals = self._mirrored(), self._removals(tracking, changes)\n",
        "        past, removals = list[Removal](), self._removals(tracking, changes)\n",
        COUNTED,
    ),
    Mutation(
        "large deletes: appends hide what was mirrored",
        LARGE,
        "sum(map(self._lost, snapshots)) + _appended(line[before : at + 1])",
        "sum(map(self._lost, snapshots))",
        COUNTED,
    ),
    Mutation(
        "large deletes: a person's word is asked for again",
        LARGE,
        "        begin = max((place[id] for id in decided if id in place), default=-1)\n",
        "        begin = -1\n",
        COUNTED,
    ),
    Mutation(
        "large deletes: keys count, not the rows that they hit",
        LARGE,
        "        if reach.total() <= most * before / 2:\n",
        "        if True:\n",
        COUNTED,
    ),
    Mutation(
        "large deletes: keep brings back what a user deleted",
        LARGE,
        "        word = self.deletes if self._first_large(mirrored) else Deletes.MIRROR\n",
        "        word = self.deletes\n",
        COUNTED,
    ),
    Mutation(
        "large deletes: a vector that stands for another counts both",
        "domain/chunks/replication.py",
        "    return max(0, removed + added)\n",
        "    return max(0, sum(f.rows for f in change.removed) + added)\n",
        COUNTED,
    ),
    Mutation(
        "kept: files that reach into an emptied chunk leave its rows in doubt for ever",
        f"{APP}/kept_chunks.py",
        "sorted(rows.keys() | cold.gone_from_hot(accepted))",
        "sorted(rows.keys())",
        ("tests/unit/chunks/cold/test_maintenance.py",),
    ),
)
