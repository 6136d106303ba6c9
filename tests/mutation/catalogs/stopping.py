"""Deleting that stops in silence, or one table's error that ends more than itself."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

HEADS = ("tests/unit/stopping/test_refused_heads.py",)
UNFINISHED = ("tests/unit/stopping/test_unfinished_plans.py",)
CONTRADICTORY = ("tests/unit/stopping/test_contradictory_tables.py",)
FAILURES = ("tests/spark/faults/test_engine_failures.py",)
DETACHED = ("tests/unit/stopping/test_detached_tables.py",)
SECOND_EXPIRER = ("tests/unit/stopping/test_second_expirer.py",)
CATCHING_UP = ("tests/unit/stopping/test_catching_up.py",)
STATUS = ("tests/unit/status/test_purge_status.py",)
METRICS = ("tests/unit/status/test_metrics.py",)
METRICS_PAGE = ("tests/unit/pages/test_metrics_page.py",)

STOPPING = (
    Mutation(
        "catching up: a backlog is planned as a whole, and refused",
        "app/expire/plan_expiration.py",
        "    if portions.counts:\n",
        "    if not planned:\n",
        CATCHING_UP,
    ),
    Mutation(
        "catching up: what a new policy lets go counts as a backlog",
        "app/expire/catching_up.py",
        "    return [number for number in expired if since and left_at(number) < since]\n",
        "    return expired\n",
        CATCHING_UP,
    ),
    Mutation(
        "catching up: a portion may be larger than the gate's share",
        "domain/deletion/catching_up.py",
        "        return _BELOW * limit * (self.bytes + self.remaining_bytes)\n",
        "        return 1.5 * limit * (self.bytes + self.remaining_bytes)\n",
        CATCHING_UP,
    ),
    Mutation(
        "second expirer: what a killed run had deleted counts as another tool's",
        "app/purge/purge_batches.py",
        "            if outcome.was_gone and not job.is_resumed:\n",
        "            if outcome.was_gone:\n",
        SECOND_EXPIRER,
    ),
    Mutation(
        "second expirer: files that are gone are not told from those deleted now",
        "adapters/object_store/deleter.py",
        "        return DeleteOutcome(file.path, was_gone=True)\n",
        "        return DeleteOutcome(file.path)\n",
        SECOND_EXPIRER,
    ),
    Mutation(
        "second expirer: snapshots that another tool expired are not counted",
        "app/expire/expire.py",
        "                snapshots_gone=len(answer.gone_snapshots),\n",
        "                snapshots_gone=0,\n",
        SECOND_EXPIRER,
    ),
    Mutation(
        "stopping: a table that is detached with a reason is an alarm each night",
        "app/run/summary.py",
        "            if selected(name, globs) and name not in observation.detached:\n",
        "            if selected(name, globs):\n",
        DETACHED,
    ),
    Mutation(
        "stopping: detaching without a reason ends the alarm, too",
        "app/catalog/management.py",
        "        if reason.strip():\n            _record",
        "        if True:\n            _record",
        DETACHED,
    ),
    Mutation(
        "stopping: attaching a table leaves its alarm off",
        "app/catalog/management.py",
        "    was_detached = _end_words(context, name, GuardKind.DETACHED)\n",
        "    was_detached = True\n",
        DETACHED,
    ),
    Mutation(
        "stopping: a head that Iceberg refuses is planned like any other",
        "app/observe/open_commits.py",
        "    if why := load_refusal(state):\n",
        '    if why := load_refusal(state) and "":\n',
        HEADS,
    ),
    Mutation(
        "stopping: clocks may not differ at all",
        "domain/deletion/refused_heads.py",
        "timedelta(minutes=1)",
        "timedelta(minutes=0)",
        HEADS,
    ),
    Mutation(
        "stopping: only the newest head is looked at, and not the log behind it",
        "domain/deletion/refused_heads.py",
        "pairwise([*times, state.last_updated])",
        "pairwise([*times[-1:], state.last_updated])",
        HEADS,
    ),
    Mutation(
        "stopping: the next run is always said to finish a plan",
        "app/doctor/plan_findings.py",
        "        is_stuck = times > 1\n",
        "        is_stuck = times > 100\n",
        UNFINISHED,
    ),
    Mutation(
        "stopping: what runs met counts, whether or not it was the same",
        "app/doctor/plan_findings.py",
        "    same = list(takewhile(newest.__eq__, told))\n",
        "    same = told\n",
        UNFINISHED,
    ),
    Mutation(
        "stopping: what PySpark makes of Java's exceptions is not caught",
        "adapters/spark/jvm.py",
        "ENGINE_FAILURES = (Py4JError, PySparkException)",
        "ENGINE_FAILURES = (Py4JError,)",
        FAILURES,
    ),
    Mutation(
        "stopping: a table that contradicts itself may need any file",
        "app/catalog/management.py",
        "any(row.incomplete and row.status != CONTRADICTORY for row in rows)",
        "any(row.incomplete for row in rows)",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: a list that ends after its header is one that was read",
        "app/observe/ingest.py",
        "            if not reading.manifests:",
        "            if not reading:",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: snapshots of a table with flawed metadata expire",
        "app/observe/open_commits.py",
        "    if state.flaws:\n",
        "    if not state.flaws and state.flaws:\n",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: the planner holds a trusted table's totals against it",
        "app/observe/ingest.py",
        "    if reading.state.uuid in trusted and reading.manifests:\n",
        "    if reading.state.uuid in () and reading.manifests:\n",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: the gate's proof holds a trusted table's totals against it",
        "app/gate/proof.py",
        " or (state.uuid in trusted and scan.manifests[key]):\n",
        ":\n",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: the gate trusts a list that ends after its header",
        "app/gate/proof.py",
        "(state.uuid in trusted and scan.manifests[key]):\n",
        "state.uuid in trusted:\n",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: of a trusted table the two readers may differ",
        "app/gate/plan_bases.py",
        "        if stated != files or files < 0 or not (is_newer or by_index == (files, size)):\n",
        "        if not is_trusted and (stated != files or by_index != (files, size)):\n",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: anything may be trusted",
        "app/ground/owner_guards.py",
        "    doubted = [row for row in found if row.status == CONTRADICTORY]\n",
        "    doubted = found\n",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: trust outlives that the table was left alone",
        "app/catalog/management.py",
        "        _end_words(context, pointer.name, GuardKind.OVERRIDDEN, GuardKind.TRUSTED)\n",
        "        _end_words(context, pointer.name, GuardKind.OVERRIDDEN)\n",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: trust covers a manifest that cannot be read",
        "app/observe/ingest.py",
        "    if bad := _unread(reading, outcomes):\n        return Verdict(checked=True, problem=bad.error)\n",
        "    if (bad := _unread(reading, outcomes)) and reading.state.uuid not in trusted:\n        return Verdict(checked=True, problem=bad.error)\n",
        CONTRADICTORY,
    ),
    Mutation(
        "stopping: a cause that was there the night before counts from today",
        "app/status/purge_status.py",
        "        return self.recorded.since.get(reason) or failed or self.now\n",
        "        return failed or self.now\n",
        STATUS,
    ),
    Mutation(
        "stopping: a run over some tables counts as a good run of the lake",
        "app/run/report_step.py",
        "    is_good = not (request.tables or _has_failed(context, summary, before))\n",
        "    is_good = not _has_failed(context, summary, before)\n",
        STATUS,
    ),
    Mutation(
        "stopping: one night's question about a purge is a stop of the lake",
        "app/status/purge_status.py",
        "self.now - plan.created_at > _A_NIGHT]",
        "self.now - plan.created_at >= 0 * _A_NIGHT]",
        STATUS,
    ),
    Mutation(
        "stopping: purges of other tables do not count",
        "app/status/purge_status.py",
        "        if since is None or self._has_purged(since):\n",
        "        if since is None:\n",
        STATUS,
    ),
    Mutation(
        "stopping: a lake without a good run is silent about it",
        "app/status/purge_status.py",
        "        if self.now - since > _SILENT:\n",
        "        if self.now - since > 100 * _SILENT:\n",
        STATUS,
    ),
    Mutation(
        "stopping: what is overdue counts as due today",
        "adapters/file_index/storage_usage.py",
        "pc.if_else(is_overdue, before, micros)",
        "pc.if_else(is_overdue, first, micros)",
        STATUS,
    ),
    Mutation(
        "stopping: a run's first sentence is silent about what stops purging",
        "app/run/recap.py",
        '    return ["; ".join([*_stopped(document), first]), *more]\n',
        "    return [first, *more]\n",
        STATUS,
    ),
    Mutation(
        "stopping: a run that fails writes no metrics",
        "app/status/metrics.py",
        "        if file := context.config.metrics_file:\n            with",
        '        if file := context.config.metrics_file and "":\n            with',
        METRICS,
    ),
    Mutation(
        "stopping: an alert whose cause is over has no sample to end by",
        "app/status/metrics.py",
        "for reason in HaltReason},",
        "for reason in halted},",
        METRICS,
    ),
    Mutation(
        "stopping: any token reads the metrics over HTTP",
        "pages/routes/metrics.py",
        "if shown is None or not compare_digest(shown.credentials.encode(), token.encode()):",
        "if shown is None:",
        METRICS_PAGE,
    ),
    Mutation(
        "stopping: the metrics are there without a token",
        "pages/site.py",
        "    if metrics_token:\n",
        "    if metrics_token or app:\n",
        METRICS_PAGE,
    ),
    Mutation(
        "stopping: a report in a process of its own forgets what earlier steps met",
        "app/run/report_step.py",
        '    blocked = summary.purge_blocked or before.get("purge_blocked", "")\n',
        "    blocked = summary.purge_blocked\n",
        STATUS,
    ),
)
