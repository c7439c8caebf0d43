"""Histories in which what tasks write changes its form: to origins, and to waiting for a commit.

Each period is of some deployment, which says of the topics between tasks which form they have. So
periods of two deployments write to one topic, and a task goes over with each hand-over. Functions
are deterministic, as origins need it. The code that ships plays them.
"""

from __future__ import annotations

import random
from collections.abc import Hashable
from functools import partial

from streamlet.processing.edges.agreement import Agreement
from streamlet.processing.edges.forms import OriginForms
from streamlet.processing.edges.held_writer import HeldWriter
from streamlet.processing.edges.records import edge_of
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.outputs import Output
from streamlet.state.log_numbers import number_of
from streamlet.types import TopicPartition
from tests.simulation.held.code import (
    TOPIC,
    CodeHistory,
    CodeReader,
    CodeWriter,
    OrderedReader,
    key_of,
)
from tests.simulation.held.reader import Reader
from tests.simulation.held.rules import Notes, Place, Rules
from tests.simulation.held.rules import Period as PeriodOf
from tests.simulation.held.tasks import EMITTED, Active, Emitted, Log, Task

#: Whether records wait, by stage: behind a topic where they do, they do as well.
_DEPLOYMENTS = ((False, False), (False, True), (True, True))
_MOST_RECORDS = 40
_NUMBER = number_of(TOPIC)

#: What may be left out, and is soon missed.
RULES = ("goes on", "past the end", "told", "in order")


class SwitchTask(Task):
    """A task that emits the same for the same record.

    ``stage`` is that of the topic which it reads, -1 of none; ``waits`` its period's deployment.
    """

    stage = -1
    waits: tuple[bool, ...] = ()

    def emissions(self, dice: random.Random, source: Hashable, partitions: int) -> list[Emitted]:
        """What is emitted for one record, the last first."""
        dice = random.Random(f"{self.number} {source}")
        count = dice.choice(EMITTED)
        return [
            (dice.randrange(partitions), (self.number, 1 + dice.getrandbits(48)))
            for _ in range(count)
        ]


class SwitchWriter(CodeWriter):
    """A writer of either form, as its period's deployment and the commit before say."""

    def __init__(self, history: SwitchHistory, task: SwitchTask, *facts: object) -> None:
        super().__init__(*facts)  # type: ignore[arg-type]
        self._history, self._task = history, task
        partitions, left_out = len(task.logs), history.left_out
        waits = (*task.waits, False)[task.stage + 1]
        agreement = Agreement(prefixes=True, held=True)
        tells = {TOPIC: partitions} if waits or left_out != "told" else {}
        self._code = HeldWriter(self._own, tells, agreement, holds=[TOPIC] if waits else [])
        begun = [TOPIC] if _NUMBER in task.commit.origins and left_out != "goes on" else []
        self._forms = OriginForms([] if waits else [TOPIC], begun, agreement, self._code)
        self._source = TopicPartition("in", task.number)
        edges = {self._source: edge_of(self._source)}
        topics = {TOPIC: partitions}
        self._edges = EdgeWriter(topics, edges, (), agreement, self._code, self._forms)
        self._asks, self._position = False, 0
        self._expired = left_out == "not too soon"

    def emit(self, partition: int, value: Hashable) -> None:
        """Write a record, behind the markers that are due."""
        self._send_markers(0)
        key, text = key_of(partition, self.partitions, value)
        origins = [(1, self._source, [self.place])]
        written = self._edges.prefixed(Output(TOPIC, [key], [text], [0], origins=origins))
        assert written.partitions in ([partition], None)
        assert written.values[0] is not None
        self._queue(partition, value, written.values[0])

    @property
    def origins(self) -> frozenset[int]:
        """Numbers of the topics to which a commit is to say that origins are written."""
        return self._forms.numbers

    def shared(self, number: int, position: int) -> None:
        """A commit of this number, of this position, contains what was written so far."""
        super().shared(number, position)
        if not self._expired and self._history.expire(self._task):
            self._expired = True
        self._asks = self._expired and self._forms.asks_ends(0)
        self._position = position
        self._forms.taken({self._source: position})

    def committed(self, number: int) -> None:
        """This commit was accepted."""
        super().committed(number)
        self._edges.committed({self._source: self._position})
        end = self._task.records if self._task.log is None else len(self._task.log.words)
        if self._history.left_out == "past the end":
            end = 0
        self._forms.accepted({self._source: end} if self._asks else {})

    def begin(self, dice: random.Random) -> None:
        """The claim was accepted."""
        self._forms.accepted({})
        super().begin(dice)

    def begin_again(self, period: PeriodOf, base: Place) -> None:
        """Begin another period in place; its claim is yet to be accepted."""
        super().begin_again(period, base)
        self._forms.begin_again()

    @property
    def full(self) -> bool:
        """True if the task is to begin nothing new."""
        silent = self._forms.silent and self._history.left_out != "silent"
        return super().full or silent


class SwitchHistory(CodeHistory):
    """A history with changes of form; one rule may be left out."""

    def __init__(self, seed: int, left_out: str = "") -> None:
        self.left_out = left_out
        self._still = set[Active]()
        super().__init__(seed)

    def _task(self, logs: list[Log], records: int = 0, log: Log | None = None) -> Task:
        clock, values = self._clock, self._values
        facts = next(self._numbers), self._rules, min(records, 3), log, logs
        task = SwitchTask(*facts, clock=clock, values=values)
        task.begun = partial(self._reads, task)
        task.writing = partial(self._writes, task)  # type: ignore[assignment]
        return task

    def _behind(self, stage: int, log: Log) -> Task:
        task = super()._behind(stage, log)
        assert isinstance(task, SwitchTask)
        task.stage = stage
        return task

    def _reads(self, task: SwitchTask, rules: Rules, position: int, notes: Notes) -> Reader:
        task.waits = self._dice.choice(_DEPLOYMENTS)
        ordered = bool(task.commit.origins) or not task.waits[task.stage]
        kind = OrderedReader if ordered and self.left_out != "in order" else CodeReader
        reader = kind(rules, position, notes)
        reader.ask = self._life_of
        return reader

    def _writes(self, task: SwitchTask, *facts: object) -> SwitchWriter:
        if task.log is None:
            task.waits = self._dice.choice(_DEPLOYMENTS)
        return SwitchWriter(self, task, *facts)

    def expire(self, task: Task) -> bool:
        """True if a session time-out passed: former owners know by then that they are."""
        if self._dice.random() < 0.7:
            return False
        self._still.update(task.former)
        return True

    def _step(self, task: Task) -> None:
        if task.log is None and task.records < _MOST_RECORDS and self._dice.random() < 0.3:
            task.records += 1
        super()._step(task)

    def _haunt(self, task: Task, zombie: Active) -> None:
        if zombie in self._still:
            self._deliver(task, zombie, True)
        else:
            super()._haunt(task, zombie)

    def _forge(self, task: Task) -> None:
        """Nobody does."""

    def _set_back(self, task: Task) -> None:
        """A hand-over."""
        task.take_over()

    def _grow(self) -> bool:
        return False
