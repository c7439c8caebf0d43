"""Random histories on the edges of a repartition topic, and the filter before its reader.

An upstream task reads source partitions and writes to the partitions of a repartition topic. When
its process crashes, the next owner replays from the last commit and writes the same records again.
Each record therefore says where it comes from, and the reader decides by that alone whether to
apply it. An *edge* leads from one source partition to one partition of the repartition topic.

A history mixes crashes of the writer, hand-overs, zombies that go on writing, failed, late and
duplicated deliveries, crashes and hand-overs of the readers, deleted records of the repartition
topic, and positions that are set back on purpose. The functions are deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TypeAlias

import attrs

#: Input offset and index among the emissions of that record on its edge.
Origin: TypeAlias = tuple[int, int]
#: Source partition and partition of the repartition topic.
Edge: TypeAlias = tuple[int, int]

_BUSY_STEPS = 500
_MOST_STEPS = 20_000


@attrs.frozen
class Rules:
    """What the filter and its state go by; each may be left out."""

    compare: bool = True  # an origin at or below the highest applied one is a replay
    chain: bool = True  # a record whose predecessor is missing is dropped
    base: bool = True  # what lies before the writer's first commit counts as applied
    stored: bool = True  # the highest origin is part of the reader's state
    incarnation: bool = True  # an edge begins again when its source's positions are set back
    epoch: bool = True  # records of a writer older than the newest one met are dropped


@attrs.frozen
class Envelope:
    """A record of the repartition topic without its contents.

    ``previous`` is the origin of the emission before it on its edge, in the same active period;
    ``base`` is the position from which that period began.
    """

    source: int
    incarnation: int
    epoch: int
    origin: Origin
    previous: Origin | None
    base: int


@attrs.frozen
class Applied:
    """What a reader knows of one edge: the newest writer, and the highest origin applied."""

    incarnation: int = 0
    epoch: int = -1
    highest: Origin | None = None


def accepts(rules: Rules, known: Applied, record: Envelope) -> tuple[bool, Applied]:
    """Decide on one record of an edge; the decision and what the reader knows afterwards."""
    if rules.incarnation and record.incarnation != known.incarnation:
        if record.incarnation < known.incarnation:
            return False, known
        known = Applied(record.incarnation)
    if rules.epoch and record.epoch < known.epoch:
        return False, known
    known = attrs.evolve(known, epoch=max(known.epoch, record.epoch))
    high = known.highest
    if rules.compare and high is not None and record.origin <= high:
        return False, known
    if rules.chain and not _follows(rules, high, record):
        return False, known
    highest = record.origin if high is None else max(high, record.origin)
    return True, attrs.evolve(known, highest=highest)


def _follows(rules: Rules, high: Origin | None, record: Envelope) -> bool:
    """Whether everything before the record on its edge has been applied."""
    previous = record.previous
    if previous is None:
        return rules.base or high is None
    if rules.base and previous[0] < record.base:
        return True
    return high is not None and previous <= high


@attrs.frozen
class World:
    """What a history is made of: sizes, and what each input record emits."""

    sources: int
    partitions: int
    #: By source and offset: the partitions that the record is sent to, in order.
    emissions: tuple[tuple[tuple[int, ...], ...], ...]

    @classmethod
    def random(cls, dice: random.Random) -> World:
        """One or two inputs that are merged, and up to two emissions a record."""
        sources, partitions = dice.choice([1, 1, 2]), 2
        emissions = tuple(
            tuple(
                tuple(dice.randrange(partitions) for _ in range(dice.choice([0, 1, 1, 2])))
                for _ in range(dice.randrange(6, 14))
            )
            for _ in range(sources)
        )
        return cls(sources, partitions, emissions)

    def on_edge(self, source: int, partition: int) -> list[Origin]:
        """The origins of all records of an edge, in order."""
        found = []
        for offset, targets in enumerate(self.emissions[source]):
            found += [(offset, i) for i, target in enumerate(targets) if target == partition]
        return found


class Writer:
    """One active period of the upstream task, and what its producer has in flight."""

    def __init__(
        self, world: World, epoch: int, incarnations: list[int], positions: list[int]
    ) -> None:
        self._world = world
        self._epoch = epoch
        self._incarnations = list(incarnations)
        self._bases = list(positions)
        self.positions = list(positions)
        self._previous: dict[Edge, Origin] = {}
        self._queues: list[list[Envelope]] = [[] for _ in range(world.partitions)]
        self._late: list[tuple[int, Envelope]] = []
        self.failed = False

    @property
    def delivered(self) -> bool:
        """Whether everything written was delivered, so that a commit may be sent."""
        return not self.failed and not any(self._queues)

    def process(self, dice: random.Random) -> None:
        """Take the next record of some source, and write what it emits."""
        left = [s for s, at in enumerate(self.positions) if at < len(self._world.emissions[s])]
        if self.failed or not left:
            return
        source = dice.choice(left)
        offset = self.positions[source]
        for index, partition in enumerate(self._world.emissions[source][offset]):
            edge, origin = (source, partition), (offset, index)
            record = Envelope(
                source,
                self._incarnations[source],
                self._epoch,
                origin,
                self._previous.get(edge),
                self._bases[source],
            )
            self._previous[edge] = origin
            self._write(partition, record)
        self.positions[source] += 1

    def committed(self) -> None:
        """Note that everything written so far was committed."""

    def _write(self, partition: int, record: Envelope) -> None:
        self._queues[partition].append(record)

    def deliver(self, dice: random.Random, faulty: bool) -> Iterator[tuple[int, Envelope]]:
        """The oldest record of some partition, where it reaches the log, perhaps twice.

        A delivery that fails may still arrive, later; those behind it are not held back.
        """
        partition = dice.randrange(self._world.partitions)
        if not self._queues[partition]:
            if self._late and dice.random() < 0.5:
                yield self._late.pop(0)
            return
        record = self._queues[partition].pop(0)
        if faulty and dice.random() < 0.2:
            self.failed = True
            if dice.random() < 0.3:
                self._late.append((partition, record))
            return
        yield partition, record
        if faulty and dice.random() < 0.05:
            yield partition, record


@attrs.frozen
class Stored:
    """A reader's state as of a commit."""

    position: int = 0
    known: dict[int, Applied] = attrs.field(factory=dict)
    applied: tuple[Envelope, ...] = ()


