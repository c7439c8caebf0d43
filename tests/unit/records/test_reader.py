"""Where reading a topic begins."""

from __future__ import annotations

import pytest

from streamlet.errors import ConfigError
from streamlet.records.reader import ReadFrom


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("earliest", ReadFrom("earliest")),
        ("latest", ReadFrom("latest")),
        ("12", ReadFrom("12", offset=12)),
        ("1970-01-02", ReadFrom("1970-01-02", at_ms=86_400_000)),
        ("1970-01-01T01:00:00+01:00", ReadFrom("1970-01-01T01:00:00+01:00", at_ms=0)),
    ],
)
def test_a_place_is_a_word_an_offset_or_a_time(text: str, found: ReadFrom) -> None:
    assert ReadFrom.of(text) == found


@pytest.mark.parametrize(
    "text",
    ["", "soon", "-3", "1.5", "20260101T25", "0001-01-01T00:00+14:00", pytest.param("9" * 5_000)],
    ids=lambda text: text[:24],
)
def test_any_other_place_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"--from {text.replace('+', '.')}: expected earliest"):
        ReadFrom.of(text)


def test_records_have_no_times_before_1970() -> None:
    with pytest.raises(ConfigError, match="records have times from 1970 on"):
        ReadFrom.of("1969-12-31")
