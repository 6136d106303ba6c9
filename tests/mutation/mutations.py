"""Ways in which the planner, the gate and the purge could be wrong, as edits of their source."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.catalogs.equal_ids import IDS
from tests.mutation.catalogs.half_seen import HALF_SEEN_PLACES
from tests.mutation.catalogs.kept_snapshots import KEPT_SNAPSHOTS
from tests.mutation.catalogs.left_objects import LEFT_OBJECTS
from tests.mutation.catalogs.losses import LOSSES
from tests.mutation.catalogs.metastores import METASTORES
from tests.mutation.catalogs.owners import OWNERS
from tests.mutation.catalogs.places import PLACES
from tests.mutation.catalogs.rest import REST
from tests.mutation.catalogs.stopping import STOPPING
from tests.mutation.catalogs.stores import STORES
from tests.mutation.chunked.chunked import CHUNKED
from tests.mutation.clusters import CLUSTERS
from tests.mutation.cold import COLD_COPIES
from tests.mutation.consumers import CONSUMERS
from tests.mutation.damage import DAMAGE
from tests.mutation.epochs import APPROVALS, ARMING, CLOCKS, EPOCHS
from tests.mutation.identity import IDENTITY
from tests.mutation.index import INDEX
from tests.mutation.mutation import Mutation
from tests.mutation.readers import READERS
from tests.mutation.reasons import REASONS
from tests.mutation.retention import RETENTION
from tests.mutation.writers import BUSY_TABLES, WRITERS

KEEP = "tests/unit/retention/test_keep_set.py"
CHAIN = "tests/unit/plan/test_chain.py"
RACES = "tests/unit/plan/test_races.py"
WRECKS = "tests/unit/lives/test_known_wrecks.py"
GUARDS = "tests/unit/plan/test_guards.py"
RECHECK = "tests/unit/purge/test_recheck.py"
REPLACED = "tests/unit/purge/test_replaced_files.py"
NAMED_LATE = "tests/unit/purge/test_deleted_while_named.py"
HOLDS = "tests/unit/retention/test_holds.py"
LOCATIONS = "tests/unit/iceberg/test_locations.py"
COMPLETENESS = "tests/unit/iceberg/test_completeness.py"
LETTING_GO = "tests/unit/drop/test_letting_go.py"
PURGE_OF_DROPPED = "tests/unit/drop/test_purge_of_dropped.py"
EXTERNAL_DROPS = "tests/unit/catalog/test_external_drops.py"
GATE_OF_DROPPED = "tests/unit/drop/test_gate_of_dropped.py"
IN_BATCHES = "tests/unit/run/test_steps_in_batches.py"
FRONTS = "tests/unit/manifests/test_manifest_fronts.py"
LEFT_BEHIND = "tests/unit/catalog/test_left_behind.py"
KEPT_LIVES = "tests/unit/lives/test_kept_lives.py"
VOUCHING = "tests/unit/catalog/test_vouching.py"
WAYS_BACK = "tests/unit/drop/test_ways_back.py"
UNREAD = "tests/unit/retention/test_unread_snapshots.py"
LOCAL_FILES = "tests/contract/object_store/test_local_files.py"


MUTATIONS = (
    Mutation(
        "no keep reason for what refs point to", "domain/retention/retained_snapshots.py",
        "        yield _ref_reason(ref), (ref.snapshot_id,)\n", "        pass\n", (KEEP,),
    ),
    Mutation(
        "the window is forgotten", "domain/retention/retained_snapshots.py",
        "        (KeepReason.WINDOW, _in_window(request, ends)),\n", "", (KEEP, CHAIN),
    ),
    Mutation(
        "a snapshot exactly at the window's start goes", "domain/retention/retained_snapshots.py",
        "end >= request.as_of - request.window", "end > request.as_of - request.window", (KEEP,),
    ),
    Mutation(
        "leases are ignored", "domain/retention/retained_snapshots.py",
        "        (KeepReason.LEASE, request.leased),\n", "", (KEEP, RACES),
    ),
    Mutation(
        "holds are ignored", "domain/retention/retained_snapshots.py",
        "        KeepReason.HOLD: request.held,\n", "", (KEEP, HOLDS),
    ),
    Mutation(
        "unmanaged tables expire", "domain/retention/retained_snapshots.py",
        "        KeepReason.NOT_MANAGED: not request.managed,\n", "", (KEEP, CHAIN),
    ),
    Mutation(
        "snapshots wait for no cold copy", "domain/retention/retained_snapshots.py",
        "        (KeepReason.HANDOFF_PENDING, request.handoff_pending),\n", "", (KEEP,),
    ),
    Mutation(
        "ancestors that branches keep go", "domain/retention/retained_snapshots.py",
        "    yield KeepReason.BRANCH, _kept_by_branches(request, refs)\n", "", (KEEP,),
    ),
    Mutation(
        "a ref goes on the very day of its age", "domain/retention/retained_snapshots.py",
        "    return age // timedelta(milliseconds=1) <= limit\n", "    return age // timedelta(milliseconds=1) < limit\n",
        (KEEP,),
    ),
    Mutation(
        "a table's default ends shares and holds", "domain/retention/retained_snapshots.py",
        "if ref.max_ref_age_ms is not None or ref.name.startswith(OWN_TAGS):",
        "if ref.max_ref_age_ms is not None:", (KEEP,),
    ),
    Mutation(
        "the earliest end of several lines counts", "domain/retention/retained_snapshots.py",
        "max(ends.get(each) or [request.as_of])", "min(ends.get(each) or [request.as_of])", (KEEP,),
    ),
    Mutation(
        "entries with status DELETED keep files", "tests/doubles/file_tables.py",
        "return [file for file in self.entries if file.status is not EntryStatus.DELETED]",
        "return list(self.entries)", (CHAIN, WRECKS),
    ),
    Mutation(
        "live entries are taken for deleted", "adapters/manifests/fastavro_reader.py",
        "return [file.path for file in entries if file.status != EntryStatus.DELETED]",
        "return [file.path for file in entries if file.status == EntryStatus.DELETED]", (RACES,),
    ),
    Mutation(
        "other tables of the group are not looked at", "app/expire/plan_expiration.py",
        "    return Neighbourhood(groups.together(leaving), frozenset(linear))",
        "    return Neighbourhood(frozenset(leaving), frozenset(leaving))", (GUARDS, CHAIN, WRECKS),
    ),
    Mutation(
        "history is taken to be linear when it is not", "domain/iceberg/table_metadata.py",
        "        return len(line) == len(self.snapshots) and grows", "        return True",
        ("tests/unit/iceberg/test_table.py",),
    ),
    Mutation(
        "a second registration keeps nothing", "app/expire/plan_expiration.py",
        "        for table in (*others, *observation.left_behind)\n",
        "        for table in observation.left_behind\n", (GUARDS,),
    ),
    Mutation(
        "what the planner keeps does not stay", "app/expire/plan_expiration.py",
        "    leaving = (expired | vanished) - _staying(observation, retentions, targets)\n",
        "    leaving = expired | vanished\n", (GUARDS,),
    ),
    Mutation(
        "snapshots that others expired never depart", "app/expire/plan_expiration.py",
        "    leaving = (expired | vanished) - ", "    leaving = expired - ", (WRECKS, CHAIN),
    ),
    Mutation(
        "files of nobody are planned", "app/expire/plan_expiration.py",
        "        if is_odd(path) or hands_off.intersection(owners):\n            return None\n"
        "        ranked = chain(", "        if is_odd(path):\n            return None\n"
        "        ranked = chain(filter(managed.__contains__, owners), managed) or chain(",
        (GUARDS, CHAIN, HOLDS),
    ),
    Mutation(
        "the plan's ids are not checked again before the commit", "app/expire/plan_checks.py",
        "        for refuse in (self._invalid, self._without_gate):\n",
        "        for refuse in (self._without_gate,):\n", (RACES,),
    ),
    Mutation(
        "an expiration needs no gate", "app/expire/plan_checks.py",
        "        for refuse in (self._invalid, self._without_gate):\n",
        "        for refuse in (self._invalid,):\n", (RACES,),
    ),
    Mutation(
        "a purge needs no gate", "app/purge/purge.py",
        "        refused = altered(plan, job.files) or not_passed\n",
        "        refused = altered(plan, job.files)\n", (GUARDS, RACES),
    ),
    Mutation(
        "altered plan items are carried out", "app/purge/purge.py",
        "        refused = altered(plan, job.files) or not_passed\n",
        "        refused = not_passed\n", (GUARDS, RACES),
    ),
    Mutation(
        "a purge goes on when its gate has ended", "app/purge/purge_claims.py",
        "job.error = refused.get(id) or ", "job.error = ", (GUARDS, RACES),
    ),
    Mutation(
        "a purge goes on under a lock that was lost", "app/purge/purge_batches.py",
        "                if job.lock is not None and job.lock in lost:\n"
        "                    raise lost[job.lock]\n", "", (GUARDS, RACES),
    ),
    Mutation(
        "the second proof is forgotten", "app/purge/purge_batches.py",
        "        needed = self.look_back.still_needed([file.path for _, file in items])\n",
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
        "the store's clock is never behind", "app/ownership/departed_objects.py",
        "        behind = timedelta(0) if self.sandbox else CLOCK_TOLERANCE\n",
        "        behind = timedelta(0)\n", (REPLACED,),
    ),
    Mutation(
        "a delete does not look before", "adapters/object_store/deleter.py",
        "    return DeleteOutcome(file.path, replaced=replaced) if replaced else None\n",
        "    return None\n", (REPLACED,),
    ),
    Mutation(
        "what was replaced counts as deleted", "app/purge/purge.py",
        "next_departures(job.replaced, DepartureState.FAILSAFE,", "next_departures(job.replaced, DepartureState.DELETED,",
        (REPLACED, "tests/unit/purge/test_not_as_recorded.py"),
    ),
    Mutation(
        "an adopted ledger takes what a purge left for what departed", "app/doctor/init.py",
        "        if d.is_on_its_way\n", "", (REPLACED,),
    ),
    Mutation(
        "nobody looks after the last deletes", "app/purge/purge.py",
        "            look_back.look()\n", "", (NAMED_LATE,),
    ),
    Mutation(
        "the next files' proof is no look at those before", "app/purge/post_delete_check.py",
        "        self.judge()\n        return needed\n",
        "        self._deleted.clear()\n        return needed\n", (NAMED_LATE,),
    ),
    Mutation(
        "what a killed purge has hit is never looked for", "app/purge/post_delete_check.py",
        "    for plan in applying:\n", "    for plan in ():\n", (NAMED_LATE,),
    ),
    Mutation(
        "an incident does not stop its group", "app/purge/purge_batches.py",
        "            job.stop(self.look_back.stopped.get(job.group))\n", "", (NAMED_LATE,),
    ),
    Mutation(
        "a hold or a lost lock stops no table of a wave", "app/purge/purge_batches.py",
        "            if job.error is not None:\n                continue\n", "", (GUARDS, HOLDS),
    ),
    Mutation(
        "the second proof sees no new commits", "app/purge/recheck.py",
        "            self._look_at(pointer, loaded[pointer])\n", "            pass\n", (RACES,),
    ),
    Mutation(
        "failsafe does not count", "app/purge/plan_purge.py",
        "frozenset({DepartureState.FAILSAFE}), due_by=now)", "frozenset({DepartureState.FAILSAFE}))",
        (CHAIN,),
    ),
    Mutation(
        "what is referred to again is not taken back", "app/observe/ingest.py",
        "    _take_back(context, records, outcomes.keys())\n", "", (WRECKS,),
    ),
    Mutation(
        "counts of a manifest are not checked",
        "adapters/manifests/fastavro_reader.py",
        "    if contradiction := manifest.contradiction(counts_of(statuses)):\n",
        "    if (contradiction := manifest.contradiction(counts_of(statuses))) and not manifest:\n",
        ("tests/unit/manifests/test_manifest_fronts.py",),
    ),
    Mutation(
        "a front is believed whatever the length of its manifest", "adapters/manifests/fastavro_reader.py",
        "    if manifest.bytes and length != manifest.bytes:", "    if False:", (FRONTS,),
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
        "a stop does not hold back commits", "app/expire/expire.py",
        "            require_go(self.switch)\n            self.locks.check(",
        "            self.locks.check(", (GUARDS, RACES),
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
        "the gate takes the plan's date for the time", "app/gate/expire_evidence.py",
        "drop.is_over(min(plan.as_of, now))", "drop.is_over(plan.as_of)", (GATE_OF_DROPPED,),
    ),
    Mutation(
        "the gate lets go what only says that it was dropped", "app/gate/expire_evidence.py",
        " or not is_dropped_name(state.name.namespace)", "", (GATE_OF_DROPPED,),
    ),
    Mutation(
        "the gate lets go what the catalog does not list", "app/gate/expire_evidence.py",
        "    if listing.of(state.name) != CatalogEntry(state.name, state.metadata_location):",
        "    if False:", (GATE_OF_DROPPED,),
    ),
    Mutation(
        "the gate forgets a hold on a dropped table", "app/gate/expire_evidence.py",
        "    return not held and ", "    return ", (GATE_OF_DROPPED,),
    ),
    Mutation(
        "the gate forgets who reads a dropped table", "app/gate/expire_evidence.py",
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
        "    if context.control.switch.stopped() is not None:", "    if False:", (PURGE_OF_DROPPED,),
    ),
    Mutation(
        "of several last states one is believed", "app/drop/external_drops.py",
        "    if len(candidates) != 1:", "    if not candidates:", (EXTERNAL_DROPS,),
    ),
    Mutation(
        "a table counts as dropped while a catalog cannot be listed", "app/drop/finalize.py",
        "    if observation.purge_blocked:\n        return False\n", "", (EXTERNAL_DROPS,),
    ),
    Mutation(
        "a dropped table is let go while a plan of it is begun", "app/drop/finalize.py",
        "            plan.id in waiting or plan.state is PlanState.APPLYING\n", "            plan.id in waiting\n", (LETTING_GO,),
    ),
    Mutation(
        "an app works on the plans of all batches", "app/run/run_plans.py",
        "if batches[plan.id] == batch]", "]", (IN_BATCHES,),
    ),
    Mutation(
        "tables that share files come into two batches", "domain/deletion/batches.py",
        "        key = groups.key(plan.table_uuid)\n        if key not in placed:",
        "        key = plan.table_uuid\n        if key not in placed:",
        (IN_BATCHES, "tests/unit/plan/test_batches.py"),
    ),
    *COLD_COPIES,
    *INDEX,
    Mutation(
        "a dry run does what it should only show", "app/run/lifecycle.py",
        "        todo = [step for step in steps if step.previews or not self.request.dry_run]\n",
        "        todo = list(steps)\n", ("tests/unit/run/test_steps.py",),
    ),
    Mutation(
        "a run dates what it sees by a wrong clock", "app/run/lifecycle.py",
        "        if steps[0].dates:\n", "        if False:\n", (CHAIN, "tests/unit/safety/test_wrong_clocks.py"),
    ),
    Mutation(
        "a purge is planned by what was seen before the expiration", "app/run/lifecycle.py",
        "self.look() if request.dry_run else self.look_anew(),", "self.look(),",
        ("tests/unit/run/test_steps.py",),
    ),
    Mutation(
        "what a faster run leaves of a purge waits for the next night", "app/run/gated_plans.py",
        "[*ended, *_plan_what_is_left(context, ended), *remaining]", "[*ended, *remaining]",
        ("tests/unit/plan/test_races.py",),
    ),
    Mutation(
        "a purge that is overtaken while it is judged is refused", "app/run/gated_plans.py",
        "    overtaken |= end_overtaken(files, control, refused)\n", "", ("tests/unit/plan/test_races.py",),
    ),
    Mutation(
        "a word for a table is one for whatever comes to its name", "app/catalog/management.py",
        "words.get((pointer.name, pointer.metadata_location))",
        "{name: word for (name, _), word in words.items()}.get(pointer.name)", (VOUCHING,),
    ),
    Mutation(
        "a word for a file is one for whatever is written there", "app/catalog/management.py",
        "        and (word.size, word.sha256) == _fingerprint(store, pointer.metadata_location)\n", "", (VOUCHING,),
    ),
    Mutation(
        "a gate takes a word for one table for a word for all", "app/catalog/management.py",
        "    unknown -= vouched_for(decisions, store, unknown)\n",
        "    unknown = unknown if not decisions.vouched() else set()\n", (VOUCHING,),
    ),
    Mutation(
        "what was read once may not have come to name others' files", "app/observe/recording.py",
        "        incomplete = state.name in unread or is_unsure\n", "        incomplete = is_unsure\n", (UNREAD,),
    ),
    Mutation(
        "new metadata that cannot be read refers to what the old one did", "app/catalog/management.py",
        "    return is_known and not any(", "    return bool(rows) and not any(", (VOUCHING, UNREAD),
    ),
    Mutation(
        "the gate is given what moves plans", "app/gate/sources.py",
        "    PlanReader,\n", "    PlanLedger as PlanReader,\n", ("tests/unit/house/test_gate_reads.py",),
    ),
    Mutation(
        "a port that the gate reads by learns to write", "ports/control/plans.py",
        "    def current(self, ids", "    def forget(self, ids: Sequence[str]) -> None: ...\n\n    def current(self, ids",
        ("tests/unit/house/test_gate_reads.py",),
    ),
    Mutation(
        "a gate takes what nobody has read for its own table's", "app/gate/proof.py",
        "    if unknown := _unknown(sources, world, scan, remaining):\n", "    if unknown := ():\n", (UNREAD,),
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
        "    log.sets(seen.uuid)\n", "", ("tests/unit/clone/test_clone_races.py",),
    ),
    Mutation(
        "a pipe is opened like a file", "adapters/object_store/local.py",
        "    if stat.S_ISREG(os.fstat(descriptor).st_mode):\n", "    if descriptor:\n", (LOCAL_FILES,),
    ),
    Mutation(
        "a pipe is waited for", "adapters/object_store/local.py",
        "os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC", "os.O_RDONLY | os.O_CLOEXEC", (LOCAL_FILES,),
    ),
    *BUSY_TABLES,
    *APPROVALS,
    *ARMING,
    *CLOCKS,
    *EPOCHS,
    *OWNERS,
    *IDENTITY,
    *HALF_SEEN_PLACES,
    *METASTORES,
    *REST,
    *RETENTION,
    *DAMAGE,
    Mutation(
        "what two tables name that are let go the same night stays for ever", "app/drop/finalize.py",
        "let_go={**observation.let_go, state.uuid: row}", "let_go=observation.let_go",
        ("tests/unit/lives/test_kept_lives.py",),
    ),
    *PLACES,
    *CONSUMERS,
    *WRITERS,
    *READERS,
    *STORES,
    *CLUSTERS,
    *CHUNKED,
    *STOPPING,
    *LEFT_OBJECTS,
    *IDS,
    *KEPT_SNAPSHOTS,
    *LOSSES,
    *REASONS,
    Mutation(
        "who shares files is noted after the snapshots", "app/observe/ingest.py",
        "    if new:\n        context.control.registrations.add_sharing(sorted(new))\n",
        "    context.files.snapshots.record(records)\n    if new:\n        context.control.registrations.add_sharing(sorted(new))\n",
        ("tests/unit/purge/test_crash_protocol.py",),
    ),
    Mutation(
        "what lies beside a table that is left alone never departs", "app/expire/plan_expiration.py",
        "    hands_off = untouchable(observation) - passing\n",
        "    hands_off = untouchable(observation)\n", (LEFT_BEHIND,),
    ),
    Mutation(
        "what lies beside a table that opted out is nobody's", "app/expire/plan_expiration.py",
        ", filter(out.__contains__, owners))\n", ")\n", (LEFT_BEHIND,),
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
        "    if snapshot_id is None:\n        _require_noticed(name, lost)\n    else:\n",
        "    if snapshot_id is not None:\n", (WAYS_BACK,),
    ),
    Mutation(
        "a recovery is promised for longer than the files wait", "app/catalog/recoverable.py",
        "    return min(due) if due and min(due) > now else None\n",
        "    return now + table.drop.retention(context.config.account.reader_grace).failsafe\n", (WAYS_BACK,),
    ),
    Mutation(
        "a recovery is promised without looking whether the lists are there", "app/catalog/recovery_hints.py",
        "    if description is None or not _lists_are_there(*readers, description.snapshot):\n",
        "    if description is None:\n", (WAYS_BACK,),
    ),
    Mutation(
        "a recovery is promised of what a table still has", "app/catalog/recovery_hints.py",
        "    if state := standing_with(context, name, [table], number):\n",
        "    if (state := standing_with(context, name, [table], number)) and not number:\n",
        (WAYS_BACK,),
    ),
)  # fmt: skip
