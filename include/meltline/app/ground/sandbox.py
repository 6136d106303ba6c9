"""Sandboxes: warehouses of which a person has said, by a mark, that nobody needs their files."""

from meltline.config.load import Config
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
