"""Reads committed positions, and waits until they are stable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamlet.clock import Clock
from streamlet.errors import BrokerError, TimedOutError
from streamlet.group.codes import Remedy, RequestKind, judge
from streamlet.group.commands import Connection
from streamlet.group.events import FailureKind
from streamlet.group.messages import Committed, OffsetFetch, OffsetFetchAnswer
from streamlet.group.session_ports import GroupTransport, TransportError
from streamlet.types import TopicPartition

_ATTEMPT_MS = 5_000
#: An open transaction usually ends within a few ms; a coordinator that moves takes longer.
_UNSTABLE_PAUSE_MS = 10
_RETRY_PAUSE_MS = 100


def fetch_committed(
    transport: GroupTransport,
    group: str,
    partitions: Sequence[TopicPartition],
    *,
    timeout_ms: int,
    clock: Clock,
    pause: Callable[[float], bool],
) -> dict[TopicPartition, Committed]:
    """Ask until every partition has an answer that is stable. Blocks.

    Args:
        transport: the way to the coordinator.
        group: whose positions.
        partitions: which.
        timeout_ms: how long to try.
        clock: the time.
        pause: waits for some seconds; True means to give up.

    Raises:
        TimedOutError: no answer, or an unstable one, for ``timeout_ms``.
        BrokerError: the coordinator refuses, or trying again cannot help.
    """
    if not partitions:
        return {}
    deadline = clock.now_ms() + timeout_ms
    request = OffsetFetch(group, tuple(partitions))
    problem = "no answer"
    while (remaining := deadline - clock.now_ms()) > 0:
        wait_ms = _RETRY_PAUSE_MS
        try:
            sent = transport.send(request, Connection.MAIN, min(remaining, _ATTEMPT_MS))
            answer = sent.result()
        except TransportError as error:
            if not error.passing:
                raise
            problem = str(error)
        else:
            assert isinstance(answer, OffsetFetchAnswer), answer
            codes = [answer.committed[p].error for p in partitions if p in answer.committed]
            missing = [] if answer.error or len(codes) == len(partitions) else [-1]
            verdict = judge(RequestKind.FETCH, [answer.error, *codes, *missing])
            if verdict.remedy is Remedy.PROCEED:
                return {p: answer.committed[p] for p in partitions}
            if verdict.remedy in (Remedy.REFUSED, Remedy.FATAL):
                raise BrokerError(f"reading committed offsets of group {group}: {verdict}")
            problem = str(verdict)
            if verdict.remedy is Remedy.UNSTABLE:
                wait_ms = _UNSTABLE_PAUSE_MS
        if pause(wait_ms / 1000):
            raise TransportError(FailureKind.CLOSED, "closed while reading committed offsets")
    raise TimedOutError(f"committed offsets of group {group}: {problem} for {timeout_ms} ms")
