"""``consumer.isolation.level``: which records of transactions count."""

from __future__ import annotations

import pytest

from streamlet.config import Settings
from streamlet.errors import ConfigError


def test_what_is_committed_can_be_asked_for_under_at_least_once() -> None:
    settings = Settings.load({"consumer.isolation.level": "read_committed"})
    assert settings.read_committed
    assert settings.client_config("consumer")["isolation.level"] == "read_committed"
    assert not Settings.load().read_committed
    assert not Settings.load({"consumer.isolation.level": "read_uncommitted"}).read_committed
    assert Settings.load({"processing.guarantee": "exactly_once"}).read_committed


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("consumer.isolation.level", "committed", "expected read_uncommitted or read_committed"),
        ("isolation.level", "read_committed", "did you mean consumer.isolation.level"),
    ],
)
def test_other_words_are_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings.load({key: value})


def test_uncommitted_records_are_refused_under_exactly_once_only() -> None:
    given = {"consumer.isolation.level": "read_uncommitted"}
    assert not Settings.load(given).read_committed
    with pytest.raises(ConfigError, match=r"consumer\.isolation\.level = read_uncommitted"):
        Settings.load({**given, "processing.guarantee": "exactly_once"})
