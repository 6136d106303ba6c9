"""Makes a bucket where there is none: python make_bucket.py ENDPOINT BUCKET."""

import sys

import boto3
from botocore.config import Config


def main(endpoint: str, bucket: str) -> None:
    """A bucket that is ours already is as good as a new one; any other answer is an error."""
    client = boto3.client(
        "s3", endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"})
    )
    try:
        client.create_bucket(Bucket=bucket)
    except client.exceptions.BucketAlreadyOwnedByYou:
        print(f"{bucket} is there already")


if __name__ == "__main__":
    main(*sys.argv[1:])
