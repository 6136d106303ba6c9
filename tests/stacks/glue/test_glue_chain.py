"""A whole life on Glue and S3, with a kill in each step."""

from collections.abc import Iterator

import boto3
import pytest

from tests.stacks.glue.glue_server import GlueServer, glue_server
from tests.stacks.whole_chain import Stack, lives_through_kills, obeys_every_command, stack

pytestmark = pytest.mark.spark

REGION = "us-east-1"
SERVERS: list[GlueServer] = []


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with glue_server() as server:
        SERVERS.append(server)
        boto3.client(
            "s3", endpoint_url=server.uri, region_name=REGION,
            aws_access_key_id="k", aws_secret_access_key="s",
        ).create_bucket(Bucket="lake")  # fmt: skip
        words = {
            "type": "glue",
            "warehouse": "s3://lake/w",
            "glue.endpoint": server.uri,
            "glue.region": REGION,
            "glue.access-key-id": "k",
            "glue.secret-access-key": "s",
            "s3.endpoint": server.uri,
            "s3.region": REGION,
            "s3.access-key-id": "k",
            "s3.secret-access-key": "s",
            "s3.path-style-access": '"true"',
        }
        section = "".join(f"    {key}: {text}\n" for key, text in words.items())
        with stack(tmp_path_factory.mktemp("glue-chain"), section) as whole:
            yield whole


@pytest.mark.slow("a chain with a kill in each step")
def test_a_table_on_glue_is_expired_and_purged_though_each_step_is_killed_once(
    lake: Stack,
) -> None:
    lives_through_kills(lake)


def test_every_command_that_edits_a_table_works_on_glue(lake: Stack) -> None:
    obeys_every_command(lake)


def test_every_commit_of_ours_and_of_engines_named_the_version_that_it_had_read(
    lake: Stack,
) -> None:
    updates = [words for operation, words in SERVERS[0].requests if operation == "UpdateTable"]
    assert updates and all(words.get("VersionId") for words in updates)
