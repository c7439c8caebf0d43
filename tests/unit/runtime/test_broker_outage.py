"""An outage is three lines of ours; what the client says of it is kept back."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from streamlet.clock import ManualClock
from streamlet.coordinator.states import MembershipView
from streamlet.kafka.log import log as client_log
from streamlet.kafka.outage_lines import HOLD_MS, outage_lines
from streamlet.runtime.broker_outage import TELL_MS, BrokerOutage

LINKED, AWAY = MembershipView(linked=True), MembershipView(last_problem="connection refused")


class Lines:
    """A worker that tells of outages, and clients whose lines come at the times of its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock(1_000_000)
        self.outage = BrokerOutage(self.clock)
        made = logging.getLogRecordFactory()

        def dated(*args: object, **more: object) -> logging.LogRecord:
            record = made(*args, **more)
            record.created = self.clock.wall_ms() / 1000
            return record

        monkeypatch.setattr(logging, "_logRecordFactory", dated)
        self.outage.step(LINKED, 2)

    def pass_ms(self, ms: int, view: MembershipView) -> None:
        self.clock.advance(ms)
        self.outage.step(view, 2)

    def fails(self, client: str, facility: str = "FAIL") -> None:
        client_log.error("%s [%s] %s", facility, client, f"[thrd:b:1/1]: refused {client}")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    caplog.set_level(logging.INFO)
    outage_lines.watch(True)
    monkeypatch.setattr(outage_lines, "_outages", 0)
    found = Lines(monkeypatch)
    yield found
    found.outage.end()
    outage_lines.watch(False)


def test_an_outage_is_three_lines(lines: Lines, caplog: pytest.LogCaptureFixture) -> None:
    lines.fails("a#consumer-1")
    lines.pass_ms(TELL_MS - 1, AWAY)
    assert caplog.messages == []
    lines.pass_ms(1, AWAY)
    lines.fails("a#producer-2")
    lines.fails("a#producer-2", "METADATAUPDATE")
    lines.pass_ms(HOLD_MS, AWAY)
    lines.pass_ms(30_000, LINKED)
    away, still, back = caplog.messages
    assert away.startswith("no broker answers since ")
    assert away.endswith(": connection refused")
    assert still.startswith("2 tasks stand still meanwhile")
    assert back == "a broker answers again, after 43 s"
    for later_ms in (20_000, 500):  # a client that was not used since
        lines.pass_ms(later_ms, LINKED)
        lines.fails("a#consumer-6")
    lines.pass_ms(HOLD_MS, LINKED)
    assert len(caplog.messages) == 3


def test_a_connection_that_breaks_without_an_outage_is_logged_a_little_later(
    lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    lines.fails("b#consumer-1")
    client_log.error("%s [%s] %s", "ERROR", "b#consumer-1", "something else")
    lines.pass_ms(HOLD_MS - 1, LINKED)
    assert [message.split()[0] for message in caplog.messages] == ["ERROR"]
    lines.pass_ms(1, LINKED)
    lines.pass_ms(HOLD_MS, LINKED)
    assert [message.split()[0] for message in caplog.messages] == ["ERROR", "FAIL"]


def test_lines_that_waited_say_the_same_only_once_and_many_of_them_do_not_keep_each_other_back(
    lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2 * HOLD_MS // 50):
        lines.fails("d#consumer-1")
        lines.pass_ms(50, LINKED)
    assert [message.split()[:2] for message in caplog.messages] == [["FAIL", "[d#consumer-1]"]]


def test_a_coordinator_that_moves_is_no_outage(
    lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        lines.pass_ms(TELL_MS - 1, AWAY)
        lines.pass_ms(1, LINKED)
    assert caplog.messages == []


def test_a_worker_that_ends_in_an_outage_leaves_nothing_kept_back(
    lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    lines.pass_ms(TELL_MS, AWAY)
    lines.outage.end()
    outage_lines.watch(False)
    lines.fails("c#consumer-1")
    outage_lines.watch(True)
    assert [message.split()[0] for message in caplog.messages] == ["no", "2", "FAIL"]
