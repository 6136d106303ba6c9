"""Ways in which a refusal could name the wrong reason, or stay when it is over."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

TRUE = ("tests/unit/plan/test_true_reasons.py",)
REFUSED = ("tests/unit/plan/test_refused_plans.py",)

HEADS = ("tests/unit/plan/test_kept_heads.py",)
PRUNE = ("tests/unit/prune/test_prune_gate.py",)
ORPHANS = ("tests/unit/purge/test_young_orphans.py",)

REASONS = (
    Mutation(
        "reasons: totals that do not add up stand beside what cannot be read", "app/gate/proof.py",
        "        if uuid not in scan.errors:\n", "        if uuid:\n", TRUE,
    ),
    Mutation(
        "reasons: a note tells consequences as if they were causes", "app/gate/gate.py",
        "    after = verdict.consequences\n", "    after = verdict.failed[:0]\n", TRUE,
    ),
    Mutation(
        "reasons: every failure beside a pass is a consequence", "domain/deletion/gate.py",
        "        return tuple(failed for failed in self.failed if failed.fact in after)\n",
        "        return self.failed[:1] or tuple(f for f in self.failed if f.fact in after)\n", TRUE,
    ),
    Mutation(
        "reasons: each run stores a refused plan anew", "app/safety/stored_plans.py",
        "    before = {**refused, **own}\n", "    before = own\n", REFUSED,
    ),
    Mutation(
        "reasons: a retry of a run that planned again makes a twin", "app/safety/stored_plans.py",
        "    before = {**refused, **own}\n", "    before = refused\n", REFUSED,
    ),
    Mutation(
        "reasons: altered items are planned again for good", "app/safety/stored_plans.py",
        "        if plan.digest_of(files[plan.id]) == plan.digest\n",
        "        if files.keys() >= {plan.id}\n", REFUSED,
    ),
    Mutation(
        "reasons: a refused expiration is never over", "app/expire/plan_expiration.py",
        "    if only is None:\n        looked_at", "    if only == ():\n        looked_at", REFUSED,
    ),
    Mutation(
        "reasons: a run of other tables ends refused plans", "app/safety/stored_plans.py",
        "    return lambda plan: plan.table_uuid in planned or plan.table_uuid not in standing\n",
        "    return lambda plan: bool(planned or standing or plan)\n", REFUSED,
    ),
    Mutation(
        "reasons: nobody looks at the heads after an expiration", "app/expire/expire.py",
        "    changed = changed_heads(context, committed)\n",
        "    changed: dict[str, MeltlineError] = {}\n", HEADS,
    ),
    Mutation(
        "reasons: the rows of a head are not looked at", "app/observe/ref_check.py",
        "    rows = snapshot.summary.get(_ROWS, \"unknown\")\n", "    rows = _ROWS\n", HEADS,
    ),
    Mutation(
        "reasons: a head that our commit changed is forgotten the next day", "app/observe/observe.py",
        "    reasons |= still_changed_heads(incidents, states, ended=let_go.keys())\n", "", HEADS,
    ),
    Mutation(
        "reasons: a prune goes on without a verdict", "app/prune/prune_deletes.py",
        "        self.gate.require_passed(plan)\n", "", PRUNE,
    ),
    Mutation(
        "reasons: a verdict on another digest lets a prune go", "app/prune/prune_gate.py",
        "        return read_plan(written).digest == self.plan.digest\n",
        "        return bool(written)\n", PRUNE,
    ),
    Mutation(
        "reasons: the gate of a prune does not ask for holds", "app/prune/prune_gate.py",
        "            \"planned_held\": [str(gate.name)] if held else [],\n",
        "            \"planned_held\": [str(gate.name)] if not ids and held else [],\n", PRUNE,
    ),
    Mutation(
        "reasons: what was begun is finished without a verdict of its own", "app/prune/cold_prune.py",
        "            self.gate.judge(plan, state.properties[plan.key], removed=True)\n", "            del state\n", PRUNE,
    ),
    Mutation(
        "reasons: what stays in cold is not asked whether it needs a planned file", "app/prune/prune_gate.py",
        "sorted(used.intersection(going)),", "sorted(used.intersection([])),", PRUNE,
    ),
    Mutation(
        "reasons: an orphan may have been written while the sweep looked", "app/ownership/departed_objects.py",
        "departed_at - FLOOR\n", "departed_at + FLOOR\n", ORPHANS,
    ),
    Mutation(
        "reasons: what others committed on our base is taken for ours", "app/observe/ref_check.py",
        "    if after is not None and _is_ours(plan, before, after):\n", "    if after is not None:\n", HEADS,
    ),
    Mutation(
        "reasons: a prune goes on by its first proof", "app/prune/prune_deletes.py",
        "clock.now() - proved >= PROOF_LASTS", "clock.now() < proved", PRUNE,
    ),
    Mutation(
        "reasons: who takes a snapshot from under a ref may have been us", "app/observe/ref_check.py",
        "if n not in plan.refs):\n        return False\n", "if n not in plan.refs):\n        pass\n",
        ("tests/unit/lives/test_kept_lives.py",),
    ),
)  # fmt: skip
