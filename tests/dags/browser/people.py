"""A person at Airflow's page: Debian's Chromium, driven by Playwright."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.dags.airflow_home import RunningAirflow

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE = 30_000  # milliseconds, for a page on a busy machine


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window; where there is none the tests are skipped (tests.real_parts)."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("no browser is installed (Debian: apt-get install chromium)")
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright:
        # Its sandbox needs a user other than root, which CI has not; it sees our own pages alone.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def take_picture(page: Page, name: str) -> None:
    """Writes what a person sees into the folder for it, where one is given (`make pictures`)."""
    if folder := os.environ.get("MELTLINE_PICTURES"):
        page.wait_for_load_state("networkidle")
        page.screenshot(path=Path(folder, f"{name}.png"))


@dataclass(frozen=True)
class Form:
    """A DAG's form, open."""

    page: Page

    @property
    def button(self) -> Locator:
        """What submits it."""
        return self.page.get_by_test_id("trigger-dag-submit")

    def field(self, name: str) -> Locator:
        """A parameter's field."""
        return self.page.locator(f"#element_{name}")

    def order_backfill(self, first: str, last: str) -> None:
        """Has the form be one for a range of days."""
        self.page.get_by_text("Backfill", exact=True).click()
        for number, day in enumerate((first, last)):
            self.page.get_by_test_id("datetime-input").nth(number).click()
            for part, text in (("YYYY/MM/DD", day.replace("-", "/")), ("HH:mm", "00:00")):
                field = self.page.get_by_placeholder(part).locator("visible=true")
                field.fill(text)
                field.press("Tab")
            self.page.get_by_text("Date Range").click()
            over = self.page.get_by_placeholder("HH:mm").locator("visible=true")
            expect(over).to_have_count(0)  # the calendar that lies over the form

    @property
    def backfill_button(self) -> Locator:
        """What orders the backfill."""
        return self.page.get_by_role("button", name="Run Backfill")

    def fill(self, name: str, text: str) -> None:
        """Writes into a field, in whatever part of the form it is."""
        part = self.page.locator('[data-scope="accordion"][data-part="item"]').filter(
            has=self.field(name)
        )
        if not self.field(name).is_visible():
            part.locator('[data-part="item-trigger"]').first.click()
        self.field(name).fill(text)

    @property
    def complaint(self) -> Locator:
        """What Airflow writes beside a field that it takes for missing."""
        return self.page.get_by_text("This field is required")

    def submit(self) -> None:
        """Triggers the run; the form closes."""
        self.button.click()
        expect(self.button).to_have_count(0)


@dataclass(frozen=True)
class Question:
    """What a run asks a person, open."""

    page: Page

    def option(self, name: str) -> Locator:
        """What answers it."""
        return self.page.get_by_test_id(f"hitl-option-{name}")

    def answer(self, name: str, reason: str) -> None:
        """Answers, and says why."""
        self.page.locator("#element_reason").fill(reason)
        self.option(name).click()
        expect(self.page.get_by_text("Response received at")).to_be_visible()


@dataclass(frozen=True)
class Person:
    """Somebody who is logged in."""

    page: Page

    @classmethod
    def logged_in(cls, browser: Browser, airflow: RunningAirflow) -> "Person":
        """Logs in as one does: by name and password."""
        window = browser.new_context(
            base_url=str(airflow.client.base_url), viewport={"width": 1200, "height": 900}
        )
        page = window.new_page()
        page.set_default_timeout(_PATIENCE)
        passwords = json.loads(Path(airflow.home.home, "passwords.json").read_text())
        page.goto("/")
        page.locator('input[name="username"]').fill("admin")
        page.locator('input[name="password"]').fill(passwords["admin"])
        page.locator('button[type="submit"]').click()
        page.wait_for_url(lambda url: "/auth/login" not in url)
        return cls(page)

    def open_question(self, dag_id: str, run_id: str) -> "Question":
        """Opens what a run asks, as the link under *Required actions* does."""
        run = quote(run_id, safe="")
        self.page.goto(f"/dags/{dag_id}/runs/{run}/tasks/ask/required_actions")
        question = Question(self.page)
        expect(question.option("Approve")).to_be_visible()
        return question

    def open_form(self, dag_id: str) -> Form:
        """Opens the form of a DAG, as its page has it."""
        self.page.goto(f"/dags/{dag_id}")
        self.page.get_by_test_id("trigger-dag-button").first.click()
        form = Form(self.page)
        expect(form.button).to_be_visible()
        return form
