"""Ways in which a driver could serve others, or executors do what it does not know of."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

ANSWERS = "tests/unit/install/test_executor_answers.py"
CONNECT = "tests/unit/install/test_spark_connect.py"

DRIVER = "tests/unit/driver/test_driver.py"

CLUSTERS = (
    Mutation(
        "executors may have another build of Meltline", "adapters/spark/executors.py",
        "            if archive not in package:\n", "            if False:\n", (ANSWERS,),
    ),
    Mutation(
        "executors may see another folder than the driver", "adapters/spark/executors.py",
        "            if not before[folder] & after[folder] <= seen <= before[folder] | after[folder]:\n",
        "            if False:\n", (ANSWERS,),
    ),
    Mutation(
        "what executors lack comes out in the midst of a step", "adapters/spark/executors.py",
        " for answer in answers if answer[\"problem\"]}", " for answer in answers if False}", (ANSWERS,),
    ),
    Mutation(
        "executors of several machines count as the driver's own", "adapters/spark/executors.py",
        'master.startswith("local[")', 'master.startswith("local")', (ANSWERS,),
    ),
    Mutation(
        "a session of Spark Connect is opened", "adapters/spark/session.py",
        "    refuse_connect({**os.environ, **environ})\n", "", (CONNECT,),
    ),
    Mutation(
        "a manifest whose rows were lost with their executor counts as read", "adapters/ingest/ingest.py",
        "rows = spread_rows.localCheckpoint()", "rows = spread_rows.persist()",
        ("tests/contract/index/test_lost_executors.py",),
    ),
    Mutation(
        "a run's driver serves whoever asks", "driver/server.py",
        "            deliver_challenge(connection, self.token)\n", "", (DRIVER,),
    ),
    Mutation(
        "a run's driver ends with whoever says nonsense to it", "driver/server.py",
        "        except UNHEARD:\n            return True", "        except UNHEARD:\n            return False",
        (DRIVER,),
    ),
    Mutation(
        "a step goes on when its task has ended", "driver/server.py",
        "                if connection in ready:", "                if False:", (DRIVER,),
    ),
)  # fmt: skip
