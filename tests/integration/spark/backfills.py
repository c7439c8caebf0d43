"""Applications that are backfilled, and their topics."""

from __future__ import annotations

import streamlet as sl

MINUTE = 60_000

#: A count and windows of the same topic, and a sum behind a repartition.
APP = sl.App("backfilled", config={"commit.interval.ms": 200, "session.timeout.ms": 6000})
_visits = APP.stream("visits", key=str, value=int)
_by_page = _visits.group_by_key()
_by_page.count(store="visits-of").to_stream().to("counts")
_by_page.windowed_by(sl.tumbling("1m", grace="10m")).count(store="by-minute").to_stream().to(
    "minutes"
)
(
    _visits.group_by(lambda page, seconds: page[:1], key=str)
    .reduce(lambda one, other: one + other, store="seconds-of")
    .to_stream()
    .to("seconds")
)

TOPICS = {"visits": 2, "counts": 2, "minutes": 2, "seconds": 2}

#: Windows without a grace: a record that comes behind later ones is left out of them.
IN_ORDER = sl.App("backfilled-in-order")
_clicks = IN_ORDER.stream("clicks", key=str, value=int)
_own = _clicks.group_by_key()
_own.windowed_by(sl.tumbling("1m")).count(store="minutes").to_stream().to("click-minutes")
_own.windowed_by(sl.tumbling("1m"), emit="final").count(store="finals").to_stream().to(
    "click-finals"
)
(
    _clicks.group_by(lambda _, seconds: str(seconds % 3), key=str)
    .windowed_by(sl.tumbling("1m"))
    .count(store="groups")
    .to_stream()
    .to("click-groups")
)

CLICKS = {"clicks": 1, "click-minutes": 1, "click-finals": 1, "click-groups": 1}
