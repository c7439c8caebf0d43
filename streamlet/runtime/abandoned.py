"""Transactions that members have left open which are gone: the leader has them aborted.

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


@attrs.define(eq=False)
class AbandonedTransactions:
    """Looks after members that are missing in a plan; ``planned`` is the control thread's.

    Args:
        abort: has the open transaction of a member aborted; blocks.
        patience_s: how long to wait for the member before that, s.
    """

    _abort: Callable[[MemberKey], None]
    _patience_s: float = PATIENCE_S
    _present: frozenset[MemberKey] = attrs.field(factory=frozenset, init=False)
    _awaited: dict[MemberKey, threading.Timer] = attrs.field(factory=dict, init=False)

    def planned(self, before: Collection[MemberKey], present: frozenset[MemberKey]) -> None:
        """Take who was in the group before a plan of ours, and who is in it now."""
        self._present = present
        for key in {*before} - present - self._awaited.keys():
            self._awaited[key] = look = threading.Timer(self._patience_s, self._look, (key,))
            look.daemon = True
            look.start()

    def close(self) -> None:
        """Look after those that are awaited at once; returns when all is aborted, or takes long.

        If we were the last member, readers would wait for the time-out of what they left open.
        """
        looks = []
        for key, later in list(self._awaited.items()):
            later.cancel()
            looks.append(threading.Thread(target=self._look, args=(key,), daemon=True))
            looks[-1].start()
        left_s = self._patience_s
        for look in looks:
            look.join(left_s)
            left_s = 0.0 if look.is_alive() else left_s

    def _look(self, key: MemberKey) -> None:
        """Have the transaction aborted, on a thread of its own, unless the member is back."""
        self._awaited.pop(key, None)
        if key in self._present:
            return
        try:
            self._abort(key)
        except StreamletError as error:
            log.warning("what a member left open ends by its time-out: %s", error)
