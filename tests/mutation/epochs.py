"""Ways in which an old backup of the control ledger would lift what was decided since."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

TESTS = ("tests/unit/test_epochs.py",)

EPOCHS = (
    Mutation(
        "the epochs of catalog and ledger are not compared",
        "app/permission.py",
        "    if found is None and (stated or since):\n",
        "    if False:\n",
        TESTS,
    ),
    Mutation(
        "a catalog without an epoch fits every ledger",
        "app/permission.py",
        "    if found is None and (stated or since):\n",
        "    if found is None and stated:\n",
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
        "app/switch.py",
        "    ledgers.control.set_stop(switch)\n    audit(",
        '    raise_epoch(ledgers, "stop", {STOPPED: reason})\n    ledgers.control.set_stop(switch)\n    audit(',
        TESTS,
    ),
    Mutation(
        "the stop does not stand in the catalog",
        "app/switch.py",
        'raise_epoch(ledgers, "stop", {STOPPED: said})',
        'raise_epoch(ledgers, "stop")',
        TESTS,
    ),
    Mutation(
        "a stop does not raise the epoch",
        "app/switch.py",
        'raise_epoch(ledgers, "stop", {STOPPED: said})',
        "pass",
        TESTS,
    ),
    Mutation(
        "a go comes before the catalog knows",
        "app/switch.py",
        '    raise_epoch(ledgers, "go", removals=[STOPPED])\n    ledgers.control.set_stop(None)\n',
        '    ledgers.control.set_stop(None)\n    raise_epoch(ledgers, "go", removals=[STOPPED])\n',
        TESTS,
    ),
    Mutation(
        "an approval does not raise the epoch",
        "app/purge.py",
        '    raise_epoch(services, "approve")\n',
        "",
        TESTS,
    ),
    Mutation(
        "a detach does not raise the epoch",
        "app/membership.py",
        '            raise_epoch(ledgers, "detach")\n',
        "",
        TESTS,
    ),
    Mutation(
        "an attach does not raise the epoch",
        "app/membership.py",
        '        raise_epoch(ledgers, "attach")\n',
        "",
        TESTS,
    ),
    Mutation(
        "a run expires before it raises the epoch",
        "app/expire_commits.py",
        "                self.epoch.require()\n",
        "                pass\n",
        TESTS,
    ),
    Mutation(
        "a run deletes before it raises the epoch",
        "app/purge.py",
        "            self.epoch.require()\n",
        "            pass\n",
        TESTS,
    ),
    Mutation(
        "every step of a run raises the epoch",
        "app/epochs.py",
        "        if not (run and self.ledgers.control.has_epoch(why)):\n",
        "        if True:\n",
        TESTS,
    ),
    Mutation(
        "an adopted ledger keeps its approvals",
        "app/init.py",
        "control.forget_approvals()",
        "0",
        TESTS,
    ),
    Mutation(
        "an adopted ledger keeps its words for unreadable tables",
        "app/init.py",
        "        control.forget_vouched(table)\n",
        "        pass\n",
        TESTS,
    ),
    Mutation(
        "an adopted ledger forgets the stop that the catalog has",
        "app/init.py",
        'if said := properties.get(STOPPED, ""):',
        'if said := "":',
        TESTS,
    ),
    Mutation(
        "epochs: one that began since a listing was taken refuses what is tried again",
        "app/permission.py",
        "        return standing_epoch(services)  # an epoch may have begun since that listing\n",
        "        pass\n",
        ("tests/unit/test_tags.py",),
    ),
)
