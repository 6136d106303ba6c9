"""Ways in which what somebody asks for could shorten a retention."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

VACUUM = ("tests/unit/run/test_vacuum.py",)
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
        "        start = min(plan.as_of - policy.window, plan.window_start or plan.as_of)\n",
        "        start = plan.as_of - policy.window\n",
        VACUUM,
    ),
    Mutation(
        "vacuum: a name picks other tables, too",
        "app/sql/vacuum.py",
        "    if others:\n",
        "    if False:\n",
        VACUUM,
    ),
)
