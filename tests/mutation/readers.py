"""Ways in which others could come to read what is not theirs, and claims that could be broken."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

SECRETS = "tests/spark/test_secrets.py"
ACCESS = "tests/unit/test_access.py"
DISCRETION = "tests/unit/test_discretion.py"
PRIVATE_WORDS = "tests/unit/test_private_words.py"
SPARK_STEP = "tests/dags/test_spark_step.py"
CONFIG_SECRETS = "tests/unit/test_config_secrets.py"

READERS = (
    Mutation(
        "catalogs are among the words that start the JVM", "adapters/spark/session.py",
        '        if not key.startswith("spark.sql.catalog."):\n            public.set(key, value)\n',
        "        public.set(key, value)\n", (SECRETS,),
    ),
    Mutation(
        "Spark hides what it takes for secrets by itself, and no more", "adapters/spark/session.py",
        "_REDACTION: redaction(hidden or \"\")", "_REDACTION: \"(?i)secret|password|token|access[.]?key\"", (SECRETS,),
    ),
    Mutation(
        "what an administrator hides is shown", "config_secrets.py",
        "{of_catalogs})\", others]", "{of_catalogs})\"]", (CONFIG_SECRETS,),
    ),
    Mutation(
        "others may read the words in a file", "private_words.py",
        "os.O_EXCL, 0o600)", "os.O_EXCL, 0o644)", (PRIVATE_WORDS,),
    ),
    Mutation(
        "who asked and why stand on the app's command line", "ui/spark_step.py",
        "in_file(Path(folder, \"words.json\"), private)", "*private", (SPARK_STEP,),
    ),
    Mutation(
        "the umask decides who may read the control ledger", "access.py",
        "        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))\n        file.chmod(access.file)\n", "        file.touch(exist_ok=False)\n", (ACCESS,),
    ),
    Mutation(
        "the umask decides who may enter the folders", "access.py",
        "            place.mkdir(0o700)\n            place.chmod(access.folder)\n", "            place.mkdir()\n", (ACCESS,),
    ),
    Mutation(
        "pages of gates are for everybody", "adapters/gx/docs.py",
        ".chmod(access.file)", ".chmod(0o644)", (ACCESS,),
    ),
    Mutation(
        "doctor does not know what a group may read", "access.py",
        "if access is Access.OWNER and members", "if False and members", (ACCESS,),
    ),
    Mutation(
        "errors repeat what a library quotes", "domain/errors.py",
        "self.found = discreet(found)", "self.found = found", (DISCRETION,),
    ),
    Mutation(
        "nobody knows the secrets of the configuration", "config.py",
        "    keep_untold(config.secrets)\n", "", (DISCRETION,),
    ),
)  # fmt: skip
