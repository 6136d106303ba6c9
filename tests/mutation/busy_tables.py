"""Ways in which a table that goes on could be judged by what it was, or refused for ever."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

BUSY = "tests/unit/plan/test_busy_tables.py"

BUSY_TABLES = (
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
        "busy tables: a planned snapshot that a new ref reaches is let through", "app/gate/expire_evidence.py",
        "[remaining_refs[sid] for sid in planned & remaining_refs.keys()]", "[]", (BUSY,),
    ),
    Mutation(
        "busy tables: manifest lists that came since the plan are not read", "app/gate/proof.py",
        "            if key not in leaving:\n",
        "            if key not in leaving and key in sources.snapshots.known():\n", (BUSY,),
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
)  # fmt: skip
