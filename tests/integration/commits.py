"""What an application has committed, as its next run would find it."""

from __future__ import annotations

from tests.integration.test_status_command import run as status


def assert_all_committed(servers: str, application: str) -> None:
    """Nothing of its inputs is left for the next run, which may be too short to find anything."""
    _, found = status(servers, application)
    lags = {topic: of_topic for topic, of_topic in found["input_lag"].items() if of_topic}
    assert lags, "nothing is committed"
    assert not any(lag for of_topic in lags.values() for lag in of_topic.values()), lags
