"""Tells when no broker answers, what stands still meanwhile, and when one is back."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs

from streamlet.clock import Clock
from streamlet.coordinator.states import MembershipView
from streamlet.kafka.outage_lines import OutageLines, outage_lines
from streamlet.logs import get_logger

log = get_logger(__name__)
#: Where the lines that waited are logged, unless ``kafka.log`` finds that one says the same again.
_client_log = get_logger("streamlet.kafka.client")

#: How long the group's coordinator is away before it is told. A coordinator that only moves to
#: another broker is found sooner.
TELL_MS = 3_000


@attrs.define(eq=False)
class BrokerOutage:
    """Three lines for each outage of a worker, as its membership knows of it.

    Args:
        clock: the time.
        lines: the client's own about connections, which are kept back.
    """

    _clock: Clock
    _lines: OutageLines = outage_lines
    #: When the coordinator was last known to answer, ms; None: it was not asked yet.
    _linked_ms: int | None = attrs.field(default=None, init=False)
    _told: bool = attrs.field(default=False, init=False)

    def step(self, view: MembershipView, running: int) -> None:
        """Log what is new; ``running`` is the number of tasks that process."""
        for record in self._lines.due(self._clock.wall_ms()):
            if _client_log.isEnabledFor(record.levelno):
                _client_log.handle(record)
        now = self._clock.now_ms()
        if view.linked or self._linked_ms is None:
            if self._told:
                self._tell(False)
                log.warning("a broker answers again, after %s", _time(now - (self._linked_ms or 0)))
            self._linked_ms = now
        elif not self._told and now - self._linked_ms >= TELL_MS:
            self._tell(True)
            since_ms = self._clock.wall_ms() - now + self._linked_ms
            since = datetime.fromtimestamp(since_ms / 1000, UTC).astimezone()
            problem = view.last_problem or "no answer"
            log.warning("no broker answers since %s: %s", since.strftime("%H:%M:%S"), problem)
            log.warning(
                "%d tasks stand still meanwhile: they get no records, and nothing is written or "
                "committed; stores stay as they are, and all goes on by itself",
                running,
            )

    def end(self) -> None:
        """Tell nothing more: the worker ends."""
        if self._told:
            self._tell(False)

    def _tell(self, away: bool) -> None:
        self._told = away
        self._lines.told(away)


def _time(ms: int) -> str:
    return f"{ms / 1000:.0f} s" if ms < 120_000 else f"{ms // 60_000} min {ms // 1000 % 60} s"
