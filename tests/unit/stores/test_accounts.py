"""Containers of Azure are opened in their own account; versions of an object have one name."""

from datetime import UTC, datetime
from typing import Any

import pytest
from obstore.store import AzureStore

from meltline.adapters.object_store.cloud import open_cloud_store
from meltline.adapters.object_store.stats import shown

OURS = {
    "adls.account-name": "ours",
    "adls.account-key": "a2V5",
    "adls.account-host": "http://127.0.0.1:1/ours",
}


def config(authority: str, **properties: str) -> dict[str, Any]:
    store = open_cloud_store("abfss", authority, {**OURS, **properties})
    assert isinstance(store, AzureStore)
    return dict(store.config)


@pytest.mark.parametrize(
    "authority", ["c", "c@ours.dfs.core.windows.net", "c@OURS.blob.core.windows.net"]
)
def test_a_container_of_the_configured_account_has_its_key_and_address(authority: str) -> None:
    opened = config(authority)
    assert opened["account_name"] == "ours" and opened["account_key"] == "a2V5"
    assert opened["endpoint"] == "http://127.0.0.1:1/ours"


def test_a_container_of_another_account_has_neither() -> None:
    opened = config("c@theirs.dfs.core.windows.net", **{"adls.sas-token": "sv=1&sig=x"})
    assert opened["account_name"] == "theirs"
    assert not {"account_key", "endpoint", "sas_key"} & set(opened)


def test_a_container_of_another_cloud_is_asked_there() -> None:
    opened = config("c@theirs.dfs.core.chinacloudapi.cn")
    assert opened["endpoint"] == "https://theirs.blob.core.chinacloudapi.cn"


def test_a_listing_and_a_request_of_azure_show_one_version() -> None:
    def seen(etag: str | None, path: str = "abfss://c@a.dfs.core.windows.net/x") -> Any:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        meta: Any = {"size": 1, "last_modified": at, "e_tag": etag, "version": None}
        return shown(path, meta)

    assert seen("0x8D") == seen('"0x8D"') != seen('"0x8E"')
    assert seen('"abc-2"', "s3://b/x").etag == '"abc-2"'
    assert seen('W/"1"').etag == 'W/"1"' and seen(None).etag == ""
