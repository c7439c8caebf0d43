"""What may wait in a producer's queue, over links that let so many bytes through."""

from __future__ import annotations

import pytest

from streamlet.clock import ManualClock
from streamlet.kafka.queue_bound import (
    FIRST_BYTES,
    LEAST_BYTES,
    MOST_BYTES,
    QueueBound,
    mean_size,
)

RECORD = 1_000


class Link:
    """A producer that has always more to send, and what its queue gets rid of."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000_000)
        self.bound = QueueBound(self.clock)
        self.left = 0

    def run(self, rate: int, ms: int, step_ms: int = 10) -> float:
        """Deliver so many bytes a second for so long; how long the last record waits, seconds."""
        for _ in range(ms // step_ms):
            fits = max(self.bound.room // RECORD, 0)
            self.bound.queued(fits, fits * RECORD)
            self.left += fits
            self.clock.advance(step_ms)
            self.left = max(0, self.left - rate * step_ms // 1_000 // RECORD)
            self.bound.look(self.left)
        return self.left * RECORD / rate


@pytest.mark.parametrize("rate", [100_000, 200_000, 1_000_000, 2_000_000, 5_000_000, 12_000_000])
def test_about_a_second_of_deliveries_may_wait(rate: int) -> None:
    link = Link()
    assert 0.3 < link.run(rate, 10_000) < 1.3
    link.bound.hurry(True)
    assert link.run(rate, 2_000) < (0.4 if rate > 200_000 else 0.7)
    link.bound.hurry(False)
    assert 0.3 < link.run(rate, 2_000) < 1.3


@pytest.mark.parametrize("rate", [200_000, 1_000_000, 2_000_000, 5_000_000, 12_000_000])
def test_what_a_quota_lets_through_at_first_queues_no_more_than_a_second(rate: int) -> None:
    """It is ten times what it lets through in a second; a queue as long took ten seconds."""
    fast, link = 40_000_000, Link()
    link.run(fast, 10_000 * rate // fast)
    assert link.bound.bytes <= max(rate, FIRST_BYTES)
    assert link.run(rate, 5_000) < 1.3


def test_over_the_slowest_link_some_records_may_wait() -> None:
    link = Link()
    link.run(20_000, 10_000)
    assert link.bound.bytes == LEAST_BYTES


def test_a_fast_link_has_all_there_may_be_in_seconds() -> None:
    link = Link()
    link.run(80_000_000, 1_000)
    assert 8 * FIRST_BYTES < link.bound.bytes < MOST_BYTES
    link.run(80_000_000, 2_000)
    assert link.bound.bytes == MOST_BYTES


def test_a_link_with_less_to_do_than_it_could_is_not_taken_for_a_slow_one() -> None:
    link = Link()
    for _ in range(100):
        link.bound.queued(10, 10 * RECORD)
        link.clock.advance(100)
        link.bound.look(1)
        link.bound.look(0)
    assert link.bound.bytes >= FIRST_BYTES


def test_a_link_that_becomes_slow_empties_its_queue_long_before_a_delivery_times_out() -> None:
    link = Link()
    link.run(80_000_000, 7_000)
    full = link.left * RECORD
    assert full > MOST_BYTES // 2
    assert link.run(200_000, 90_000) < 1.3


def test_what_was_delivered_long_ago_counts_no_more() -> None:
    link = Link()
    link.run(12_000_000, 10_000)
    assert link.bound.bytes > 10 * FIRST_BYTES
    link.clock.advance(60_000)
    link.bound.look(0)
    link.bound.look(0)
    link.clock.advance(60_000)
    link.bound.look(0)
    assert link.bound.bytes == FIRST_BYTES


def test_events_of_the_client_are_no_records() -> None:
    bound = QueueBound(ManualClock())
    bound.queued(10, 10 * RECORD)
    bound.look(12)
    assert (bound.records, bound.room) == (10, FIRST_BYTES - 10 * RECORD)
    bound.look(0)
    assert (bound.records, bound.room) == (0, FIRST_BYTES)


def test_the_last_move_is_known_also_where_nothing_was_looked_at() -> None:
    clock = ManualClock()
    bound = QueueBound(clock)
    clock.advance(3_600_000)
    bound.queued(1, RECORD)
    clock.advance(50)
    bound.look(1)
    assert clock.now_ms() - bound.moved_ms == 50
    bound.look(0)
    assert clock.now_ms() == bound.moved_ms


def test_the_size_of_records_is_that_of_some_of_them() -> None:
    assert mean_size([None], [b"x" * 968], None) == RECORD
    assert mean_size([b"k" * 8] * 10_000, [b"x" * 960] * 10_000, None) == RECORD
    assert mean_size([None], [None], [[("h" * 8, b"x" * 960)]]) == RECORD
    assert mean_size([None] * 2, [None] * 2, [None, [("h", None)]]) == 32
    assert mean_size([], [], None) == 32
