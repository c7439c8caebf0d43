"""Has the leader abort transactions that lost members left open.

A worker that is started again ends what it had left open itself. Where a host is lost, readers of
what its workers had written last would wait until the transactions time out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import attrs

from streamlet.control.values import MemberKey
from streamlet.errors import StreamletError
from streamlet.logs import get_logger

log = get_logger(__name__)

#: How long a worker that crashed has to join again, s. One that comes later and finds its
#: transaction aborted begins at its last commits.
PATIENCE_S = 5.0

#: Members that are awaited at a time, each by a thread; hosts have fewer workers. Others end by
#: their time-outs: a client that may write to the control topic can have any number missing.
MOST_AWAITED = 256
#: Transactions that are aborted at a time, each by a client of its own.
_MOST_ABORTED = 8


@attrs.define(eq=False)
class AbandonedTransactions:
    """Looks after members that are missing in a plan; ``planned`` is the control thread's.

    Args:
        abort: has the open transaction of a member aborted; blocks.
        reports: gives the members whose reports in the control topic say that they commit by
            transactions; one that ends in order takes its own back.
        before: our own key, where we do not; the process before us may have.
        patience_s: how long to wait for the member before that, s.
    """

    _abort: Callable[[MemberKey], None]
    _reports: Callable[[], Collection[MemberKey]]
    _before: MemberKey | None = None
    _patience_s: float = PATIENCE_S
    _present: frozenset[MemberKey] = attrs.field(factory=frozenset, init=False)
    _awaited: dict[MemberKey, threading.Timer] = attrs.field(factory=dict, init=False)
    _aborting: threading.Semaphore = attrs.field(
        factory=lambda: threading.Semaphore(_MOST_ABORTED), init=False
    )

    def start(self) -> None:
        """Abort what the process before us left open under the other guarantee; may block."""
        if self._before is not None and self._before in self._reports():
            self._end(self._before)

    def planned(self, present: frozenset[MemberKey]) -> None:
        """Note the group's members as of a plan of ours.

        Others are missing who were in it by our plan before, or have a report.
        """
        reported, before = {*self._reports()}, self._present
        self._present = present
        absent = [*(before - present), *(reported - before - present)]
        absent = [key for key in absent if key not in self._awaited]
        room = max(MOST_AWAITED - len(self._awaited), 0)
        if len(absent) > room:
            log.warning(
                "%d members are missing at once; what %d of them may have left open ends by its "
                "time-out",
                *(len(absent), len(absent) - room),
            )
        for key in absent[:room]:
            missing = key, key in reported
            self._awaited[key] = look = threading.Timer(self._patience_s, self._look, missing)
            look.daemon = True
            look.start()

    def close(self) -> None:
        """Abort all awaited transactions; returns when done, or after a time limit.

        If we were the last member, readers would wait for the time-out of what they left open.
        """
        looks = []
        for later in list(self._awaited.values()):
            later.cancel()
            looks.append(threading.Thread(target=self._look, args=later.args, daemon=True))
            looks[-1].start()
        left_s = self._patience_s
        for look in looks:
            look.join(left_s)
            left_s = 0.0 if look.is_alive() else left_s

    def _look(self, key: MemberKey, reported: bool) -> None:
        """Have the transaction aborted, on a thread of its own, if the member did not end itself.

        ``reported``: it had a report when it was missing first.
        """
        self._awaited.pop(key, None)
        ended = reported and key not in self._reports()
        if not ended and key not in self._present:
            self._end(key)

    def _end(self, key: MemberKey) -> None:
        if "-" in key.instance:
            return  # its id may be one of another application, whose id begins with ours
        try:
            with self._aborting:
                self._abort(key)
        except StreamletError as error:
            log.warning("what a member left open ends by its time-out: %s", error)
