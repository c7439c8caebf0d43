"""The wait for a broker at the start: what it repeats, what it says, what ends it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from streamlet.clock import ManualClock
from streamlet.closing import Closing
from streamlet.config import Settings
from streamlet.coordinator.events import FailureKind
from streamlet.coordinator.ports import TransportError
from streamlet.errors import BrokerError, MissingTopicError, TimedOutError, UnreachableError
from streamlet.hosting import broker_wait
from streamlet.hosting.broker_wait import BrokerWait, StartStoppedError

AWAY = TransportError(FailureKind.TIMEOUT, "cannot reach h:1: no answer")


class Ticking(ManualClock):
    """A clock on which every look takes a tenth of a second."""

    def now_ms(self) -> int:
        """Go on, then tell the time."""
        self.advance(100)
        return super().now_ms()


class Asked(Closing):
    """Stands for the client that asks for a broker; ``errors`` are its answers, one by one."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.errors: list[BrokerError] = []
        self.closed = 0

    def __call__(self, *_: object, **__: object) -> Asked:
        return self

    def check_version(self, timeout_ms: int) -> Future[None]:
        """An answer that is there at once, after the time-out if it is an error."""
        future: Future[None] = Future()
        if self.errors:
            self.clock.advance(timeout_ms)
            future.set_exception(self.errors.pop(0))
        else:
            future.set_result(None)
        return future

    def close(self) -> None:
        """Count it."""
        self.closed += 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked(Ticking())
    monkeypatch.setattr(broker_wait, "group_client", made)
    monkeypatch.setattr(broker_wait, "LOOK_S", 0)
    return made


def waiting(
    asked: Asked, stopped: Callable[[], bool] = lambda: False, limit_ms: int | None = None
) -> BrokerWait:
    return BrokerWait(
        Settings(), stopped=stopped, limit_ms=limit_ms, clock=asked.clock, option="the limit"
    )


def test_the_wait_is_logged_soon_and_then_every_ten_seconds(
    asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    asked.errors = [AWAY] * 4
    with caplog.at_level(logging.WARNING):
        assert waiting(asked).until_done(lambda: "done") == "done"
    times = [line.partition(", for ")[2].partition(" so far")[0] for line in caplog.messages]
    assert times == ["2 s", "12 s", "22 s", "32 s"]
    assert all("cannot reach h:1" in line for line in caplog.messages)
    assert asked.closed == 5


def test_a_broker_that_answers_is_waited_for_without_a_word(
    asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    steps = waiting(asked)
    assert [steps.until_done(lambda: "done") for _ in range(2)] == ["done"] * 2
    assert caplog.messages == []
    assert asked.closed == 1, "one answer is enough for all steps"


def test_a_step_that_lost_the_broker_is_repeated(asked: Asked) -> None:
    left = [UnreachableError("gone again"), TimedOutError("no leaders")]

    def step() -> str:
        if left:
            raise left.pop()
        return "done"

    assert waiting(asked).until_done(step) == "done"


@pytest.mark.parametrize(
    "error",
    [
        TransportError(FailureKind.AUTHENTICATION, "wrong password"),
        TransportError(FailureKind.UNSUPPORTED, "too old"),
    ],
)
def test_a_broker_that_refuses_is_not_waited_for(asked: Asked, error: BrokerError) -> None:
    asked.errors = [error]
    with pytest.raises(TransportError, match=str(error)):
        waiting(asked).until_done(lambda: None)


def test_what_waiting_cannot_mend_ends_the_start(asked: Asked) -> None:
    def step() -> None:
        raise MissingTopicError("no topic")

    with pytest.raises(MissingTopicError):
        waiting(asked).until_done(step)


def test_the_time_is_over_with_the_last_reason_and_the_option_named(asked: Asked) -> None:
    asked.errors = [AWAY] * 9
    with pytest.raises(TimedOutError, match=r"after 30 s \(the limit\): cannot reach h:1") as over:
        waiting(asked, limit_ms=30_000).until_done(lambda: None)
    assert over.value.exit_code == 4


def test_a_stop_ends_the_wait_before_the_next_question(asked: Asked) -> None:
    asked.errors = [AWAY] * 9
    with pytest.raises(StartStoppedError):
        waiting(asked, stopped=lambda: len(asked.errors) < 7).until_done(lambda: None)
    assert len(asked.errors) == 6


def test_a_stop_ends_a_start_before_its_next_step(asked: Asked) -> None:
    with pytest.raises(StartStoppedError):
        waiting(asked, stopped=lambda: True).until_done(lambda: pytest.fail("it ran"))
