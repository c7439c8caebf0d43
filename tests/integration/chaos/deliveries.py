"""Requests of producers that fail on purpose, between them and their broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from streamlet.testing import Fault, FaultProxy

#: Injects a fault into the requests that it is given.
Make: TypeAlias = Callable[..., Fault]
#: Beside those that chance makes, one of each kind is made: so many requests apart.
_APART = 2
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
    """Faults of requests, by kind: of a share of them by chance, and one of each kind for certain.

    Args:
        kinds: what makes each.
        share: how many of the requests fail by chance, by any of them.
    """

    def __init__(self, kinds: Mapping[str, Make], share: float) -> None:
        chance = share / len(kinds)
        self._made = {
            kind: (make(times=None, probability=chance), make(times=1, nth=number * _APART))
            for number, (kind, make) in enumerate(kinds.items(), 1)
        }

    def end(self) -> None:
        """Let all requests through from now on."""
        for faults in self._made.values():
            for fault in faults:
                fault.lift()

    @property
    def kinds(self) -> dict[str, int]:
        """Failures made, by kind."""
        made = self._made.items()
        return {kind: sum(fault.happened for fault in faults) for kind, faults in made}

    @property
    def topics(self) -> Counter[str]:
        """Failures made, by topic."""
        made = self._made.values()
        return sum((fault.topics for faults in made for fault in faults), Counter())


class DeliveryFailures(Failures):
    """Makes single batches to some topics fail.

    Args:
        proxy: the way that they take.
        concerned: whether batches of a topic may fail.
        share: how many of the batches fail.
    """

    def __init__(self, proxy: FaultProxy, concerned: Callable[[str], bool], share: float) -> None:
        def fails(after: bool, error: str | None) -> Make:
            how = (
                partial(proxy.black_hole, "Produce")
                if error is None
                else partial(proxy.refuse, "Produce", error)
            )
            return partial(how, after=after, where=lambda one: all(map(concerned, one.topics)))

        super().__init__({kind: fails(*how) for kind, how in FAILURES.items()}, share)


class TransactionFailures(Failures):
    """Makes single transactions end otherwise than by a commit that is known.

    Args:
        proxy: the way that they take.
        share: how many of the transactions.
    """

    def __init__(self, proxy: FaultProxy, share: float) -> None:
        end, positions = "EndTxn", "TxnOffsetCommit"
        kinds: dict[str, Make] = {
            "an end that is late": partial(proxy.delay, end, LATE_MS),
            "an end without an answer": partial(proxy.disconnect, end, after=True),
            "an end in silence": partial(proxy.black_hole, end, after=True),
            "a producer that is fenced": partial(proxy.refuse, end, "INVALID_PRODUCER_EPOCH"),
            "positions that are late": partial(proxy.delay, positions, LATE_MS),
            "positions in silence": partial(proxy.black_hole, positions),
            "positions of another generation": partial(
                proxy.refuse, positions, "ILLEGAL_GENERATION"
            ),
            "partitions that are not added": partial(proxy.disconnect, "AddPartitionsToTxn"),
        }
        super().__init__(kinds, share)
