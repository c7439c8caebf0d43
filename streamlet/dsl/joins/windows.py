"""Windows of joins: how far apart the records of two streams may be that join."""

from __future__ import annotations

from datetime import timedelta

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import told_by_form
from streamlet.dsl.graph.durations import Duration, milliseconds, window_ms
from streamlet.errors import TopologyError
from streamlet.logs import get_logger

log = get_logger(__name__)

#: The least span of times in one row: there are as many further rows for the records of one key.
LEAST_BUCKET_MS = 1_024


@explains_misuse
@attrs.frozen
class JoinWindows:
    """The span of times in which a record of the other stream joins with a record of this one.

    From ``before_ms`` before the record to ``after_ms`` behind it, both inclusive; either may be
    negative. ``grace_ms`` is how much longer records are kept, and unmatched results wait.
    ``interval_ms`` is how often these are looked for, by the clock; 0: with each record.
    """

    before_ms: int
    after_ms: int
    grace_ms: int
    interval_ms: int = 0

    @property
    def size_ms(self) -> int:
        """The length of the span."""
        return self.before_ms + self.after_ms

    @property
    def kept_ms(self) -> int:
        """The time for which the stores keep records."""
        return self.size_ms + self.grace_ms

    @property
    def bucket_ms(self) -> int:
        """The span of times in one row: what a record joins with is in two spans at most."""
        return max(self.size_ms + 1, LEAST_BUCKET_MS)

    @property
    def text(self) -> str:
        """A description for people."""
        return f"join {self.before_ms} ms before to {self.after_ms} ms after"

    @property
    def mirrored(self) -> JoinWindows:
        """The same windows as a record of the other stream sees them."""
        return JoinWindows(self.after_ms, self.before_ms, self.grace_ms, self.interval_ms)


@told_by_form
def join_windows(
    difference: Duration = 0,
    *,
    before: Duration | None = None,
    after: Duration | None = None,
    grace: Duration = 0,
    emit_interval: Duration = 0,
) -> JoinWindows:
    """Two records join if their times differ by ``difference`` at most, whichever comes first.

    With ``before`` or ``after`` the bounds differ: a record of the other stream may be ``before``
    older and ``after`` younger than the one of this stream, both inclusive. A negative bound leaves
    a gap: ``before="-10s", after="60s"`` takes what is 10 to 60 seconds younger.

    Args:
        difference: of the times, at most.
        before: how much older the other stream's record may be; None: ``difference``.
        after: how much younger it may be; None: ``difference``.
        grace: how much longer records are kept for others that come late; where the difference is
            0, too, none is kept, and none joins. Left and outer joins send an unmatched result
            only when stream time is this much behind the window's end.
        emit_interval: how often left and outer joins look for unmatched results, by the clock, with
            the next record that comes; Kafka Streams does once a second. 0: with each record.

    Raises:
        TopologyError: one is no duration, or the window would end before it begins.
    """
    between = window_ms("join_windows(difference=)", difference, 0)
    before_ms = between if before is None else _signed("join_windows(before=)", before)
    after_ms = between if after is None else _signed("join_windows(after=)", after)
    if before_ms + after_ms < 0:
        raise TopologyError(
            f"join_windows(): from {before_ms} ms before to {after_ms} ms after, the window would "
            "end before it begins"
        )
    grace_ms = milliseconds("join_windows(grace=)", grace)
    if before_ms + after_ms + grace_ms == 0:
        log.warning(
            "join_windows() of 0 ms without grace keeps no record, so none joins, as in Kafka "
            "Streams; give a difference, or grace"
        )
    interval_ms = milliseconds("join_windows(emit_interval=)", emit_interval)
    return JoinWindows(before_ms, after_ms, grace_ms, interval_ms)


def _signed(what: str, given: Duration) -> int:
    """A length of time in ms that may be negative."""
    if isinstance(given, str) and given.strip().startswith("-"):
        return -milliseconds(what, given.strip()[1:])
    if isinstance(given, timedelta) and given < timedelta(0):
        return -milliseconds(what, -given)
    if isinstance(given, int) and given < 0:
        return -milliseconds(what, -given)
    return milliseconds(what, given)
