"""Histories in which what tasks write changes its form: plain, with origins, and waiting.

Each period is of some deployment, which says of the functions before each topic whether a replay
may write other records. So periods of several deployments write to one topic, and a task goes over
with each hand-over; besides, what all members of the group can read grows. What a task reads and
writes is told by the plan that ships, of a topology that has these functions. All are deterministic
in truth, as origins need it. Plain records may count more than once, and what stems from them.
"""

from __future__ import annotations

import random
from collections.abc import Hashable
from functools import partial
from typing import Any

from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote
from streamlet.processing.edges import records
from streamlet.processing.edges.held_reader import HeldReader
from streamlet.processing.edges.held_records import MARK, task_of, writer_of
from streamlet.processing.edges.plan import EdgePlan, TaskEdges
from streamlet.processing.edges.start import Start
from streamlet.processing.outputs import Output
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.simulation.held.code import CodeHistory, CodeReader, CodeWriter, key_for, key_of, note_of
from tests.simulation.held.deployments import FORMS, READABLE, Deployment, topics_of, topology_of
from tests.simulation.held.reader import Reader
from tests.simulation.held.rules import Notes, Place, Rules
from tests.simulation.held.rules import Period as PeriodOf
from tests.simulation.held.tasks import EMITTED, Active, Commit, Emitted, Log, Task

_MOST_RECORDS = 40
_IDLE = TopicPartition("idle", 0)
_ANY_MARK = MARK[:7]
_ORIGIN_MARK = records.MARK.to_bytes(len(MARK), "little")

#: What may be left out, and is soon missed.
RULES = ("goes on", "past the end", "told", "in order", "agreed")


class SwitchTask(Task):
    """A task that emits the same for the same record.

    ``place`` is that in its topology; ``edges`` are those of its last period.
    """

    place: TaskId
    plan: EdgePlan
    transactional: bool
    edges: TaskEdges
    history: SwitchHistory

    def emissions(self, dice: random.Random, source: Hashable, partitions: int) -> list[Emitted]:
        """What is emitted for one record, the last first."""
        dice = random.Random(f"{self.number} {source}")
        count = dice.choice(EMITTED)
        found = [
            (dice.randrange(partitions), (self.number, 1 + dice.getrandbits(48)))
            for _ in range(count)
        ]
        if self.history.is_loose(source):
            self.history.loosen(value for _, value in found)
        return found


class SwitchReader(CodeReader):
    """A reader that the plan made."""

    def __init__(self, edges: TaskEdges, plan: EdgePlan, *facts: Any) -> None:
        self._edges, self._plan = edges, plan
        super().__init__(*facts)

    def _made(self, note: InputNote, position: int) -> HeldReader:
        self._keys = self._plan.keys
        (found,) = self._edges.readers.values()
        return found


class DisorderedReader(CodeReader):
    """A reader that never keeps the order of its topic."""


