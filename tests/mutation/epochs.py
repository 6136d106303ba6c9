"""Ways in which something would go that a decision held back: an old backup, a wrong clock, no word."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

TESTS = ("tests/unit/safety/test_epochs.py",)
INSTALLATIONS = ("tests/unit/safety/test_installations.py",)

EPOCHS = (
    Mutation(
        "the epochs of catalog and ledger are not compared",
        "app/safety/preconditions.py",
        "    if epoch is None and (stated or since):\n",
        "    if False:\n",
        TESTS,
    ),
    Mutation(
        "a catalog without an epoch fits every ledger",
        "app/safety/preconditions.py",
        "    if epoch is None and (stated or since):\n",
        "    if epoch is None and stated:\n",
        TESTS,
    ),
    Mutation(
        "an epoch is known by its number alone",
        "domain/epochs.py",
        'return stated.split(" ")[:2] == [str(self.number), self.nonce]',
        'return stated.split(" ")[:1] == [str(self.number)]',
        TESTS,
    ),
    Mutation(
        "a catalog that was set before a crash is taken for a stranger's",
        "domain/epochs.py",
        "if epoch.confirmed or epoch.number > since), None)",
        "if epoch.confirmed), None)",
        TESTS,
    ),
    Mutation(
        "the epoch is raised before the stop is stored",
        "app/safety/switches.py",
        "    context.control.switch.set(switch)\n    audit(",
        '    raise_epoch(context, "stop", {STOPPED: reason})\n    context.control.switch.set(switch)\n    audit(',
        TESTS,
    ),
    Mutation(
        "the stop does not stand in the catalog",
        "app/safety/switches.py",
        'raise_epoch(context, "stop", {STOPPED: note})',
        'raise_epoch(context, "stop")',
        TESTS,
    ),
    Mutation(
        "a stop does not raise the epoch",
        "app/safety/switches.py",
        'raise_epoch(context, "stop", {STOPPED: note})',
        "pass",
        TESTS,
    ),
    Mutation(
        "a go comes before the catalog knows",
        "app/safety/switches.py",
        '    raise_epoch(context, "go", removals=[STOPPED])\n    context.control.switch.set(None)\n',
        '    context.control.switch.set(None)\n    raise_epoch(context, "go", removals=[STOPPED])\n',
        TESTS,
    ),
    Mutation(
        "an approval does not raise the epoch",
        "app/purge/approvals.py",
        '    raise_epoch(context, "approve")\n',
        "",
        TESTS,
    ),
    Mutation(
        "a detach does not raise the epoch",
        "app/catalog/management.py",
        '            raise_epoch(context, "detach")\n',
        "",
        TESTS,
    ),
    Mutation(
        "an attach does not raise the epoch",
        "app/catalog/management.py",
        '        raise_epoch(context, "attach")\n',
        "",
        TESTS,
    ),
    Mutation(
        "a run expires before it raises the epoch",
        "app/expire/expire.py",
        "            self.epoch.require()\n",
        "            pass\n",
        TESTS,
    ),
    Mutation(
        "a run deletes before it raises the epoch",
        "app/purge/purge_claims.py",
        "            self.epoch.require()\n",
        "            pass\n",
        TESTS,
    ),
    Mutation(
        "every step of a run raises the epoch",
        "app/safety/epochs.py",
        "        if not (run and self.context.control.epochs.has(why)):\n",
        "        if True:\n",
        TESTS,
    ),
    Mutation(
        "an adopted ledger keeps its approvals",
        "app/doctor/init.py",
        "control.verdicts.forget_approvals()",
        "0",
        TESTS,
    ),
    Mutation(
        "an adopted ledger keeps its words for unreadable tables",
        "app/doctor/init.py",
        "        control.decisions.forget_vouched(table)\n",
        "        pass\n",
        TESTS,
    ),
    Mutation(
        "an adopted ledger forgets the stop that the catalog has",
        "app/doctor/init.py",
        'if stated := properties.get(STOPPED, ""):',
        'if stated := "":',
        TESTS,
    ),
    Mutation(
        "epochs: one that began since a listing was taken refuses what is tried again",
        "app/safety/preconditions.py",
        "        return standing_epoch(context)  # an epoch may have begun since that listing\n",
        "        pass\n",
        (*TESTS, "tests/unit/refs/test_tags.py"),
    ),
    Mutation(
        "epochs: a catalog is held to how the ledger would spell the epoch that it has",
        "app/safety/epochs.py",
        "    return listing.namespaces.get((config.ledger_namespace,), {}).get(EPOCH)\n",
        "    return None if epoch is None else epoch.written\n",
        TESTS,
    ),
    Mutation(
        "an instant is written with milliseconds where no ledger keeps any",
        "domain/units.py",
        "if moment.microsecond >= 1000 else",
        "if moment.microsecond else",
        ("tests/unit/iceberg/test_quantities.py",),
    ),
    Mutation(
        "a batch does not compare the marks of storage roots",
        "app/safety/epochs.py",
        "        require_own_roots(self.context)\n",
        "",
        INSTALLATIONS,
    ),
    Mutation(
        "a run that destroys leaves no mark in the storage roots",
        "app/safety/epochs.py",
        "raise_epoch(self.context, why, marks_roots=True)",
        "raise_epoch(self.context, why)",
        INSTALLATIONS,
    ),
    Mutation(
        "an unknown mark of a storage root counts as ours",
        "app/safety/installations.py",
        "    return any(epoch.is_at(stated) for epoch in epochs)\n",
        "    return True\n",
        INSTALLATIONS,
    ),
    Mutation(
        "only the warehouse is compared, and no other root",
        "app/safety/installations.py",
        "    for root in context.config.roots:\n        stated",
        "    for root in context.config.roots[:1]:\n        stated",
        INSTALLATIONS,
    ),
    Mutation(
        "a second ledger in another namespace is passed over",
        "app/safety/installations.py",
        "        if GENERATION in properties and namespace != (config.ledger_namespace,):\n",
        "        if False:\n",
        INSTALLATIONS,
    ),
    Mutation(
        "whoever adopts need not name the other installation",
        "app/safety/installations.py",
        '    if missing := [one for one in installations if one.note.id not in typed.split(",")]:\n',
        "    if missing := installations[:0]:\n",
        INSTALLATIONS,
    ),
    Mutation(
        "a mark is written whatever lies there by now",
        "app/safety/installations.py",
        "    if seen is not None and not _knows(context, stated):\n",
        "    if False:\n",
        INSTALLATIONS,
    ),
    Mutation(
        "a run that was cleared repeats the words of a person",
        "airflow/requests/request.py",
        "    if run.clear_number:\n",
        "    if False:\n",
        ("tests/dags/test_as_of.py",),
    ),
)

CLOCK_TESTS = ("tests/unit/safety/test_wrong_clocks.py",)

CLOCKS = (
    Mutation(
        "a run begins by a clock that is behind",
        "app/safety/preconditions.py",
        "    require_generation(context)\n    require_not_behind(context)\n",
        "    require_generation(context)\n",
        CLOCK_TESTS,
    ),
    Mutation(
        "files wait from the time of a clock that is a little behind",
        "app/expire/expire.py",
        "    return departing.record(plans, files, present(context))\n",
        "    return departing.record(plans, files, context.clock.now())\n",
        CLOCK_TESTS,
    ),
    Mutation(
        "a word is for any time that was recorded",
        "app/retention/clock_override.py",
        "    if reason.strip() and newest == recorded and newest > now:\n",
        "    if reason.strip():\n",
        CLOCK_TESTS,
    ),
    Mutation(
        "what departed by a clock that was ahead waits until its time",
        "app/retention/clock_override.py",
        "        if d.departed_at > now\n",
        "        if False\n",
        CLOCK_TESTS,
    ),
    Mutation(
        "what departed by a clock that was ahead is due at once",
        "app/retention/clock_override.py",
        "due_at=now + (d.due_at - d.departed_at)",
        "due_at=now",
        CLOCK_TESTS,
    ),
    Mutation(
        "a gate of a time that has not come lets plans pass",
        "domain/deletion/gate.py",
        "self.ran_at - CLOCK_TOLERANCE <= now < self.valid_until",
        "now < self.valid_until",
        CLOCK_TESTS,
    ),
    Mutation(
        "an approval of a time that has not come counts",
        "app/purge/purge_claims.py",
        "approval.at - CLOCK_TOLERANCE <= now < approval.at + ttl",
        "now < approval.at + ttl",
        CLOCK_TESTS,
    ),
    Mutation(
        "the newest time stays after a word",
        "tests/doubles/control/decisions.py",
        "            self.database.newest = word.at\n",
        "",
        CLOCK_TESTS,
    ),
    Mutation(
        "a table is dropped by a clock that is behind",
        "app/drop/drop.py",
        "    require_not_behind(context)\n",
        "",
        CLOCK_TESTS,
    ),
    Mutation(
        "a lease is acquired by a clock that is behind",
        "app/retention/leases.py",
        "    require_not_behind(context)\n",
        "",
        CLOCK_TESTS,
    ),
)

ARMING_TESTS = ("tests/unit/safety/test_arming.py",)

ARMING = (
    Mutation(
        "arming: what destroys does not ask",
        "app/safety/epochs.py",
        "        self.require_armed()\n",
        "",
        ARMING_TESTS,
    ),
    Mutation(
        "arming: a purge begins its plans before it asks",
        "app/purge/purge.py",
        "        epoch.require_armed()  # before any plan is begun; each batch asks once more\n",
        "",
        ARMING_TESTS,
    ),
    Mutation(
        "arming: dropped tables are let go unasked",
        "app/drop/finalize.py",
        "    return not ArmingCheck.of(context).refusal(observation.listings[context.config.hot])\n",
        "    return True\n",
        ARMING_TESTS,
    ),
    Mutation(
        "arming: a sweep does not ask",
        "app/orphans/sweep.py",
        "    not_armed = ArmingCheck.of(context).refusal()\n",
        "    not_armed = None\n",
        ARMING_TESTS,
    ),
    Mutation(
        "arming: the ledger's word is enough",
        "domain/arming.py",
        "        if not self.is_in(stated):\n",
        "        if False:\n",
        ARMING_TESTS,
    ),
    Mutation(
        "arming: a word is for any warehouse",
        "domain/arming.py",
        "        if self.warehouse != warehouse:\n",
        "        if False:\n",
        ARMING_TESTS,
    ),
    Mutation(
        "arming: the configuration makes a sandbox",
        "app/safety/arming.py",
        "    return config.sandbox and is_marked(config, store)\n",
        "    return config.sandbox\n",
        ARMING_TESTS,
    ),
    Mutation(
        "arming: a run in a sandbox does not say so",
        "app/run/lifecycle.py",
        "        self.summary.sandbox = ArmingCheck.of(context).is_sandbox\n",
        "",
        ARMING_TESTS,
    ),
    Mutation(
        "arming: doctor does not name a sandbox",
        "app/doctor/doctor.py",
        "    if check.is_sandbox:\n",
        "    if False:\n",
        ARMING_TESTS,
    ),
    Mutation(
        "arming: an adopted ledger keeps its word",
        "app/doctor/init.py",
        "    control.switch.arm(None)\n",
        "",
        ARMING_TESTS,
    ),
    Mutation(
        "arming: the ledger has the word before the catalog",
        "app/safety/switches.py",
        '    raise_epoch(context, "arm", {ARMED: arming.written})\n    context.control.switch.arm(arming)\n',
        '    context.control.switch.arm(arming)\n    raise_epoch(context, "arm", {ARMED: arming.written})\n',
        ARMING_TESTS,
    ),
)
WORDS = ("tests/unit/purge/test_approvals.py",)
QUESTION = ("tests/dags/approval/test_question.py",)

APPROVALS = (
    Mutation(
        "a large purge needs no word",
        "app/purge/purge_claims.py",
        "        if plan.bytes <= self.approve_above:\n",
        "        if plan:\n",
        WORDS,
    ),
    Mutation(
        "a no after a yes counts for nothing",
        "app/purge/purge_claims.py",
        "(approval is None or approval.at <= rejection.at)",
        "approval is None",
        WORDS,
    ),
    Mutation(
        "a word counts for other files than those that were seen",
        "app/purge/approvals.py",
        "        if plan.digest != digest:\n",
        "        if False:\n",
        WORDS,
    ),
    Mutation(
        "an approval counts from when it was recorded",
        "app/purge/approvals.py",
        "context.who, reason, at or now)",
        "context.who, reason, now)",
        WORDS,
    ),
    Mutation(
        "what is asked about is planned once more",
        "app/purge/plan_purge.py",
        "awaited.union(departure.path for departure in leftovers)\n",
        "{departure.path for departure in leftovers}\n",
        WORDS,
    ),
    Mutation(
        "an answer without a user is an approval",
        "airflow/approval/tasks.py",
        "            return str(name)\n"
        '        raise AirflowFailException("an answer that nobody has given is no answer")\n',
        '            return str(name)\n        return "somebody"\n',
        QUESTION,
    ),
    Mutation(
        "a plan is purged that its gate has not passed again",
        "airflow/approval/tasks.py",
        "        if self.judged is not None and not _has_passed(plan, self.judged):\n",
        "        if False:\n",
        QUESTION,
    ),
)
"""Ways in which a large purge would go without a person's word for its very files."""
