"""Topics that take less than the producer: known before anything is sent."""

from __future__ import annotations

import pytest

from streamlet.kafka.limits import NO_LIMITS, TopicLimits, first_too_large


@pytest.mark.parametrize(
    ("topics", "producer", "by_topic", "settings"),
    [
        ({}, {}, {}, {}),
        ({"a": 1_048_588, "b": 1_000_000}, {}, {}, {}),
        ({"a": 1_048_588, "b": 999_999, "c": 50}, {}, {"b": 999_999, "c": 50}, {"batch.size": 50}),
        ({"a": 5_000}, {"message.max.bytes": "4000"}, {}, {}),
        ({"a": 2_000}, {"message.max.bytes": 3_000}, {"a": 2_000}, {"batch.size": 2_000}),
        ({"a": 50}, {"compression.type": "zstd"}, {}, {"batch.size": 50}),
        ({"a": 50}, {"compression.codec": "none"}, {"a": 50}, {"batch.size": 50}),
    ],
)  # fmt: skip
def test_what_counts_is_what_is_below_the_producers(
    topics: dict[str, int],
    producer: dict[str, object],
    by_topic: dict[str, int],
    settings: dict[str, int],
) -> None:
    found = TopicLimits.of(topics, producer)
    assert (dict(found.by_topic), dict(found.settings)) == (by_topic, settings)


def test_most_applications_have_none() -> None:
    assert TopicLimits.of({"a": 1_048_588}, {}) is NO_LIMITS


def test_the_first_too_large_record_is_found() -> None:
    """88 bytes are taken by the batch, 10 and its length by each header."""
    keys = [b"k", None, b"kk", b"k"]
    values = [b"v" * 10, None, b"v" * 10, b"v" * 20]
    assert first_too_large(keys, values, None, 88 + 21) is None
    assert first_too_large(keys, values, None, 88 + 20) == 3
    assert first_too_large(keys, values, None, 88 + 11) == 2
    assert first_too_large(keys, values, None, 88 + 10) == 0
    headers = [None, [("name", b"text"), ("none", None)], None, None]
    assert first_too_large(keys, values, headers, 88 + 32) is None
    assert first_too_large(keys, values, headers, 88 + 31) == 1