class SwitchWriter(CodeWriter):
    """A writer that the plan made, of any form."""

    def __init__(self, history: SwitchHistory, task: SwitchTask, *facts: Any) -> None:
        super().__init__(*facts)
        self._history, self._task, self._plan = history, task, task.plan
        self._edges, self._writer_of_edges = task.edges, task.edges.writer
        self._forms = None if self._writer_of_edges is None else self._writer_of_edges.forms
        self._held = task.edges.held
        self._source = history.source_of(task)
        self._topic = history.topic_of(task)
        self._asks, self._position, self._expired = False, 0, False

    def agree(self, readable: tuple[bool, bool]) -> None:
        """Learn what all members of the group can read."""
        self._plan.agreement.take(*readable)

    def emit(self, partition: int, value: Hashable) -> None:
        """Write a record, behind the markers that are due."""
        self._send_markers(0)
        key, text = key_of(partition, self.partitions, value)
        output = Output(self._topic, [key], [text], [0], origins=[(1, self._source, [self.place])])
        if self._writer_of_edges is not None:
            output = self._writer_of_edges.prefixed(output)
        assert output.partitions in ([partition], None)
        (data,) = output.values
        if data is None or not data.startswith(_ANY_MARK):
            self._note_plain(value)
        self._queue(partition, value, data)

    def _queue(self, partition: int, value: Hashable, data: bytes | None) -> None:
        self._history.note_form((data or b"")[: len(MARK)])
        super()._queue(partition, value, data)

    def _note_plain(self, value: Hashable) -> None:
        self._history.loosen([value])

    @property
    def origins(self) -> frozenset[int]:
        """Numbers of the topics to which a commit is to say that origins are written."""
        return frozenset() if self._forms is None else self._forms.numbers

    @property
    def born(self) -> int:
        """Since when the epochs count with which it writes what waits; 0: it writes none."""
        return 0 if self._held is None else self._held.born

    def shared(self, number: int, position: int) -> None:
        """A commit of this number, of this position, contains what was written so far."""
        if self._held is not None:
            self._held.taken(number)
        self._position = position
        if not self._expired and self._history.expire(self._task):
            self._expired = True
        if self._forms is not None:
            self._asks = self._expired and self._forms.asks_ends(0)
            self._forms.taken({self._source: position, _IDLE: 0})

    def committed(self, number: int) -> None:
        """This commit was accepted."""
        if self._held is not None:
            self._held.accepted(number)
        if self._forms is None or self._writer_of_edges is None:
            return
        self._writer_of_edges.committed({self._source: self._position, _IDLE: 0})
        end = self._task.records if self._task.log is None else len(self._task.log.words)
        if self._history.left_out == "past the end":
            end = 0
        self._forms.accepted({self._source: end} if self._asks else {})

    def begin(self, dice: random.Random) -> None:
        """The claim was accepted."""
        if self._forms is not None:
            self._forms.accepted({})
        if self._held is not None:
            self._held.claimed()
        self._send_markers()

    def begin_again(self, period: PeriodOf, base: Place) -> None:
        """Begin another period in place; its claim is yet to be accepted."""
        if self._held is not None:
            self._held.begin_again(period[1])
        if self._forms is not None:
            self._forms.begin_again()

    @property
    def undecided(self) -> int:
        """Records that no accepted commit contains yet."""
        return 0 if self._held is None else self._held.waiting[0]

    @property
    def full(self) -> bool:
        """True if the task is to begin nothing new."""
        return self._edges.blocked

    def _send_markers(self, now_ms: int | None = None) -> None:
        if self._held is not None:
            self._send(self._held.markers(now_ms or 0, at_once=now_ms is None))


