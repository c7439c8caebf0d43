"""Tasks with windows in Spark's batches: the results of native tasks, and state that stays flat."""

from __future__ import annotations

import random

import pytest

import streamlet as sl
from streamlet.spark.plan.plan import plan
from streamlet.spark.state.run import Runner
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.unit.spark.test_stages import SMALL, KeptInMemory, raw_rows, taken, text


def long_and_short(time: int) -> list[tuple[int, int]]:
    """Windows of 100 ms and of 50 ms in turns."""
    start = time // 150 * 150
    return [(start, start + 100)] if time < start + 100 else [(start + 100, start + 150)]


OWN = sl.custom_windows("long and short", long_and_short, max_size=100, grace=30)
YEARS = sl.calendar("1y", tz="Europe/Berlin")

windowed = sl.App("windowed")
_events = windowed.stream("events", key=str, value=str).group_by_key()
_tumbling = _events.windowed_by(sl.tumbling(100, grace=30), late="late")
_tumbling.count(store="tumbling").to_stream().to("tumbling")
_events.windowed_by(sl.session(40, grace=30)).count(store="sessions").to_stream().to("sessions")
_held = _events.windowed_by(sl.hopping(100, 50, grace=30)).count(store="hopping")
_held.suppress(sl.until_window_closes(), store="held").to_stream().to("closed")
_held.suppress(sl.until_time_limit(60, max_records=4)).to_stream().to("calm")
_events.windowed_by(OWN, emit="final").count(store="own").to_stream().to("own")
_events.windowed_by(YEARS).count(store="years").to_stream().to("years")

TOPICS = ("tumbling", "sessions", "closed", "calm", "own", "years", "late")
HERE = f"{__name__}:windowed"


def records(seed: int, count: int) -> list[tuple[str, str, int]]:
    """Records whose times mostly rise; some are late."""
    dice, now, found = random.Random(seed), 0, []
    for _ in range(count):
        now += dice.choice((0, 1, 5, 30))
        found.append((dice.choice("abc"), "v", max(0, now - dice.choice((0, 0, 0, 20, 150)))))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_every_result_is_that_of_a_native_task(seed: int) -> None:
    """The workers take turns, so that one of them begins cold."""
    laid_out, kept = plan(HERE, windowed.topology(), {"events": 1}), KeptInMemory()
    runners = [Runner(laid_out, SMALL), Runner(laid_out, SMALL)]
    given = records(seed, 400)
    with TopologyTestDriver(windowed) as driver:
        for key, value, time in given:
            driver.pipe_input("events", key, value, time)
        native = [
            (record.key, record.value) for topic in TOPICS for record in driver.read_output(topic)
        ]
    times = sl.time_windowed(str, 100)
    own = OWN.serde(str), YEARS.serde(str)
    keys = (times, sl.session_windowed(str), times, times, *own, sl.serde(str))
    found: list[list[tuple[object, object]]] = [[] for _ in TOPICS]
    for batch, first in enumerate(range(0, len(given), 20)):
        rows = raw_rows(laid_out, text("events", first, *given[first : first + 20]))
        runner = runners[batch % 3 == 0]
        for some in runner.run(TaskId(0, 0), rows, kept, batch):
            for output in some:
                which = TOPICS.index(output.topic)
                for key, value in zip(output.keys, output.values, strict=True):
                    count = None if value is None else int.from_bytes(value, "big")
                    seen = value.decode() if value and output.topic == "late" else count
                    found[which].append((keys[which].decode(key or b""), seen))
    assert [one for of_topic in found for one in of_topic] == native


def test_state_is_flat_over_many_retentions() -> None:
    laid_out, kept = plan(HERE, windowed.topology(), {"events": 1}), KeptInMemory()
    sizes = []
    for batch in range(120):
        now = 200 * batch
        rows = raw_rows(laid_out, text("events", batch, ("a", "v", now)))
        taken(Runner(laid_out, SMALL).run(TaskId(0, 0), rows, kept, batch))
        sizes.append(sum(map(len, kept.segments.values())))
    assert max(sizes[60:]) <= max(sizes[:60])
