"""Topics that take less than the producer: known before anything is sent."""

from __future__ import annotations

import attrs
import pytest

from streamlet.clock import ManualClock
from streamlet.kafka.limits import (
    NO_LIMITS,
    LearnedLimits,
    TimeLimit,
    TopicLimits,
    first_too_large,
)
from streamlet.kafka.ports import OutgoingRecords


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
    settings_of = {topic: {"max.message.bytes": str(most)} for topic, most in topics.items()}
    found = TopicLimits.of(settings_of, producer)
    assert (dict(found.by_topic), dict(found.settings)) == (by_topic, settings)


def test_most_applications_have_none() -> None:
    before_4 = {"message.timestamp.type": "CreateTime", AFTER: NEVER, BEFORE: NEVER}
    settings = {"a": {"max.message.bytes": "1048588"}, "b": before_4}
    assert TopicLimits.of(settings, {}) == attrs.evolve(NO_LIMITS, known=frozenset("ab"))


NEVER = str(2**63 - 1)
AFTER, BEFORE = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({AFTER: "3600000", BEFORE: NEVER}, TimeLimit(2**63 - 1, 3_600_000)),
        ({AFTER: NEVER, BEFORE: "5"}, TimeLimit(5, 2**63 - 1)),
        ({AFTER: "7", BEFORE: "5", "message.timestamp.type": "CreateTime"}, TimeLimit(5, 7)),
        ({AFTER: "7", "message.timestamp.type": "LogAppendTime"}, None),
        ({"message.timestamp.difference.max.ms": "9"}, TimeLimit(9, 9)),
        ({"message.timestamp.difference.max.ms": NEVER}, None),
        ({}, None),
    ],
)
def test_the_limit_of_times_is_that_of_the_topic(
    settings: dict[str, str], limit: TimeLimit | None
) -> None:
    found = TopicLimits.of({"a": settings}, {})
    assert found.times == ({} if limit is None else {"a": limit})


def test_the_first_time_that_a_topic_does_not_take_is_found_and_told() -> None:
    limit = TimeLimit(before_ms=5, after_ms=3_600_000)
    now = 1_000_000
    assert limit.first_refused([now - 5, now + 3_600_000], now) is None
    assert limit.first_refused([], now) is None
    assert limit.first_refused([now, now + 3_600_001, now - 6], now) == 1
    assert limit.first_refused([now, now - 6, now + 3_600_001], now) == 1
    late = limit.reason(now + 7_200_000, now)
    assert late == (
        "its time, 8200000, is 7,200,000 ms ahead of the clock of this host, and the topic's "
        "message.timestamp.after.max.ms is 3,600,000"
    )
    assert (
        "behind the clock of this host, and the topic's message.timestamp.before"
        in limit.reason(1, now)
    )


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


def test_a_record_without_a_key_is_refused_on_its_own_where_the_topic_is_compacted() -> None:
    """The broker turns away the whole batch. Of several that are refused it is the first."""
    topics = {name: {"cleanup.policy": name, "max.message.bytes": "200"} for name in POLICIES}
    known = LearnedLimits(TopicLimits.of(topics, {}), None, {}, ManualClock())
    keys, values = [b"k", None, None, b"k"], [b"v"] * 3 + [b"v" * 200]
    found = [known.refusal(OutgoingRecords(name, keys, values)) for name in POLICIES]
    assert [one and (one.index, one.too_large) for one in found] == [
        (1, False),
        (1, False),
        (3, True),
    ]
    assert (
        str(found[0]) == "a record to compact was refused: it has no key, and compact is compacted"
    )


POLICIES = ("compact", "compact,delete", "delete")
