"""Waits at start-up for a broker that does not answer yet, as Kafka Streams does.

The question is asked by the group's own client: it tells a broker that is away from one that
refuses the login or is too old, and a signal is heard while the answer is outstanding. A name that
cannot be resolved counts as away, because names may come up after the process that uses them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

import attrs

from streamlet.clock import Clock, SystemClock
from streamlet.config import Settings
from streamlet.coordinator.group_client import group_client
from streamlet.errors import StreamletError, TimedOutError, broker_advice
from streamlet.kafka.outage_lines import outage_lines
from streamlet.logs import get_logger
from streamlet.retries import Retries

log = get_logger(__name__)

T = TypeVar("T")

#: How long the first question may take, before the wait is logged for the first time, ms.
FIRST_MS = 2_000

#: How often the wait is logged, ms.
LOG_EVERY_MS = 10_000

#: Pause after a step that failed although a broker answers, ms.
PAUSE_MS = 1_000

#: How often the wait looks for a signal, s.
LOOK_S = 0.05


class StartStoppedError(StreamletError):
    """A stop or a drain came before anything ran; nothing is left to do."""

    exit_code = 0


@attrs.define(eq=False)
class BrokerWait:
    """Carries out steps of a start, and waits for a broker before them and between attempts.

    Args:
        settings: the application's.
        stopped: whether to end; looked at all the time.
        limit_ms: how long to wait in all; None is as long as it takes.
        clock: the time.
        option: what the limit is called where it was given, for the message.
    """

    _settings: Settings
    _stopped: Callable[[], bool]
    _limit_ms: int | None = None
    _clock: Clock = attrs.field(factory=SystemClock)
    _option: str = "--wait-for-broker"
    _began_ms: int = attrs.field(init=False)
    _logged_ms: int | None = attrs.field(default=None, init=False)
    _answered: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._began_ms = self._clock.now_ms()

    def until_done(self, step: Callable[[], T]) -> T:
        """The result of a step, which is repeated while the broker is away.

        Raises:
            StartStoppedError: a stop or a drain came first.
            TimedOutError: the time is over.
            StreamletError: what the step raised, if waiting cannot mend it.
        """
        self._await_broker()
        self._check_stopped()
        tries = Retries(PAUSE_MS, PAUSE_MS)
        return tries.until_done(step, wait=self._await_again, failed=self._go_on)

    def _await_again(self, pause_s: float) -> None:
        """Pause, and ask for a broker again."""
        until_ms = self._clock.now_ms() + pause_s * 1000
        while self._clock.now_ms() < until_ms:
            self._check_stopped()
            threading.Event().wait(LOOK_S)
        self._answered = False
        self._await_broker()
        self._check_stopped()

    def _await_broker(self) -> None:
        """Ask until a broker has answered once since the last failure."""
        timeout_ms, told = FIRST_MS, False
        try:
            while not self._answered:
                try:
                    self._ask(min(timeout_ms, max(self._left_ms(), LOG_EVERY_MS // 10)))
                    self._answered = True
                except StreamletError as error:
                    if not error.passing:
                        raise
                    self._go_on(error)
                    if not told:
                        told = True
                        outage_lines.told(True)
                timeout_ms = LOG_EVERY_MS
        finally:
            if told:
                outage_lines.told(False)

    def _ask(self, timeout_ms: int) -> None:
        with group_client(self._settings, "streamlet-start", self._clock) as transport:
            answer: Future[None] = transport.check_version(timeout_ms)
            while wait([answer], LOOK_S).not_done:
                self._check_stopped()
            answer.result()

    def _left_ms(self) -> int:
        if self._limit_ms is None:
            return LOG_EVERY_MS
        return self._limit_ms - (self._clock.now_ms() - self._began_ms)

    def _check_stopped(self) -> None:
        if self._stopped():
            raise StartStoppedError("stopped before anything ran")

    def _go_on(self, error: StreamletError) -> None:
        """Log the wait, unless its time is over or a stop came."""
        self._check_stopped()
        now_ms = self._clock.now_ms()
        waited_s = (now_ms - self._began_ms) / 1000
        if self._left_ms() <= 0:
            said = f"no broker after {waited_s:.0f} s ({self._option}): {error}"
            advice = broker_advice(error)
            raise TimedOutError(f"{said}. {advice}" if advice else said) from error
        if self._logged_ms is None or now_ms - self._logged_ms >= LOG_EVERY_MS - PAUSE_MS:
            self._logged_ms = now_ms
            log.warning("waiting for a broker, for %.0f s so far: %s", waited_s, error)
