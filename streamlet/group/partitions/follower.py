"""Carrying out what the group orders, in the thread that polls a plain consumer.

Orders are carried out between two records. What is given up is stopped, committed and announced
first, and only then do others get it; what is lost is stopped and announced, and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import attrs

from streamlet.clock import Clock
from streamlet.errors import BrokerError, StreamletError
from streamlet.group import events as ev
from streamlet.group.codes import name_of
from streamlet.group.partitions.commits import Commits
from streamlet.group.partitions.events import Order, Ordered, PartitionEvents
from streamlet.group.partitions.protocol import PartitionsProtocol
from streamlet.group.partitions.reading import Reading
from streamlet.group.session import GroupSession
from streamlet.types import TopicPartition

log = logging.getLogger(__name__)

_FETCH_PAUSE_MS = 20

Callback: TypeAlias = Callable[[list[TopicPartition]], None]


@attrs.frozen
class Callbacks:
    """The callbacks for partitions that begin, end, or were lost."""

    assigned: Callback
    revoked: Callback
    lost: Callback


class PartitionsFollower:
    """Does what the group says; used by the thread that polls.

    Args:
        session: the membership.
        mailbox: where the group's orders are.
        protocol: what we claim.
        reading: what we read.
        commits: how we commit.
        reset: says where partitions without a committed position begin.
        auto_commit: whether to commit without being asked.
        callbacks: whom to tell.
        clock: the time.
    """

    def __init__(
        self,
        session: GroupSession,
        mailbox: PartitionEvents,
        protocol: PartitionsProtocol,
        reading: Reading,
        commits: Commits,
        reset: Callable[[list[TopicPartition]], dict[TopicPartition, int]],
        auto_commit: bool,
        callbacks: Callbacks,
        clock: Clock,
    ) -> None:
        self._session = session
        self._mailbox = mailbox
        self._protocol = protocol
        self._reading = reading
        self._commits = commits
        self._reset = reset
        self._auto_commit = auto_commit
        self._tell = callbacks
        self._clock = clock
        self._received = protocol.received
        self._fetch: int | None = None  # number of the request for positions under way
        self._fetches = 0
        self._fetch_at_ms = 0
        #: Assignments carried out.
        self.rebalances = 0
        #: Whether we made the last one.
        self.leads = False
        #: Why the membership is over, if it is.
        self.error: StreamletError | None = None

    def go_round(self) -> None:
        """Do what is due between any two records."""
        self._session.progress()
        while (order := self._mailbox.next()) is not None:
            self._obey(order)
        if self._reading.unplaced and self._fetch is None:
            self._look_up_positions()
        if self._auto_commit:
            self._commits.in_passing()

    def _look_up_positions(self) -> None:
        if self._clock.now_ms() >= self._fetch_at_ms:
            self._fetches += 1
            self._fetch = self._fetches
            self._session.want(ev.FetchWanted(self._fetch, tuple(sorted(self._reading.unplaced))))

    def _obey(self, order: Order) -> None:
        match order:
            case Ordered():
                self._carry_out(order)
            case ev.Lost(reason):
                self._lose(reason)
            case ev.JoinSoon(token=token):
                self._surrender(token)
            case ev.FetchDone():
                self._place(order)
            case ev.Failed(error):
                self.error = error
                raise error
            case ev.Left() | ev.JoinBlocked():
                pass

    def _carry_out(self, order: Ordered) -> None:
        self.rebalances += 1
        self.leads = order.leads
        self._received = order.received
        assigned = order.received.assigned
        gone = self._reading.owned - assigned
        try:
            if gone:
                self._give_up(gone)
        finally:
            self._reading.own(assigned)
            self._fetch = None  # it did not ask for the new ones
            self._protocol.gave_up(gone | order.received.revoked)

    def _surrender(self, token: int) -> None:
        """Eager: everything stops before each join."""
        self._commits.hold = token
        try:
            self._give_up(set(self._reading.owned))
        finally:
            self._commits.hold = None
            self._protocol.surrender(self._received)
            self._session.want(ev.UnblockJoin(token))

    def _give_up(self, partitions: set[TopicPartition]) -> None:
        """Read these no longer, commit them and say so."""
        started = self._reading.stop(partitions)
        try:
            if self._auto_commit:
                self._commits.last(started)
            if started:
                self._tell.revoked(started)
        finally:
            self._reading.forget(partitions)

    def _lose(self, reason: str) -> None:
        """Others may read these already: no commit."""
        gone = set(self._reading.owned)
        started = self._reading.stop(gone)
        self._reading.forget(gone)
        if started:
            log.warning("lost %s: %s", ", ".join(map(str, started)), reason)
            self._tell.lost(started)

    def _place(self, done: ev.FetchDone) -> None:
        """Begin where the group's committed positions are."""
        if done.token != self._fetch:
            return
        self._fetch = None
        if done.outcome is ev.FetchOutcome.REFUSED:
            raise BrokerError(f"reading committed positions: {name_of(done.code)}")
        if done.outcome is not ev.FetchOutcome.FETCHED:
            self._fetch_at_ms = self._clock.now_ms() + _FETCH_PAUSE_MS
            return
        unplaced = self._reading.unplaced
        found = {tp: c.offset for tp, c in done.committed.items() if tp in unplaced}
        known = {tp: offset for tp, offset in found.items() if offset >= 0}
        starts = {**known, **self._reset([tp for tp in found if tp not in known])}
        if starts:
            self._reading.begin(starts, known)
            self._tell.assigned(sorted(starts))

    def leave(self, timeout_ms: int) -> None:
        """Give everything up and end the membership."""
        if self.error is not None:
            return
        self._session.progress()
        try:
            while (order := self._mailbox.next()) is not None:
                if isinstance(order, ev.Lost | ev.JoinSoon):
                    self._obey(order)
            self._give_up(set(self._reading.owned))
        finally:
            self._session.leave("closed", timeout_ms)
