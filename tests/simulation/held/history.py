"""One random history of tasks between held edges, and its verdict."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Container, Hashable
from itertools import count

import attrs

from tests.simulation.held.reader import Reader
from tests.simulation.held.rules import NOTHING, Notes, Rules, Word
from tests.simulation.held.tasks import MOST, Active, Log, Task
from tests.simulation.held.writer import BOUND, Writer

_FAULTS = (
    "crash",
    "crash",
    "zombie",
    "zombie",
    "hand-over",
    "alone",
    "in place",
    "set back",
    "new",
)
_BUSY_STEPS = 400
_MOST_ROUNDS = 300


class History:
    """Tasks of two or three stages, each of which writes to the next.

    What is emitted for a record is chosen anew each time it is processed.
    """

    reader: type[Reader] = Reader
    writer: type[Writer] = Writer
    #: Edges in a row, by chance.
    lengths = (1, 1, 1, 2)
    #: Whether retention deletes words that were not read.
    lossy = False

    def __init__(self, seed: int, rules: Rules | None = None) -> None:
        self._dice = dice = random.Random(seed)
        self._rules = rules or Rules()
        self._clock, self._values = count(1), count(1)
        self._numbers = count()
        partitions = [dice.choice([1, 2, 2]) for _ in range(dice.choice(self.lengths))]
        self._topics = [[Log() for _ in range(count)] for count in partitions]
        #: The tasks of each stage.
        self._stages = [[self._source() for _ in range(dice.choice([1, 2, 2]))]]
        for stage, logs in enumerate(self._topics):
            self._stages.append([self._behind(stage, log) for log in logs])
        #: Tasks in whose name something was written, where the life must not end that tells so.
        self._unsigned = set[int]()
        #: Values that may count more than once.
        self._loose = set[Hashable]()
        #: How often each fault happened.
        self.faults = Counter[str]()

    def _source(self) -> Task:
        return self._task(self._topics[0], records=self._dice.randrange(4, 16))

    def _behind(self, stage: int, log: Log) -> Task:
        last = stage == len(self._topics) - 1
        return self._task([] if last else self._topics[stage + 1], log=log)

    def _task(self, logs: list[Log], records: int = 0, log: Log | None = None) -> Task:
        return Task(
            next(self._numbers),
            self._rules,
            records,
            log,
            logs,
            lossy=self.lossy,
            clock=self._clock,
            values=self._values,
            begun=self._begun,
            ends=self._ends,
            writing=self.writer,
        )

    def _writers(self, topic: int) -> list[Task]:
        """The tasks that write a topic."""
        return self._stages[topic]

    def _ends(self, value: Hashable) -> bool:
        """True for a value for which nothing is emitted."""
        return False

    def _begun(self, rules: Rules, position: int, notes: Notes) -> Reader:
        return self.reader(rules, position, notes)

    @property
    def _tasks(self) -> list[Task]:
        return [task for stage in self._stages for task in stage]

    def run(self) -> str:
        """What was lost, or applied without being committed or twice; nothing if it was exact."""
        for _ in range(_BUSY_STEPS):
            task = self._dice.choice(self._tasks)
            self._step(task)
            if task.owner is not None and task.owner.writer.undecided > BOUND + MOST:
                return "too much undecided"
        for number in range(_MOST_ROUNDS):
            if number == _MOST_ROUNDS // 2 and self._may_wait():
                for task in self._tasks:
                    task.take_over()
            for task in self._tasks:
                self._go_on(task)
            if all(one.ended for one in self._tasks) and not any(map(self._late, self._tasks)):
                return self._verdict()
        return "not finished"

    def _may_wait(self) -> bool:
        """True if a record may wait for its writer's next period.

        A zombie's, where a reader's notes are gone; or one whose decision was deleted.
        """
        return self.lossy or any(task.since for task in self._tasks)

    def _go_on(self, task: Task) -> None:
        """Let a task do what is to be done, without any fault."""
        one = task.owner
        if one is None or one.writer.failed:
            task.take_over()
            return
        one.claim(self._dice, False)
        for _ in range(4):
            one.read()
            one.work(self._dice)
        while any(one.writer.in_flight):
            self._deliver(task, one, False)
        one.commit(self._dice, False)
        if self._dice.random() < 0.3:
            one.writer.tell(self._dice)

    def _step(self, task: Task) -> None:
        dice, one = self._dice, task.owner
        if dice.random() < 0.03:
            self._disturb(task)
            return
        if task.logs and dice.random() < 0.05:
            self._forge(task)
        if task.former and dice.random() < 0.15:
            self._haunt(task, dice.choice(task.former))
        if one is None or (one.writer.failed and dice.random() < 0.3):
            if dice.random() < 0.3:
                task.take_over()
            return
        self._act(task, one)

    def _act(self, task: Task, one: Active) -> None:
        """Something that a period does by itself."""
        dice, x = self._dice, self._dice.random()
        if not one.claimed and dice.random() < 0.3:
            one.claim(dice, True)
        elif x < 0.35:
            one.work(dice)
        elif x < 0.55:
            one.read()
        elif x < 0.75:
            self._deliver(task, one, True)
        elif x < 0.9:
            one.commit(dice, True)
        elif x < 0.96:
            one.writer.tell(dice)
        elif task.log is not None:
            self._delete(task, task.log)

    def _delete(self, task: Task, log: Log) -> None:
        """A purge; or retention, which does not ask what was read."""
        if self.lossy and self._dice.random() < 0.3:
            self.faults["retention"] += 1
            log.start = self._dice.randrange(log.start, len(log.words) + 1)
        else:
            log.start = max(log.start, task.commit.position)

    def _forge(self, task: Task) -> None:
        """Another writes a word in the name of a task: of its own making, or a copy of one."""
        dice = self._dice
        value = task.number, -next(self._values)
        there = [word for log in task.logs for word in log.words if word.writer == task.number]
        if there and dice.random() < 0.6:
            word = self._copied(dice.choice(there[-8:]), dice.randrange(8), value)
            self.faults["copied"] += 1
        else:
            word = self._forged(task, value)
            self.faults["forged"] += 1
        dice.choice(task.logs).words.append(word)

    def _copied(self, word: Word, sequence: int, value: Hashable) -> Word:
        """A word as it was, but for what is not signed."""
        return word if word.base else word._replace(sequence=sequence, value=value)

    def _forged(self, task: Task, value: Hashable) -> Word:
        """A word that a task could have written, without its signature."""
        dice, found = self._dice, task.commit
        life = dice.choice([found.incarnation, found.incarnation, found.incarnation + 1])
        period = life, max(0, found.epoch + dice.choice([-1, 0, 1, 1, 2]))
        number, sequence = dice.randrange(1, 4), dice.randrange(8)
        accepted = number - dice.choice([1, 1, 2])
        base = dice.choice([None, NOTHING, (period, 2), found.contained])
        words = task.number, period, number, accepted, sequence, None if base else value, base
        return Word(*words, signed=False)

    def _deliver(self, task: Task, one: Active, faulty: bool) -> None:
        if task.logs:
            failed = one.writer.failed
            for partition, word in one.writer.deliver(self._dice, faulty):
                task.logs[partition].words.append(word)
            self.faults["delivery"] += one.writer.failed and not failed

    def _haunt(self, task: Task, zombie: Active) -> None:
        """A former owner that does not know it yet."""
        x = self._dice.random()
        if x < 0.3:
            zombie.work(self._dice)
        elif x < 0.4:
            zombie.commit(self._dice, True)
        elif x < 0.95:
            self._deliver(task, zombie, True)
        else:
            task.former.remove(zombie)

    def _disturb(self, task: Task) -> None:
        """A crash, a hand-over, a claim without more, a task without a member, ..."""
        dice, one = self._dice, task.owner
        kind = dice.choice(_FAULTS)
        if kind == "crash":
            task.owner = None
            task.take_over()
        elif kind == "zombie":
            task.take_over()
        elif kind == "alone":
            if one is not None:
                task.former.append(one)
            task.owner = None
        elif one is None or not one.claimed:
            return
        elif kind == "in place":
            one.begin_again()
        elif kind == "new":
            if not self._grow():
                return
        elif not self._stopped(task, one):
            return
        elif kind == "set back":
            self._set_back(task)
        else:
            task.take_over()
        self.faults[kind] += 1

    def _stopped(self, task: Task, one: Active) -> bool:
        """Let an owner come to its end in good order; False if it cannot."""
        for _ in range(40):
            if one.writer.failed:
                return False
            if one.share is None and not one.changed:
                break
            one.commit(self._dice, False)
            one.work(self._dice)
            self._deliver(task, one, False)
        else:
            return False
        if self._dice.random() < 0.7:
            one.writer.tell()
        return True

    def _set_back(self, task: Task) -> None:
        """A tool moves the positions of a task, while nothing of the application runs."""
        one = task.owner
        if one is None or task.number in self._unsigned:
            return
        one.writer.tell()
        while any(one.writer.in_flight):
            self._deliver(task, one, False)
        task.owner = None
        found = task.commit
        cleared = attrs.evolve(found, notes="", contained=((0, 0), 0), incarnation=0, epoch=0)
        if task.log is None:
            position = self._dice.randrange(found.position + 1)
            task.commit = attrs.evolve(cleared, position=position)
        else:
            task.since = self._dice.randrange(task.log.start, len(task.log.words) + 1)
            task.commit = attrs.evolve(cleared, position=task.since, applied=())
        task.take_over()

    def _grow(self) -> bool:
        """Partitions are added, to the input or between two stages."""
        if len(self._tasks) > 5:
            return False
        stage = self._dice.randrange(len(self._stages))
        if stage == 0:
            self._stages[0].append(self._source())
            return True
        log = Log()
        self._topics[stage - 1].append(log)
        self._stages[stage].append(self._behind(stage - 1, log))
        for writer in self._writers(stage - 1):
            if writer.owner is not None:  # all begin again once they see it
                writer.take_over()
        return True

    # The verdict.

    def _late(self, task: Task) -> bool:
        """Let former owners deliver what they still have; True if that was something."""
        found = False
        for zombie in task.former:
            for _ in range(40):
                before = sum(len(log.words) for log in task.logs)
                self._deliver(task, zombie, False)
                found |= before < sum(len(log.words) for log in task.logs)
        task.former.clear()
        return found

    def _verdict(self) -> str:
        for stage, tasks in enumerate(self._stages[1:]):
            for partition, task in enumerate(tasks):
                assert task.log is not None
                for writer in self._writers(stage):
                    wrong = _compared(writer, partition, task, task.log, self._loose)
                    if wrong and not (self.lossy and wrong == "lost"):
                        return wrong
        return ""


def _compared(
    writer: Task, partition: int, task: Task, log: Log, loose: Container[Hashable]
) -> str:
    """Compare what was applied with what the writer's accepted commits contain."""
    emitted = [value for where, value in writer.commit.emitted if where == partition]
    wanted = [value for value in emitted if value not in loose]
    found = [
        word.value
        for word in task.commit.applied
        if word.writer == writer.number and not _is_forged(word.value) and word.value not in loose
    ]
    if len(set(found)) < len(found):
        return "twice"
    if task.since or task.lossy:  # of what came twice the reader may have met the second only
        places = Counter(word.value for word in log.words)
        there = {word.value for word in log.words[task.since :] if places[word.value] == 1}
        wanted = [value for value in wanted if value in there]
        found = [value for value in found if places[value] == 1]
    if found == wanted:
        return ""
    if set(found) - set(wanted):
        return "not committed"
    there = set(found)
    in_order = found == [value for value in wanted if value in there]
    return "lost" if in_order else "out of order"


def _is_forged(value: Hashable) -> bool:
    return isinstance(value, tuple) and value[1] < 0


class LossyHistory(History):
    """A history in which topics lose records; what is left counts once and in order."""

    lossy = True
