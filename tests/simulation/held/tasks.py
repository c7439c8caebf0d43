"""A task between held edges: its commits, its owner, and the periods that were owners before."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator

import attrs

from tests.simulation.held.reader import Reader
from tests.simulation.held.rules import NOTHING, Notes, Place, Rules, Word
from tests.simulation.held.writer import Writer

#: Most records of one batch.
MOST = 6
EMITTED = (0, 1, 1, 1, 2, MOST)

#: A record of a task: the partition it went to, and its value.
Emitted = tuple[int, Hashable]


@attrs.frozen
class Commit:
    """The last accepted commit of a task, with the state that belongs to it."""

    position: int = 0
    notes: Notes = ""
    contained: Place = NOTHING
    incarnation: int = 0
    epoch: int = 0
    applied: tuple[Word, ...] = ()
    emitted: tuple[Emitted, ...] = ()
    #: Numbers of the topics to which it says that origins are written.
    origins: frozenset[int] = frozenset()
    #: Since when the epochs count with which what waits is written; 0: nothing does.
    born: int = 0


@attrs.define
class Log:
    """One partition of a topic; words before ``start`` were deleted.

    ``open``: places of words whose transaction has not ended; ``aborted``: of those that no reader
    gets.
    """

    words: list[Word] = attrs.field(factory=list)
    start: int = 0
    open: set[int] = attrs.field(factory=set)
    aborted: set[int] = attrs.field(factory=set)


@attrs.define(eq=False)
class Task:
    """A task, which reads an input of so many records or a log, and writes logs or nothing."""

    number: int
    rules: Rules
    records: int = 0
    log: Log | None = None
    logs: list[Log] = attrs.field(factory=list)
    commit: Commit = attrs.field(factory=Commit)
    owner: Active | None = None
    former: list[Active] = attrs.field(factory=list)
    #: Since when its state counts: it was reset to this position of its log.
    since: int = 0
    #: Whether words may be deleted before they are read.
    lossy: bool = False
    clock: Iterator[int] = attrs.field(kw_only=True)
    values: Iterator[int] = attrs.field(kw_only=True)
    begun: Callable[[Rules, int, Notes], Reader] = attrs.field(default=Reader, kw_only=True)
    writing: type[Writer] = attrs.field(default=Writer, kw_only=True)
    ends: Callable[[Hashable], bool] = attrs.field(default=lambda value: False, kw_only=True)
    active: Callable[[Task], Active] = attrs.field(
        default=attrs.Factory(lambda: Active), kw_only=True
    )

    def take_over(self) -> None:
        """Begin a period; the one before goes on until it finds out."""
        if self.owner is not None:
            self.former.append(self.owner)
        self.owner = self.active(self)

    def emissions(self, dice: random.Random, source: Hashable, partitions: int) -> list[Emitted]:
        """What is emitted for one record, the last first: chosen anew each time."""
        if self.ends(source):
            return []
        places = [dice.randrange(partitions) for _ in range(dice.choice(EMITTED))]
        values = [(self.number, next(self.values)) for _ in places]
        return [*zip(places, reversed(values), strict=True)]

    @property
    def ended(self) -> bool:
        """True if all there is was processed, committed and told."""
        one = self.owner
        if one is None or not one.claimed or one.changed or one.share is not None:
            return False
        end = self.records if self.log is None else len(self.log.words)
        return self.commit.position == end and one.writer.quiet


@attrs.frozen
class _Share:
    """A commit under way: what it contains, and what has to be delivered before it is sent."""

    commit: Commit
    number: int
    sent: list[int]


class Active:
    """An active period of a task."""

    def __init__(self, task: Task) -> None:
        found, rules = task.commit, task.rules
        self._task, self._rules = task, rules
        self._found = found
        first = not found.incarnation
        self.incarnation = found.incarnation
        if first and rules.incarnation:
            self.incarnation = next(task.clock)
        self.position = found.position
        self.reader = None if task.log is None else task.begun(rules, found.position, found.notes)
        self.applied, self.emitted = list(found.applied), list(found.emitted)
        self._batch: list[Emitted] = []
        self._amid = False
        self.claimed = False
        self.share: _Share | None = None
        self._begin(found)
        base = NOTHING if first and rules.incarnation else found.contained
        self.writer = task.writing(rules, task.number, self._period, base, len(task.logs))

    def _begin(self, found: Commit) -> None:
        self.number, self.claimed, self.share = 0, False, None
        self.epoch = found.epoch + 1
        self._period = self.incarnation, self.epoch

    @property
    def owns(self) -> bool:
        """True if the group still counts the task as this period's."""
        return self._task.owner is self

    @property
    def changed(self) -> bool:
        """True if there is something to commit."""
        return self._amid or self._now() != (
            (c := self._task.commit).position,
            c.notes,
            len(c.applied),
            len(c.emitted),
        )

    def _now(self) -> tuple[int, Notes, int, int]:
        position = self.position if self.reader is None else self.reader.position
        notes: Notes = "" if self.reader is None else self.reader.notes
        return position, notes, len(self.applied), len(self.emitted)

    # Processing.

    def read(self) -> None:
        """Take the next word of the log."""
        log, reader = self._task.log, self.reader
        if log is None or reader is None or reader.read == len(log.words):
            return
        if reader.read in log.open:
            return
        if reader.read in log.aborted:
            reader.skip(reader.read + 1, lost=False)
            return
        if reader.read < log.start:
            assert self._task.lossy, "deleted before it was read"
            reader.skip(log.start)
            return
        reader.take(log.words[reader.read])

    def work(self, dice: random.Random) -> None:
        """Begin a batch, or go on with the one that was begun."""
        if not self.claimed and self._rules.claim:
            return
        full = self._rules.bound and self.writer.full
        if full and not (self._amid and self._rules.amid):
            return
        if not self._amid and not self._begin_batch(dice):
            return
        if self._batch:
            partition, value = self._batch.pop()
            self.writer.emit(partition, value)
            self.emitted.append((partition, value))
        if not self._batch:
            self._amid = False
            self.position += self.reader is None

    def _begin_batch(self, dice: random.Random) -> bool:
        source: Hashable = self.position
        self.writer.place = self.position
        if self.reader is not None:
            word = self.reader.process()
            if word is None:
                return False
            self.applied.append(word)
            source, self.writer.place = word.value, self.reader.place
        elif self.position == self._task.records:
            return False
        self._amid = True
        if count := self.writer.partitions:
            self._batch = self._task.emissions(dice, source, count)
        return True

    # Commits.

    def claim(self, dice: random.Random, faulty: bool) -> None:
        """Commit what was found under the own epoch; the answer may be lost, and asked again."""
        if self.claimed or not self.owns or (faulty and dice.random() < 0.2):
            return
        found = self._task.commit
        contained = found.contained if self._rules.leap else (self._period, 0)
        changed = attrs.evolve(
            found,
            contained=contained,
            epoch=self.epoch,
            incarnation=self.incarnation,
            origins=self.writer.origins,
            born=self.writer.born,
        )
        self._task.commit = self._found = changed
        if not faulty or dice.random() < 0.8:
            self.claimed = True
            self.writer.begin(dice)

    def commit(self, dice: random.Random, faulty: bool) -> None:
        """Take a share, or send it once it is delivered."""
        if self.share is None:
            if self.claimed and not self._amid and self.changed:
                self._take_share()
            return
        if self.writer.failed or not self.writer.delivered(self.share.sent) or not self.owns:
            return
        if faulty and dice.random() < 0.08:
            self.share = self._again(self.share)
            return  # it did not arrive
        self._task.commit = self.share.commit
        if faulty and dice.random() < 0.1:
            self.share = self._again(self.share)
            return  # accepted, and the answer was lost; it is sent again
        self._found, self.number = self.share.commit, self.share.number
        self.share = None
        self.writer.committed(self.number)

    def _take_share(self) -> None:
        number = self.number + 1
        position, notes, _, _ = self._now()
        self.writer.shared(number, position)
        commit = Commit(
            position,
            notes,
            (self._period, number),
            self.incarnation,
            self.epoch,
            tuple(self.applied),
            tuple(self.emitted),
            self.writer.origins,
            self.writer.born,
        )
        self.share = _Share(commit, number, self.writer.sent)

    def _again(self, share: _Share) -> _Share:
        """A commit as it is sent once more."""
        if self._rules.again:
            return share
        commit = attrs.evolve(share.commit, contained=(self._period, share.number + 1))
        return attrs.evolve(share, commit=commit, number=share.number + 1)

    def begin_again(self) -> None:
        """Begin another period in place, if the last commit of the task is this one's."""
        found = self._task.commit
        if not self.owns or not self.claimed or found is not self._found or self._amid:
            return
        if self.writer.failed or (self._rules.in_place and len(self.emitted) > len(found.emitted)):
            self._task.take_over()
            return
        self._begin(found)
        self.writer.begin_again(self._period, found.contained)
