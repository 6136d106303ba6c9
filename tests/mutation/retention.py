"""Ways in which what somebody asks for could shorten a retention."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

VACUUM = ("tests/unit/run/test_vacuum.py",)
STATED_TESTS = ("tests/unit/run/test_stated_policies.py",)
POLARIS_TESTS = ("tests/unit/catalog/test_polaris_policies.py",)
STATED = "domain/retention/stated_policies.py"
POLARIS = "adapters/catalogs/rest/polaris_policies.py"
WINDOW = "domain/retention/longer_window.py"

RETENTION = (
    Mutation(
        "vacuum: fewer hours than the policy's are accepted",
        WINDOW,
        "        if policy.window is None or window < policy.window:\n",
        "        if policy.window is None:\n",
        VACUUM,
    ),
    Mutation(
        "vacuum: hours stand for a retention without an end",
        WINDOW,
        "        if table != self.table or policy.window is None:\n            return policy\n        return replace(policy, window=max(policy.window, self.window))\n",
        "        if table != self.table:\n            return policy\n        return replace(policy, window=max(policy.window or self.window, self.window))\n",
        VACUUM,
    ),
    Mutation(
        "vacuum: hours count although the policy was lengthened meanwhile",
        WINDOW,
        "window=max(policy.window, self.window)",
        "window=self.window",
        VACUUM,
    ),
    Mutation(
        "vacuum: a longer window is forgotten",
        "app/catalog/tables.py",
        "        if context.longer_window is not None:\n",
        "        if False:\n",
        VACUUM,
    ),
    Mutation(
        "vacuum: the gate knows the policy's window alone",
        "app/gate/expire_evidence.py",
        "        start = min(plan.as_of - window, plan.window_start or plan.as_of)\n",
        "        start = plan.as_of - window\n",
        VACUUM,
    ),
    Mutation(
        "vacuum: a name picks other tables, too",
        "app/sql/statements.py",
        "    if matches:\n",
        "    if False:\n",
        VACUUM,
    ),
    Mutation(
        "stated: a store's policy goes before a property of ours",
        STATED,
        "    if own and is_in_order(",
        "    if not own and is_in_order(",
        STATED_TESTS,
    ),
    Mutation(
        "stated: what is turned off expires",
        STATED,
        "    if expiry.keeps_all:\n",
        "    if expiry.problem:\n",
        STATED_TESTS,
    ),
    Mutation(
        "stated: what is not understood expires by the profile",
        STATED,
        "        return bool(self.problem) or not self.enabled\n",
        "        return not self.enabled\n",
        STATED_TESTS,
    ),
    Mutation(
        "stated: a table of unread policies falls back to the profile",
        STATED,
        "    return replace(retention, window=None, expires=False, source=source, warnings=warnings)\n",
        "    return retention\n",
        STATED_TESTS,
    ),
    Mutation(
        "stated: beside a word out of order the store's holds",
        STATED,
        "    if days < least or own:",
        "    if days < least and own:",
        STATED_TESTS,
    ),
    Mutation(
        "stated: the account's least is forgotten",
        STATED,
        "    if window is not None and window < timedelta(days=retention.min_days):\n",
        "    if False:\n",
        STATED_TESTS,
    ),
    Mutation(
        "stated: refs go where expiry is turned off",
        "domain/retention/retained_snapshots.py",
        "        KeepReason.TURNED_OFF: request.turned_off,\n",
        "",
        STATED_TESTS,
    ),
    Mutation(
        "stated: its least number of snapshots is forgotten",
        "domain/retention/retained_snapshots.py",
        "max(ref.min_snapshots_to_keep or default_count or 1, request.least_snapshots)",
        "ref.min_snapshots_to_keep or default_count or 1",
        STATED_TESTS,
    ),
    Mutation(
        "stated: a table of unread policies is not skipped",
        "app/observe/observe.py",
        "groups.blocked(reasons | _unstated(observed))",
        "groups.blocked(reasons)",
        STATED_TESTS,
    ),
    Mutation(
        "stated: the gate does not ask the store",
        "app/gate/expire_evidence.py",
        "    policy = with_stated(account, levels, alone, facts.stated.get(plan.table))\n",
        "    policy = alone\n",
        STATED_TESTS,
    ),
    Mutation(
        "stated: the gate takes what the planner was told",
        "app/gate/expire_evidence.py",
        "if name.catalog == catalog], anew=True)",
        "if name.catalog == catalog])",
        STATED_TESTS,
    ),
    Mutation(
        "stated: the gate lets refs go where nothing expires",
        "app/gate/expire_evidence.py",
        '        **({} if policy.expires else {"planned_young_refs": plan.refs}),\n',
        "",
        STATED_TESTS,
    ),
    Mutation(
        "stated: the last check before a commit takes what was said before",
        "app/catalog/current_tables.py",
        "listing, anew=True)",
        "listing)",
        STATED_TESTS,
    ),
    Mutation(
        "stated: a drop settles a retention that is not known",
        "app/drop/drop.py",
        "        if isinstance(table.stated, MeltlineError):\n",
        "        if False:\n",
        STATED_TESTS,
    ),
    Mutation(
        "stated: orphans go where their removal is turned off",
        "app/orphans/scan_roots.py",
        '            return next((f"{name}: {why}" for name, why in refusals if why), "")\n',
        '            return next((f"{name}: {why}" for name, why in refusals if not why), "")[:0]\n',
        STATED_TESTS,
    ),
    Mutation(
        "stated: orphans go before the store's age",
        "app/orphans/sweep.py",
        "        age = max(settings.minimum_age, candidate.claim.minimum_age)\n",
        "        age = settings.minimum_age\n",
        STATED_TESTS,
    ),
    Mutation(
        "stated: the store's age shortens our own",
        "app/orphans/sweep.py",
        "max(settings.minimum_age, candidate.claim.minimum_age)",
        "candidate.claim.minimum_age or settings.minimum_age",
        STATED_TESTS,
    ),
    Mutation(
        "polaris: an unknown word of a policy is passed over",
        POLARIS,
        '    if unknown and content["enable"]:\n',
        "    if False:\n",
        POLARIS_TESTS,
    ),
    Mutation(
        "polaris: a policy of an unknown version is obeyed",
        POLARIS,
        '    if content.get("version") not in (None, "", *_VERSIONS):\n',
        "    if False:\n",
        POLARIS_TESTS,
    ),
    Mutation(
        "polaris: a refusal is no policy",
        POLARIS,
        '            raise _Unreadable(f"HTTP {answer.status_code} {answer.text[:_SHOWN]}".strip())\n',
        '            return {"applicable-policies": []}\n',
        POLARIS_TESTS,
    ),
    Mutation(
        "polaris: the first page is all",
        POLARIS,
        '            token = page.get("next-page-token") or ""\n',
        '            token = ""\n',
        POLARIS_TESTS,
    ),
    Mutation(
        "polaris: the first of two policies holds",
        POLARIS,
        "    if len(policies) < 2:\n",
        "    if policies or not policies:\n",
        POLARIS_TESTS,
    ),
    Mutation(
        "polaris: who asks anew is told what was said before",
        POLARIS,
        "            {} if anew else {n: s",
        "            {} if not tables else {n: s",
        POLARIS_TESTS,
    ),
)
