"""Ways in which others could come to read what is not theirs, and claims that could be broken."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

SECRETS = "tests/spark/test_secrets.py"
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
)  # fmt: skip
