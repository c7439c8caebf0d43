"""The applications of ``examples/windows`` give what their texts promise."""

from __future__ import annotations

from examples.windows import final, hopping, join, late, session, sliding, suppress, tumbling
from streamlet import Windowed
from streamlet.testing import TopologyTestDriver

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def test_orders_are_counted_by_the_hour_and_may_be_five_minutes_late() -> None:
    with TopologyTestDriver(tumbling.app) as driver:
        times = (HOUR - 1, HOUR, HOUR + 4 * MINUTE, HOUR - 2, HOUR + 5 * MINUTE, HOUR - 3)
        for time in times:
            driver.pipe_input("orders", "ann", 1_200, time)
        last = {r.key.start: r.value for r in driver.read_output("orders-per-hour")}
        assert (last, driver.late()) == ({0: 2, HOUR: 3}, 1)


def test_a_reading_is_in_the_ten_windows_around_it() -> None:
    with TopologyTestDriver(hopping.app) as driver:
        driver.pipe_input("temperatures", "roof", 21.5, 20 * MINUTE)
        driver.pipe_input("temperatures", "roof", 19.0, 25 * MINUTE)
        last = {r.key.start // MINUTE: r.value for r in driver.read_output("highest")}
    assert last == dict.fromkeys(range(11, 21), 21.5) | dict.fromkeys(range(21, 26), 19.0)


def test_a_card_with_four_payments_within_a_minute_is_told() -> None:
    with TopologyTestDriver(sliding.app) as driver:
        for second in (0, 30, 70, 85, 89, 200):
            driver.pipe_input("payments", "4711", 99, second * 1_000)
        assert [(r.key, r.value) for r in driver.read_output("suspects")] == [("4711", 4)]


def test_a_click_between_two_visits_joins_them() -> None:
    with TopologyTestDriver(session.app) as driver:
        for page, time in (("home", 0), ("cart", 30 * MINUTE + 1), ("shoes", 20 * MINUTE)):
            driver.pipe_input("clicks", "bob", page, time)
        last = {r.key: r.value for r in driver.read_output("visits")}
    joined = Windowed("bob", 0, 30 * MINUTE + 1)
    assert last.pop(joined) == ["home", "cart", "shoes"]
    assert set(last.values()) == {None}


def test_a_days_revenue_is_written_once_it_is_over() -> None:
    with TopologyTestDriver(final.app) as driver:
        for amount, time in ((5, 1), (7, DAY + 9 * MINUTE), (3, DAY - 1), (1, DAY + 10 * MINUTE)):
            driver.pipe_input("sales", "oslo", amount, time)
        found = [(r.key, r.value) for r in driver.read_output("revenue")]
    assert found == [(Windowed("oslo", 0, DAY), 8)]


def test_an_hour_is_reported_once_and_alarms_come_at_once() -> None:
    with TopologyTestDriver(suppress.app) as driver:
        driver.pipe_inputs("requests", [("/", "GET")] * 1_001, HOUR - 1)
        driver.pipe_input("requests", "/cart", "GET", HOUR + 4 * MINUTE)
        alarms = [(r.key.key, r.value) for r in driver.read_output("busy-hours")]
        assert (alarms, driver.read_output("hourly-report")) == ([("/", 1_001)], [])
        driver.pipe_input("requests", "/cart", "GET", HOUR + 5 * MINUTE)
        found = [(r.key, r.value) for r in driver.read_output("hourly-report")]
    assert found == [(Windowed("/", 0, HOUR), 1_001)]


def test_an_order_for_an_hour_that_is_over_goes_to_a_topic() -> None:
    with TopologyTestDriver(late.app) as driver:
        for amount, time in ((5, 1), (7, HOUR + 5 * MINUTE), (3, HOUR - 1), (4, HOUR)):
            driver.pipe_input("orders", "ann", amount, time)
        found = [(r.key, r.value) for r in driver.read_output("orders-per-hour")]
        (told,) = driver.read_output("late-orders")
    assert found == [(Windowed("ann", 0, HOUR), 1)]
    assert (told.key, told.value, told.timestamp) == ("ann", 3, HOUR - 1)
    headers = dict(told.headers or ())
    assert (headers["streamlet.window.start"], headers["streamlet.offset"]) == (b"0", b"2")


def test_an_order_is_paid_in_ten_minutes_or_told() -> None:
    with TopologyTestDriver(join.app) as driver:
        for topic, number, amount, time in (
            ("orders", "one", 30, 0),
            ("orders", "two", 20, MINUTE),
            ("payments", "one", 30, 9 * MINUTE),
            ("payments", "two", 20, 11 * MINUTE + 1),
            ("orders", "three", 5, 12 * MINUTE),
        ):
            driver.pipe_input(topic, number, amount, time)
        assert [(r.key, r.value) for r in driver.read_output("paid")] == [("one", 0)]
        assert driver.read_output("unpaid") == []
        driver.pipe_input("orders", "four", 8, 12 * MINUTE + 1)
        (told,) = driver.read_output("unpaid")
    assert (told.key, told.value, told.timestamp) == ("two", 20, MINUTE)