class Reader:
    """The task behind one partition of the repartition topic."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._stored = self._now = Stored()

    def read(self, log: list[Envelope]) -> bool:
        """Take the next record; False at the end of the log."""
        now = self._now
        if now.position == len(log):
            return False
        record = log[now.position]
        ok, known = accepts(self._rules, now.known.get(record.source, Applied()), record)
        self._now = Stored(
            now.position + 1,
            {**now.known, record.source: known},
            (*now.applied, record) if ok else now.applied,
        )
        return True

    def commit(self) -> None:
        """Store state and position in one piece."""
        self._stored = self._now

    def begin_again(self) -> None:
        """Crash, or hand over: the next owner has what was stored."""
        self._now = self._stored
        if not self._rules.stored:
            self._now = attrs.evolve(self._now, known={})

    @property
    def applied(self) -> tuple[Envelope, ...]:
        """The records that count, in order."""
        return self._now.applied


class History:
    """One random history; ``run`` says what is wrong in the end."""

    writer: type[Writer] = Writer
    reader: type[Reader] = Reader

    def __init__(self, seed: int, rules: Rules | None = None) -> None:
        self._dice = random.Random(seed)
        self._rules = rules or Rules()
        self.world = World.random(self._dice)
        self._logs: list[list[Envelope]] = [[] for _ in range(self.world.partitions)]
        self._readers = [self.reader(self._rules) for _ in range(self.world.partitions)]
        self._committed = [0] * self.world.sources
        self._incarnations = [0] * self.world.sources
        self._epoch = 0
        self._writer = self.writer(self.world, 0, self._incarnations, self._committed)
        self._zombies: list[Writer] = []
        #: How often each fault happened.
        self.faults = {"crash": 0, "zombie": 0, "hand-over": 0, "set back": 0, "reader": 0}

    def run(self) -> str:
        """What was lost or applied twice; nothing if the history was exact."""
        for step in range(_MOST_STEPS):
            calm = step > _BUSY_STEPS
            self._step(calm)
            if calm and self._done():
                break
        else:
            return "not finished"
        for zombie in self._zombies * 4:  # what zombies still deliver in the end
            self._append(zombie.deliver(self._dice, False))
        while any(r.read(log) for r, log in zip(self._readers, self._logs, strict=True)):
            pass
        return self._verdict()

    def _done(self) -> bool:
        ends = [len(records) for records in self.world.emissions]
        return self._committed == ends

    def _step(self, calm: bool) -> None:
        x = self._dice.random()
        if x < 0.25:
            self._writer.process(self._dice)
        elif x < 0.60:
            self._append(self._writer.deliver(self._dice, not calm))
        elif x < 0.68:
            if self._writer.delivered:
                self._committed = list(self._writer.positions)
                self._writer.committed()
        elif x < 0.72:
            self._end_period(calm)
        elif x < 0.76 and self._zombies:
            zombie = self._dice.choice(self._zombies)
            if self._dice.random() < 0.3:
                zombie.process(self._dice)
            self._append(zombie.deliver(self._dice, True))
        else:
            self._step_reader(calm)

    def _end_period(self, calm: bool) -> None:
        """A hand-over, a crash, or a stall; now and then positions are set back on purpose."""
        if calm and not self._writer.failed:
            return
        if self._writer.delivered and self._dice.random() < 0.5:
            self.faults["hand-over"] += 1
            self._committed = list(self._writer.positions)
        elif self._dice.random() < 0.6:
            self.faults["zombie"] += 1
            self._zombies.append(self._writer)
        else:
            self.faults["crash"] += 1
        if not calm and self._dice.random() < 0.1:
            self._set_back()
        self._epoch += 1
        self._writer = self.writer(self.world, self._epoch, self._incarnations, self._committed)

    def _set_back(self) -> None:
        source = self._dice.randrange(self.world.sources)
        if self._committed[source]:
            self.faults["set back"] += 1
            self._committed[source] = 0
            self._incarnations[source] += 1

    def _step_reader(self, calm: bool) -> None:
        partition = self._dice.randrange(self.world.partitions)
        reader = self._readers[partition]
        reader.read(self._logs[partition])
        if self._dice.random() < 0.2:
            reader.commit()
        if not calm and self._dice.random() < 0.08:
            self.faults["reader"] += 1
            reader.begin_again()

    def _append(self, delivered: Iterator[tuple[int, Envelope]]) -> None:
        for partition, record in delivered:
            self._logs[partition].append(record)

    # The verdict.

    def _verdict(self) -> str:
        """Compare with the emissions: all of the last incarnation, in order, and none twice."""
        for partition, reader in enumerate(self._readers):
            for source in range(self.world.sources):
                wanted = self.world.on_edge(source, partition)
                applied = [r for r in reader.applied if r.source == source]
                for incarnation in range(self._incarnations[source] + 1):
                    found = [r.origin for r in applied if r.incarnation == incarnation]
                    last = incarnation == self._incarnations[source]
                    if len(set(found)) < len(found) or found != sorted(found):
                        return "doubled, or out of order"
                    if found != (wanted if last else wanted[: len(found)]):
                        return "lost"
        return ""
