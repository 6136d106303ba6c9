"""Writes docs/decisions/README.md: every decision record in numeric order, under its own title.

python -m tests.decision_index
"""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "decisions"
PAGE = FOLDER / "README.md"


def records() -> list[Path]:
    """The decision records in numeric order."""
    return sorted(FOLDER.glob("[0-9]*.md"))


def written() -> str:
    """The page: what stands above the list today, then one line for each record."""
    intro, _, _ = PAGE.read_text(encoding="utf-8").partition("\n- ")
    titles = [each.read_text(encoding="utf-8").splitlines()[0][2:] for each in records()]
    lines = [f"- [{title}]({each.name})" for title, each in zip(titles, records(), strict=True)]
    return "\n".join([intro, *lines, ""])


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
