"""Ways in which a rollup could forget, invent or take back what it has told."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

DOMAIN = ("tests/unit/chunks/domain/test_rollups.py",)
REFRESH = ("tests/unit/rollups/test_rollup_refresh.py",)
DECLARED = ("tests/unit/rollups/test_rollup_declaration.py",)
VIEWS = ("tests/unit/rollups/test_realtime_views.py",)
QUERIES = ("tests/unit/sql/test_rollup_queries.py",)
LOOK = "app/chunks/rollups/rollup_snapshot.py"
REFRESHING = "app/chunks/rollups/refresh.py"
OWN = "app/chunks/rollups/rollup_table.py"
WAITS = "app/chunks/rollups/waits.py"
UNKNOWN = ("tests/unit/rollups/test_unknown_drops.py",)
ROLLUP = "domain/chunks/rollup.py"
ENGINE = "tests/doubles/chunks/rollup_engine.py"
STABLE = "grammar/rollups.py"
QUERY = "grammar/rollups.py"

ROLLUPS = (
    # --- what has left hot -----------------------------------------------------------------------
    Mutation(
        "rollups: frozen buckets are among those that are aggregated anew", ROLLUP,
        "        tuple(without(touched, frozen)), tuple(frozen)", "        tuple(touched), tuple(frozen)", DOMAIN,
    ),
    Mutation(
        "rollups: rows without a time that are newer make no chunk wait", WAITS,
        "    if since is None or None in written or not own.is_as_left:\n", "    if since is None or not own.is_as_left:\n", REFRESH,
    ),
    Mutation(
        "rollups: a drop that is noted freezes nothing before the walk", "app/chunks/late_data.py",
        "if c.was_dropped or c.last_drop)", "if c.was_dropped)", UNKNOWN,
    ),
    Mutation(
        "rollups: a drop that main was replaced without freezes nothing before it is noted", "app/chunks/late_data.py",
        "for name, chunk in beside if with_standings(chunk, line).last_drop)", "for name, chunk in beside if not name)", UNKNOWN,
    ),
    Mutation(
        "rollups: only times that are gone are frozen, and not their buckets", ROLLUP,
        "    frozen = width.whole(dropped)\n", "    frozen = list(dropped)\n", DOMAIN,
    ),
    Mutation(
        "rollups: what was dropped is aggregated anew", LOOK,
        "        if dropped := dropped_on(context, state):\n", "        if (dropped := dropped_on(context, state)) and False:\n", REFRESH,
    ),
    Mutation(
        "rollups: what a policy of its own took away comes back", LOOK,
        "    for state in (source.state, own.state):\n", "    for state in (source.state,):\n", REFRESH,
    ),
    Mutation(
        "rollups: our own drops count as changes of the source", LOOK,
        "    return [c for c in changes if own_drop(plans, c, source.state.uuid) is None]\n", "    return changes\n", REFRESH,
    ),
    Mutation(
        "rollups: chunks that a rollback brought back stay frozen until a walk", LOOK,
        "{*names} - back)", "{*names})", REFRESH,
    ),
    Mutation(
        "rollups: the engine aggregates frozen buckets where it is told all", ENGINE,
        "    return is_named and not any(times.overlaps(bucket) for times in stale.frozen)\n", "    return is_named\n", REFRESH,
    ),
    # --- what has changed ------------------------------------------------------------------------
    Mutation(
        "rollups: what a person names is forgotten", ROLLUP,
        "width.whole((*changed, *invalidated))", "width.whole(changed)", (*DOMAIN, *REFRESH),
    ),
    Mutation(
        "rollups: rows of no known time change no bucket", ROLLUP,
        "            if times.range is None:\n                return None\n", "            if times.range is None:\n                continue\n", DOMAIN,
    ),
    Mutation(
        "rollups: a row that leaves a bucket changes none", ROLLUP,
        "(*change.added, *change.removed)", "change.added", DOMAIN,
    ),
    Mutation(
        "rollups: rows that others wrote into a rollup pass for its own", OWN,
        "        if not is_compaction and not _is_own_drop(context, state.uuid, snapshot):\n            return False\n", "", REFRESH,
    ),
    Mutation(
        "rollups: what calls itself a drop of ours in a rollup is taken for one", OWN,
        "        return own_drop(context.control.plans, change, table_uuid) is not None\n", "        return True\n", REFRESH,
    ),
    Mutation(
        "rollups: our own drops in a rollup count as rows of others", OWN,
        "        if not is_compaction and not _is_own_drop(context, state.uuid, snapshot):\n", "        if not is_compaction:\n", REFRESH,
    ),
    Mutation(
        "rollups: a refresh goes on from a table that is not as it was left", LOOK,
        "        if since is not None and own.is_as_left:\n", "        if since is not None:\n", REFRESH,
    ),
    Mutation(
        "rollups: a rollup is fresh whatever a person names", LOOK,
        "        return self.lag == 0 and self.stale.ranges == ()\n", "        return self.lag == 0\n", REFRESH,
    ),
    Mutation(
        "rollups: a table is made for a name that another rollup has", "app/chunks/rollups/declare.py",
        "    _require_free(context.control.rollups, rollup.name)\n", "", DECLARED,
    ),
    # --- what is written -------------------------------------------------------------------------
    Mutation(
        "rollups: what was missed is noted after the position has moved on", REFRESHING,
        "    _note_missed(rollups, look)\n", "", REFRESH,
    ),
    Mutation(
        "rollups: a position is stored before its rows", ENGINE,
        " = commit.document(is_staged=True)\n", " = commit.document(is_staged=True)\n            document[\"properties\"] |= refresh.properties\n", REFRESH,
    ),
    Mutation(
        "rollups: rows are stored without their position", REFRESHING,
        "            properties={ROLLUP_SNAPSHOT: str(NO_SNAPSHOT if head is None else head)},\n", "            properties={},\n", REFRESH,
    ),
    Mutation(
        "rollups: a refresh publishes over what another has published", ENGINE,
        "        if base != refresh.base:\n            return None\n", "", REFRESH,
    ),
    Mutation(
        "rollups: rows beside a stale bucket go with their file", ENGINE,
        "        rows += [values for values in beside if not _has([values], column, buckets)]\n", "", REFRESH,
    ),
    Mutation(
        "rollups: files of buckets that did not change are rewritten", ENGINE,
        "if _has(of_file, column, buckets)]", "if of_file]", REFRESH,
    ),
    # --- chunks that wait ------------------------------------------------------------------------
    Mutation(
        "rollups: the planner lets chunks go that a rollup has not got", "app/chunks/plan_drops.py",
        "    waits = dirty_chunks(context, tracking.hot, tracking.chunks, due, cutoff) | waits\n", "", REFRESH,
    ),
    Mutation(
        "rollups: the gate lets chunks go that a rollup has not got", "app/chunks/gate.py",
        "        return chunks_not_rolled_up(self.sources, self._table, ranges, cutoff)\n", "        return []\n", REFRESH,
    ),
    Mutation(
        "rollups: the gate stores registrations of tables that it looks at", "app/chunks/rollups/rollup_table.py",
        "import read_table\n", "import load_table as read_table\n", ("tests/unit/rollups/test_rollup_looks.py",),
    ),
    Mutation(
        "rollups: the planner trusts a rollup that others have written to", WAITS,
        "    if since is None or None in written or not own.is_as_left:\n", "    if since is None or None in written:\n", REFRESH,
    ),
    Mutation(
        "rollups: a chunk goes before its bucket is over", WAITS,
        "        for name, bucket in incomplete_buckets(width, open_chunks, cutoff).items():\n", "        for name, bucket in ():\n", REFRESH,
    ),
    Mutation(
        "rollups: a view has other columns below those of its rollup", "app/chunks/rollups/realtime.py",
        "query.width, [name.lower() for name in query.columns]\n", "query.width\n", VIEWS,
    ),
    # --- queries ---------------------------------------------------------------------------------
    Mutation(
        "rollups: a part of a query that nobody knows is left out unsaid", STABLE,
        '    return surplus[0].strip("_").upper() if surplus else ""\n', '    return ""\n', QUERIES,
    ),
    Mutation(
        "rollups: a query may read other tables within a filter", STABLE,
        "isinstance(node, exp.Window) or (is_other_query and not isinstance(node, exp.Table))", "isinstance(node, exp.Window)", QUERIES,
    ),
    Mutation(
        "rollups: a query may say something else tomorrow", STABLE,
        "    return bool(names) and not names & (AGGREGATES | SCALARS)\n", "    return False\n", QUERIES,
    ),
    Mutation(
        "rollups: a time that is always another passes as text", STABLE,
        "        return node.is_string and bool(_NOW_AS_TEXT.fullmatch(node.name))\n", "        return False\n", QUERIES,
    ),
    Mutation(
        "rollups: a function of a catalog may run any code", STABLE,
        "        return isinstance(node.expression, exp.Func) and node.this.name.lower() != _LAKETS\n",
        "        return False\n", QUERIES,
    ),
    Mutation(
        "rollups: variables and lambdas are taken", STABLE,
        "    if isinstance(node, _VARIABLES):\n", "    if False:\n", QUERIES,
    ),
    Mutation(
        "rollups: averages of averages weigh every bucket alike", QUERY,
        '            whole.replace(exp.Anonymous(this="TRY_DIVIDE", expressions=[total, count]))\n', "            pass\n", QUERIES,
    ),
    Mutation(
        "rollups: what is made of an average is averaged as if it were one", QUERY,
        "    return expression if isinstance(expression, exp.Avg) else None\n", "    return expression.find(exp.Avg)\n", QUERIES,
    ),
    Mutation(
        "rollups: weeks of date_trunc begin on Saturdays", QUERY,
        ' or length.lower().startswith("week")', "", QUERIES,
    ),
)  # fmt: skip
