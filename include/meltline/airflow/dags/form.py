"""Builds the fields of a DAG's trigger form: options that `RunRequest` declares, and texts.

The DAG files use it, so that a form and the command line describe an option in one place.
"""

from typing import Any

from airflow.sdk import Param

from meltline.app.run_request import OPTIONS


def form_field(name: str, **more: Any) -> Param:
    """Returns the field of one option.

    Args:
        name: The option.
        more: This form's overrides and additions, as `Param` takes them.
    """
    option = OPTIONS[name]
    texts = {
        "title": name.replace("_", " ").capitalize(),
        "description_md": option.form or f"{option.help[0].upper()}{option.help[1:]}.",
    }
    return Param(option.notation.blank, **{**option.notation.schema, **texts, **more})


def text_field(title: str, description: str, **more: Any) -> Param:
    """Returns a field for an optional text.

    Args:
        title: The field's label.
        description: The help text below it, in Markdown.
        more: Limits and the section, as `Param` takes them.
    """
    return Param(None, type=["null", "string"], title=title, description_md=description, **more)


def line_field(title: str, description: str, **more: Any) -> Param:
    """Returns a field for an optional text of one line. Takes the arguments of `text_field`."""
    return text_field(title, description, pattern=r"^[^\r\n]+$", **more)
