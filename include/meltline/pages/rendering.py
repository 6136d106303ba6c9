"""Renders pages from templates. All values are escaped: names are third-party text."""

from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from meltline.domain.safe_text import visible
from meltline.domain.units import counted, format_instant, format_size

_TEMPLATES = Path(__file__).with_name("templates")


def render(template: str, *, root: str | None = None, **facts: Any) -> str:
    """Renders a page as HTML, without scripts or external resources.

    Args:
        template: The template's file name.
        root: The path prefix of the site's pages, for links; None makes a self-contained file
            without links.
        facts: The template's values.
    """
    style = None if root is not None else Markup(style_sheet())
    return _environment().get_template(template).render(root=root, style=style, **facts)


@cache
def style_sheet() -> str:
    """Returns the style sheet of all pages."""
    return (_TEMPLATES / "style.css").read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Returns a value as a page shows it: names with escaped control characters."""
    return visible(value, keep="\n") if type(value) is str else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "part": partial(quote, safe=""),  # of an address
        "size": format_size,
        "instant": format_instant,
        "day": lambda day: f"{day:%-d %B %Y}",
        "short_day": lambda day: f"{day:%-d %b}",
        "thousands": lambda number: f"{number:,}",
        "counted": counted,
    }
    return environment
