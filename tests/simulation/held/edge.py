"""Random histories of one edge whose reader begins anew again and again.

Its writers are of both guarantees. They begin and end at any moment, and write what no accepted
commit contains again. In most histories deliveries come late, or twice, also after their commit or
their period; in the others the order of each writer holds. The reader processes some of what it is
given, commits, and begins again from its last commit, which takes back what it did since. It knows
the keys of writers sooner or later.
"""

from __future__ import annotations

import random
from collections import Counter
from operator import itemgetter

import attrs

from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges.filter import EdgeFilter
from streamlet.processing.edges.held_reader import HeldReader
from streamlet.processing.edges.held_records import writer_of
from streamlet.processing.edges.held_writer import HeldWriter
from streamlet.processing.edges.writer_keys import WriterKey, WriterKeys
from streamlet.types import NO_STATE, StateNumber, TaskId
from tests.unit.processing.edges.held_edges import BORN, KEY, TOPIC, Edges

_LONG_MS = 10**9
_STEPS = 120


@attrs.define(eq=False)
class _Transaction:
    """One that is open, or ended: ``committed`` or not."""

    open: bool = True
    committed: bool = False


@attrs.define
class _Delivery:
    """A record as its producer sends it; ``there``: at least once."""

    data: list[bytes]
    there: bool = True


class _Task:
    """A task that writes the numbers 0, 1, 2, … in one active period after the other."""

    def __init__(self, history: EdgeHistory, task: TaskId) -> None:
        self._history, self._dice, self.task = history, history.dice, task
        self._epoch, self._base = 0, NO_STATE
        self.accepted = self._next = self._commit = 0
        self._writer: HeldWriter | None = None
        self._sent: list[_Delivery] = []
        self._transaction: _Transaction | None = None

    def step(self) -> None:
        """Begin a period, or go on with it."""
        if self._writer is None:
            self._begin()
            return
        choices = self._write, self._repeat, self._accept, self._end, self._history.zombie
        self._dice.choices(choices, (45, 7, 10, 3, 2))[0]()

    def finish(self) -> None:
        """Have all accepted, and tell so everywhere."""
        if self._writer is None:
            self._begin()
        self._accept()
        self._tell(10 * _LONG_MS)

    def _begin(self) -> None:
        self._epoch += 1
        self._waits = self._dice.random() < 0.5
        self._commit, self._next = 1, self.accepted
        facts = self.task, self._epoch, self._base
        with self._history.noting():
            self._writer = self._history.edges.writer(*facts, exact=self._waits)

    def _write(self) -> None:
        for _ in range(self._dice.choice((1, 1, 2, 4))):
            value = b"%d:%d" % (self.task.partition, self._next)
            self._next += 1
            if self._waits:
                self._send(value)
                continue
            self._transaction = self._transaction or _Transaction()
            with self._history.noting(self._transaction):
                self._history.edges.write(self._alive, value)

    @property
    def _alive(self) -> HeldWriter:
        assert self._writer is not None
        return self._writer

    def _send(self, value: bytes) -> None:
        history = self._history
        with history.noting() as before:
            history.edges.write(self._alive, value)
            delivery = _Delivery(history.log[before:])
            if self._dice.random() < history.late:
                del history.log[before:]
                delivery.there = False
                history.faults["late"] += 1
        self._sent.append(delivery)

    def _repeat(self) -> None:
        if self._sent and self._history.late:
            self._history.faults["again"] += 1
            self._deliver(self._dice.choice(self._sent))

    def _deliver(self, delivery: _Delivery) -> None:
        self._history.append(delivery.data)
        delivery.there = True

    def _accept(self) -> None:
        for one in self._sent:
            if not one.there:
                self._deliver(one)
        self._history.old += self._sent
        self._sent = []
        self._history.edges.commit(self._alive, self._commit)
        if self._transaction is not None:
            self._transaction.open, self._transaction.committed = False, True
            self._transaction = None
        self._base = StateNumber(self._epoch, self._commit)
        self._commit, self.accepted = self._commit + 1, self._next
        if self._dice.random() < 0.7:
            self._tell(self._dice.choice((0, 0, _LONG_MS)))

    def _tell(self, now_ms: int) -> None:
        with self._history.noting():
            self._history.edges.tell(self._alive, now_ms, at_once=True)

    def _end(self) -> None:
        self._history.faults["end"] += 1
        if self._transaction is not None:
            self._transaction.open, self._transaction = False, None
        self._history.old += self._sent
        self._sent, self._writer = [], None


