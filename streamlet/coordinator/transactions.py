"""Commits of positions by Kafka's transactions, behind the port of the group's requests.

To the membership a commit is an OffsetCommit, whichever way it is made: it is held back by the same
gate, and its answer is judged by the same table. ``TransactionTransport`` has a producer carry it
out: the positions become part of the open transaction, under our member id and generation, and the
transaction is ended. Both calls wait for brokers, on a thread of their own for each commit: one may
be stuck for as long as its connection, and the next commit, of another producer, must not wait.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Protocol

import attrs

from streamlet.coordinator import events as ev
from streamlet.coordinator.messages import Answer, OffsetCommit, OffsetCommitAnswer, Request
from streamlet.coordinator.ports import GroupTransport


class TransactionEnder(Protocol):
    """The producer of a worker; ``kafka.transactions.TransactionalSink`` is one."""

    def commit(self, request: OffsetCommit, timeout_ms: int) -> int:
        """Commit the sealed transaction with these positions; Kafka's error code, 0 for none.

        Blocks. -1, which is an unknown outcome of a commit, also where it is not sealed with these
        any more, so that nothing was sent.
        """
        ...


@attrs.frozen(eq=False)
class TransactionTransport:
    """A ``GroupTransport`` that commits by transactions, and sends all else by another one.

    Args:
        others: sends what is no commit; closed with this.
        producer: ends transactions.
    """

    _others: GroupTransport
    _producer: TransactionEnder

    def find_coordinator(self, group: str, timeout_ms: int) -> Future[str]:
        """Look the coordinator up afresh."""
        return self._others.find_coordinator(group, timeout_ms)

    def send(self, request: Request, connection: ev.Connection, timeout_ms: int) -> Future[Answer]:
        """Send, or commit the sealed transaction."""
        if not isinstance(request, OffsetCommit):
            return self._others.send(request, connection, timeout_ms)
        answer: Future[Answer] = Future()
        work = threading.Thread(
            target=self._commit,
            args=(request, timeout_ms, answer),
            name="streamlet-commit",
            daemon=True,
        )
        work.start()
        return answer

    def hang_up(self, connection: ev.Connection) -> None:
        """Cut a connection; a commit goes on."""
        self._others.hang_up(connection)

    def close(self) -> None:
        """End it; a commit that is under way is not waited for."""
        self._others.close()

    def _commit(self, request: OffsetCommit, timeout_ms: int, answer: Future[Answer]) -> None:
        try:
            code = self._producer.commit(request, timeout_ms)
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(OffsetCommitAnswer(dict.fromkeys(request.offsets, code)))
