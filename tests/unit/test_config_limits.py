"""Settings with values that a request to Kafka cannot carry."""

from __future__ import annotations

import pytest

from streamlet.config import Settings
from streamlet.errors import ConfigError


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("replication.factor=99999", "expected 1 or more, up to 10000, or -1"),
        ("rebalance.timeout.ms=30d", "expected at most 2147483647, which is some 24 days"),
        ("session.timeout.ms=2147483648", "expected at most 2147483647, which is some 24 days"),
    ],
)
def test_a_value_that_kafka_cannot_take_is_refused(override: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings.load(overrides=["max.poll.interval.ms=1d", override])
    assert [reason in problem for problem in refused.value.problems] == [True]


@pytest.mark.parametrize("key", ["rebalance.timeout.ms", "session.timeout.ms"])
def test_the_longest_time_that_kafka_takes_is_taken(key: str) -> None:
    assert Settings.load(overrides=[f"{key}=2147483647"])[key] == 2**31 - 1
