"""Commits of a plain consumer through its membership: fenced, and tried again where that helps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from streamlet.clock import Clock
from streamlet.errors import BrokerError, PartitionsLostError, StreamletError, TimedOutError
from streamlet.group.codes import name_of
from streamlet.group.events import CommitDone, CommitOutcome
from streamlet.group.partitions.events import PartitionEvents
from streamlet.group.partitions.protocol import PartitionsProtocol
from streamlet.group.partitions.reading import Reading
from streamlet.group.session import GroupSession
from streamlet.types import TopicPartition

log = logging.getLogger(__name__)

_RETRY_PAUSE_MS = 20
#: Giving partitions up holds up their next owners.
_LAST_TIMEOUT_MS = 5_000


class Commits:
    """Sends commits and keeps account of what was accepted; used by the reading thread."""

    def __init__(
        self,
        session: GroupSession,
        mailbox: PartitionEvents,
        protocol: PartitionsProtocol,
        reading: Reading,
        clock: Clock,
        interval_ms: int,
    ) -> None:
        self._session = session
        self._mailbox = mailbox
        self._protocol = protocol
        self._reading = reading
        self._clock = clock
        self._interval_ms = interval_ms
        self._pause = threading.Event()  # never set
        #: Token of the announced join that waits for us: only its commits get through then.
        self.hold: int | None = None
        self._passing: tuple[Future[CommitDone], dict[TopicPartition, int]] | None = None
        self._next_ms = 0

    def send(self, offsets: Mapping[TopicPartition, int]) -> Future[CommitDone]:
        """Send a commit; its outcome to come."""
        token, future = self._mailbox.expect_commit()
        texts = {tp: (offset, "") for tp, offset in sorted(offsets.items())}
        self._session.commit(token, texts, self.hold)
        return future

    def finish(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> None:
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
                done = self.send(offsets).result(remaining_ms / 1000)
            except FutureTimeoutError:
                break
            match done.outcome:
                case CommitOutcome.ACCEPTED:
                    self._reading.note_committed(offsets)
                    return
                case CommitOutcome.LOST:
                    raise PartitionsLostError(_given_away(sorted(offsets)))
                case CommitOutcome.REFUSED:
                    raise BrokerError(f"commit refused: {name_of(done.code)}")
                case CommitOutcome.GATED | CommitOutcome.SWITCHED | CommitOutcome.UNKNOWN:
                    pass  # again, in the new generation
            problem = f"{done.outcome}, {self._session.view.last_problem or 'a join is under way'}"
            self._pause.wait(_RETRY_PAUSE_MS / 1000)
        raise TimedOutError(f"commit not accepted within {timeout_ms} ms: {problem}")

    def last(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit what is about to be given up; if that fails, its records are read again."""
        wanted = self._reading.uncommitted(partitions)
        try:
            if wanted:
                self.finish(wanted, _LAST_TIMEOUT_MS)
        except StreamletError as error:
            log.warning("giving partitions up without a commit: %s", error)

    def in_passing(self) -> None:
        """Commit every interval, one at a time and without waiting for it."""
        now_ms = self._clock.now_ms()
        if now_ms < self._next_ms:
            return
        if self._passing is not None:
            future, offsets = self._passing
            if not future.done():
                return
            if future.result().outcome is CommitOutcome.ACCEPTED:
                self._reading.note_committed(offsets)
            self._passing = None
        wanted = self._reading.uncommitted(self._reading.positions)
        if wanted:
            self._passing = (self.send(wanted), wanted)
        self._next_ms = now_ms + self._interval_ms


def log_failure(future: Future[CommitDone]) -> None:
    """Log the outcome of a commit that no caller waits for."""
    done = future.result()
    if done.outcome is not CommitOutcome.ACCEPTED:
        log.warning("a commit was not accepted: %s %s", done.outcome, done.code or "")


def _given_away(partitions: Sequence[TopicPartition]) -> str:
    names = ", ".join(map(str, partitions))
    return f"the group may have given {names} to another member; nothing was committed"
