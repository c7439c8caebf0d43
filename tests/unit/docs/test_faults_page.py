"""The page of faults has what the code's table says, and what was seen of all others."""

from __future__ import annotations

from tests.faults.page import PAGE, seen_in, with_rows


def test_the_page_is_what_the_table_and_the_record_make() -> None:
    text = PAGE.read_text("utf-8")
    assert with_rows(text, seen_in(text)) == text
