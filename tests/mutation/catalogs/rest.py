"""Ways to lose a ref that comes while a server carries out an expiration."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

LAKES = ("tests/unit/plan/test_rest_lakes.py",)
SHORT_LOGS = ("tests/unit/plan/test_short_logs.py",)
COMMITTER = "adapters/catalogs/rest/committer.py"
RESTORED = "adapters/catalogs/rest/committer.py"

PROBES = ("tests/contract/catalogs/test_server_probe.py",)
OWNERS = ("tests/contract/catalogs/test_other_owners.py",)

REST = (
    Mutation(
        "rest: a verdict holds before its second check",
        "app/safety/server_probe.py",
        "    if verdict.is_open:\n",
        "    if False:\n",
        PROBES,
    ),
    Mutation(
        "rest: files that are gone at the second check are taken for untouched",
        "app/safety/server_probe.py",
        "    is_deleted = context.probes[name].deleted_since(verdict.dropped)\n",
        "    is_deleted = context.probes[name].deleted_since(verdict.dropped) and False\n",
        PROBES,
    ),
    Mutation(
        "rest: the file goes before the verdict is kept",
        "adapters/catalogs/rest/probe.py",
        "                self.remover.delete([file for file in files if file != kept])\n",
        "                self.remover.delete(files)\n",
        PROBES,
    ),
    Mutation(
        "rest: the second check is made at once",
        "app/safety/server_probe.py",
        "        return parse_instant(self.at) + SECOND_CHECK_AFTER\n",
        "        return parse_instant(self.at)\n",
        PROBES,
    ),
    Mutation(
        "rest: a server that unregisters is asked to drop",
        "adapters/catalogs/rest/protocol.py",
        "        if not any(str(one).endswith(_UNREGISTER) for one in catalog._supported_endpoints):\n",
        "        if True:\n",
        PROBES,
    ),
    Mutation(
        "rest: a server that fails has no views",
        "adapters/catalogs/rest/protocol.py",
        "            if answer.status_code in (_NO_NAMESPACE if is_offered else _NO_VIEWS):\n",
        "            if not answer.ok:\n",
        OWNERS,
    ),
    Mutation(
        "rest: the first page has all views",
        "adapters/catalogs/rest/protocol.py",
        '            params = {"pageToken": str(page.get("next-page-token") or "")}\n',
        '            params = {"pageToken": ""}\n',
        OWNERS,
    ),
    Mutation(
        "sql: views own nothing",
        "adapters/catalogs/sql_catalog.py",
        "                return [_owner(self.name, row) for row in rows if not is_table(row)]\n",
        "                return []\n",
        OWNERS,
    ),
    Mutation(
        "rest: what is answered is taken for the commit, though another came after it",
        COMMITTER,
        '        first = self._first_marked(plan, done)\n        if first is None:\n            raise _unproven(plan, "the catalog answers',
        '        first = done\n        if first is None:\n            raise _unproven(plan, "the catalog answers',
        LAKES,
    ),
    Mutation(
        "rest: what a commit lost stays lost",
        COMMITTER,
        "        if lost:\n            self._restore(plan, before, lost)\n",
        "",
        LAKES,
    ),
    Mutation(
        "rest: of a table that has another name by now nobody asks what a commit came to",
        "app/expire/plan_checks.py",
        "                return replace(plan, table=entry.name)\n",
        "                return plan\n",
        LAKES,
    ),
    Mutation(
        "rest: a commit on its way to a renamed table may come yet",
        "app/expire/plan_checks.py",
        "                self.committer.withdraw(begun)\n",
        "                pass\n",
        LAKES,
    ),
    Mutation(
        "rest: a tag that is kept longer meanwhile goes as it was planned",
        COMMITTER,
        "            to_go = self._still_to_go(plan, before)\n",
        "",
        LAKES,
    ),
    Mutation(
        "rest: of a plan of tags alone nobody asks what came of it",
        COMMITTER,
        "        if not plan.snapshots and not plan.refs:",
        "        if not plan.snapshots:",
        ("tests/stacks/rest/test_races.py",),
    ),
    Mutation(
        "rest: a server that takes a commit for another table is found fit",
        "adapters/catalogs/rest/probe.py",
        '        yield "another table of the name stops a commit", True, self._refuses_another_table\n',
        "",
        ("tests/stacks/rest/test_probe.py",),
    ),
    Mutation(
        "polaris: a server that has its policies elsewhere has none",
        "adapters/catalogs/rest/polaris_policies.py",
        "any(_ENDPOINT in endpoint for endpoint in endpoints)",
        'any(endpoint == f"GET /polaris/v1/{{prefix}}/{_ENDPOINT}" for endpoint in endpoints)',
        ("tests/unit/catalog/test_polaris_policies.py",),
    ),
    Mutation(
        "rest: a plan whose refs came back departs as it was planned",
        "app/expire/plan_checks.py",
        "        if outcome.restored:\n",
        "        if False:\n",
        LAKES,
    ),
    Mutation(
        "rest: a commit whose outcome is unknown blocks nothing",
        "app/observe/observe.py",
        "    reasons |= unproven_commits(context.control.plans, context.config.catalogs, states, concluded)\n",
        "",
        LAKES,
    ),
    Mutation(
        "rest: what a dead run's commit lost and got back departs",
        "app/expire/plan_checks.py",
        "            return self.concluded(plan, outcome, len(plan.snapshots))\n        if plan.snapshots",
        "            return Committed(plan, len(plan.snapshots))\n        if plan.snapshots",
        LAKES,
    ),
    Mutation(
        "rest: a snapshot comes back under its old number",
        RESTORED,
        '            again["sequence-number"] = number\n',
        '            again["sequence-number"] = snapshot["sequence-number"]\n',
        LAKES,
    ),
    Mutation(
        "rest: a server that nobody probed is managed",
        "app/safety/server_probe.py",
        '        return "its server was never probed"\n',
        '        return ""\n',
        LAKES,
    ),
    Mutation(
        "rest: a verdict holds for any server",
        "app/safety/server_probe.py",
        "    if verdict.server != listing.server:\n",
        "    if False:\n",
        LAKES,
    ),
    Mutation(
        "rest: a dead run's commit may still come",
        "app/expire/plan_checks.py",
        "            if plan.state is PlanState.APPLYING and not anew and self.committer.withdraw(plan):\n",
        "            if False:\n",
        LAKES,
    ),
    Mutation(
        "rest: a commit can be made a second time",
        COMMITTER,
        "    return [*_standing(base.metadata), _absent(fence_of(plan))], updates\n",
        "    return _standing(base.metadata), updates\n",
        LAKES,
    ),
    Mutation(
        "rest: a table is taken out of its catalog though somebody has committed to it",
        "adapters/catalogs/rest/tables.py",
        "                if self.location(aside) != metadata_location:\n                    return False\n",
        "",
        ("tests/contract/catalogs/test_rest_registration.py",),
    ),
    Mutation(
        "rest: what a commit lost goes to whatever table has the name by then",
        COMMITTER,
        '            now = self._load(plan, before["table-uuid"])\n',
        "            now = self._load(plan)\n",
        LAKES,
    ),
    Mutation(
        "rest: whatever table has the name by then is fenced for a run that died",
        COMMITTER,
        "            table = self._load(plan, uuid)\n",
        "            table = self._load(plan)\n",
        LAKES,
    ),
    Mutation(
        "rest: a table whose old metadata files go soon is planned",
        "app/expire/plan_expiration.py",
        "not in {*observation.blocked, *observation.obstacles}",
        "not in observation.blocked",
        SHORT_LOGS,
    ),
    Mutation(
        "rest: a table whose old metadata files go soon is committed",
        "app/expire/plan_checks.py",
        "self._unprovable(case) or still_valid(case.plan, request)",
        "still_valid(case.plan, request)",
        SHORT_LOGS,
    ),
    Mutation(
        "rest: what is set right before the commit is passed over",
        COMMITTER,
        '        if plan.snapshots and deletes_soon(base.metadata.get("properties") or {}):\n            return None  # since it was checked; looked at anew it does not pass\n',
        "",
        SHORT_LOGS,
    ),
    Mutation(
        "rest: snapshots are removed before it is known that answers have a log",
        COMMITTER,
        "            if plan.snapshots and not base.replaced:\n                self._require_log(protocol, plan, base)\n                return None  # it has moved, by that commit\n",
        "",
        SHORT_LOGS,
    ),
    Mutation(
        "rest: what came back for a ref is taken for what was never removed",
        COMMITTER,
        "            self.confirm(plan)\n        return True\n",
        '            raise _unproven(plan, "its commit came late")\n        return True\n',
        ("tests/unit/plan/test_rest_kills.py",),
    ),
)
