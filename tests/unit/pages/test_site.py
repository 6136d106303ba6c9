"""The pages: what they say of runs, plans and gates, and that they show no name as markup."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from urllib.parse import quote

import httpx
import pytest
from starlette.testclient import TestClient

from meltline.app.run.lifecycle import run_step
from meltline.app.run.recorded import run_recorded
from meltline.app.run.steps import STEPS
from meltline.domain.deletion.plan import PlanKind
from meltline.pages.lake_picture import lake_picture
from meltline.pages.site import site
from meltline.ports import Approval, RunRecord
from tests.lake.lake import ROOMY, Lake
from tests.unit.plan.test_chain import daily

NASTY = "lake.air.`<img src=x>`"
RUN = "scheduled__2026-01-13T00:00:00+00:00"


@dataclass(frozen=True)
class Browser:
    """Somebody who may read, before a lake's pages."""

    lake: Lake
    client: TestClient

    @classmethod
    def before(cls, lake: Lake, root: str = "") -> "Browser":
        app = site(lambda: nullcontext(lake.services()), lambda: None)
        return cls(lake, TestClient(app, root_path=root, raise_server_exceptions=False))

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def text(self, path: str) -> str:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text


def judged_lake() -> Lake:
    """A night in which a plan passed, one was refused, and a table was skipped."""
    lake = Lake(limits=replace(ROOMY, max_delete_ratio=0.7))
    daily(lake, 12, "refused")  # all of it goes but the head
    lake.run()  # what is due later is no backlog of a first night
    daily(lake, 30, NASTY)
    broken = lake.table("broken")
    broken.overwrite("x")
    lake.on(30).spoil(broken.metadata_location)
    run_recorded(lake.services(), lake.request(RUN))
    return lake


@pytest.fixture(scope="module")
def browser() -> Browser:
    return Browser.before(judged_lake())


def in_order(text: str, *words: str) -> bool:
    places = [text.index(word) for word in words]
    return places == sorted(places)


def test_the_index_has_runs_by_day_and_says_how_each_ended(browser: Browser) -> None:
    text = browser.text("/")
    assert in_order(text, "31 January 2026", "2026-01-31T00:00:00Z", "outcome refused")
    assert f"/runs/{quote(RUN, safe='')}" in text


def test_a_run_shows_what_was_refused_before_what_passed_and_what_was_skipped(
    browser: Browser,
) -> None:
    text = browser.text(f"/runs/{quote(RUN, safe='')}")
    gates = text[text.index('id="gates"') :]
    left_out = text[: text.index('id="gates"')]
    assert "lake.air.broken" in left_out and "skipped" in left_out
    assert in_order(gates, "lake.air.refused", "&lt;img")
    plan, *_ = (p for p in browser.lake.control.plans.find() if p.table.name == "refused")
    assert "delete_ratio" in gates and "between 0 and 0.7" in gates
    assert f"/plans/{plan.id}" in gates


def test_a_plan_has_each_found_value_beside_its_limit_what_did_not_hold_first(
    browser: Browser,
) -> None:
    plan, *_ = (p for p in browser.lake.control.plans.find() if p.table.name == "refused")
    text = browser.text(f"/plans/{plan.id}")
    checks = text[text.index('id="gate"') :]
    assert in_order(checks, "delete_ratio", "did not hold", "digest_matches", "held")
    assert "planned share of the bytes" in checks  # what the fact says
    verdict = browser.lake.control.verdicts.newest([plan.id])[plan.id]
    assert {found.observed for found in verdict.failed} <= set(checks.replace("<", ">").split(">"))
    assert plan.digest in text and f"{plan.files}" in text


def test_a_plan_is_found_by_the_beginning_of_its_id_and_lists_its_files_when_asked(
    browser: Browser,
) -> None:
    plan, *_ = (p for p in browser.lake.control.plans.find() if p.table.name == "refused")
    without, whole = (browser.text(f"/plans/{plan.id[:9]}{more}") for more in ("", "?items=true"))
    files = browser.lake.files.items.of([plan.id])[plan.id]
    assert files and not [file.path for file in files if file.path in without]
    assert [file.path for file in files if file.path not in whole] == []


def test_who_approved_a_purge_and_why_stands_on_its_page() -> None:
    lake = Lake()
    daily(lake, 12)
    lake.on(12).run()
    lake.on(20).run()
    (plan,) = (plan for plan in lake.control.plans.find() if plan.kind is PlanKind.PURGE)
    word = Approval(plan.id, plan.digest, "ann", "<b>GDPR</b>", lake.clock.now())
    lake.control.verdicts.approve(word)
    text = Browser.before(lake).text(f"/plans/{plan.id}")
    assert "By ann at 2026-01-21T00:00:00Z: &lt;b&gt;GDPR&lt;/b&gt;" in text


