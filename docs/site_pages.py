"""MkDocs hook: adds the pages of the root to the site, adapts links, and draws diagrams.

A link to a page of the root leads to that page of the site. A link to other files of the repository
becomes plain text, for the site does not have them. Diagrams are drawn by a copy of Mermaid on the
site itself: without one the theme would load it from a server of others.
"""

import os
import posixpath
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from pymdownx.superfences import fence_code_format

from meltline.jars.jar_paths import jar_folder
from meltline.jars.listed import jars_of

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
}
MERMAID = "assets/mermaid.min.js"
_FENCE = re.compile(r"^ *```.*?^ *```[^\n]*$", re.MULTILINE | re.DOTALL)
_LOADS = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="?(?:https?:)?//[^">]*')
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Draws blocks of the language `mermaid` as diagrams."""
    config.extra_javascript.append(MERMAID)
    fence = {"name": "mermaid", "class": "mermaid", "format": fence_code_format}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages of the root, and Mermaid from the jar that `make docs` fetches."""
    files.append(File.generated(config, MERMAID, content=mermaid()))
    for source, page in ROOT_PAGES.items():
        content = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=adapted(content, source, page)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Adapts the links of a page of docs/."""
    if page.file.generated_by:
        return markdown
    uri = page.file.src_uri
    return adapted(markdown, f"docs/{uri}", uri)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuses a page that loads anything from another server. Raises PluginError."""
    if loaded := _LOADS.search(output):
        raise PluginError(f"{page.file.src_uri} loads from another server: {loaded[0]}")
    return output


def mermaid() -> bytes:
    """The script, of the version in setup/jars.txt."""
    jars = jars_of((ROOT / "setup" / "jars.txt").read_text(encoding="utf-8"))
    (jar,) = (jar for jar in jars if jar.feature == "docs")
    _, artifact, version = jar.coordinates.split(":")
    with ZipFile(jar_folder(os.environ) / jar.name) as archive:
        return archive.read(f"META-INF/resources/webjars/{artifact}/{version}/dist/mermaid.min.js")


def adapted(markdown: str, source: str, page: str) -> str:
    """A page's text with links as the site needs them; code blocks stay as they are.

    Args:
        markdown: The text.
        source: Its path in the repository.
        page: Its path on the site.
    """

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["path"]))
        if not (ROOT / target).exists():
            return match[0]  # MkDocs reports it
        inside = ROOT_PAGES.get(target) or target.removeprefix("docs/")
        if inside == target and target not in ROOT_PAGES:
            return match["text"]
        path = os.path.relpath(inside, posixpath.dirname(page) or ".")
        return f"[{match['text']}]({path}{match['anchor'] or ''})"

    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(link, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(link, markdown[end:])])
