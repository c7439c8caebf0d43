"""Carrying out what the group orders, in the thread that polls a plain consumer.

Orders are carried out between two records. What is given up is stopped, committed and announced
first, and only then do others get it; what is lost is stopped and announced, and nothing else.
Commits go through the membership: they are fenced, and tried again where that helps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeAlias

import attrs

from streamlet.clock import Clock
from streamlet.coordinator import events as ev
from streamlet.coordinator.codes import name_of
from streamlet.coordinator.session import GroupSession
from streamlet.errors import BrokerError, PartitionsLostError, StreamletError, TimedOutError
from streamlet.logs import get_logger
from streamlet.partitions.events import Order, Ordered, PartitionEvents
from streamlet.partitions.protocol import PartitionsProtocol
from streamlet.partitions.reading import Reading
from streamlet.partitions.topics import ConsumerTopics, text_of
from streamlet.types import TopicPartition

log = get_logger(__name__)

_FETCH_PAUSE_MS = 20
_COMMIT_PAUSE_MS = 20
#: Giving partitions up holds up their next owners.
_LAST_TIMEOUT_MS = 5_000

Callback: TypeAlias = Callable[[list[TopicPartition]], None]


@attrs.frozen
class Callbacks:
    """The callbacks for partitions that begin, end, or were lost."""

    assigned: Callback
    revoked: Callback
    lost: Callback


@attrs.define(eq=False, slots=False)
class PartitionsFollower:
    """Does what the group says, and commits; used by the thread that polls.

    Args:
        session: the membership.
        events: where the group's orders are.
        protocol: what we claim.
        reading: what we read.
        topics: what we read, and where its partitions begin.
        interval_ms: how often to commit without being asked, None for never.
        callbacks: whom to tell.
        clock: the time.
    """

    _session: GroupSession
    _events: PartitionEvents
    _protocol: PartitionsProtocol
    _reading: Reading
    _topics: ConsumerTopics
    _interval_ms: int | None
    _callbacks: Callbacks
    _clock: Clock

    def __attrs_post_init__(self) -> None:
        self._received = self._protocol.received
        self._fetch: int | None = None  # number of the request for positions under way
        self._fetches = 0
        self._fetch_at_ms = 0
        self._pause = threading.Event()  # never set
        #: Token of the announced join that waits for us: only its commits get through then.
        self._hold: int | None = None
        self._passing: tuple[Future[ev.CommitDone], dict[TopicPartition, int]] | None = None
        self._commit_at_ms = 0
        #: The last look at the topics, and the ids at which the topics are read.
        self._seen, self._ids = self._topics.ids, dict[str, str]()
        #: Assignments carried out.
        self.rebalances = 0
        #: Whether we made the last one.
        self.leads = False
        #: Why the membership is over, if it is.
        self.error: StreamletError | None = None

    def go_round(self) -> None:
        """Handle events and due work between two records."""
        self._session.progress()
        while (order := self._events.next()) is not None:
            self._obey(order)
        if self._topics.ids is not self._seen:
            self._begin_again()
        if self._reading.unplaced and self._fetch is None:
            self._look_up_positions()
        self._commit_in_passing()

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
        self._hold = token
        try:
            self._give_up(set(self._reading.owned))
        finally:
            self._hold = None
            self._protocol.surrender(self._received)
            self._session.want(ev.UnblockJoin(token))

    def _give_up(self, partitions: set[TopicPartition]) -> None:
        """Stop reading revoked partitions, commit their positions, and report them as given up."""
        started = self._reading.stop(partitions)
        try:
            if self._interval_ms is not None:
                self._commit_last(started)
            if started:
                self._callbacks.revoked(started)
        finally:
            self._reading.forget(partitions)

    def _lose(self, reason: str) -> None:
        """Others may read these already: no commit."""
        gone = set(self._reading.owned)
        started = self._reading.stop(gone)
        self._reading.forget(gone)
        if started:
            log.warning("lost %s: %s", ", ".join(map(str, started)), reason)
            self._callbacks.lost(started)

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
        asked = sorted(done.committed.keys() & self._reading.unplaced)
        if not asked:
            return
        starts, known, ids = self._topics.placed(asked, done.committed)
        self._begin_again()
        self._ids.update(ids)
        self._seen = ids  # if there was a look since, it is compared with these
        if starts:
            self._reading.begin(starts, known)
            self._callbacks.assigned(sorted(starts))

    def _begin_again(self) -> None:
        """Look up positions in topics that were deleted and made again while they were read."""
        self._seen = self._topics.ids
        made = {one for one, had in self._ids.items() if self._seen.get(one, had) != had}
        if not made:
            return
        self._ids = {one: had for one, had in self._ids.items() if one not in made}
        owned = {tp for tp in self._reading.owned if tp.topic in made}
        started = self._reading.stop(owned)
        self._reading.forget(owned)
        self._reading.own(owned)
        self._fetch = self._passing = None  # their answers are about the topics before
        if started:
            log.warning(
                "%s was deleted and made again: it is read from its first record, or from where "
                "the group is in the new one",
                " and ".join(sorted(made)),
            )
            self._callbacks.lost(started)

    def leave(self, timeout_ms: int) -> None:
        """Give everything up and end the membership."""
        if self.error is not None:
            return
        self._session.progress()
        try:
            while (order := self._events.next()) is not None:
                if isinstance(order, ev.Lost | ev.JoinSoon):
                    self._obey(order)
            self._give_up(set(self._reading.owned))
        finally:
            self._session.leave("closed", timeout_ms)

    # -- commits -------------------------------------------------------------------------------

    def send_commit(self, offsets: Mapping[TopicPartition, int]) -> Future[ev.CommitDone]:
        """Send a commit; its outcome to come."""
        token, future = self._events.expect_commit()
        ids = self._ids
        texts = {tp: (offset, text_of(ids.get(tp.topic))) for tp, offset in sorted(offsets.items())}
        self._session.commit(token, texts, self._hold)
        return future

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Commit until it is accepted: a rebalance turns commits away for a moment.

        Raises:
            PartitionsLostError: a partition is not ours any more.
            BrokerError: the broker refuses.
            TimedOutError: not accepted in ``timeout_ms``; it may have happened all the same.
        """
        deadline = self._clock.now_ms() + timeout_ms
        problem = "no answer"
        while (remaining_ms := deadline - self._clock.now_ms()) > 0:
            if lost := sorted(offsets.keys() - self._protocol.claims):
                raise PartitionsLostError(_given_away(lost))
            try:
                done = self.send_commit(offsets).result(remaining_ms / 1000)
            except FutureTimeoutError:
                break
            match done.outcome:
                case ev.CommitOutcome.ACCEPTED if done.whole:
                    self._reading.note_committed(offsets)
                    return
                case ev.CommitOutcome.LOST:
                    raise PartitionsLostError(_given_away(sorted(offsets)))
                case ev.CommitOutcome.REFUSED | ev.CommitOutcome.ACCEPTED:
                    raise BrokerError(f"commit refused: {name_of(done.code)}")
                case ev.CommitOutcome.GATED | ev.CommitOutcome.SWITCHED | ev.CommitOutcome.UNKNOWN:
                    pass  # again, in the new generation
            problem = f"{done.outcome}, {self._session.view.last_problem or 'a join is under way'}"
            self._pause.wait(_COMMIT_PAUSE_MS / 1000)
        raise TimedOutError(f"commit not accepted within {timeout_ms} ms: {problem}")

    def _commit_last(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit what is about to be given up; if that fails, its records are read again."""
        wanted = self._reading.uncommitted(partitions)
        try:
            if wanted:
                self.commit(wanted, _LAST_TIMEOUT_MS)
        except StreamletError as error:
            log.warning("giving partitions up without a commit: %s", error)

    def _commit_in_passing(self) -> None:
        """Commit every interval, one at a time and without waiting for it."""
        now_ms = self._clock.now_ms()
        if self._interval_ms is None or now_ms < self._commit_at_ms:
            return
        if self._passing is not None:
            future, offsets = self._passing
            if not future.done():
                return
            if future.result().whole:
                self._reading.note_committed(offsets)
            self._passing = None
        wanted = self._reading.uncommitted(self._reading.positions)
        if wanted:
            self._passing = (self.send_commit(wanted), wanted)
        self._commit_at_ms = now_ms + self._interval_ms


def log_failure(future: Future[ev.CommitDone]) -> None:
    """Log the outcome of a commit that no caller waits for."""
    done = future.result()
    if done.gone:
        gone = ", ".join(map(str, sorted(done.gone)))
        log.warning("a commit has kept no position of %s: there is no such topic", gone)
    elif not done.whole:
        log.warning("a commit was not accepted: %s %s", done.outcome, done.code or "")


def _given_away(partitions: Sequence[TopicPartition]) -> str:
    names = ", ".join(map(str, partitions))
    return f"the group may have given {names} to another member; nothing was committed"
