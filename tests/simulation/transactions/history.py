"""One random history of an application's tasks under exactly_once, and its verdict."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import attrs

from streamlet.app import App
from streamlet.errors import NotFoundError, StreamletError
from streamlet.kafka.transactions import abort_open
from streamlet.tasks.opening import changelogs_of
from streamlet.testing import TopologyTestDriver
from streamlet.testing.memory_log import MemoryLog, StoredRecord
from streamlet.types import TaskId, TopicPartition
from tests.simulation.transactions.broker import Broker, KilledError, TransactionProducer
from tests.simulation.transactions.owner import (
    INPUT,
    LEFT,
    LETTERS,
    OUTPUT,
    RIGHT,
    Owner,
    counting,
)

#: Stores lie in memory where the system has such a folder: nothing here is about disks.
_MEMORY = Path("/dev/shm")
_STEPS = 120
#: Records of the input are so far apart.
_APART_MS = 1_500
#: Turns in which a history comes to its end.
MOST_QUIET = 400
#: A record that was written: key, value and time, ms.
Written = tuple[bytes | None, bytes | None, int]
_FATES = ("lost", "late", "late", "unanswered", "killed", "done and killed")


class History:
    """Two members, one of which has the tasks; another may not know that it has them no more."""

    #: Of the records of its input.
    keys: Sequence[bytes] = (b"k", b"l", b"m")

    def __init__(self, seed: int, folder: Path, app: App) -> None:
        self._dice, self._app = random.Random(seed), app
        self._folder = folder
        self._quiet = False
        self.faults: Counter[str] = Counter()
        log = MemoryLog()
        log.create(LETTERS.topic)
        self._topology = app.topology()
        for part in self._topology.subtopologies:
            logs = changelogs_of(part, TaskId(part.id, 0)).values()
            for topic in {*part.input_topics, *part.output_topics, *(tp.topic for tp in logs)}:
                log.create(topic)
        #: What the application reads of others, and what its tasks write to each other.
        self._between = [TopicPartition(name, 0) for name in self._topology.repartition_topics]
        self._sources = [TopicPartition(name, 0) for name in self._topology.source_topics]
        self.broker = Broker(log)
        self._names = iter(f"{letter}{n}" for n in range(1_000) for letter in "ab")
        self.broker.members = set()
        self._zombies: list[Owner] = []
        #: To whom the tasks are to be released.
        self._next: Owner | None = None
        self._turns = 0

    def run(self) -> str:
        """What was lost, torn or doubled; nothing if it was exact."""
        self._owner = self._new_owner()
        self._owner.take()
        for _ in range(_STEPS):
            if wrong := self._step():
                return wrong
        self._quiet = True
        for zombie in self._zombies:
            zombie.die()
        for late in self.broker.late:
            late()
        for _ in range(MOST_QUIET):
            if wrong := self._turn(self._owner):
                return wrong
            if self._done():
                return self._verdict()
        return f"not finished; open are transactions of {self.broker.open}"

    def fate(self, api: str) -> str:
        """What becomes of a request."""
        if self._quiet or self._dice.random() > 0.08:
            return ""
        fate = self._dice.choice(_FATES)
        if api == "Produce" and fate in ("late", "unanswered"):
            fate = "lost"
        self.faults[fate] += 1
        self.faults["late ends"] += (fate, api) == ("late", "EndTxn")
        return fate

    def _new_owner(self) -> Owner:
        name = next(self._names)
        self.broker.members.add(name)
        folder = self._folder / self._dice.choice("xy")
        return Owner(self.broker, name, folder, self._topology, self._app.policy)

    def _step(self) -> str:
        dice = self._dice
        if dice.random() < 0.3:
            self._append()
        if self.broker.late and dice.random() < 0.15:
            self.broker.late.pop(dice.randrange(len(self.broker.late)))()
            self.faults["arrived late"] += 1
        if self._zombies and dice.random() < 0.3:
            return self._haunt(dice.choice(self._zombies))
        if dice.random() < 0.04:
            self._move()
        return self._turn(self._owner)

    def _append(self) -> None:
        """A record of the input; of tables each value is another one."""
        log, dice = self.broker.log, self._dice
        key = dice.choice(self.keys)
        at_ms = (sum(map(log.end, self._sources)) + 1) * _APART_MS
        if self._sources == [INPUT]:
            log.append(INPUT, [key], [b""], [at_ms])
            return
        tp = dice.choice([LEFT, RIGHT])
        row = b"%d" % at_ms if tp == RIGHT else dice.choice(self.keys) + b"%d" % at_ms
        log.append(tp, [key], [row], [at_ms])

    def _haunt(self, zombie: Owner) -> str:
        """A step of a member that does not know it yet; what it begins is nothing to look at."""
        try:
            zombie.step(self._dice.randrange(3))
        except KilledError:
            zombie.die()
        if not zombie.running:
            zombie.die()
            self._zombies.remove(zombie)
        return ""

    def _turn(self, one: Owner) -> str:
        """A step of the owner, and of the member that is to have the task next."""
        self._wait_for_others(one)
        try:
            self._turns += 1
            wrong = one.step(self._turns % 2 * 5 if self._quiet else self._dice.randrange(4))
        except KilledError:
            one.die()
            self._replace()
            return ""
        after = self._next
        if after is None:
            return wrong
        positions = after.released()
        if positions is not None:
            self._owner, self._next = after, None
            if one.running:
                self._zombies.append(one)
            after.take(positions)
            self.faults["hand-over"] += 1
        elif not one.busy:
            self._replace()
        elif one.running and self._dice.random() < 0.5:
            one.release(after.name)
        return wrong

    def _wait_for_others(self, one: Owner) -> None:
        """Abort the open transactions of other members where this one waits for their ends.

        Tasks that read what tasks write wait while they run, too, until the time-out.
        """
        if one.running and not self._between:
            return
        if not (self._quiet or self._dice.random() < (0.1 if one.running else 0.3)):
            return
        for name in self.broker.open:
            if name != f"app-{one.name}":
                abort_open(name, "simulated")

    def _move(self) -> None:
        """Hand the tasks over, or have another take them from a member that stands still."""
        if self._next is None and self._owner.running and self._dice.random() < 0.6:
            self.broker.generation += 1
            self._next = self._new_owner()
            self._follow(self._owner, self._next)
        elif self._next is None:
            self._zombies.append(self._owner)
            self.broker.members.discard(self._owner.name)
            self.faults["zombie"] += 1
            self._replace()

    def _follow(self, *members: Owner | None) -> None:
        """Members learn of the present generation."""
        for one in filter(None, members):
            one.view = attrs.evolve(one.view, generation=self.broker.generation)

    def _replace(self) -> None:
        """Give the tasks to another, whose predecessor is no member any more."""
        self.broker.members.discard(self._owner.name)
        self.broker.generation += 1
        self._owner, self._next = self._next or self._new_owner(), None
        self._follow(self._owner)
        self._owner.take()

    def _done(self) -> bool:
        waits = self.broker.open if self._between else self.broker.unstable
        if self._next is not None or waits:
            return False
        return not any(map(self._is_left, (*self._sources, *self._between)))

    def _is_left(self, tp: TopicPartition) -> bool:
        """True if no commit contains the last committed record of a partition."""
        position = self.broker.positions.get(tp)
        records = self._committed(tp)
        return bool(records) and (position is None or position.offset <= records[-1].offset)

    def _committed(self, tp: TopicPartition) -> list[StoredRecord]:
        records = self.broker.log.records(tp)
        return [record for record in records if self.broker.counts(tp, record.offset)]

    def _verdict(self) -> str:
        """X1: what readers of committed records get is what the input leads to, each once."""
        found, letters = map(self._written, (OUTPUT, LETTERS))
        wanted, failed = self._wanted()
        if letters != failed:
            return f"X1: dead letters {letters}, wanted {failed}"
        if not self._between:
            return "" if found == wanted else f"X1: outputs {found}, wanted {wanted}"
        if doubled := self._doubled():
            return f"X1: twice between the tasks: {doubled}"
        # The outputs before the last ones are by the order in which the tasks came to their inputs.
        rows, last = ({key: value for key, value, _ in one} for one in (found, wanted))
        return "" if rows == last else f"X1: rows {rows}, wanted {last}"

    def _written(self, tp: TopicPartition) -> list[Written]:
        return [(one.key, one.value, one.timestamp) for one in self._committed(tp)]

    def _wanted(self) -> list[list[Written]]:
        """Outputs and dead letters of the test driver, which reads one input after the other."""
        with TopologyTestDriver(self._app) as driver:
            for tp in self._sources:
                for record in self.broker.log.records(tp):
                    driver.pipe_bytes(tp.topic, record.key, record.value, record.timestamp)
            return [_told(driver, tp.topic) for tp in (OUTPUT, LETTERS)]

    def _doubled(self) -> list[tuple[bytes | None, bytes]]:
        """Questions and answers of the join that count more than once, whoever their owner was.

        Every row has another value, so each meets each once.
        """
        found = Counter(
            (record.key, _without_source(tp.topic, record.value or b""))
            for tp in self._between
            for record in self._committed(tp)
        )
        return [one for one, times in found.items() if times > 1]


def _told(driver: TopologyTestDriver, topic: str) -> list[Written]:
    try:
        found = driver.read_output(topic, key=bytes, value=bytes)
    except NotFoundError:  # no record has failed
        return []
    return [(one.key, one.value, one.timestamp) for one in found]


def _without_source(topic: str, value: bytes) -> bytes:
    """An answer without its owner's epoch; a question as it is."""
    return value[:5] + value[13:] if "RESPONSE" in topic else value


@contextmanager
def _simulated(history: History) -> Iterator[None]:
    """Producers speak to the history's broker."""

    def made(config: Mapping[str, Any]) -> TransactionProducer:
        return TransactionProducer(history.broker, history.fate, config)

    with (
        patch("streamlet.kafka.sink.Producer", made),
        patch("streamlet.kafka.transactions.check_group_form"),
    ):
        yield


def verdict(
    seed: int, make: Callable[[], App] = counting, kind: type[History] = History
) -> tuple[str, Counter[str]]:
    """What was wrong with the history of a seed, and the faults in it."""
    where = _MEMORY if _MEMORY.is_dir() else None
    with TemporaryDirectory(dir=where, ignore_cleanup_errors=True) as folder:
        history = kind(seed, Path(folder), make())
        with _simulated(history):
            try:
                return history.run(), history.faults
            except (AssertionError, StreamletError) as error:
                return f"{type(error).__name__}: {error}", history.faults
