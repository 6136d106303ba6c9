"""With what S3 is asked: sessions of STS, roles, what a catalog vends; missing and ended keys."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from meltline.adapters.object_store.deleter import StoreDeleter
from meltline.adapters.object_store.stores import ObjectStores
from meltline.adapters.object_store.vended import vended
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.errors import CredentialsExpired, CredentialsMissing, StoreRefused
from meltline.ports import VendedCredentials
from tests.stacks.fault_proxy import Fault, FaultProxy, Request, fault_proxy
from tests.stacks.s3.moto import ROLE, Moto


@dataclass
class Gate:
    """A store that knows whose keys are good."""

    proxy: FaultProxy
    moto: Moto
    good: set[str] = field(default_factory=set)
    asked_by: set[str] = field(default_factory=set)

    def choose(self, request: Request) -> Fault | None:
        self.asked_by.add(request.key_id)
        return None if request.key_id in self.good else Fault.EXPIRED

    @property
    def where(self) -> dict[str, str]:
        return {**self.moto.where, "s3.endpoint": f"http://127.0.0.1:{self.proxy.port}"}


@pytest.fixture
def gate(moto: Moto) -> Iterator[Gate]:
    with fault_proxy(moto.port) as proxy:
        guard = Gate(proxy, moto)
        proxy.chooses = guard.choose
        yield guard


@dataclass
class Catalog:
    """Vends sessions of STS for one table, as a `loadTable` does; the old ones end at once."""

    gate: Gate
    location: str
    lives: timedelta
    answers: int = 0

    def __call__(self, location: str) -> Sequence[VendedCredentials]:
        self.answers += 1
        end = int((datetime.now(UTC) + self.lives).timestamp() * 1000)
        keys = {**self.gate.moto.session(), "s3.session-token-expires-at-ms": str(end)}
        self.gate.good.add(keys["s3.access-key-id"])
        metadata = {"location": self.location, "properties": {}}
        return vended({"metadata": metadata, "config": keys})


def departed(paths: list[str]) -> list[DepartedObject]:
    return [DepartedObject(path, 1, datetime.now(UTC) + timedelta(hours=1)) for path in paths]


def test_each_table_is_opened_with_its_own_keys_and_other_files_with_the_configured(
    gate: Gate,
) -> None:
    bucket = gate.moto.bucket("vended-each")
    store = ObjectStores({**gate.where, **gate.moto.properties, **gate.where})
    catalogs = [Catalog(gate, f"{bucket}/{name}", timedelta(hours=1)) for name in ("t", "u")]
    for catalog in catalogs:
        store.vended.note(catalog(catalog.location), catalog)
    for name in ("t", "u"):
        gate.asked_by.clear()
        store.write(f"{bucket}/{name}/x", b"x")
        assert [one.path for one in store.list(f"{bucket}/{name}")] == [f"{bucket}/{name}/x"]
        assert gate.asked_by <= gate.good and len(gate.asked_by) == 1
    assert len(gate.good) == 2, "each table has keys of its own"
    with pytest.raises(CredentialsExpired):
        store.read(f"{bucket}/elsewhere/x")
    assert gate.asked_by - gate.good == {"meltline"}
    outcomes = store.delete([f"{bucket}/t/x", f"{bucket}/u/x", f"{bucket}/elsewhere/x"])
    assert [bool(outcome.error) for outcome in outcomes] == [False, False, True]
    assert [catalog.answers for catalog in catalogs] == [1, 1]


def test_vended_keys_are_renewed_before_their_end_without_a_new_store(gate: Gate) -> None:
    bucket = gate.moto.bucket("vended-renewed")
    store, catalog = ObjectStores(gate.where), Catalog(gate, f"{bucket}/t", timedelta(minutes=4))
    store.vended.note(catalog(catalog.location), catalog)
    store.write(f"{bucket}/t/x", b"x")
    time.sleep(0.2)  # obstore asks its provider ten times a second at most
    gate.good.clear()  # what was vended so far is taken back
    catalog.lives = timedelta(hours=1)
    assert store.read(f"{bucket}/t/x") == b"x"
    answers = catalog.answers
    for _ in range(5):
        assert store.size(f"{bucket}/t/x") == 1
    assert catalog.answers == answers, "what is good for an hour is asked for once"


def test_a_token_that_ends_in_mid_purge_is_named_and_the_next_run_goes_on(gate: Gate) -> None:
    bucket = gate.moto.bucket("vended-ended")
    session = gate.moto.session()
    gate.good.add(session["s3.access-key-id"])
    store = ObjectStores({**gate.where, **session})
    paths = [f"{bucket}/t/{number:04}" for number in range(600)]
    for path in paths:
        store.write(path, b"x")
    deletes = 0

    def ends_in_the_middle(request: Request) -> Fault | None:
        nonlocal deletes
        deletes += request.is_bulk_delete
        if deletes > 1:
            gate.good.clear()
        return gate.choose(request)

    gate.proxy.chooses = ends_in_the_middle
    outcomes = StoreDeleter(store, lambda paths: {}).delete(departed(paths), 1000)
    left = [outcome for outcome in outcomes if outcome.error]
    assert 0 < len(left) < len(paths)
    assert all("have ended" in outcome.error for outcome in left[:3])
    gate.proxy.chooses = gate.choose
    again = ObjectStores({**gate.where, **(renewed := gate.moto.session())})
    gate.good.add(renewed["s3.access-key-id"])
    outcomes = StoreDeleter(again, lambda paths: {}).delete(departed(paths), 1000)
    assert not any(outcome.error for outcome in outcomes)
    assert list(again.list(f"{bucket}/t")) == []


def test_a_role_is_assumed_once_and_its_keys_are_used(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in gate.moto.environment.items():
        monkeypatch.setenv(name, text)
    bucket = gate.moto.bucket("by-role")
    gate.proxy.chooses = lambda request: (gate.asked_by.add(request.key_id), None)[1]
    store = ObjectStores({**gate.where, "s3.role-arn": ROLE})
    store.write(f"{bucket}/x", b"x")
    assert store.read(f"{bucket}/x") == b"x"
    (key_id,) = gate.asked_by
    assert key_id not in ("", "meltline") and key_id.startswith("ASIA")


def test_a_profile_of_the_environment_is_read(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bucket = gate.moto.bucket("by-profile")
    keys = tmp_path_factory.mktemp("aws") / "credentials"
    keys.write_text("[lake]\naws_access_key_id=OF-A-PROFILE\naws_secret_access_key=s\n")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_PROFILE", "lake")
    gate.good.add("OF-A-PROFILE")
    ObjectStores(gate.where).write(f"{bucket}/x", b"x")
    assert gate.asked_by == {"OF-A-PROFILE"}


def test_missing_keys_are_named_as_missing_keys(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with fault_proxy(gate.moto.port) as machine:  # a machine whose metadata service has no role
        machine.chooses = lambda request: Fault.DROPPED
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{machine.port}")
        store = ObjectStores(gate.where)
        with pytest.raises(CredentialsMissing, match=r"s3\.access-key-id") as caught:
            store.read("s3://nobodys/x")
        assert "169.254" not in str(caught.value.as_json())
        (outcome,) = store.delete(["s3://nobodys/x"])
        assert "s3.access-key-id and AWS_ACCESS_KEY_ID are not set" in outcome.error


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"s3.access-key-id": "a"}, "s3.secret-access-key is missing"),
        ({"s3.secret-access-key": "a"}, "s3.access-key-id is missing"),
        ({"s3.remote-signing-enabled": "true"}, "s3.remote-signing-enabled is not supported"),
        ({"s3.profile-name": "p"}, "set AWS_PROFILE"),
        ({"s3.role-arn": ROLE, "s3.access-key-id": "a", "s3.secret-access-key": "b"}, ROLE),
    ],
)
def test_what_no_client_here_can_sign_with_is_refused_by_name(
    properties: dict[str, str], named: str
) -> None:
    with pytest.raises(StoreRefused, match=named):
        ObjectStores(properties).read("s3://lake/x")


def test_remote_signing_with_keys_beside_it_is_not_refused(gate: Gate) -> None:
    bucket = gate.moto.bucket("signed")
    keys = {**gate.moto.properties, "s3.remote-signing-enabled": "true"}
    ObjectStores(keys).write(f"{bucket}/x", b"x")


def test_a_bucket_that_keeps_versions_shows_it(gate: Gate) -> None:
    for name, versioned in (("plain", False), ("versions", True)):
        path = f"{gate.moto.bucket(name, versioned=versioned)}/x"
        store = ObjectStores(gate.moto.properties)
        store.write(path, b"x")
        shown = store.measure(path)
        assert shown is not None and shown.is_version is versioned
        assert not store.delete([path])[0].error and store.size(path) is None
        versions = gate.moto.client("s3").list_object_versions(Bucket=name)
        assert len(versions.get("Versions", [])) == versioned, "the bytes that a delete leaves"
