"""Ways in which the planner, the gate and the purge could be wrong, as edits of their source."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.consumers import CONSUMERS
from tests.mutation.damage import DAMAGE
from tests.mutation.epochs import CLOCKS, EPOCHS
from tests.mutation.identity import IDENTITY
from tests.mutation.mutation import Mutation
from tests.mutation.places import PLACES
from tests.mutation.readers import READERS
from tests.mutation.reasons import REASONS
from tests.mutation.writers import WRITERS

KEEP = "tests/unit/test_keep_set.py"
CHAIN = "tests/unit/test_chain.py"
RACES = "tests/unit/test_races.py"
WRECKS = "tests/unit/test_known_wrecks.py"
GUARDS = "tests/unit/test_guards.py"
RECHECK = "tests/unit/test_recheck.py"
REPLACED = "tests/unit/test_replaced_files.py"
NAMED_LATE = "tests/unit/test_deleted_while_named.py"
HOLDS = "tests/unit/test_holds.py"
LOCATIONS = "tests/unit/test_locations.py"
COMPLETENESS = "tests/unit/test_completeness.py"
LETTING_GO = "tests/unit/test_letting_go.py"
PURGE_OF_DROPPED = "tests/unit/test_purge_of_dropped.py"
EXTERNAL_DROPS = "tests/unit/test_external_drops.py"
GATE_OF_DROPPED = "tests/unit/test_gate_of_dropped.py"
IN_BATCHES = "tests/unit/test_steps_in_batches.py"
HANDOFF = "tests/unit/test_handoff.py"
COLD = "tests/unit/test_cold.py"
COLD_GATE = "tests/unit/test_cold_gate.py"
COPY_PROOFS = "tests/unit/test_copy_proofs.py"
PROOFS = "tests/contract/test_proofs.py"
SETTLING = "tests/contract/test_settling.py"
PROOF_HASHES = "tests/unit/test_proof_hashes.py"
EVIDENCE = "tests/unit/test_evidence_reader.py"
LINES = "tests/unit/test_lines.py"
CHANGES = "tests/unit/test_reading_changes.py"
FRONTS = "tests/unit/test_manifest_fronts.py"
LEFT_BEHIND = "tests/unit/test_left_behind.py"
KEPT_LIVES = "tests/unit/test_kept_lives.py"
ON_SPARK = "tests/spark/test_lines.py"
TABLE = "tests/unit/test_table.py"
FILE_LEDGER = "tests/contract/test_file_ledger.py"
VOUCHING = "tests/unit/test_vouching.py"
COLD_WITHHELD = "tests/unit/test_cold_withheld.py"
WAYS_BACK = "tests/unit/test_ways_back.py"
UNREAD = "tests/unit/test_unread_snapshots.py"
LOCAL_FILES = "tests/contract/test_local_files.py"
BUSY = "tests/unit/test_busy_tables.py"


MUTATIONS = (
    Mutation(
        "no keep reason for what refs point to", "domain/retention/retained_snapshots.py",
        "        keep(ref.snapshot_id, _ref_reason(ref))\n", "        pass\n", (KEEP,),
    ),
    Mutation(
        "the window is forgotten", "domain/retention/retained_snapshots.py",
        "        keep(snapshot_id, KeepReason.WINDOW)\n", "        pass\n", (KEEP, CHAIN),
    ),
    Mutation(
        "a snapshot exactly at the window's start goes", "domain/retention/retained_snapshots.py",
        "end >= request.as_of - request.window", "end > request.as_of - request.window", (KEEP,),
    ),
    Mutation(
        "leases are ignored", "domain/retention/retained_snapshots.py",
        "        keep(snapshot_id, KeepReason.LEASE)\n", "        pass\n", (KEEP, RACES),
    ),
    Mutation(
        "holds are ignored", "domain/retention/retained_snapshots.py",
        "            keep(snapshot_id, KeepReason.HOLD)\n", "            pass\n", (KEEP, HOLDS),
    ),
    Mutation(
        "unmanaged tables expire", "domain/retention/retained_snapshots.py",
        "            keep(snapshot_id, KeepReason.NOT_MANAGED)\n", "            pass\n", (KEEP, CHAIN),
    ),
    Mutation(
        "snapshots wait for no cold copy", "domain/retention/retained_snapshots.py",
        "        keep(snapshot_id, KeepReason.HANDOFF_PENDING)\n", "        pass\n", (KEEP,),
    ),
    Mutation(
        "ancestors that branches keep go", "domain/retention/retained_snapshots.py",
        "        keep(snapshot_id, KeepReason.BRANCH)\n", "        pass\n", (KEEP,),
    ),
    Mutation(
        "a ref goes on the very day of its age", "domain/retention/retained_snapshots.py",
        "if age // timedelta(milliseconds=1) > limit:", "if age // timedelta(milliseconds=1) >= limit:",
        (KEEP,),
    ),
    Mutation(
        "a table's default ends shares and holds", "domain/retention/retained_snapshots.py",
        "            continue  # ours, and held until somebody lets go; a table default does not end it\n",
        "            pass\n", (KEEP,),
    ),
    Mutation(
        "the earliest end of several lines counts", "domain/retention/retained_snapshots.py",
        "latest[snapshot_id] = max(ends.get(snapshot_id) or [request.as_of])",
        "latest[snapshot_id] = min(ends.get(snapshot_id) or [request.as_of])", (KEEP,),
    ),
    Mutation(
        "entries with status DELETED keep files", "testing/file_tables.py",
        "return [entry for entry in self.entries if entry.status is not EntryStatus.DELETED]",
        "return list(self.entries)", (CHAIN, WRECKS),
    ),
    Mutation(
        "live entries are taken for deleted", "adapters/manifests/fastavro_reader.py",
        "return [file.path for file in entries if file.status != EntryStatus.DELETED]",
        "return [file.path for file in entries if file.status == EntryStatus.DELETED]", (RACES,),
    ),
    Mutation(
        "other tables of the group are not looked at", "app/expire/plan_expiration.py",
        "    return Neighbourhood(frozenset(leaving).union(*members), frozenset(linear))",
        "    return Neighbourhood(frozenset(leaving), frozenset(leaving))", (GUARDS, CHAIN, WRECKS),
    ),
    Mutation(
        "history is taken to be linear when it is not", "domain/iceberg/table_metadata.py",
        "        return len(line) == len(self.snapshots) and grows", "        return True",
        ("tests/unit/test_table.py",),
    ),
    Mutation(
        "a second registration keeps nothing", "app/expire/plan_expiration.py",
        "                stays.update(SnapshotKey(uuid, sid) for sid in table.state.snapshots)\n",
        "                pass\n", (CHAIN,),
    ),
    Mutation(
        "what the planner keeps does not stay", "app/expire/plan_expiration.py",
        "    leaving = (expired | vanished) - stays\n", "    leaving = expired | vanished\n", (CHAIN,),
    ),
    Mutation(
        "snapshots that others expired never depart", "app/expire/plan_expiration.py",
        "    leaving = (expired | vanished) - stays\n", "    leaving = expired - stays\n", (WRECKS, CHAIN),
    ),
    Mutation(
        "files of nobody are planned", "app/expire/plan_expiration.py",
        "        if owner is None or is_odd(file.path) or hands_off.intersection(owners):",
        "        owner = owner or next(iter(managed))\n        if is_odd(file.path):",
        (GUARDS, CHAIN, HOLDS),
    ),
    Mutation(
        "the plan's ids are not checked again before the commit", "app/expire/expire_commits.py",
        "        for refuse in (self._invalid, self._without_gate):\n",
        "        for refuse in (self._without_gate,):\n", (RACES,),
    ),
    Mutation(
        "an expiration needs no gate", "app/expire/expire_commits.py",
        "        for refuse in (self._invalid, self._without_gate):\n",
        "        for refuse in (self._invalid,):\n", (RACES,),
    ),
    Mutation(
        "a purge needs no gate", "app/purge/purge.py",
        "        refused = altered(plan, job.files) or not_passed(plan, verdict, self.services.clock.now())\n",
        "        refused = altered(plan, job.files)\n", (GUARDS, RACES),
    ),
    Mutation(
        "altered plan items are carried out", "app/purge/purge.py",
        "        refused = altered(plan, job.files) or not_passed(plan, verdict, self.services.clock.now())\n",
        "        refused = not_passed(plan, verdict, self.services.clock.now())\n", (GUARDS, RACES),
    ),
    Mutation(
        "a purge goes on when its gate has ended", "app/purge/purge.py",
        "            refused = not_passed(job.plan, verdicts.get(plan), now)\n",
        "            refused = None\n", (GUARDS, RACES),
    ),
    Mutation(
        "a purge goes on under a lock that was lost", "app/purge/purge_batches.py",
        "                if job.lock is not None and job.lock in lost:\n"
        "                    raise lost[job.lock]\n", "", (GUARDS, RACES),
    ),
    Mutation(
        "the second proof is forgotten", "app/purge/purge_batches.py",
        "        needed = self._prove([file.path for _, file in items])\n",
        "        needed: set[str] = set()\n", (GUARDS, RACES),
    ),
    Mutation(
        "what lies under a waiting path may have any size", "domain/deletion/departed.py",
        "        if self.bytes and size != self.bytes:\n", "        if False:\n", (REPLACED,),
    ),
    Mutation(
        "what lies under a waiting path may have been written later", "domain/deletion/departed.py",
        "        if modified_at > self.unmodified_since:\n", "        if False:\n", (REPLACED,),
    ),
    Mutation(
        "the store's clock is never behind", "app/safety/departed_objects.py",
        "        behind = timedelta(0) if self.services.config.sandbox else CLOCK_TOLERANCE\n",
        "        behind = timedelta(0)\n", (REPLACED,),
    ),
    Mutation(
        "a delete does not look before", "adapters/object_store/deleter.py",
        "    return DeleteOutcome(file.path, replaced=replaced) if replaced else None\n",
        "    return None\n", (REPLACED,),
    ),
    Mutation(
        "what was replaced goes on waiting", "app/purge/purge.py",
        "            *next_departures(job.replaced, DepartureState.DELETED, before, now),\n", "", (REPLACED,),
    ),
    Mutation(
        "nobody looks after the last deletes", "app/purge/purge.py",
        "            look_back.look()\n", "", (NAMED_LATE,),
    ),
    Mutation(
        "the next files' proof is no look at those before", "app/purge/purge_batches.py",
        "        self.look_back.judge()\n        return needed\n",
        "        self.look_back._deleted.clear()\n        return needed\n", (NAMED_LATE,),
    ),
    Mutation(
        "what a killed purge has hit is never looked for", "app/purge/look_back.py",
        "    for plan in applying:\n", "    for plan in ():\n", (NAMED_LATE,),
    ),
    Mutation(
        "an incident does not stop its group", "app/purge/purge_batches.py",
        "            batch.of.error = batch.of.error or self.look_back.stopped.get(batch.of.group)\n",
        "", (NAMED_LATE,),
    ),
    Mutation(
        "a hold or a lost lock stops no table of a wave", "app/purge/purge_batches.py",
        "            if batch.of.error is not None:\n                continue\n", "", (GUARDS, HOLDS),
    ),
    Mutation(
        "the second proof sees no new commits", "app/purge/recheck.py",
        "                self._look_at(pointer)\n", "                pass\n", (RACES,),
    ),
    Mutation(
        "failsafe does not count", "app/purge/plan_purge.py",
        "frozenset({DepartureState.FAILSAFE}), due_by=now)", "frozenset({DepartureState.FAILSAFE}))",
        (CHAIN,),
    ),
    Mutation(
        "what is referred to again is not taken back", "app/observe/ingest.py",
        "    _take_back(services, records, outcomes.keys())\n", "", (WRECKS,),
    ),
    Mutation(
        "counts of a manifest are not checked",
        "adapters/manifests/fastavro_reader.py",
        "        if count is not None and count != counted[status]:",
        "        if False:",
        (
            "tests/contract/test_file_ledger.py::test_one_bad_manifest_among_good_ones_has_its_own_outcome_and_leaves_no_row[memory]",
        ),
    ),
    Mutation(
        "a front is believed whatever the length of its manifest", "adapters/manifests/fastavro_reader.py",
        "    if manifest.bytes and front.bytes != manifest.bytes:", "    if False:", (FRONTS,),
    ),
    Mutation(
        "changes that a front lacks are missed", "adapters/manifests/fastavro_reader.py",
        """    for status, count in missing.items():
        if count:""",
        """    for status, count in missing.items():
        if False:""",
        (FRONTS,),
    ),
    Mutation(
        "a snapshot's totals are not checked", "domain/iceberg/completeness.py",
        "        if int(raw) != count:", "        if False:", (COMPLETENESS,),
    ),
    Mutation(
        "a prefix owns its sibling's files", "domain/iceberg/locations.py",
        '    return root + "".join(f"{part}/" for part in parts)',
        '    return root + "/".join(parts)', (LOCATIONS,),
    ),
    Mutation(
        "a head that moved elsewhere goes unnoticed", "domain/deletion/recheck.py",
        "        elif now is None or not state.descends_from(now.snapshot_id, head):",
        "        elif False:", (RECHECK,),
    ),
    Mutation(
        "a stop does not hold back commits", "app/expire/expire_commits.py",
        "            require_go(self.services)\n            self.services.control.locks.check(",
        "            self.services.control.locks.check(", (GUARDS, RACES),
    ),
    Mutation(
        "a dropped table goes before its time", "app/catalog/tables.py",
        "table.drop.is_over(as_of) and uuid not in busy", "uuid not in busy", (LETTING_GO,),
    ),
    Mutation(
        "the planner lets go what somebody reads or wants back", "app/catalog/tables.py",
        "table.drop.is_over(as_of) and uuid not in busy", "table.drop.is_over(as_of)",
        (LETTING_GO,),
    ),
    Mutation(
        "the gate takes the plan's date for the time", "app/gate/expired_drops.py",
        "drop.is_over(min(plan.as_of, now))", "drop.is_over(plan.as_of)", (GATE_OF_DROPPED,),
    ),
    Mutation(
        "the gate lets go what only says that it was dropped", "app/gate/expired_drops.py",
        " or not is_dropped_name(state.name.namespace)", "", (GATE_OF_DROPPED,),
    ),
    Mutation(
        "the gate lets go what the catalog does not list", "app/gate/expired_drops.py",
        "    if listing.of(state.name) != CatalogEntry(state.name, state.metadata_location):",
        "    if False:", (GATE_OF_DROPPED,),
    ),
    Mutation(
        "the gate forgets a hold on a dropped table", "app/gate/expired_drops.py",
        "    return not held and ", "    return ", (GATE_OF_DROPPED,),
    ),
    Mutation(
        "the gate forgets who reads a dropped table", "app/gate/expired_drops.py",
        " and state.uuid not in busy", "", (GATE_OF_DROPPED,),
    ),
    Mutation(
        "the gate takes the ledger's word that a table was let go", "app/catalog/dropped.py",
        "    if drop is None or not is_dropped_name(state.name.namespace):\n        return False\n    return drop.is_over(now) and not state.snapshots and not state.refs",
        "    return True", (LETTING_GO,),
    ),
    Mutation(
        "a registration goes while files of its table wait", "app/drop/finalize.py",
        "            plan.id in waiting or plan.state is PlanState.APPLYING\n", "            plan.state is PlanState.APPLYING\n",
        (LETTING_GO,),
    ),
    Mutation(
        "a table is let go although a person holds everything back", "app/drop/finalize.py",
        "    if services.control.switch.stopped() is None:", "    if True:", (PURGE_OF_DROPPED,),
    ),
    Mutation(
        "of several last states one is believed", "app/drop/external_drops.py",
        "    if len(candidates) != 1:", "    if not candidates:", (EXTERNAL_DROPS,),
    ),
    Mutation(
        "a table counts as dropped while a catalog cannot be listed", "app/drop/finalize.py",
        "    if observation.purge_blocked:", "    if False:", (EXTERNAL_DROPS,),
    ),
    Mutation(
        "a dropped table is let go before its killed expiration is recorded", "app/drop/finalize.py",
        "            plan.id in waiting or plan.state is PlanState.APPLYING\n", "            plan.id in waiting\n", (KEPT_LIVES,),
    ),
    Mutation(
        "an app works on the plans of all batches", "app/run/run_plans.py",
        "if batches[plan.id] == batch]", "]", (IN_BATCHES,),
    ),
    Mutation(
        "tables that share files come into two batches", "domain/deletion/batches.py",
        "        key = groups.key(plan.table_uuid)\n        if key not in placed:",
        "        key = plan.table_uuid\n        if key not in placed:",
        (IN_BATCHES, "tests/unit/test_batches.py"),
    ),
    Mutation(
        "history is expired before its copy is there", "app/catalog/tables.py",
        "handoff_pending=frozenset(pending)), retention", "handoff_pending=frozenset()), retention",
        (HANDOFF,),
    ),
    Mutation(
        "a dropped table's main goes while its last state waits for its copy", "domain/retention/retained_snapshots.py",
        "            if ref.snapshot_id not in request.handoff_pending:\n", "            if True:\n",
        (HANDOFF,),
    ),
    Mutation(
        "a cut log makes a snapshot forget its first days", "domain/archive/cold.py",
        "    earliest = min(committed, spans[0].start) if committed < log[0].at else spans[0].start\n",
        "    earliest = spans[0].start\n", (COLD,),
    ),
    Mutation(
        "the gate does not miss what cold has not", "app/gate/cold_evidence.py",
        "    facts.missing += [str(sid) for sid in sorted(case.expected - copies.keys())]\n", "    pass\n",
        (COLD_GATE,),
    ),
    Mutation(
        "the gate opens no manifest of cold", "app/gate/cold_evidence.py",
        "    facts.differing += side.copies.differences(list(pairs.values()), warehouse)\n", "    pass\n",
        (COLD_GATE,),
    ),
    Mutation(
        "the gate asks no store for the copies of planned files", "app/gate/cold_evidence.py",
        "            if lacking:  # needed", "            if False:  # needed", (COLD_GATE,),
    ),
    Mutation(
        "before a purge nobody asks what was archived", "app/gate/cold_purge_evidence.py",
        "    facts.missing += [str(sid) for sid in table.archived if sid not in in_cold]\n", "    pass\n",
        (COLD_GATE,),
    ),
    Mutation(
        "the digests of copies are not compared", "app/archive/copy_proofs.py",
        "        if digest != proof.sha256:\n            why[", "        if False:\n            why[",
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
        "        if not self.cold.proves_writes(target) and self._digest(self.cold, target) != sent:\n",
        "        if False:\n", (COPY_PROOFS,),
    ),
    Mutation(
        "a path that was written twice passes for its first copy", "adapters/archive/copies.py",
        "        if copy is not None and is_known and self.mends:\n",
        "        if copy is not None and is_known:\n", (COPY_PROOFS,),
    ),
    Mutation(
        "a lost copy is not looked for where its original is alive", "app/archive/cold_mending.py",
        "        originals |= {original.path: original for original in _absent(services, side, refused)}\n", "",
        (COPY_PROOFS,),
    ),
    Mutation(
        "verify does not compare digests", "app/archive/copy_proofs.py",
        "        elif digest != proof.sha256:\n", "        elif False:\n",
        ("tests/unit/test_cold_verify.py",),
    ),
    Mutation(
        "a broken seal is made anew", "domain/archive/seals.py",
        "        if is_ours and document.is_changed:\n", "        if document.is_changed:\n",
        ("tests/unit/test_cold_verify.py",),
    ),
    Mutation(
        "files of the archive are planned like any others", "app/expire/plan_expiration.py",
        "if not _lies_in(file.path, archive)]", "]", ("tests/unit/test_cold_commands.py",),
    ),
    Mutation(
        "what a step of a line added goes when the step is set aside",
        "adapters/file_index/entries.py",
        "pa.concat_tables([standing.select(steps), settled])", "standing.select(steps)",
        (SETTLING,),
    ),
    Mutation(
        "a departure is set aside while its snapshot is still known",
        "adapters/file_index/history_tables.py",
        '        self._move("snapshots", _keys(lists), named="list_hash")\n', "", (SETTLING,),
    ),
    Mutation(
        "files of a plan under way are set aside", "adapters/index_tables/tombstone_cache.py",
        "pc.and_(pc.and_(early, deleted), finished)", "pc.and_(early, deleted)", (SETTLING,),
    ),
    Mutation(
        "what departed again meanwhile is taken away", "adapters/file_index/history_tables.py",
        "_keys(_without(over.hashes, tips)), until=newest)", "_keys(_without(over.hashes, tips)))",
        (SETTLING,),
    ),
    Mutation(
        "what another process moves is moved with it", "adapters/file_index/history_tables.py",
        'WHERE going.move = :move"', 'WHERE :move IS NOT NULL"', (SETTLING,),
    ),
    Mutation(
        "what a faster run leaves of a purge waits for the next night", "app/run/judgement.py",
        "[*overtaken, *_plan_what_is_left(services, overtaken), *remaining]", "[*overtaken, *remaining]",
        ("tests/unit/test_races.py",),
    ),
    Mutation(
        "a purge that is overtaken while it is judged is refused", "app/run/judgement.py",
        "    overtaken += end_overtaken(services, refused)\n", "", ("tests/unit/test_races.py",),
    ),
    Mutation(
        "a file that the oldest snapshot refers to is set aside", "adapters/file_index/history_tables.py",
        'pc.less_equal(spans.column("until"), first)', 'pc.less_equal(spans.column("until"), pc.add(first, 1))',
        (SETTLING,),
    ),
    Mutation(
        "a removal that was never recorded sets a file aside", "adapters/file_index/history_tables.py",
        'self._snapshots.spans(self._tables.look("changes", REACH, removed))', 'self._tables.look("changes", REACH, removed)',
        (SETTLING,),
    ),
    Mutation(
        "one vector of a file is set aside with another", "adapters/file_index/history_tables.py",
        '("table_uuid", "key_hash", "part", "since")', '("table_uuid", "key_hash", "since")',
        (SETTLING,),
    ),
    Mutation(
        "what came back is set aside with what had gone", "adapters/file_index/history_tables.py",
        '("table_uuid", "key_hash", "part", "since")', '("table_uuid", "key_hash", "part")',
        (SETTLING,),
    ),
    Mutation(
        "damaged hashes of a proof are believed", "adapters/proofs/hash_sets.py",
        'rows.filter(pc.equal(rows["fingerprint"], pa.array(prints)))', "rows", (PROOF_HASHES,),
    ),
    Mutation(
        "a proof with fewer hashes than files is believed", "adapters/proofs/hash_sets.py",
        'rows.filter(pc.equal(lengths, pc.multiply(rows["live_files"], _WIDTH)))',
        "rows.filter(pc.is_valid(lengths))", (PROOF_HASHES,),
    ),
    Mutation(
        "what a gate read before is not asked for planned files", "adapters/proofs/proof_reader.py",
        "{path: sound[key_hash(path)] for path in covered}", "{path: () for path in covered}",
        (f"{PROOFS}::test_a_planned_file_is_found_though_the_index_knows_nothing",),
    ),
    Mutation(
        "a manifest of another length counts as read", "adapters/proofs/proof_reader.py",
        "    return (proof.path, proof.bytes) == (manifest.path, manifest.bytes)\n",
        "    return proof.path == manifest.path\n",
        (f"{PROOFS}::test_a_manifest_of_another_length_than_its_list_says_is_read",),
    ),
    Mutation(
        "two readings of one file may disagree", "adapters/proofs/proof_cache.py",
        "            if not agrees:\n", "            if False:\n",
        (f"{PROOFS}::test_a_full_proof_finds_a_manifest_replaced_by_one_of_the_same_length",),
    ),
    Mutation(
        "a block of a manifest may end before its entries do", "adapters/manifests/pyiceberg_blocks.py",
        "        if decoder.tell() != len(block):\n", "        if False:\n", (EVIDENCE,),
    ),
    Mutation(
        "the gate takes removed files for alive", "adapters/manifests/pyiceberg_reader.py",
        "            if status != _DELETED:\n", "            if True:\n", (EVIDENCE,),
    ),
    Mutation(
        "a line goes on though its counts do not add up", "domain/iceberg/linear_history.py",
        "    return all(\n        _live(after", "    return True or all(\n        _live(after", (LINES,),
    ),
    Mutation(
        "a line goes on over manifests that others wrote", "domain/iceberg/linear_history.py",
        "    if not own or child", "    if child", (LINES,),
    ),
    Mutation(
        "a line begins with files that nobody has counted", "domain/iceberg/linear_history.py",
        "if first is None or not all(_is_counted(manifest) for manifest in first):",
        "if first is None:", (LINES,),
    ),
    Mutation(
        "changes that could not be read count as read", "app/observe/ingest.py",
        "changed | wholly | failed", "changed | wholly", (CHANGES,),
    ),
    Mutation(
        "what a run that died left behind counts", "adapters/index_tables/lifetimes.py",
        "changes.filter(_are_recorded(changes, recorded))", "changes", (LINES,),
    ),
    Mutation(
        "a file goes with the first of its deletion vectors", "adapters/index_tables/lifetimes.py",
        '_SPAN = ("table_uuid", "key_hash", "part", "since")',
        '_SPAN = ("table_uuid", "key_hash", "since")', (LINES,),
    ),
    Mutation(
        "a file is still there in the snapshot that removes it", "adapters/index_tables/lifetimes.py",
        'ends = pc.coalesce(spans["until"], _NUMBERS - 1)',
        'ends = pc.add(pc.coalesce(spans["until"], _NUMBERS - 2), 1)', (LINES,),
    ),
    Mutation(
        "another table's snapshots keep and free files", "adapters/index_tables/lifetimes.py",
        "pc.add(pc.multiply(codes, _NUMBERS), numbers)", "numbers", (LINES,),
    ),
    Mutation(
        "what stays on a line keeps nothing", "adapters/file_index/file_index.py",
        "        kept = self._on_lines(hashes, split.staying, floor)\n", "        kept = set[int]()\n", (ON_SPARK,),
    ),
    Mutation(
        "what is known by changes is not asked what it refers to", "adapters/file_index/file_index.py",
        "        found = self._on_lines(list(by_hash), known)\n", "        found = set[int]()\n", (ON_SPARK,),
    ),
    Mutation(
        "whatever stands for a table's UUID is taken for one", "domain/iceberg/table_metadata.py",
        "    if not _UUID.fullmatch(uuid):\n", "    if not uuid:\n", (TABLE,),
    ),
    Mutation(
        "what stands for tables is pasted into a statement", "adapters/file_index/history_tables.py",
        'where = "WHERE array_contains(:uuids, table_uuid)"',
        "where = \"WHERE table_uuid IN ('\" + \"', '\".join(readable) + \"') OR :uuids IS NULL\"",
        (FILE_LEDGER,),
    ),
    Mutation(
        "a word for a table is one for whatever comes to its name", "app/catalog/management.py",
        "words.get((pointer.name, pointer.metadata_location))",
        "{name: word for (name, _), word in words.items()}.get(pointer.name)", (VOUCHING,),
    ),
    Mutation(
        "a word for a file is one for whatever is written there", "app/catalog/management.py",
        "        and (word.size, word.sha256) == _fingerprint(ledgers.store, pointer.metadata_location)\n", "", (VOUCHING,),
    ),
    Mutation(
        "a gate takes a word for one table for a word for all", "app/catalog/live_catalogs.py",
        "        unknown -= vouched_for(self.services, unknown)\n",
        "        unknown = unknown if not self.services.control.decisions.vouched() else set()\n", (VOUCHING,),
    ),
    Mutation(
        "what was read once may not have come to name others' files", "app/observe/observe.py",
        "            incomplete=state.name in unread\n            or (", "            incomplete=(", (UNREAD,),
    ),
    Mutation(
        "new metadata that cannot be read refers to what the old one did", "app/catalog/management.py",
        "    return is_known and not any(", "    return bool(rows) and not any(", (VOUCHING, UNREAD),
    ),
    Mutation(
        "a gate takes what nobody has read for its own table's", "app/gate/proof.py",
        "    if unknown := _unknown(services, world, scan, remaining):\n", "    if unknown := ():\n", (UNREAD,),
    ),
    Mutation(
        "one copy without a proof keeps all files beside it", "app/purge/plan_purge.py",
        "dict.fromkeys(without_proof(services, free), Why.UNPROVED)", "dict[str, Why]()", (COLD_WITHHELD,),
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
        "        return originals <= {departure.path for departure in waiting}\n", "        return True\n",
        (COLD_WITHHELD, "tests/unit/test_copy_proofs.py"),
    ),
    Mutation(
        "a table is let go though what others took of it has not departed", "app/drop/finalize.py",
        "    return uuids & set[str]().union(*owners)\n", "    return set()\n", (LETTING_GO,),
    ),
    Mutation(
        "nobody has to say why a table may be left out", "app/catalog/management.py",
        "    if never_read and not reason.strip():\n", "    if False:\n", (VOUCHING,),
    ),
    Mutation(
        "a table that is cloned again counts as one that shares nothing", "app/clone/gc_guard.py",
        "    ledgers.control.decisions.forget_lifted_guard(seen.uuid)\n", "", ("tests/unit/test_clone_races.py",),
    ),
    Mutation(
        "a pipe is opened like a file", "adapters/object_store/local.py",
        "    if stat.S_ISREG(os.fstat(descriptor).st_mode):\n", "    if descriptor:\n", (LOCAL_FILES,),
    ),
    Mutation(
        "a pipe is waited for", "adapters/object_store/local.py",
        "os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC", "os.O_RDONLY | os.O_CLOEXEC", (LOCAL_FILES,),
    ),
    Mutation(
        "busy tables: the index is to know what came since the plan", "app/gate/plan_bases.py",
        "is_newer = by_index is None and head not in base.snapshots", "is_newer = False", (BUSY,),
    ),
    Mutation(
        "busy tables: the index need not know what the plan was made on", "app/gate/plan_bases.py",
        "by_index is None and head not in base.snapshots", "by_index is None", (BUSY,),
    ),
    Mutation(
        "busy tables: heads of the plan's day are not checked any more", "app/gate/plan_bases.py",
        " | (self.heads & state.snapshots.keys())", "", (BUSY,),
    ),
    Mutation(
        "busy tables: a plan cannot be judged without its base", "app/gate/plan_bases.py",
        "            return Base.told_by(plan)\n", "            raise\n", (BUSY,),
    ),
    Mutation(
        "busy tables: a planned snapshot that a new ref reaches is let through", "app/gate/gate_facts.py",
        "[remaining_refs[sid] for sid in planned & remaining_refs.keys()]", "[]", (BUSY,),
    ),
    Mutation(
        "busy tables: manifest lists that came since the plan are not read", "app/gate/proof.py",
        "            if key not in leaving:\n",
        "            if key not in leaving and key in services.files.snapshots.known():\n", (BUSY,),
    ),
    Mutation(
        "busy tables: a metadata file deleted before it is read makes a table unreadable", "app/catalog/metadata.py",
        "_LOOKS = 5", "_LOOKS = 0", (BUSY,),
    ),
    Mutation(
        "busy tables: what moved is checked together again before each commit", "app/expire/expire_commits.py",
        "waiting, anew = [[plan] for plan in conflicts], True",
        "waiting, anew = [conflicts] if conflicts else [], True", (BUSY,),
    ),
    *CLOCKS,
    *EPOCHS,
    *IDENTITY,
    *DAMAGE,
    Mutation(
        "what two tables name that are let go the same night stays for ever", "app/drop/finalize.py",
        "let_go={**observation.let_go, state.uuid: row}", "let_go=observation.let_go",
        ("tests/unit/test_kept_lives.py",),
    ),
    *PLACES,
    *CONSUMERS,
    *WRITERS,
    *READERS,
    *REASONS,
    Mutation(
        "who shares files is noted after the snapshots", "app/observe/ingest.py",
        "    if new:\n        services.control.registrations.add_sharing(sorted(new))\n",
        "    services.files.snapshots.record(records)\n    if new:\n        services.control.registrations.add_sharing(sorted(new))\n",
        ("tests/unit/test_crash_protocol.py",),
    ),
    Mutation(
        "what lies beside a table that is left alone never departs", "app/expire/plan_expiration.py",
        "    hands_off = untouchable(observation) - passing\n",
        "    hands_off = untouchable(observation)\n", (LEFT_BEHIND,),
    ),
    Mutation(
        "what lies beside a table that opted out is nobody's", "app/expire/plan_expiration.py",
        "        owner = owner or next((o for o in owners if o in out), None)\n", "", (LEFT_BEHIND,),
    ),
    Mutation(
        "what lies beside a table that is left alone is purged", "app/purge/plan_purge.py",
        "        if not hands_off.intersection(owners):\n", "        if True:\n", (LEFT_BEHIND, HOLDS),
    ),
    Mutation(
        "a dropped table that still stands cannot be recovered", "app/catalog/recoverable.py",
        "    sources = [*expirations, *_standing(over, expirations)]\n", "    sources = expirations\n", (WAYS_BACK,),
    ),
    Mutation(
        "an older state is passed off as the last of a table that left unnoticed", "app/catalog/recoverable.py",
        "    if snapshot_id is None:\n        _require_noticed(ledgers, name, uuids, listing)\n    else:\n",
        "    if snapshot_id is not None:\n", (WAYS_BACK,),
    ),
    Mutation(
        "a recovery is promised for longer than the files wait", "app/catalog/recoverable.py",
        "    return min(due) if due and min(due) > now else None\n",
        "    return now + table.drop.retention(ledgers.config.account.reader_grace).failsafe\n", (WAYS_BACK,),
    ),
    Mutation(
        "a recovery is promised without looking whether the lists are there", "app/catalog/ways_back.py",
        "    if description is None or not _lists_are_there(ledgers, description.snapshot):\n",
        "    if description is None:\n", (WAYS_BACK,),
    ),
)  # fmt: skip
