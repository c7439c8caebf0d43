"""The pages of the documentation are short enough to be read."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"
#: As ``wc -w`` counts, tables and code included.
MOST_WORDS = 3_000


def test_no_page_has_more_words_than_are_read_at_once() -> None:
    """Else make two of it, by subject."""
    words = {
        page.relative_to(DOCS).as_posix(): len(page.read_text("utf-8").split())
        for page in DOCS.rglob("*.md")
    }
    assert len(words) > 50
    assert {page: count for page, count in words.items() if count > MOST_WORDS} == {}
