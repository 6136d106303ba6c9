"""Builds the fields of a DAG's trigger form from the options that `RunRequest` declares.

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
