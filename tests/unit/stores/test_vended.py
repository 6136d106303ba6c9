"""What a REST catalog vends: read from its answer, found by the longest prefix, renewed in time."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from meltline.adapters.object_store.vended import VendedPrefixes, vended
from meltline.domain.errors import CatalogUnlistable, CredentialsExpired
from meltline.ports import VendedCredentials

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TABLE = "s3://lake/wh/t"
KEYS = {"s3.access-key-id": "A", "s3.secret-access-key": "B", "s3.session-token": "C"}


def answer(config: dict[str, str], *listed: tuple[str, dict[str, str]], **more: Any) -> Any:
    return {
        "metadata-location": f"{TABLE}/metadata/3.metadata.json",
        "metadata": {"location": TABLE, "properties": more},
        "config": config,
        "storage-credentials": [{"prefix": prefix, "config": keys} for prefix, keys in listed],
    }


def prefixes(response: Any) -> dict[str, VendedCredentials]:
    return {each.prefix: each for each in vended(response)}


def test_an_answer_without_credentials_vends_none() -> None:
    assert vended(answer({"s3.endpoint": "http://x", "token": "t"})) == []
    assert vended({"metadata": {"location": TABLE}}) == []


def test_the_config_opens_all_places_of_its_table_until_its_end() -> None:
    end = {"s3.session-token-expires-at-ms": str(int(NOW.timestamp() * 1000))}
    data = {"write.data.path": "s3a://data/t/", "write.metadata.path": "s3://meta/t"}
    got = prefixes(answer({**KEYS, **end, "s3.endpoint": "http://x", "uri": "u"}, **data))
    assert set(got) == {f"{TABLE}/", "s3://data/t/", "s3://meta/t/", f"{TABLE}/metadata/"}
    for each in got.values():
        assert each.expires_at == NOW
        assert each.properties == {**KEYS, **end, "s3.endpoint": "http://x"}
        assert "session-token" not in repr(each)


@pytest.mark.parametrize("prefix", ["s3", "s3://", "s3://lake", "s3a://lake/wh/", "s3://lake/wh/t"])
def test_a_wide_prefix_speaks_of_the_tables_own_places_alone(prefix: str) -> None:
    got = prefixes(answer({"client.region": "r"}, (prefix, KEYS)))
    assert set(got) == {f"{TABLE}/", f"{TABLE}/metadata/"}
    assert got[f"{TABLE}/"].properties == {**KEYS, "client.region": "r"}


def test_the_longest_prefix_wins_and_other_clouds_are_not_opened_by_it() -> None:
    other = {**KEYS, "s3.access-key-id": "other"}
    got = prefixes(
        answer(KEYS, ("gs", {"gcs.oauth2.token": "g"}), (f"{TABLE}/data", other), ("s3", KEYS))
    )
    assert got[f"{TABLE}/data/"].properties["s3.access-key-id"] == "other"
    assert got[f"{TABLE}/"].properties["s3.access-key-id"] == "A"
    assert not any("gcs.oauth2.token" in each.properties for each in got.values())


def test_the_first_end_counts_and_what_is_no_number_names_none() -> None:
    tokens = {
        "adls.sas-token.acct.dfs.core.windows.net": "sig",
        "adls.sas-token-expires-at-ms.acct.dfs.core.windows.net": "2000",
    }
    google = {"gcs.oauth2.token": "g", "gcs.oauth2.token-expires-at": "1000"}
    assert {each.expires_at for each in vended(answer({**tokens, **google}))} == {
        datetime.fromtimestamp(1, UTC)
    }
    odd = {**KEYS, "s3.session-token-expires-at-ms": "soon"}
    assert {each.expires_at for each in vended(answer(odd))} == {None}


@dataclass
class Catalog:
    """Vends what it is told to, and counts how often it was asked."""

    ends: list[timedelta]
    down: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, location: str) -> Sequence[VendedCredentials]:
        self.asked.append(location)
        if self.down:
            raise CatalogUnlistable("down", object="c", expected="", found="", next="")
        end = NOW + self.ends.pop(0)
        return [VendedCredentials(f"{TABLE}/", {**KEYS, "n": str(len(self.asked))}, end)]


@dataclass
class Watch:
    """A clock that is set."""

    at: datetime = NOW

    def __call__(self) -> datetime:
        return self.at


def noted(catalog: Catalog, watch: Watch) -> VendedPrefixes:
    prefixes = VendedPrefixes(watch)
    prefixes.note(catalog(TABLE), catalog)
    catalog.asked.clear()
    return prefixes


HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def test_a_file_is_opened_by_the_longest_prefix_above_it() -> None:
    prefixes = VendedPrefixes(Watch())
    assert prefixes.prefix_of(f"{TABLE}/data/x") == ""
    deep, wide = f"{TABLE}/data/", "s3://lake/wh/t/"
    prefixes.note([VendedCredentials(deep, {}), VendedCredentials(wide, {})], Catalog([]))
    assert prefixes.prefix_of(f"{TABLE}/data/a/x") == deep
    assert prefixes.prefix_of("s3a://lake//wh/t/metadata/x") == wide
    for foreign in ("s3://lake/wh/t2/x", "s3://lake/wh/x", "s3://other/wh/t/x", "gs://lake/wh/t/x"):
        assert prefixes.prefix_of(foreign) == ""


def test_credentials_are_renewed_before_they_end_and_not_sooner() -> None:
    catalog, watch = Catalog([HOUR, 2 * HOUR]), Watch()
    prefixes = noted(catalog, watch)
    watch.at = NOW + 54 * MINUTE
    assert prefixes.current(f"{TABLE}/").expires_at == NOW + HOUR and catalog.asked == []
    watch.at = NOW + 56 * MINUTE
    assert prefixes.current(f"{TABLE}/").expires_at == NOW + 2 * HOUR
    assert catalog.asked == [f"{TABLE}/"]


def test_while_the_catalog_is_down_what_has_not_ended_goes_on_and_what_has_is_named() -> None:
    catalog, watch = Catalog([HOUR, MINUTE]), Watch()
    prefixes = noted(catalog, watch)
    catalog.down, watch.at = True, NOW + 58 * MINUTE
    assert prefixes.current(f"{TABLE}/").expires_at == NOW + HOUR
    watch.at = NOW + HOUR
    with pytest.raises(CatalogUnlistable):
        prefixes.current(f"{TABLE}/")
    catalog.down = False
    with pytest.raises(CredentialsExpired, match=TABLE):
        prefixes.current(f"{TABLE}/")


def test_what_never_ends_is_never_asked_for_again() -> None:
    catalog, prefixes = Catalog([]), VendedPrefixes(Watch())
    prefixes.note([VendedCredentials(TABLE, KEYS)], catalog)
    assert prefixes.current(f"{TABLE}/").properties == KEYS and catalog.asked == []


def test_prefixes_can_be_sent_to_another_process_and_renew_there() -> None:
    watch = Watch()
    sent = pickle.loads(pickle.dumps(noted(Catalog([MINUTE, HOUR]), watch)))
    assert sent.current(f"{TABLE}/").expires_at == NOW + HOUR
