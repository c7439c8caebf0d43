"""The repartition topics to which the records of a task bear origins, as its commits name them.

Who replays from a commit has to write in the form in which it was written before: a reader knows a
repetition by its origin, and in another form it counts once more. So a period goes on with the
topics that its commit names, and each change goes by a commit: the claim, or any later one. Nothing
is written from its share until it is accepted.

Topics are left late: what an owner before wrote, who did not know yet that it had lost the task,
has origins as well, and would count beside the same records in another form. It can stem from no
input record that was not there one session timeout after our claim. So the commit that leaves them
is behind the ends that the inputs had then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streamlet.processing.edges.agreement import Agreement
from streamlet.processing.edges.held_writer import HeldWriter
from streamlet.state.log_numbers import number_of
from streamlet.types import TopicPartition


class OriginForms:
    """The topics of one task whose records bear origins now, and those whose records are to.

    Args:
        wanted: the topics whose records are to bear origins, once the group agrees and none waits
            for a commit there.
        begun: those whose records did as of the commit that the period begins at.
        agreement: of the group.
        held: writes the records that wait for their commit; None: there are none.
        timeout_ms: so long after the claim no owner before writes any more.
    """

    def __init__(
        self,
        wanted: Collection[str],
        begun: Collection[str] = (),
        agreement: Agreement | None = None,
        held: HeldWriter | None = None,
        timeout_ms: int = 0,
    ) -> None:
        self._wanted, self._now = frozenset(wanted), frozenset(begun)
        self._agreement = agreement or Agreement(prefixes=True)
        self._held, self._timeout_ms = held, timeout_ms
        self._claimed, self._since_ms = False, -1
        self._ends: Mapping[TopicPartition, int] | None = None
        #: Those that the claim, or the commit under way, names; None: no others than before.
        self._next = self._changed(leaves=False)

    def bear(self, topic: str) -> bool:
        """True if the next records to this topic bear origins."""
        return topic in self._now and self._agreement.prefixes

    @property
    def silent(self) -> bool:
        """True while nothing may be written: a commit that changes the form is not accepted yet."""
        return self._next is not None

    @property
    def numbers(self) -> frozenset[int]:
        """The topics that a commit is to name, as numbers."""
        return frozenset(map(number_of, self._now if self._next is None else self._next))

    def asks_ends(self, now_ms: int) -> bool:
        """True if a commit is to bring the ends of the inputs, for topics that are to be left."""
        if not self._claimed or self._ends is not None or all(map(self._wants, self._now)):
            return False
        if self._since_ms < 0:
            self._since_ms = now_ms
        return now_ms >= self._since_ms + self._timeout_ms

    def taken(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note that a share of a commit was taken, at these positions."""
        ends = self._ends
        leaves = ends is not None and all(positions[tp] >= end for tp, end in ends.items())
        self._next = self._changed(leaves=leaves or not self._agreement.prefixes)

    def accepted(self, ends: Mapping[TopicPartition, int]) -> None:
        """Note that a claim or a commit was accepted, which brought these ends or none."""
        self._claimed = True
        if self._next is not None:
            self._now, self._next, self._ends = self._next, None, None
        elif ends:
            self._ends = dict(ends)

    def begin_again(self) -> None:
        """Begin another period in place: others may have had the task meanwhile."""
        self._claimed, self._since_ms, self._ends, self._next = False, -1, None, None

    def _changed(self, *, leaves: bool) -> frozenset[str] | None:
        """The topics that another commit names, if it is to name others."""
        found = frozenset(filter(self._wants, self._wanted))
        if not leaves:
            found |= self._now
        return None if found == self._now else found

    def _wants(self, topic: str) -> bool:
        if topic not in self._wanted or not self._agreement.prefixes:
            return False
        return self._held is None or not self._held.is_to_take(topic)
