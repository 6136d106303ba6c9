"""The fields of a form by which a run is asked for, as `RunRequest` declares its options."""

from typing import Any

from airflow.sdk import Param

from meltline.app.run_request import OPTIONS


def form_field(name: str, **more: Any) -> Param:
    """The field of one option.

    Args:
        name: The option.
        more: What this form has otherwise, or besides, as `Param` takes it.
    """
    option = OPTIONS[name]
    texts = {
        "title": name.replace("_", " ").capitalize(),
        "description_md": option.form or f"{option.help[0].upper()}{option.help[1:]}.",
    }
    return Param(option.notation.blank, **{**option.notation.schema, **texts, **more})
