"""What `doctor` tells of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing to know. Level is `error`, `warning` or `info`."""

    level: str
    code: str
    object: str
    message: str
    fix: str
