"""Produce requests that fail on purpose, between producers and their broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from streamlet.testing import Fault, FaultProxy
from streamlet.testing.faults.fault import Which

#: The ways in which batches fail: whether the broker gets them, and what its producer gets.
FAILURES: dict[str, tuple[bool, str | None]] = {
    "never arrives": (False, None),
    "answer is lost": (True, None),
    "refused": (False, "NOT_ENOUGH_REPLICAS"),
    "timed out": (False, "REQUEST_TIMED_OUT"),
    "timed out, yet written": (True, "REQUEST_TIMED_OUT"),
    "written by too few": (True, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
}


class DeliveryFailures:
    """Makes single batches to some topics fail.

    Args:
        proxy: the way that they take.
        concerned: whether batches of a topic may fail.
        share: how many of the batches fail.
    """

    def __init__(self, proxy: FaultProxy, concerned: Callable[[str], bool], share: float) -> None:
        self._made: dict[str, Fault] = {}
        for kind, (after, error) in FAILURES.items():
            which = Which(
                times=None,
                probability=share / len(FAILURES),
                after=after,
                where=lambda request: all(map(concerned, request.topics)),
            )
            self._made[kind] = (
                proxy.black_hole("Produce", **which)
                if error is None
                else proxy.refuse("Produce", error, **which)
            )

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
