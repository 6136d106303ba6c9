"""What a machine of an Airflow calls itself; in the tests all of them are one."""

import os

VARIABLE = "MELTLINE_TEST_MACHINE"


def host_name() -> str:
    return os.environ.get(VARIABLE, "client")
