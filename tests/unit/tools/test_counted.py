"""Numbers of things in texts for people."""

from __future__ import annotations

import pytest

from streamlet.counted import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("record",), "0 records"),
        (1, ("record",), "1 record"),
        (2_000, ("record",), "2,000 records"),
        (1, ("batch", "batches"), "1 batch"),
        (2, ("batch", "batches"), "2 batches"),
        (1, ("letter was", "letters were"), "1 letter was"),
    ],
)
def test_a_number_has_the_words_for_so_many(number: int, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text
