"""Sandboxes: warehouses of which a person has said, by a mark, that nobody needs their files."""

from meltline.config.load import Config
from meltline.domain.clock import NOW
from meltline.domain.errors import NotASandbox
from meltline.ports import ObjectReader

SANDBOX_MARK = ".meltline-sandbox"


def sandbox_mark(config: Config) -> str:
    """Where the mark of the hot warehouse lies, or would; empty where there is no such place."""
    warehouse = config.catalogs[config.hot].warehouse.rstrip("/")
    return f"{warehouse}/{SANDBOX_MARK}" if warehouse else ""


def is_marked(config: Config, store: ObjectReader) -> bool:
    """Whether the hot warehouse bears the mark."""
    mark = sandbox_mark(config)
    return bool(mark) and store.size(mark) is not None


def is_sandbox(config: Config, store: ObjectReader) -> bool:
    """Whether configuration and warehouse both say that this is a sandbox."""
    return config.sandbox and is_marked(config, store)


def require_sandbox(config: Config, store: ObjectReader, purpose: str) -> None:
    """Allows a simulated clock only in a configured and marked sandbox (docs/configure.md).

    Raises:
        NotASandbox: The configuration or the warehouse does not say that it is one.
    """
    marked = is_marked(config, store)
    if not (config.sandbox and marked):
        raise NotASandbox(
            f"{purpose} is for sandboxes only",
            object=config.catalogs[config.hot].warehouse,
            expected=f"sandbox: True in {config.path.name}, and {SANDBOX_MARK} in the warehouse",
            found=f"sandbox: {config.sandbox}, the mark is {'there' if marked else 'missing'}",
            next=_way_into_sandbox(config, marked=marked),
        )


def _way_into_sandbox(config: Config, *, marked: bool) -> str:
    """What is missing for a simulated clock, in the order in which it can be done."""
    steps = [] if config.sandbox else [f"write `sandbox: true` in {config.path.name}"]
    if not marked:
        steps.append(
            f"run `meltline init --sandbox` once without {NOW}: it marks an empty warehouse"
        )
    return f"{', then '.join(steps)}; elsewhere unset {NOW} and use the real clock"
