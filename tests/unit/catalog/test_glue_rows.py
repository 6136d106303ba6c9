"""Glue's version does not tell a table from one that was made anew under its name."""

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from meltline.adapters.catalogs.metastores.glue import GlueRows
from meltline.adapters.catalogs.metastores.rows import LOCATION, TABLE_TYPE, Row

MADE = datetime(2026, 3, 1, tzinfo=UTC)
AT = {"DatabaseName": "air", "Name": "t"}


def table(location: str = "s3://w/a.json", **changes: Any) -> dict[str, Any]:
    parameters = {TABLE_TYPE: "ICEBERG", LOCATION: location}
    return {"Name": "t", "VersionId": "0", "CreateTime": MADE, "Parameters": parameters} | changes


def replaced(standing: dict[str, Any] | None) -> bool:
    """Whether a row is replaced that was read before; Glue is asked nothing but what is told."""
    client = boto3.client(
        "glue", region_name="eu-central-1", aws_access_key_id="k", aws_secret_access_key="s"
    )
    read = table()
    row = Row("air", "t", read["Parameters"], read)
    with Stubber(client) as glue:
        if standing is None:
            glue.add_client_error("get_table", "EntityNotFoundException", expected_params=AT)
        else:
            glue.add_response("get_table", {"Table": standing}, AT)
        if standing == read:
            glue.add_response("update_table", {})
        done = GlueRows("lake", client).replace(row, {**row.parameters, LOCATION: "s3://w/b.json"})
        glue.assert_no_pending_responses()
    return done


def test_a_row_that_is_what_was_read_is_replaced() -> None:
    assert replaced(table())


@pytest.mark.parametrize(
    "standing",
    [
        None,
        table(CreateTime=MADE + timedelta(seconds=1)),
        table(location="s3://w/theirs.json"),
        table(VersionId="1"),
    ],
    ids=["gone", "made anew at the same file", "made anew", "changed"],
)
def test_a_row_that_is_another_by_now_is_not_asked_to_change(
    standing: dict[str, Any] | None,
) -> None:
    assert not replaced(standing)
