"""Findings of `doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One finding. Its level is `error`, `warning` or `info`."""

    level: str
    code: str
    object: str
    message: str
    fix: str