class EdgeHistory:
    """One seed's history."""

    ordered = False

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        #: How many deliveries come later than others; without any none comes twice.
        self.late = self.dice.choice((0, 0.1, 0.3))
        self.faults = Counter[str]()
        self.old: list[_Delivery] = []
        self.edges = Edges()
        self.log = self.edges.logs[0]
        #: Of each record of the log, None where there is none.
        self._transactions: list[_Transaction | None] = []
        self._tasks = [_Task(self, TaskId(0, at)) for at in range(self.dice.choice((1, 2, 3)))]
        self.found: list[tuple[int, int]] = []
        self._kept = self._committed = 0
        self._text = CommitMetadata(1, "a", 1).to_text()
        self._keys = WriterKeys()
        self._restart()

    def run(self) -> str:
        """What was lost or processed twice; nothing if it was exact."""
        reader = self._read, self._process, self._commit, self._restart, self._learn
        for _ in range(_STEPS):
            self.dice.choices((self._step, *reader), (67, 10, 13, 6, 4, 4))[0]()
        for task in self._tasks:
            task.finish()
        self._learn()
        for _ in range(2):
            while self._at < len(self.log) or self._given or self._reader.may_go_on:
                self._read()
                self._process()
            self._commit()
            self._restart()
            self._learn()
        return self._verdict()

    def _verdict(self) -> str:
        there = ((one.task.partition, at) for one in self._tasks for at in range(one.accepted))
        wanted, found = Counter(there), Counter(self.found)
        if found - wanted:
            return "twice"
        if wanted - found:
            return "lost"
        by_task = sorted(self.found, key=itemgetter(0))
        return "" if self.late or by_task == sorted(self.found) else "out of order"

    def _step(self) -> None:
        self.dice.choice(self._tasks).step()

    # The log.

    def noting(self, transaction: _Transaction | None = None) -> _Noting:
        """Note the transaction of what is appended within it; gives the end before that."""
        return _Noting(self, transaction)

    def note(self, transaction: _Transaction | None) -> None:
        """Note the transaction of what the log has more by now."""
        more = len(self.log) - len(self._transactions)
        self._transactions += [transaction] * more

    def append(self, data: list[bytes]) -> None:
        """Append a delivery."""
        with self.noting():
            self.log += data

    def zombie(self) -> None:
        """Append one of a commit or a period that is over."""
        if self.old and self.late:
            self.faults["zombie"] += 1
            self.append(self.dice.choice(self.old).data)

    # The reader.

    def _restart(self) -> None:
        metadata = CommitMetadata.from_text(self._text)
        assert metadata is not None
        self.faults["restart"] += 1
        self._at = self._place = self._after = self._committed
        del self.found[self._kept :]
        if self.dice.random() < 0.5:  # another worker
            self._keys = WriterKeys()
        others, writers = EdgeFilter(metadata.note), frozenset({0, 1})
        facts = metadata.note, self._at, others, self._keys, writers
        self._reader = HeldReader(*facts, ordered=self.ordered)
        self._given: list[tuple[int, bytes | None]] = []

    def _learn(self) -> None:
        key = WriterKey(BORN, KEY)
        self._keys.answer({writer_of(one.task): key for one in self._tasks}, 0)

    def _read(self) -> None:
        transactions = self._transactions
        open_ones = (at for at, one in enumerate(transactions) if one is not None and one.open)
        end, most = next(open_ones, len(self.log)), self.dice.choice((1, 2, 5, 50))
        offsets = list[int]()
        while self._at < end and len(offsets) < most:
            own = transactions[self._at]
            if own is None or own.committed:
                offsets.append(self._at)
            self._at += 1
        count = len(offsets)
        values: list[bytes | None] = [self.log[at] for at in offsets]
        raw = PartitionBatch(TOPIC, 0, offsets, [b"k"] * count, values, [7] * count)
        if offsets or self._reader.may_go_on:
            taken, self._after = self._reader.take(raw, 0)
            self._given += zip(taken.offsets, taken.values, strict=True)
        self._go_on()

    def _process(self) -> None:
        count = self.dice.choice((1, 1, 3, 20))
        for _, value in self._given[:count]:
            assert value is not None
            task, number = value.split(b":")
            self.found.append((int(task), int(number)))
        del self._given[:count]
        self._go_on()

    def _go_on(self) -> None:
        self._place = self._given[0][0] if self._given else self._after

    def _commit(self) -> None:
        self._committed = self._reader.position(self._place)
        self._text = CommitMetadata(1, "a", 1, note=self._reader.note).to_text()
        self._kept = len(self.found)


class OrderedEdgeHistory(EdgeHistory):
    """A history whose reader keeps the order of the topic."""

    ordered = True


@attrs.define
class _Noting:
    """What is appended within it belongs to a transaction, or to none."""

    history: EdgeHistory
    transaction: _Transaction | None

    def __enter__(self) -> int:
        return len(self.history.log)

    def __exit__(self, *error: object) -> None:
        self.history.note(self.transaction)
