"""What still has the bytes of a chunk that was dropped: tags and branches from before it."""

from meltline.app.chunks.reading.status import list_chunks
from tests.chunks.chunk_tables import day_name
from tests.unit.chunks.tiers import Tiers


def kept_by(tiers: Tiers, day: int) -> tuple[str, ...]:
    lines = {line.chunk.name: line for line in list_chunks(tiers.lake.services(), tiers.hot.name)}
    return tuple(k for k in lines[day_name(day)].kept_by if "consumer" not in k)


def test_a_tag_from_before_a_drop_is_named_with_its_end_and_one_from_after_it_is_not() -> None:
    tiers = Tiers()
    tiers.hot.tag("q1", tiers.hot.head, **{"max-ref-age-ms": 86_400_000})
    tiers.hot.branch("audit", tiers.hot.head)
    tiers.add_policy()
    tiers.run("drops")
    tiers.hot.tag("later", tiers.hot.head)
    branch, tag = kept_by(tiers, 0)
    assert branch == "branch audit for ever"
    assert tag.startswith("tag q1 until 2026-")
    assert kept_by(tiers, 5) == ()
