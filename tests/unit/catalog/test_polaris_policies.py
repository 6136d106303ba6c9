"""The policy store of Apache Polaris, over HTTP: what is asked, and what answers come to."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from meltline.adapters.catalogs.rest.connection import connect
from meltline.adapters.catalogs.rest.polaris_policies import PolarisPolicies
from meltline.adapters.catalogs.rest.protocol import RestProtocol
from meltline.config.load import CatalogConfig
from meltline.domain.errors import PolicyUnread
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.stated_policies import StatedPolicy, TablePolicies
from tests.stacks.rest.polaris_server import EXPIRY, REMOVAL, PolarisServer, polaris_server

T = TableName("lake", ("air", "eu"), "t x")
AT = ("air", "eu", "t x")


@dataclass
class Asking:
    """A server, and what reads its policies; its clock stands still until a test moves it."""

    server: PolarisServer
    seconds: list[float] = field(default_factory=lambda: [0.0])

    def __post_init__(self) -> None:
        config = CatalogConfig("lake", "rest", self.server.uri, "quick", "lake", False, {})
        protocol = RestProtocol("lake", lambda: connect(config), self.server.uri)
        self.store = PolarisPolicies(protocol, lambda: self.seconds[0])

    def expiry(self) -> StatedPolicy:
        stated = self.store.of([T], anew=True)[T]
        assert isinstance(stated, TablePolicies) and stated.expiry is not None
        return stated.expiry


@pytest.fixture(params=["", "quick"])
def asking(request: pytest.FixtureRequest) -> Iterator[Asking]:
    with polaris_server(prefix=request.param) as server:
        yield Asking(server)


def test_a_table_is_asked_for_by_its_levels_and_name_and_the_nearest_policy_is_named(
    asking: Asking,
) -> None:
    server = asking.server
    server.attach((), "all", {"enable": True, "config": {"max_snapshot_age_days": 30}})
    server.attach(("air",), "air", {"enable": True, "config": {"max_snapshot_age_days": 20}})
    assert asking.expiry() == StatedPolicy("Polaris policy rules.air (inherited)", days=20)
    assert server.asked == [{"namespace": "air\x1feu", "target-name": "t x"}]
    server.attach(AT, "own", {"enable": False}, space="mine")
    own = asking.expiry()
    assert own == StatedPolicy("Polaris policy mine.own (attached to the table)", enabled=False)
    assert own.keeps_all


def test_what_no_policy_is_attached_to_says_nothing(asking: Asking) -> None:
    assert asking.store.of([T]) == {T: TablePolicies()}


def test_both_types_come_in_one_request_and_others_are_passed_over(asking: Asking) -> None:
    server = asking.server
    server.page = 1
    for kind in ("system.data-compaction", "system.metadata-compaction", "site.own"):
        server.attach((), kind, "not even JSON", kind)
    server.attach((), "snapshots", {"enable": True, "config": {"min_snapshot_to_keep": 4}})
    server.attach((), "orphans", {"enable": True, "max_orphan_file_age_in_days": 9}, REMOVAL)
    (stated,) = asking.store.of([T]).values()
    assert isinstance(stated, TablePolicies) and stated.expiry and stated.removal
    assert (stated.expiry.days, stated.expiry.least_snapshots) == (None, 4)
    assert (stated.removal.days, stated.removal.keeps_all) == (9, False)
    assert [query.get("pageToken", "") for query in server.asked] == ["", "1", "2", "3", "4"]


def test_a_server_that_does_not_list_the_endpoint_is_not_asked() -> None:
    with polaris_server(endpoints=()) as server:
        assert Asking(server).store.of([T]) == {} and server.asked == []


def test_a_server_that_has_them_elsewhere_is_not_one_without_policies() -> None:
    """A release of tomorrow: what applies there nobody knows, so the table is left alone."""
    with polaris_server(endpoints=["GET /v2/{prefix}/applicable-policies"]) as server:
        server.refuses[T.name] = (404, "")
        (stated,) = Asking(server).store.of([T]).values()
        assert isinstance(stated, PolicyUnread) and "404" in stated.found


@pytest.mark.parametrize(
    ("said", "days"),
    [(2, 2), ("2", 2), (0, 0), (2.0, 2), (10**9, 10**9), (None, None)],
)
def test_days_are_read_as_a_number_or_as_digits(asking: Asking, said: Any, days: int) -> None:
    asking.server.attach(AT, "p", {"enable": True, "config": {"max_snapshot_age_days": said}})
    assert asking.expiry() == StatedPolicy(
        "Polaris policy rules.p (attached to the table)", days=days
    )


def of(days: Any, **more: Any) -> dict[str, Any]:
    return {"enable": True, "config": {"max_snapshot_age_days": days}, **more}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "whether it is enabled"),
        ("{}", "whether it is enabled"),
        ({"enable": "true"}, "whether it is enabled"),
        ({"enable": None}, "whether it is enabled"),
        (of(2, version="2027-01-01"), "version 2027-01-01"),
        (of(2, version=1), "version 1"),
        (of(2, more=1), "not known here: more"),
        ({"enable": True, "config": {"max_snapshot_age_ms": 10**12}}, "max_snapshot_age_ms"),
        ({"enable": True, "config": {"min_snapshots_to_keep": 3}}, "min_snapshots_to_keep"),
        ({"enable": True, "config": [1]}, "no map"),
        (of(2.5), "2.5"),
        (of(-1), "-1"),
        (of("2 days"), "2 days"),
        (of("٢"), "whole number"),
        (of(True), "True"),
        (of({}), "whole number"),
    ],
)
def test_a_policy_of_which_any_word_is_odd_keeps_everything_and_says_why(
    asking: Asking, content: Any, problem: str
) -> None:
    asking.server.attach(AT, "p", content)
    read = asking.expiry()
    assert read.keeps_all and problem in read.problem and read.days is None


def test_a_policy_that_is_turned_off_may_say_anything_else(asking: Asking) -> None:
    asking.server.attach(AT, "p", {"enable": False, "config": {"key1": "value1"}})
    assert asking.expiry().keeps_all and asking.expiry().problem == ""


def test_two_policies_of_one_type_keep_everything(asking: Asking) -> None:
    asking.server.attach(AT, "p", of(2))
    asking.server.attach(AT, "q", of(9), type="other")
    twin = {**asking.server.applicable(T.namespace, T.name)[1], "policy-type": EXPIRY}
    both = [asking.server.applicable(T.namespace, T.name)[0], twin]
    asking.server.refuses[T.name] = 200, json.dumps({"applicable-policies": both})
    assert "not the only one" in asking.expiry().problem and "rules.q" in asking.expiry().problem


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (403, '{"error": {"type": "ForbiddenException", "message": "no", "code": 403}}'),
        (404, "{}"),
        (500, "oops"),
        (503, "{}"),
        (204, ""),
        (200, "oops"),
        (200, "[]"),
        (200, "{}"),
        (200, '{"applicable-policies": null}'),
        (200, '{"applicable-policies": [1]}'),
        (200, '{"applicable-policies": [], "next-page-token": "0"}'),
    ],
)
def test_what_is_no_answer_is_an_error_of_that_table_alone(
    asking: Asking, status: int, body: str
) -> None:
    asking.server.attach((), "all", of(3))
    asking.server.refuses[T.name] = status, body
    u = TableName("lake", ("air",), "u")
    told = asking.store.of([T, u])
    unread, other = told[T], told[u]
    assert isinstance(unread, PolicyUnread) and unread.object == str(T) and unread.found
    assert isinstance(other, TablePolicies) and other.expiry and other.expiry.days == 3


@pytest.mark.parametrize("was_there", [True, False])
def test_a_server_that_is_gone_is_an_error(was_there: bool) -> None:
    with polaris_server() as server:
        asking = Asking(server)
        if was_there:
            assert asking.store.of([T]) == {T: TablePolicies()}
    assert isinstance(asking.store.of([T], anew=True)[T], PolicyUnread)


def test_an_answer_is_remembered_for_some_minutes_and_never_by_who_asks_anew(
    asking: Asking,
) -> None:
    asking.server.attach((), "all", of(3))
    for _ in range(3):
        assert asking.store.of([T])
    assert len(asking.server.asked) == 1
    asking.server.attach((), "all", of(4))
    assert asking.expiry().days == 4 and len(asking.server.asked) == 2
    asking.seconds[0] += 301
    asking.store.of([T])
    assert len(asking.server.asked) == 3


def test_a_failure_is_not_remembered(asking: Asking) -> None:
    asking.server.refuses[T.name] = 503, "{}"
    assert isinstance(asking.store.of([T])[T], PolicyUnread)
    asking.server.refuses.clear()
    assert asking.store.of([T]) == {T: TablePolicies()}
