"""Ways in which others could come to read what is not theirs, and claims that could be broken."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

SECRETS = "tests/spark/command/test_secrets.py"
TIMES = "tests/unit/safety/test_claimed_times.py"
PACE = "tests/unit/prune/test_pace.py"
COLD_GATE = "tests/unit/archive/test_cold_gate.py"
SCALE = "tests/unit/lives/test_at_scale.py"
POLICY = "tests/unit/retention/test_policy.py"
POLICIES = "tests/unit/retention/test_policies.py"
ACCESS = "tests/unit/safety/test_access.py"
DISCRETION = "tests/unit/safety/test_discretion.py"
PRIVATE_WORDS = "tests/unit/safety/test_private_words.py"
SPARK_STEP = "tests/dags/test_spark_step.py"
COMMANDS = "tests/unit/command/test_commands_without_spark.py"
CONFIG_SECRETS = "tests/unit/safety/test_config_secrets.py"

READERS = (
    Mutation(
        "catalogs are among the words that start the JVM", "adapters/spark/session.py",
        '        if not key.startswith("spark.sql.catalog."):\n            public.set(key, setting)\n',
        "        public.set(key, setting)\n", (SECRETS,),
    ),
    Mutation(
        "Spark hides what it takes for secrets by itself, and no more", "adapters/spark/session.py",
        "_REDACTION: redaction(hidden or \"\")", "_REDACTION: \"(?i)secret|password|token|access[.]?key\"", (SECRETS,),
    ),
    Mutation(
        "what an administrator hides is shown", "config/secrets.py",
        "{of_catalogs})\", patterns]", "{of_catalogs})\"]", (CONFIG_SECRETS,),
    ),
    Mutation(
        "others may read the words in a file", "argfile.py",
        "os.O_EXCL, 0o600)", "os.O_EXCL, 0o644)", (PRIVATE_WORDS,),
    ),
    Mutation(
        "who asked and why stand on the app's command line", "airflow/operators/spark_step.py",
        'in_file(Path(folder, "words.json"), request.words(private=True))',
        "*request.words(private=True)", (SPARK_STEP,),
    ),
    Mutation(
        "who asked for a run stands on the app's command line", "app/run_request.py",
        "_option(\"who asked for it\", private=True)", "_option(\"who asked for it\")",
        ("tests/unit/run/test_run_request.py",),
    ),
    Mutation(
        "an approval reaches apps that take none", "airflow/operators/spark_step.py",
        'request = replace(request, approve="")', "pass", (SPARK_STEP,),
    ),
    Mutation(
        "the umask decides who may read the control ledger", "file_permissions.py",
        "        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))\n        file.chmod(access.file)\n", "        file.touch(exist_ok=False)\n", (ACCESS,),
    ),
    Mutation(
        "the umask decides who may enter the folders", "file_permissions.py",
        "            place.mkdir(0o700)\n            place.chmod(access.folder)\n", "            place.mkdir()\n", (ACCESS,),
    ),
    Mutation(
        "pages of gates are for everybody", "adapters/gx/docs.py",
        ".chmod(access.file)", ".chmod(0o644)", (ACCESS,),
    ),
    Mutation(
        "doctor does not know what a group may read", "file_permissions.py",
        "if access is Access.OWNER and members", "if False and members", (ACCESS,),
    ),
    Mutation(
        "a clock ten minutes off is tolerated", "domain/clock.py",
        "CLOCK_TOLERANCE = timedelta(minutes=5)", "CLOCK_TOLERANCE = timedelta(minutes=10)", (TIMES,),
    ),
    Mutation(
        "nobody asks the store what time it is", "app/safety/preconditions.py",
        "        clocks[\"the object store\"] = store_now\n", "        pass\n", (TIMES,),
    ),
    Mutation(
        "deletes begin whenever they like after their proof", "app/purge/purge_batches.py",
        "        if self.clock.now() - proved_at > _PROOF_LASTS:\n", "        if False:\n", (TIMES,),
    ),
    Mutation(
        "a proof lasts a minute longer than is said", "app/purge/purge_batches.py",
        "_PROOF_LASTS = timedelta(minutes=5)", "_PROOF_LASTS = timedelta(minutes=6)", (TIMES,),
    ),
    Mutation(
        "a store's clock is never behind ours", "app/ownership/departed_objects.py",
        "timedelta(0) if self.sandbox else CLOCK_TOLERANCE", "timedelta(0)", (TIMES,),
    ),
    Mutation(
        "the log of a gate that crashed repeats a secret", "adapters/gx/engine.py",
        "            trace = discreet(traceback.format_exc())\n            log.error(\"the %s gate", "            trace = traceback.format_exc()\n            log.error(\"the %s gate", (DISCRETION,),
    ),
    Mutation(
        "expirations that met wait alike", "app/expire/expire.py",
        "until_done(attempt, self.pause)", "until_done(attempt, lambda _: self.pause(0.1))", (TIMES,),
    ),
    Mutation(
        "edits that met wait alike", "adapters/catalogs/table_commits.py",
        "until_done(attempt, pause)", "until_done(attempt, lambda _: pause(0.1))", (TIMES,),
    ),
    Mutation(
        "moves that met wait alike", "adapters/catalogs/table_renames.py",
        "until_done(attempt, pause)", "until_done(attempt, lambda _: pause(0.1))", (TIMES,),
    ),
    Mutation(
        "the archive has no limit of its own", "wiring.py",
        "            warehouse=self.config.catalogs[self.config.cold].warehouse,\n            pace=self.pace,\n", "            warehouse=self.config.catalogs[self.config.cold].warehouse,\n", (PACE,),
    ),
    Mutation(
        "a copy in doubt is set aside as fast as it can be", "adapters/archive/copies.py",
        "self.cold.write_stream(aside, self._parts(self.cold, target))", "self.cold.write_stream(aside, self.cold.stream(target))", (PACE,),
    ),
    Mutation(
        "a write to cold waits for no turn", "adapters/archive/copies.py",
        "        self.pace.wait()\n        self.cold.write_stream(target, hashed(), together)\n", "        self.cold.write_stream(target, hashed(), together)\n", (PACE,),
    ),
    Mutation(
        "rows that come as late as they may find their partition gone", "domain/retention/policy.py",
        "horizons[DROP_AFTER][1] > horizons[MAX_LATENESS][1]", "horizons[DROP_AFTER][1] >= horizons[MAX_LATENESS][1]", (POLICY, POLICIES),
    ),
    Mutation(
        "nobody is told of rows that come too late", "domain/retention/policy.py",
        "warnings=(*warnings, *_horizons(levels))", "warnings=tuple(warnings)", (POLICIES,),
    ),
    Mutation(
        "a busy table keeps twice its window", "domain/retention/retained_snapshots.py",
        "end >= request.as_of - request.window", "end >= request.as_of - 2 * request.window", (SCALE,),
    ),
    Mutation(
        "a purge over cold metadata that points at hot is refused by chance", "app/gate/cold_purge_evidence.py",
        "    facts.outside += side.leads_out(table.cold, copies)\n", "", (COLD_GATE,),
    ),
    Mutation(
        "errors repeat what a library quotes", "domain/errors.py",
        "self.found = _shortened(discreet(found))", "self.found = _shortened(found)", (DISCRETION,),
    ),
    Mutation(
        "nobody knows the secrets of the configuration", "config/load.py",
        "    keep_untold(config.secrets)\n", "", (DISCRETION,),
    ),
    Mutation(
        "what stands in brackets is lost on its way to a person", "cli/output.py",
        "        markup=False,\n", "        markup=True,\n", (COMMANDS,),
    ),
)  # fmt: skip