class SwitchHistory(CodeHistory):
    """A history with changes of form; one rule may be left out."""

    lengths = (1, 2)
    written: type[SwitchWriter] = SwitchWriter
    #: Those that a period may be of.
    deployments: tuple[Deployment, ...] = (*FORMS, None)

    def __init__(self, seed: int, left_out: str = "") -> None:
        self.left_out = left_out
        self._still = set[Active]()
        #: Whether records with origins may have gone before what waited for a base.
        self._overtaken = False
        #: Whether something was written that not all members could read.
        self._illegible = False
        self._readable = 2 if left_out else random.Random(seed).choice([0, 1, 2, 2])
        if left_out == "agreed":
            self._readable = 0
        super().__init__(seed)

    # What the plan asks.

    @property
    def _agreed(self) -> tuple[bool, bool]:
        return READABLE[-1 if self.left_out == "agreed" else self._readable]

    def note_form(self, mark: bytes) -> None:
        """Note in what form a record is written."""
        origins, held = READABLE[self._readable]
        self._illegible |= (mark == _ORIGIN_MARK and not origins) or (mark == MARK and not held)

    def source_of(self, task: Task) -> TopicPartition:
        """The input partition of a task."""
        stage, partition = self._place_of(task)
        names = ["in", *topics_of(len(self._topics))]
        return TopicPartition(names[stage], partition)

    def topic_of(self, task: Task) -> str:
        """The topic that a task writes."""
        return [*topics_of(len(self._topics)), "out"][self._place_of(task).subtopology]

    def _place_of(self, task: Task) -> TaskId:
        for stage, tasks in enumerate(self._stages):
            for partition, one in enumerate(tasks):
                if one is task:
                    return TaskId(stage, partition)
        raise AssertionError("no such task")

    def _plan(self, deployment: Deployment) -> EdgePlan:
        names = topics_of(len(self._topics))
        counts = {name: len(logs) for name, logs in zip(names, self._topics, strict=True)}
        counts |= {"in": len(self._stages[0]), "out": 1}
        varies = deployment[: len(names)] if deployment else (False,) * len(names)
        self._topology = topology_of(varies)
        how = {"exact": deployment is not None, "transactions": deployment == ()}
        plan = EdgePlan(self._topology, counts, {}, **how)
        plan.agreement.take(*self._agreed)
        return plan

    def _start(self, place: TaskId, found: Commit) -> Start:
        (_, epoch), number = found.contained
        contained = StateNumber(epoch, number)
        writer, born = writer_of(place), found.born
        commit = CommitMetadata(
            max(1, found.epoch),
            "a",
            1,
            state=contained,
            born=born,
            key=key_for(writer, born) if born else b"",
            origins=frozenset() if self.left_out == "goes on" else found.origins,
        )
        now_s = next(self._clock)
        facts = place, found.epoch + 1, commit, contained, now_s, key_for(writer, now_s)
        return Start(*facts)

    def _begin(self, task: SwitchTask) -> None:
        """Make the edges of the next period of a task."""
        found = task.commit
        choices = FORMS if self.left_out else self.deployments
        deployment = self._dice.choice(choices)
        task.plan, task.transactional = self._plan(deployment), deployment == ()
        where, place = self.source_of(task), self._place_of(task)
        part = self._topology.subtopology(place.subtopology)
        notes = {where: note_of(found.notes), _IDLE: InputNote()}
        positions = {where: found.position, _IDLE: 0}
        task.edges = task.plan.of_task(part, positions, notes, {}, self._start(place, found))
        writer = task.edges.writer
        waiting = {edge.topic for edge in task.plan.edges if edge.after_commit}
        if self.left_out == "told" and writer is not None and self.topic_of(task) not in waiting:
            writer.held = None

    # What the history asks.

    def _task(self, logs: list[Log], records: int = 0, log: Log | None = None) -> Task:
        clock, values = self._clock, self._values
        facts = next(self._numbers), self._rules, min(records, 3), log, logs
        task = SwitchTask(*facts, clock=clock, values=values)
        task.history = self
        task.begun = partial(self._reads, task)
        task.writing = partial(self._writes, task)  # type: ignore[assignment]
        return task

    def _reads(self, task: SwitchTask, rules: Rules, position: int, notes: Notes) -> Reader:
        self._begin(task)
        reader: CodeReader
        if self.left_out == "in order":
            reader = DisorderedReader(rules, position, notes)
        else:
            reader = SwitchReader(task.edges, task.plan, rules, position, notes)
        reader.ask = self._life_of
        return reader

    def _writes(self, task: SwitchTask, *facts: object) -> SwitchWriter:
        if task.log is None:
            self._begin(task)
        return self.written(self, task, *facts)

    def _life_of(self, writer: int) -> tuple[int, bool] | None:
        place, x = task_of(writer), self._dice.random()
        commit = self._stages[place.subtopology][place.partition].commit
        if x < 0.2:
            return None
        return (0, False) if x < 0.4 else (commit.born, True)

    def is_loose(self, value: Hashable) -> bool:
        """True for a value that may count more than once."""
        return value in self._loose

    def loosen(self, values: Any) -> None:
        """Let these values count more than once."""
        self._loose.update(values)

    def expire(self, task: Task) -> bool:
        """True if a session time-out passed: former owners know by then that they are."""
        if self._dice.random() < 0.7:
            return False
        self._still.update(task.former)
        return True

    def _step(self, task: Task) -> None:
        dice = self._dice
        if task.log is None and task.records < _MOST_RECORDS and dice.random() < 0.3:
            task.records += 1
        if self._readable < len(READABLE) - 1 and dice.random() < 0.01:
            self._readable += 1
        if task.owner is not None and dice.random() < 0.2:
            self._agree(task.owner)
        super()._step(task)

    def _go_on(self, task: Task) -> None:
        if task.owner is not None:
            self._agree(task.owner)
        super()._go_on(task)

    def _agree(self, one: Active) -> None:
        assert isinstance(one.writer, SwitchWriter)
        one.writer.agree(self._agreed)

    def _haunt(self, task: Task, zombie: Active) -> None:
        if zombie in self._still:
            self._deliver(task, zombie, True)
        else:
            super()._haunt(task, zombie)

    def _deliver(self, task: Task, one: Active, faulty: bool) -> None:
        super()._deliver(task, one, faulty)
        self._overtaken |= one.writer.lost_marker

    def _verdict(self) -> str:
        if self._illegible:
            return "not all could read it"
        found = super()._verdict()
        return "" if found == "out of order" and self._overtaken else found

    def _forge(self, task: Task) -> None:
        """Nobody does."""

    def _set_back(self, task: Task) -> None:
        """A hand-over."""
        task.take_over()

    def _grow(self) -> bool:
        return False


class FollowingHistory(SwitchHistory):
    """A history of two edges in a row: what the second has waits because the first's does."""

    lengths = (2,)
    deployments = ((True, False),)
