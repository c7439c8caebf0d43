"""Which client a query has where nobody says it."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.config import Settings
from streamlet.spark.kafka import topics
from streamlet.spark.plan import prepare

plain = sl.App("plain")
plain.stream("in", key=str, value=str).filter(lambda _, value: value > "b").to("out")

judged = sl.App("judged")
judged.stream("in", key=str, value=str).filter(sl.value() > "b").to("out")


@pytest.mark.parametrize(
    ("app", "there", "config", "kafka", "wanted"),
    [
        (plain, True, {}, None, "python"),
        (plain, True, {}, {"security.protocol": "SSL"}, "java"),
        (plain, False, {}, None, "python"),
        (judged, True, {}, None, "java"),
        (judged, False, {}, None, "python"),
        (judged, True, {"consumer.fetch.min.bytes": 5}, None, "python"),
    ],
)
def test_it_is_our_own_unless_javas_can_do_what_it_cannot(
    monkeypatch: pytest.MonkeyPatch,
    app: sl.App,
    there: bool,
    config: dict[str, Any],
    kafka: dict[str, str] | None,
    wanted: str,
) -> None:
    monkeypatch.setattr(topics, "has_connector", lambda _: there)
    session: Any = None
    settings = Settings.load(config)
    assert prepare._connector(session, app.topology(), (), settings, kafka) == wanted
