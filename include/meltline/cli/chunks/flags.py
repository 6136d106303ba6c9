"""Commands for a single chunk: chunks tier, untier.

`commands` loads it by name.
"""

from meltline.app.chunks import flags
from meltline.cli.chunks.declared import ChunkArgument
from meltline.cli.options import AsJson, ConfigPath, ready, ready_wiring
from meltline.cli.output import answer
from meltline.domain.chunks.ranges import chunk_address


def tier(chunk: ChunkArgument, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Flag one chunk if it is proved to be in cold, whatever its age; nothing leaves hot."""
    table, name = flags.parse_chunk(chunk)
    wiring, _ = ready_wiring(config)
    flag = flags.tier_chunk(wiring.services("chunks tier"), table, name)
    document = {
        "chunk": flag.chunk,
        "tiered": flag.is_tiered,
        "reason": str(flag.reason) if flag.reason else None,
        "why": flag.why or None,
    }
    why = f"{flag.reason}: {flag.why}" if flag.reason else flag.why
    line = "is tiered: cold has all its rows." if flag.is_tiered else f"is not tiered: {why}."
    answer(document, [f"{flag.chunk} {line}"], as_json=as_json)
    return 0 if flag.is_tiered else 3


def untier(chunk: ChunkArgument, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Remove one chunk's flag: it is active until it is proved again."""
    table, name = flags.parse_chunk(chunk)
    active = flags.untier_chunk(ready(config), table, name)
    address = chunk_address(table, name)
    document = {"chunk": address, "status": str(active.status)}
    return answer(document, [f"{address} is {active.status} again."], as_json=as_json)
