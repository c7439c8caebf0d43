"""Requests of producers that fail on purpose, between them and their broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from streamlet.testing import Fault, FaultProxy
from streamlet.testing.faults.fault import Which

#: Longer than a commit waits for its answer, ms.
LATE_MS = 7_000
#: The ways in which batches fail: whether the broker gets them, and what its producer gets.
FAILURES: dict[str, tuple[bool, str | None]] = {
    "never arrives": (False, None),
    "answer is lost": (True, None),
    "refused": (False, "NOT_ENOUGH_REPLICAS"),
    "timed out": (False, "REQUEST_TIMED_OUT"),
    "timed out, yet written": (True, "REQUEST_TIMED_OUT"),
    "written by too few": (True, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
}


class Failures:
    """Faults of requests, by kind."""

    def __init__(self, made: Mapping[str, Fault]) -> None:
        self._made = made

    def end(self) -> None:
        """Let all requests through from now on."""
        for fault in self._made.values():
            fault.lift()

    @property
    def kinds(self) -> dict[str, int]:
        """Failures made, by kind."""
        return {kind: fault.happened for kind, fault in self._made.items()}

    @property
    def topics(self) -> Counter[str]:
        """Failures made, by topic."""
        return sum((fault.topics for fault in self._made.values()), Counter())


class DeliveryFailures(Failures):
    """Makes single batches to some topics fail.

    Args:
        proxy: the way that they take.
        concerned: whether batches of a topic may fail.
        share: how many of the batches fail.
    """

    def __init__(self, proxy: FaultProxy, concerned: Callable[[str], bool], share: float) -> None:
        made: dict[str, Fault] = {}
        for kind, (after, error) in FAILURES.items():
            which = Which(
                times=None,
                probability=share / len(FAILURES),
                after=after,
                where=lambda request: all(map(concerned, request.topics)),
            )
            made[kind] = (
                proxy.black_hole("Produce", **which)
                if error is None
                else proxy.refuse("Produce", error, **which)
            )
        super().__init__(made)


class TransactionFailures(Failures):
    """Makes single transactions end otherwise than by a commit that is known.

    Args:
        proxy: the way that they take.
        share: how many of the transactions.
    """

    def __init__(self, proxy: FaultProxy, share: float) -> None:
        which = Which(times=None, probability=share / 8)
        done = Which(**which, after=True)
        super().__init__(
            {
                "an end that is late": proxy.delay("EndTxn", LATE_MS, **which),
                "an end without an answer": proxy.disconnect("EndTxn", **done),
                "an end in silence": proxy.black_hole("EndTxn", **done),
                "a producer that is fenced": proxy.refuse(
                    "EndTxn", "INVALID_PRODUCER_EPOCH", **which
                ),
                "positions that are late": proxy.delay("TxnOffsetCommit", LATE_MS, **which),
                "positions in silence": proxy.black_hole("TxnOffsetCommit", **which),
                "positions of another generation": proxy.refuse(
                    "TxnOffsetCommit", "ILLEGAL_GENERATION", **which
                ),
                "partitions that are not added": proxy.disconnect("AddPartitionsToTxn", **which),
            }
        )
