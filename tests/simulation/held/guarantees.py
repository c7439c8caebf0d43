"""Histories in which some periods of a task commit by transactions, and others do not.

A period under exactly_once writes plain records into its transaction, origins as long as the form
of its task says so, and the base of what waited before it. Its commit ends the transaction: words
and positions count together. What does not end so is aborted, and its owner goes back to the last
commit. Readers of either guarantee get committed words only, in order.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator

from tests.simulation.held.deployments import FORMS
from tests.simulation.held.rules import Word
from tests.simulation.held.switch import SwitchHistory, SwitchTask, SwitchWriter
from tests.simulation.held.tasks import Active, Log, Task


class GuaranteeWriter(SwitchWriter):
    """A writer of either guarantee; what it sends in a transaction comes once and in order."""

    @property
    def transactional(self) -> bool:
        """True if its period commits by transactions."""
        return self._transactional

    def __init__(self, history: SwitchHistory, task: SwitchTask, *facts: object) -> None:
        self._transactional = task.transactional
        super().__init__(history, task, *facts)

    def _note_plain(self, value: Hashable) -> None:
        if not self.transactional:
            super()._note_plain(value)

    def deliver(self, dice: random.Random, faulty: bool) -> Iterator[tuple[int, Word]]:
        """The oldest word of some partition, unless the producer fails."""
        if not self.transactional:
            yield from super().deliver(dice, faulty)
            return
        partition = dice.randrange(len(self._ways))
        one = self._ways[partition]
        if one.queue and not self.failed:
            if faulty and dice.random() < 0.04:
                self.failed = True
                return
            one.delivered += 1
            yield partition, one.queue.pop(0)


class GuaranteeActive(Active):
    """An active period, perhaps one whose commits are ends of transactions."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        assert isinstance(self.writer, GuaranteeWriter)
        self.transactional = self.writer.transactional
        #: What is open: the place of each word.
        self.open: list[tuple[Log, int]] = []

    @property
    def changed(self) -> bool:
        """True if there is something to commit."""
        sent = self.transactional and (bool(self.open) or any(self.writer.in_flight))
        return sent or super().changed

    def write(self, log: Log, word: Word) -> None:
        """Write a word in the transaction."""
        self.open.append((log, len(log.words)))
        log.open.add(len(log.words))
        log.words.append(word)

    def end(self, *, commit: bool) -> None:
        """End the transaction."""
        for log, at in self.open:
            log.open.remove(at)
            if not commit:
                log.aborted.add(at)
        self.open.clear()

    def claim(self, dice: random.Random, faulty: bool) -> None:
        """Claim by a commit, as the first transaction does."""
        if self.transactional:
            self.commit(dice, faulty)
        else:
            super().claim(dice, faulty)

    def work(self, dice: random.Random) -> None:
        """Process nothing while a transaction is to end."""
        if not (self.transactional and self.share is not None):
            super().work(dice)

    def commit(self, dice: random.Random, faulty: bool) -> None:
        """Take a share, or end the transaction once all is delivered."""
        if not self.transactional:
            super().commit(dice, faulty)
            return
        if not self.owns:
            self.writer.failed = True
            return
        if not self.claimed and self.writer.born:  # nothing but the claim, as its base is not told
            super().claim(dice, faulty)
            self.writer.failed |= not self.claimed
            return
        if self.share is None:
            if not self._amid and (self.changed or not self.claimed):
                self._take_share()
            return
        if self.writer.failed or any(self.writer.in_flight):
            return
        if faulty and dice.random() < 0.08:
            self.writer.failed = True  # it did not arrive, or came too late
            return
        self._task.commit = self._found = self.share.commit
        self.end(commit=True)
        if faulty and dice.random() < 0.1:
            self.writer.failed = True  # the answer was lost
            return
        self.number, self.share = self.share.number, None
        self.writer.committed(self.number)
        if not self.claimed:
            self.claimed = True
            self.writer.begin(dice)


class GuaranteeHistory(SwitchHistory):
    """A history of periods of both guarantees."""

    deployments = (*FORMS, (), (), (), ())
    lengths = (1, 2, 2)
    written = GuaranteeWriter

    def __init__(self, seed: int, left_out: str = "") -> None:
        self._periods: list[GuaranteeActive] = []
        super().__init__(seed, left_out)

    def _task(self, logs: list[Log], records: int = 0, log: Log | None = None) -> Task:
        task = super()._task(logs, records, log)
        task.active = self._active
        return task

    def _active(self, task: Task) -> GuaranteeActive:
        self._periods.append(GuaranteeActive(task))
        return self._periods[-1]

    def _abort(self, chance: float) -> None:
        """Have former owners aborted, as the group's leader does."""
        for one in self._periods:
            if one.open and not one.owns and self._dice.random() < chance:
                one.end(commit=False)
                one.writer.failed = True

    def _step(self, task: Task) -> None:
        self._abort(0.1)
        super()._step(task)

    def _go_on(self, task: Task) -> None:
        self._abort(1)
        super()._go_on(task)

    def _deliver(self, task: Task, one: Active, faulty: bool) -> None:
        assert isinstance(one, GuaranteeActive)
        if not one.transactional:
            super()._deliver(task, one, faulty)
        elif task.logs and (faulty or one.owns):
            for partition, word in one.writer.deliver(self._dice, faulty):
                one.write(task.logs[partition], word)
