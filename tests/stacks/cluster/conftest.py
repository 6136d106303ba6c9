"""One cluster for all tests of the stack, and one session of this process on it."""

import os
from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.stacks.cluster.standalone import Cluster, standalone


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="package")
def on_cluster(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that this process's session, whoever opens it, is one of; it ends with the tests.

    The tests of other stacks in this process open a local one afterwards.
    """
    assert SparkContext._active_spark_context is None, "a local session came before"
    before = dict(os.environ)
    os.environ.update(cluster.environment())
    try:
        yield cluster
    finally:
        if (session := SparkSession.getActiveSession()) is not None:
            session.stop()
        os.environ.clear()
        os.environ.update(before)
