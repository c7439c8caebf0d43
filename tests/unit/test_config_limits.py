"""Settings with values that a request to Kafka cannot carry, or that are no numbers."""

from __future__ import annotations

from typing import Any

import pytest

from streamlet.config import Settings
from streamlet.errors import ConfigError


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("replication.factor=99999", "expected 1 or more, up to 10000, or -1"),
        ("rebalance.timeout.ms=30d", "expected at most 2147483647, which is some 24 days"),
        ("session.timeout.ms=2147483648", "expected at most 2147483647, which is some 24 days"),
        ("metadata.max.age.ms=" + "9" * 5_000, f"expected at most {2**63 - 1}"),
        ("metadata.max.age.ms=" + "9" * 400 + "d", f"expected at most {2**63 - 1}"),
        ("cache.max.bytes=10000000 TiB", f"expected at most {2**63 - 1}"),
        ("num.standby.replicas=9223372036854775808", f"expected at most {2**63 - 1}"),
        ("state.dir=~nobody-has-this-name/x", "its ~ cannot be resolved"),
        ("state.dir=a\0b", "expected a path, which has no character 0"),
    ],
)
def test_a_value_that_kafka_cannot_take_is_refused(override: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings.load(overrides=["max.poll.interval.ms=1d", override])
    assert [reason in problem for problem in refused.value.problems] == [True]


def test_a_number_with_two_underscores_in_a_row_is_refused_as_others_are() -> None:
    with pytest.raises(ConfigError, match="expected whole milliseconds"):
        Settings.load(overrides=["commit.interval.ms=1__0"])
    assert Settings.load(overrides=["commit.interval.ms=1_000"]).commit_interval_ms == 1_000


@pytest.mark.parametrize("key", ["rebalance.timeout.ms", "session.timeout.ms"])
def test_the_longest_time_that_kafka_takes_is_taken(key: str) -> None:
    assert Settings.load(overrides=[f"{key}=2147483647"])[key] == 2**31 - 1


@pytest.mark.parametrize("given", [5, "a=b", [5], [("a", 1, "here")], {"a": 1}.items()])
def test_overrides_are_a_list_of_texts(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"overrides: expected a list of texts"):
        Settings.load({}, overrides=given)
    with pytest.raises(ConfigError, match="file: expected a Path"):
        Settings.load({}, file=given)


@pytest.mark.parametrize(
    ("environ", "got"),
    [
        ({1: 2}, "1 with a value of type int"),
        ({"STREAMLET_SASL_PASSWORD": b"secret"}, "'STREAMLET_SASL_PASSWORD' with a value of type"),
        ({b"PATH": b"/"}, "b'PATH' with a value of type bytes"),
    ],
)
def test_variables_that_are_no_texts_are_named_without_their_values(environ: Any, got: str) -> None:
    with pytest.raises(ConfigError, match="environ: expected texts by name") as refused:
        Settings.load(environ=environ)
    assert got in str(refused.value)
    assert "secret" not in str(refused.value)
