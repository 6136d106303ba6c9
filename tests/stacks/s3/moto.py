"""Amazon's S3 and STS on the loopback: moto's server in a process of its own."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from tests.stacks.s3.processes import running

KEY, SECRET, REGION = "meltline", "moto-secret", "us-east-1"
ROLE = "arn:aws:iam::123456789012:role/storage-keeper"


@dataclass(frozen=True)
class Moto:
    """A running server."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def where(self) -> Mapping[str, str]:
        """How to reach it, without keys."""
        return {"s3.endpoint": self.address, "s3.region": REGION, "s3.path-style-access": "true"}

    @property
    def properties(self) -> Mapping[str, str]:
        return {**self.where, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET}

    @property
    def environment(self) -> Mapping[str, str]:
        """What a machine's environment says for clients that find it there."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL_STS": self.address,
        }

    def client(self, service: str) -> Any:
        """Amazon's own client of a service."""
        return boto3.client(
            service,
            endpoint_url=self.address,
            region_name=REGION,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def bucket(self, name: str, *, versioned: bool = False) -> str:
        s3 = self.client("s3")
        s3.create_bucket(Bucket=name)
        if versioned:
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return f"s3://{name}"

    def session(self) -> Mapping[str, str]:
        """Keys and a token of its STS, in the words in which a catalog vends them."""
        answer = self.client("sts").assume_role(RoleArn=ROLE, RoleSessionName="a-catalog")
        keys = answer["Credentials"]
        return {
            "s3.access-key-id": keys["AccessKeyId"],
            "s3.secret-access-key": keys["SecretAccessKey"],
            "s3.session-token": keys["SessionToken"],
        }


@contextlib.contextmanager
def running_moto(directory: Path) -> Iterator[Moto]:
    """Starts a server that ends with the block; the folder takes its log."""
    module = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p"]
    with running(lambda port: [*module, str(port)], directory / "moto.log") as port:
        yield Moto(port)
