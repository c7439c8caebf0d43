"""The applications of ``examples/processors`` give what their texts promise."""

from __future__ import annotations

from examples.processors import silence, totals
from streamlet.testing import TopologyTestDriver

MINUTE, DAY = 60_000, 86_400_000


def test_a_sensor_without_a_reading_for_five_minutes_is_told_once() -> None:
    with TopologyTestDriver(silence.app, start_ms=0) as driver:
        for minute, sensor, value in ((0, "attic", 1.5), (0, "roof", 7.0), (4, "attic", 2.5)):
            driver.pipe_input("readings", sensor, value, minute * MINUTE)
        driver.pipe_input("readings", "attic", 2.5, 4 * MINUTE + 5)
        assert driver.read_output("alarms") == []
        driver.pipe_input("readings", "roof", 7.5, 20 * MINUTE)
        alarms = [(r.timestamp // MINUTE, r.key, r.value) for r in driver.read_output("alarms")]
    assert alarms == [
        (5, "roof", "silent after 1 readings, the last was 7.0"),
        (9, "attic", "silent after 2 readings, the last was 2.5"),
    ]


def test_totals_come_every_minute_and_are_dropped_after_a_day() -> None:
    with TopologyTestDriver(totals.app, start_ms=0) as driver:
        for time, account, amount in ((1, "ann", 20), (2, "bob", 1_500), (MINUTE, "ann", 5)):
            driver.pipe_input("payments", account, amount, time)
        driver.pipe_input("payments", "ann", 1, DAY + 3)
        sent = [(r.timestamp, r.key, r.value) for r in driver.read_output("totals")]
        large = [(r.key, r.value) for r in driver.read_output("large-payments")]
    assert sent == [
        (1, "ann", 20),
        (MINUTE, "ann", 25),
        (MINUTE, "bob", 1_500),
        (DAY + 3, "ann", 26),
    ]
    assert large == [("bob", 1_500)]
