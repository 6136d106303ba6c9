"""Ways in which what cold should hold could be missed, or go from hot before its copy is there."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

HANDOFF = "tests/unit/archive/test_handoff.py"
COLD = "tests/unit/archive/test_cold.py"
COLD_GATE = "tests/unit/archive/test_cold_gate.py"
COPY_PROOFS = "tests/unit/archive/test_copy_proofs.py"
TURNED = "tests/unit/archive/rewriting/test_turned_manifests.py"
TOGETHER = "tests/unit/archive/test_copies_together.py"
COLD_WITHHELD = "tests/unit/archive/test_cold_withheld.py"

COLD_COPIES = (
    Mutation(
        "history is expired before its copy is there", "app/catalog/tables.py",
        "handoff_pending=frozenset(pending)), retention", "handoff_pending=frozenset()), retention",
        (HANDOFF,),
    ),
    Mutation(
        "a dropped table's main goes while its last state waits for its copy", "domain/retention/retained_snapshots.py",
        "    if ref.snapshot_id in request.handoff_pending:\n", "    if not request.let_go and ref.snapshot_id in request.handoff_pending:\n",
        (HANDOFF,),
    ),
    Mutation(
        "a cut log makes a snapshot forget its first days", "domain/archive/cold.py",
        "    earliest = min(committed, spans[0].start) if committed < log[0].at else spans[0].start\n",
        "    earliest = spans[0].start\n", (COLD,),
    ),
    Mutation(
        "the gate does not miss what cold has not", "app/gate/cold_purge_evidence.py",
        "    facts.missing += [str(sid) for sid in sorted(case.expected - copies.keys())]\n", "    pass\n",
        (COLD_GATE,),
    ),
    Mutation(
        "the gate opens no manifest of cold", "app/gate/cold_purge_evidence.py",
        "    facts.differing += side.copies.differences(list(pairs.values()), warehouse)\n", "    pass\n",
        (COLD_GATE,),
    ),
    Mutation(
        "the gate asks no store for the copies of planned files", "app/gate/cold_purge_evidence.py",
        "            if lacking:  # needed", "            if False:  # needed", (COLD_GATE,),
    ),
    Mutation(
        "before a purge nobody asks what was archived", "app/gate/cold_purge_evidence.py",
        "    facts.missing += [str(sid) for sid in table.archived if sid not in in_cold]\n", "    pass\n",
        (COLD_GATE,),
    ),
    Mutation(
        "the digests of copies are not compared", "app/archive/copy_proofs.py",
        " in pairs if digest != proof.sha256]", " in pairs if not digest]",
        (COPY_PROOFS,),
    ),
    Mutation(
        "only the first three copies are proved", "app/archive/copy_proofs.py",
        "    for copy, stored in shown.items():\n", "    for copy, stored in list(shown.items())[:3]:\n",
        (COPY_PROOFS,),
    ),
    Mutation(
        "nobody asks whether a store shows a copy as it was", "app/archive/copy_proofs.py",
        "        elif not proof.shows(stored.bytes, stored.modified_at, stored.etag):\n", "        elif False:\n",
        (COPY_PROOFS,),
    ),
    Mutation(
        "a digest of the copy alone passes for one of its original", "app/archive/copy_proofs.py",
        "        if proof is None or not proof.from_source:\n", "        if proof is None:\n",
        (COPY_PROOFS,),
    ),
    Mutation(
        "a copy that was lost is not missed", "app/archive/copy_proofs.py",
        "    why = {copy: f\"{copy} has been lost\" for copy in proofs if copy not in shown}\n",
        "    why = dict[str, str]()\n", (COPY_PROOFS,),
    ),
    Mutation(
        "a copy is not read back", "adapters/archive/copies.py",
        "            not self.cold.proves_writes(target)\n            and _digest(", "            False\n            and _digest(",
        (COPY_PROOFS,),
    ),
    Mutation(
        "copies get their names before they are on disk", "adapters/object_store/local_writes.py",
        "        failures = self._synced(drafts)\n", "        failures = dict[str, str]()\n", (TOGETHER,),
    ),
    Mutation(
        "names of copies count before they are on disk", "adapters/object_store/local_writes.py",
        "        return failures | self._synced(drafts)\n", "        return failures\n", (TOGETHER,),
    ),
    Mutation(
        "copies that no disk holds pass for whole", "adapters/archive/copy_tasks.py",
        "        _require(begun.target, \"on disk\", failures.get(begun.target, \"on disk\"))\n", "        pass\n",
        (TOGETHER,),
    ),
    Mutation(
        "a copy on a disk of unknown kind is not synced", "adapters/object_store/local_writes.py",
        "            if not is_joint:\n", "            if together is None:\n", (TOGETHER,),
    ),
    Mutation(
        "what looks like a path passes for one", "adapters/archive/rewriting/turned_manifests.py",
        "        if not found or len(front.translate(None, _CONTINUED)) != self._numbers(record):\n", "        if not found:\n",
        (TURNED,),
    ),
    Mutation(
        "a file that cold has in another length passes for it", "adapters/archive/rewriting/turned_manifests.py",
        " (targets[file.path], file.bytes) not in present\n", " targets[file.path] not in dict(present)\n",
        (TURNED,),
    ),
    Mutation(
        "a path that was written twice passes for its first copy", "adapters/archive/copies.py",
        "        if self.mends and copy and prior and copy.sha256 == prior.sha256:\n",
        "        if copy and prior and copy.sha256 == prior.sha256:\n", (COPY_PROOFS,),
    ),
    Mutation(
        "a lost copy is not looked for where its original is alive", "app/archive/copy_repair.py",
        "    originals |= {original.path: original for original in _absent(context, side, refused)}\n", "",
        (COPY_PROOFS,),
    ),
    Mutation(
        "verify does not compare digests", "app/archive/copy_proofs.py",
        "        elif digest != proof.sha256:\n", "        elif False:\n",
        ("tests/unit/archive/test_cold_verify.py",),
    ),
    Mutation(
        "a broken seal is made anew", "domain/archive/seals.py",
        "        if is_ours and document.is_changed:\n", "        if document.is_changed:\n",
        ("tests/unit/archive/test_cold_verify.py",),
    ),
    Mutation(
        "files of the archive are planned like any others", "app/expire/plan_expiration.py",
        " if not claim_prefix(f.path).startswith(prefixes)]", "]", ("tests/unit/archive/test_cold_commands.py",),
    ),
    Mutation(
        "one copy without a proof keeps all files beside it", "app/purge/plan_purge.py",
        "dict.fromkeys(unproved_of(free), Why.UNPROVED)", "dict[str, Why]()", (COLD_WITHHELD,),
    ),
    Mutation(
        "a copy that only reading shows damaged is found by gates alone", "app/archive/cold_withheld.py",
        "read=owner in doubted", "read=False", (COLD_WITHHELD,),
    ),
    Mutation(
        "a gate holds a new object against the copy of the old one", "app/gate/cold_purge_evidence.py",
        "if path not in replaced]", "]", (COLD_WITHHELD,),
    ),
    Mutation(
        "a gate holds what was swept against the copy of another file", "app/gate/cold_purge_evidence.py",
        "if not objects.is_swept(f.path)]", "]", (COLD_WITHHELD,),
    ),
    Mutation(
        "whatever copies cold has lost, the others may go", "app/gate/cold_purge_evidence.py",
        "        return originals <= {departure.path for departure in waiting if departure.is_on_its_way}\n", "        return True\n",
        (COLD_WITHHELD, "tests/unit/archive/test_copy_proofs.py"),
    ),
)  # fmt: skip
