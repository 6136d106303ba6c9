"""Data Docs: one page for each run that can be read offline.

Great Expectations renders the results. Its own page loads styles, icons and scripts from the
network, and links to a site that does not exist here. So the page frame is ours.
"""

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from html import escape
from pathlib import Path
from types import MappingProxyType

from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
)
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.view.view import DefaultJinjaPageView

from meltline.domain.deletion.gate import GateResult
from meltline.domain.units import format_instant
from meltline.file_permissions import Access, make_folder

_SECTIONS = """{% for section in sections %}{% set section_loop = loop -%}
{% include 'section.j2' %}{% endfor %}"""

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .4rem 0 }
td, th { border-bottom: 1px solid #8884; padding: .25rem .8rem; text-align: left;
  vertical-align: top }
article { border-top: 2px solid; margin-top: 2.5rem }
h5, h6 { font-size: 1rem; margin: 1rem 0 .2rem }
.passed, .text-success { color: #2a8a3e }
.refused, .text-danger { color: #d1383d; font-weight: 600 }
.fa-check-circle::before { content: "\\2713" }
.fa-times::before { content: "\\2717" }
.fa-exclamation-triangle::before { content: "\\26A0" }
.collapse:not(:target), .cooltip .top { display: none }
code, pre { font-size: .85em; overflow-wrap: anywhere; white-space: pre-wrap }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
</body>
</html>
"""
_END = "</body>"
_LINK_ELSEWHERE = re.compile(r'<a\b[^>]*\bhref="(?!#)[^"]*"[^>]*>(.*?)</a>', re.DOTALL)


def add_to_page(
    page: Path,
    title: str,
    validation: ExpectationSuiteValidationResult,
    verdicts: Sequence[GateResult],
    now: datetime,
    access: Access = Access.OWNER,
    subjects: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Appends a validation to the run's page, below earlier ones.

    Refused plans come first. `subjects` has the subject of each plan.

    A gate that runs again, or in parallel with another one of the run, appends and removes nothing.
    The page is replaced atomically, so a reader never sees half of it.

    Raises:
        OSError: The page cannot be read or written.
    """
    article = _article(validation, verdicts, now, subjects)
    make_folder(page.parent, access)
    with _alone_in(page.parent):
        before = page.read_text("utf-8") if page.exists() else ""
        if _END not in before:
            before = _PAGE.format(title=escape(title), style=_STYLE)
        body, _, tail = before.rpartition(_END)
        handle, temporary = tempfile.mkstemp(dir=page.parent, suffix=".html.part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{body}{article}\n{_END}{tail}")
        Path(temporary).chmod(access.file)
        Path(temporary).replace(page)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Locks a folder against the gates of the run's other batches, if its file system can."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems lock no folders
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _article(
    validation: ExpectationSuiteValidationResult,
    verdicts: Sequence[GateResult],
    now: datetime,
    subjects: Mapping[str, str],
) -> str:
    suite = escape(verdicts[0].suite)
    refused_first = sorted(verdicts, key=lambda verdict: verdict.passed)
    rows = "\n".join(_verdict(each, subjects.get(each.plan_id, "")) for each in refused_first)
    return f"""<article>
<h2>Suite {suite}, {format_instant(now)}</h2>
<table>
<tr><th>What</th><th>Plan</th><th>Digest</th><th>Verdict</th><th>Evaluated</th>
<th>What did not hold</th></tr>
{rows}
</table>
<details open><summary>Great Expectations' result</summary>
{_sections(validation)}
</details>
</article>"""


def _verdict(verdict: GateResult, subject: str) -> str:
    word = "passed" if verdict.passed else "refused"
    reasons = [
        f"{failure.expectation}: found {failure.observed} ({failure.object})"
        for failure in verdict.failed
    ]
    reasons += [verdict.error] if verdict.error else []
    return (
        f"<tr><td>{escape(subject)}</td><td>{escape(verdict.plan_id)}</td><td><code>{escape(verdict.digest)}</code></td>"
        f'<td class="{word}">{word}</td><td>{verdict.evaluated}</td>'
        f"<td>{'<br>'.join(map(escape, reasons))}</td></tr>"
    )


def _sections(validation: ExpectationSuiteValidationResult) -> str:
    document = ValidationResultsPageRenderer(run_info_at_end=True).render(validation)
    view = DefaultJinjaPageView()
    rendered = view.env.from_string(_SECTIONS).render(document.to_json_dict())
    return _LINK_ELSEWHERE.sub(r"\1", rendered)