def test_no_name_is_ever_read_as_markup(browser: Browser) -> None:
    (plan,) = (p for p in browser.lake.control.plans.find() if "img" in p.table.name)
    for path in ("/", f"/runs/{quote(RUN, safe='')}", "/plans", f"/plans/{plan.id}", "/storage"):
        assert "<img" not in browser.text(path), path
    assert "&lt;img" in browser.text("/storage")


def test_of_a_run_only_one_kind_or_batch_is_shown_if_that_is_asked_for(browser: Browser) -> None:
    path = f"/runs/{quote(RUN, safe='')}"
    assert "lake.air.refused" in browser.text(f"{path}?kind=expire&batch=1").split('id="gates"')[1]
    other = browser.text(f"{path}?kind=purge").split('id="gates"')[1]
    assert "lake.air.refused" not in other and "Nothing was planned" in other
    assert browser.get(f"{path}?kind=drop").status_code == 422


def test_a_run_that_goes_on_says_so() -> None:
    lake = Lake()
    daily(lake, 12)
    now = lake.on(12).clock.now()
    lake.control.runs.start(RunRecord("manual__1", now, now))
    run_step(STEPS[2], lake.services(), lake.request("manual__1"))
    text = Browser.before(lake).text("/runs/manual__1")
    assert "unfinished" in text and "no end is known" in text and "planned" in text


def test_older_runs_are_a_page_away() -> None:
    lake = Lake()
    for day in range(25):
        start = lake.on(day).clock.now()
        lake.control.runs.finish(RunRecord(f"r{day}", start, start, start))
    browser = Browser.before(lake)
    first = browser.text("/")
    assert "/runs/r24" in first and '/runs/r5"' in first and '/runs/r4"' not in first
    assert "?before=2026-01-06T00%3A00%3A00Z" in first
    second = browser.text("/?before=2026-01-06T00%3A00%3A00Z")
    assert '/runs/r4"' in second and '/runs/r5"' not in second and "Older" not in second
    assert browser.get("/?before=yesterday").status_code == 400


def test_links_go_where_the_site_is_mounted() -> None:
    text = Browser.before(judged_lake(), "/airflow/meltline").text("/")
    assert 'href="/airflow/meltline/style.css"' in text
    assert f'href="/airflow/meltline/runs/{quote(RUN, safe="")}"' in text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/runs/never", 404, "meltline runs"),
        ("/plans/never", 404, "never"),
        ("/api/runs/never", 404, '"RunNotFound"'),
        ("/api/plans/never", 404, '"PlanNotFound"'),
        ("/api/storage?by=day", 400, "UsageInvalid"),
        ("/nothing", 404, "there is no such page"),
        ("/docs", 404, "there is no such page"),
    ],
)
def test_what_is_not_there_is_named_with_the_next_step(
    browser: Browser, path: str, status: int, words: str
) -> None:
    answer = browser.get(path)
    assert (answer.status_code, words in answer.text) == (status, True), answer.text


def test_what_nobody_foresaw_tells_no_trace() -> None:
    def broken() -> object:
        raise RuntimeError("postgresql://ann:secret@db/control")

    client = TestClient(site(broken, lambda: None), raise_server_exceptions=False)  # type: ignore[arg-type]
    answer = client.get("/")
    assert answer.status_code == 500 and "secret" not in answer.text
    assert "RuntimeError" in answer.text and "content-security-policy" in answer.headers


def test_every_answer_keeps_a_browser_from_scripts_frames_and_caches(browser: Browser) -> None:
    for path in ("/", "/style.css", "/api/storage", "/nothing", "/plans/never"):
        headers = browser.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'"), path
        assert "script-src" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_pages_have_no_style_and_no_script_of_their_own(browser: Browser) -> None:
    for path in ("/", "/plans", "/storage", "/plans/last", "/nothing"):
        text = browser.get(path).text
        assert " style=" not in text and "<style" not in text and "javascript:" not in text
        assert " on" + "click" not in text


def test_the_picture_is_of_what_the_runs_recorded_and_of_now(browser: Browser) -> None:
    text = browser.text("/storage")
    assert "lake.air.refused" in text and "<svg" in text and "The next 14 days" in text
    assert "lake.air.broken is unreadable" in text
    assert "lake.air.refused" not in browser.text("/storage?tables=*img*")


def test_what_comes_due_is_what_waits_in_failsafe_by_its_day() -> None:
    lake = Lake()
    daily(lake, 12)
    lake.on(12).run()
    waiting = lake.waiting()
    coming = lake_picture(lake.services()).coming
    assert len(coming) == 14
    by_day = {day: size for day, size in coming.items() if size}
    assert set(by_day) == {due.date() for due in waiting.values()}
    (row,) = [row for row in lake_picture(lake.services()).days if row.table == "lake.air.t"][-1:]
    assert sum(by_day.values()) == row.failsafe > 0
