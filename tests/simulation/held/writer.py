"""The active period of a task that writes held edges, and what its producer has in flight."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator

import attrs

from tests.simulation.held.rules import Period, Place, Rules, Word

#: Undecided records with which a writer takes nothing new.
BOUND = 4


@attrs.define
class OnTheWay:
    """What a period knows of one partition that it writes, and what is on its way there."""

    queue: list[Word] = attrs.field(factory=list)
    sequence: int = 0
    written: int = 0  # highest number of a record
    told: int = 0  # highest number that a word said was accepted
    delivered: int = 0  # words that are no longer in the queue
    late: list[Word] = attrs.field(factory=list)
    again: Word | None = None  # comes a second time behind the next one of the same commit


class Writer:
    """Numbers what a period writes, and says which of its commits were accepted.

    Args:
        rules: that it goes by.
        writer: number of the task.
        period: its own.
        base: the last accepted commit before it.
        partitions: of the topic.
    """

    def __init__(
        self, rules: Rules, writer: int, period: Period, base: Place, partitions: int
    ) -> None:
        self._rules = rules
        self._writer, self._period, self._base = writer, period, base
        self._ways = [OnTheWay() for _ in range(partitions)]
        self._share = self._accepted = 0
        #: The last accepted commit that contains records; all partitions are to hear of it.
        self._full = 0
        self._undecided: list[int] = []
        self.failed = False
        #: Whether a marker was not delivered, or late.
        self.lost_marker = False
        #: The input record that what is written stems from.
        self.place = 0

    # What the task does.

    def begin(self, dice: random.Random) -> None:
        """The claim was accepted."""
        for one in self._ways:
            if self._rules.everywhere or dice.random() < 0.5:
                self._mark(one)

    def emit(self, partition: int, value: Hashable) -> None:
        """Write a record."""
        one, number = self._ways[partition], self._next
        accepted = self._accepted if self._rules.in_flight else number - 1
        one.sequence += 1
        word = Word(self._writer, self._period, number, accepted, one.sequence, value)
        one.queue.append(word)
        one.written, one.told = number, accepted
        self._undecided.append(number)

    @property
    def origins(self) -> frozenset[int]:
        """Numbers of the topics to which a commit is to say that origins are written."""
        return frozenset()

    @property
    def born(self) -> int:
        """Since when the epochs count with which it writes what waits; 0: it writes none."""
        return 0

    def shared(self, number: int, position: int) -> None:
        """A commit of this number contains what was written so far."""
        self._share = number

    def committed(self, number: int) -> None:
        """This commit was accepted."""
        self._accepted = number
        if any(one <= number for one in self._undecided) or not self._rules.empty:
            self._full = number
        self._undecided = [one for one in self._undecided if one > number]

    def tell(self, dice: random.Random | None = None) -> None:
        """Say what was accepted where nothing else did; everywhere, or in some partition."""
        if self._rules.owed and self._ways:
            seldom = dice is not None and dice.random() < 0.5
            for one in self._ways if dice is None else [dice.choice(self._ways)]:
                if self._owes(one) or (seldom and one.told < self._full):
                    self._mark(one)

    def begin_again(self, period: Period, base: Place) -> None:
        """Begin another period in place; its claim is yet to be accepted."""
        self._period, self._base = period, base
        self._share = self._accepted = self._full = 0
        self._undecided = []
        for one in self._ways:
            one.sequence = one.written = one.told = 0

    @property
    def partitions(self) -> int:
        """How many partitions it writes."""
        return len(self._ways)

    @property
    def undecided(self) -> int:
        """Records that no accepted commit contains yet."""
        return len(self._undecided)

    @property
    def full(self) -> bool:
        """True if the task is to begin nothing new."""
        return self.undecided >= BOUND

    @property
    def quiet(self) -> bool:
        """True if nothing is on its way, and nothing is owed."""
        owes = self._rules.owed and any(one.told < self._full for one in self._ways)
        return not any(self.in_flight) and not owes

    @property
    def _next(self) -> int:
        return (self._share if self._rules.share else self._accepted) + 1

    def _owes(self, one: OnTheWay) -> bool:
        return one.told < min(one.written, self._accepted)

    def _mark(self, one: OnTheWay) -> None:
        words = self._writer, self._period, self._next, self._accepted, one.sequence
        one.queue.append(Word(*words, None, self._base))
        one.told = self._accepted

    # What the producer does.

    @property
    def in_flight(self) -> list[int]:
        """How many words of each partition are not delivered."""
        return [len(one.queue) for one in self._ways]

    @property
    def sent(self) -> list[int]:
        """How many words were sent to each partition."""
        return [one.delivered + len(one.queue) for one in self._ways]

    def delivered(self, sent: list[int]) -> bool:
        """True if these first words of each partition were delivered."""
        if not self._rules.first:
            return not any(word.base is None for one in self._ways for word in one.queue)
        return all(one.delivered >= count for one, count in zip(self._ways, sent, strict=True))

    def deliver(self, dice: random.Random, faulty: bool) -> Iterator[tuple[int, Word]]:
        """The oldest word of some partition, where it reaches the log, perhaps twice.

        A delivery that fails may still arrive, later; those behind it are not held back.
        """
        partition = dice.randrange(len(self._ways))
        one = self._ways[partition]
        if not one.queue:
            if one.late and dice.random() < 0.5:
                yield partition, one.late.pop(0)
            return
        word = one.queue.pop(0)
        one.delivered += 1
        if faulty and dice.random() < (0.04 if word.base is None else 0.12):
            self.failed |= self._rules.first or word.base is None
            self.lost_marker |= word.base is not None
            if dice.random() < 0.4:
                one.late.append(word)
            return
        yield partition, word
        again, one.again = one.again, None
        if again is not None and again.commit == word.commit:
            yield partition, again
        if faulty and dice.random() < 0.06:
            if word.base is not None or dice.random() < 0.5:
                yield partition, word
            else:
                one.again = word
