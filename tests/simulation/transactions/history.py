"""One random history of a task under exactly_once, and its verdict."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from streamlet.app import App
from streamlet.errors import StreamletError
from streamlet.kafka.transactions import abort_open
from streamlet.tasks.opening import changelogs_of
from streamlet.testing import TopologyTestDriver
from tests.memory_log import MemoryLog
from tests.simulation.transactions.broker import Broker, KilledError, TransactionProducer
from tests.simulation.transactions.owner import INPUT, OUTPUT, TASK, Owner, counting

#: Stores lie in memory where the system has such a folder: nothing here is about disks.
_MEMORY = Path("/dev/shm")
_STEPS = 120
#: Records of the input are so far apart.
_APART_MS = 1_500
_MOST_QUIET = 400
_FATES = ("lost", "late", "late", "unanswered", "killed", "done and killed")


class History:
    """Two members, one of which has the task; another may not know that it has it no more."""

    def __init__(self, seed: int, folder: Path, app: App) -> None:
        self._dice, self._app = random.Random(seed), app
        self._folder = folder
        self._quiet = False
        self.faults: Counter[str] = Counter()
        log = MemoryLog()
        self._topology = app.topology()
        logs = changelogs_of(self._topology.subtopology(0), TASK).values()
        for tp in (INPUT, OUTPUT, *logs):
            log.create(tp.topic)
        self.broker = Broker(log)
        self._names = iter(f"{letter}{n}" for n in range(1_000) for letter in "ab")
        self.broker.members = set()
        self._zombies: list[Owner] = []
        #: To whom the task is to be released.
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
        for _ in range(_MOST_QUIET):
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
        return fate

    def _new_owner(self) -> Owner:
        name = next(self._names)
        self.broker.members.add(name)
        folder = self._folder / self._dice.choice("xy")
        return Owner(self.broker, name, folder, self._topology)

    def _step(self) -> str:
        dice = self._dice
        if dice.random() < 0.3:
            at_ms = (self.broker.log.end(INPUT) + 1) * _APART_MS
            self.broker.log.append(INPUT, [dice.choice([b"k", b"l", b"m"])], [b""], [at_ms])
        if self.broker.late and dice.random() < 0.15:
            self.broker.late.pop(dice.randrange(len(self.broker.late)))()
            self.faults["arrived late"] += 1
        if self._zombies and dice.random() < 0.3:
            return self._haunt(dice.choice(self._zombies))
        if dice.random() < 0.04:
            self._move()
        return self._turn(self._owner)

    def _haunt(self, zombie: Owner) -> str:
        """A step of a member that does not know it yet; what it begins is nothing to look at."""
        try:
            zombie.step(self._dice.randrange(3))
        except KilledError:
            zombie.die()
        if zombie.active is None:
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
            if one.active is not None:
                self._zombies.append(one)
            after.take(positions)
            self.faults["hand-over"] += 1
        elif not one.busy:
            self._replace()
        elif one.active is not None and self._dice.random() < 0.5:
            one.release(after.name)
        return wrong

    def _wait_for_others(self, one: Owner) -> None:
        """Who waits for what another has left open has that aborted."""
        if one.active is not None or not (self._quiet or self._dice.random() < 0.3):
            return
        for name in self.broker.open:
            if name != f"app-{one.name}":
                abort_open(name, "simulated")

    def _move(self) -> None:
        """Hand the task over, or have another take it from a member that stands still."""
        if self._next is None and self._owner.active is not None and self._dice.random() < 0.6:
            self.broker.generation += 1
            self._next = self._new_owner()
            for one in (self._owner, self._next):
                one.view = _of_generation(one.view, self.broker.generation)
        elif self._next is None:
            self._zombies.append(self._owner)
            self.broker.members.discard(self._owner.name)
            self.faults["zombie"] += 1
            self._replace()

    def _replace(self) -> None:
        """Give the task to another, whose predecessor is no member any more."""
        self.broker.members.discard(self._owner.name)
        self.broker.generation += 1
        self._owner, self._next = self._next or self._new_owner(), None
        self._owner.view = _of_generation(self._owner.view, self.broker.generation)
        self._owner.take()

    def _done(self) -> bool:
        found = self.broker.positions.get(INPUT)
        whole = found is not None and found.offset == self.broker.log.end(INPUT)
        return whole and self._next is None and not self.broker.unstable

    def _verdict(self) -> str:
        """X1: what readers of committed records get is what the input leads to, each once."""
        found = [
            (record.key, record.value, record.timestamp)
            for record in self.broker.log.records(OUTPUT)
            if self.broker.counts(OUTPUT, record.offset)
        ]
        with TopologyTestDriver(self._app) as driver:
            for record in self.broker.log.records(INPUT):
                driver.pipe_bytes(INPUT.topic, record.key, record.value, record.timestamp)
            read = driver.read_output(OUTPUT.topic, key=bytes, value=bytes)
        wanted = [(record.key, record.value, record.timestamp) for record in read]
        return "" if found == wanted else f"X1: outputs {found}, wanted {wanted}"


def _of_generation(view: Any, generation: int) -> Any:
    return type(view)(member_id=view.member_id, generation=generation)


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


def verdict(seed: int, make: Callable[[], App] = counting) -> tuple[str, Counter[str]]:
    """What was wrong with the history of a seed, and the faults in it."""
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        history = History(seed, Path(folder), make())
        with _simulated(history):
            try:
                return history.run(), history.faults
            except (AssertionError, StreamletError) as error:
                return f"{type(error).__name__}: {error}", history.faults
