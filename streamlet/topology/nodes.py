"""The nodes of a topology as values: what is to be done, not how.

A node names its parents; ``graph`` puts nodes together, ``subtopologies`` cuts the graph where a
topic lies between. Serdes are held, never called, here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from streamlet.arguments import told_by_form
from streamlet.config.values import duration
from streamlet.errors import TopologyError
from streamlet.kafka.placements import DEFAULT
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.operator import Operator, OperatorFactory, OperatorInParts
from streamlet.user_code import shown

#: When the results of an operator come, if not each with a record.
Timed: TypeAlias = Literal[
    "", "at commits", "by the clock", "with punctuators", "when calls end", "when batches end"
]

#: What becomes of the values of its records: its functions get them, or get them only to look into
#: them; they go on object for object, or are in its store besides; or nothing.
Values: TypeAlias = Literal["used", "read", "passed on", "stored", "ignored"]

#: What an operator makes of its records.
Results: TypeAlias = Literal["same", "rekeyed", "others"]


@attrs.frozen
class ByDuration:
    """Begin at the first record that was written no longer ago than this, ms; ``by_duration``."""

    ms: int

    def __str__(self) -> str:
        return f"by_duration:{self.ms} ms"


@told_by_form
def by_duration(time: str | int | timedelta) -> ByDuration:
    """Begin a stream without a commit so long before now, as Kafka's ``by_duration`` does.

    A topic whose records are all older begins at its end. It goes by the records' own times, as the
    broker finds them; after a commit that retention has overtaken it counts once more.

    Args:
        time: milliseconds, a ``timedelta``, or text such as ``"7d"``, ``"90m"``.

    Raises:
        TopologyError: it is no such time.

    Examples:
        >>> sl.by_duration("7d")
        ByDuration(ms=604800000)
    """
    try:
        return ByDuration(duration().parse(time))
    except ValueError as error:
        raise TopologyError(f"by_duration({shown(time)}): {error}") from error


@attrs.frozen(eq=False)
class SourceNode:
    """Reads topics: those named, or with a ``pattern`` all that it matches as a whole.

    ``timestamp`` is ``(key, value, timestamp_ms) -> ms``, None for the record's own. With
    ``partition_time`` it also takes the highest time of the partition so far, -1 before the first.
    ``reset`` is where to begin without a commit, None for the setting ``auto.offset.reset``.
    ``partitioner`` is the full name of that by which the topics are written.
    """

    #: Sources are above all other nodes.
    parents: ClassVar[tuple[str, ...]] = ()

    name: str
    topics: tuple[str, ...]
    key: Any
    value: Any
    timestamp: Callable[..., int] | None = None
    reset: str | ByDuration | None = None
    partition_time: bool = False
    pattern: re.Pattern[str] | None = None
    partitioner: str = DEFAULT

    def reads(self, topic: str) -> bool:
        """True if it reads this topic, should there be one."""
        if self.pattern is None:
            return topic in self.topics
        return not topic.startswith("__") and self.pattern.fullmatch(topic) is not None

    def topics_among(self, names: Iterable[str]) -> tuple[str, ...]:
        """The topics it reads, if these are all there are; those of a pattern are sorted."""
        if self.pattern is None:
            return self.topics
        return tuple(sorted(filter(self.reads, names)))


@attrs.frozen(eq=False)
class GlobalTableSpec:
    """A table that each process has whole: its source, the name of its node, its store.

    ``make`` makes the operator that puts records with keys into that.
    """

    source: SourceNode
    node: str
    store: StoreSpec
    make: Callable[[Any], Operator]

    @property
    def topic(self) -> str:
        """The topic that it is read from."""
        (topic,) = self.source.topics
        return topic


@attrs.frozen(eq=False)
class ProcessorNode:
    """One operator with the stores it touches; ``reads`` are those of them it never writes.

    It is not ``deterministic`` if it may make something else of the same record a second time.
    ``timed`` tells when its results come if not each with a record: at commits, by the clock, when
    calls or batches end, or with punctuators, whose times are not kept over a restart.
    One that is ``aside`` gets none of its parent's results, but records that came too late there.
    One with the name of a ``child`` gets what its parent sends to that child, and to all.
    One that is ``alone`` makes its results of its records and its stores, and not of the task's
    stream time, which the other inputs of the task move as well.
    ``globals`` are the stores of global tables that it reads.
    One that works ``by_key`` reads and writes rows of the key of its record alone. With
    ``spread_ms`` that holds for records whose timestamps are not further apart.
    One that works ``in_order`` only looks up rows by key; then it takes the records of all inputs
    one after the other (``OrderedOperator``), and its results have any key. With ``grace_ms`` it
    keeps them in its first store, and looks rows up when the latest of them is so far ahead.
    ``results`` are the "same" records or some of them, the records "rekeyed", or "others".
    ``values`` says what becomes of those of its records: where nothing uses them, or they are only
    "read" and no result has a part of them, branches need no copies. Those that are "stored" are
    in its store from then on, the objects themselves. One that ``keeps`` its results sends on the
    objects that are in its store. ``unread`` is the store of a table that is not there, since
    nothing reads it.
    One with a user's processor gives by ``with_processor`` the factory for what a function makes of
    that. ``around`` puts a hook around the operator of a task.
    """

    name: str
    parents: tuple[str, ...]
    factory: OperatorFactory
    stores: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    deterministic: bool = True
    timed: Timed = ""
    aside: bool = False
    child: str = ""
    alone: bool = False
    globals: tuple[str, ...] = ()
    by_key: bool = False
    spread_ms: int | None = None
    in_order: bool = False
    grace_ms: int | None = None
    results: Results = "others"
    values: Values = "used"
    keeps: bool = False
    unread: StoreSpec | None = None
    with_processor: Callable[[Callable[[Any], Any]], OperatorFactory] | None = None
    around: Callable[[Any], OperatorInParts] | None = None

    @property
    def keeps_nothing(self) -> bool:
        """True if it does its work by the record alone, and writes nothing."""
        return not (self.stores or self.globals or self.timed or self.aside)


#: One partition, several, none, or None for what the key decides.
Partitions: TypeAlias = int | Collection[int] | None


@attrs.frozen(eq=False)
class SinkNode:
    """Writes a topic; without one (""), each record to the topic that the node above has chosen.

    ``partitioner`` is ``(key, value, partitions) -> partition``, or several, or None for the
    default, murmur2, which leaves out the window of the key with ``by_base``. ``by_key`` is the
    full name of another one by key, that of a topic which the written one is joined with.
    ``partitions_of`` gives those of a column of written values instead. With ``origin`` each record
    bears its origin in a header.
    """

    name: str
    parents: tuple[str, ...]
    topic: str
    key: Any
    value: Any
    partitioner: Callable[[Any, Any, int], Partitions] | None = None
    origin: bool = False
    by_base: bool = False
    by_key: str = DEFAULT
    partitions_of: Callable[[Any], list[int]] | None = None

    @property
    def chooses_partitions(self) -> bool:
        """True if the sink, not the producer, chooses the partition of each record."""
        other = self.by_key != DEFAULT
        return bool(self.partitioner or self.partitions_of or self.by_base or other)

    @property
    def by_record(self) -> bool:
        """True if each record has a topic of its own, in the column ``olds`` of its batch."""
        return not self.topic


@attrs.frozen
class InternalTopic:
    """A topic that streamlet makes: ``kind`` is ``repartition`` or ``changelog``.

    ``partitions`` None means: as many as the tasks of the subtopology that owns it. ``named`` as in
    ``StoreSpec``. Records of a ``plain`` repartition topic never bear a prefix. One that
    ``follows`` has as many partitions as what is read beside it, for which it does not count
    itself: it is of a join by foreign keys, whose sides write to each other.
    """

    name: str
    kind: str
    partitions: int | None = None
    named: bool = True
    plain: bool = False
    follows: bool = False


@attrs.frozen(eq=False)
class Detour:
    """The nodes by which rows of a table reach a join as copies, through a topic of their own.

    Those with the name of a node of the topology replace it. ``store`` has the copies.
    """

    topic: InternalTopic
    store: StoreSpec
    nodes: tuple[SourceNode | ProcessorNode | SinkNode, ...]


@attrs.frozen(eq=False)
class ForeignJoin:
    """A join by foreign keys, whose sides write to each other, and detours for its tables.

    ``subscribe`` is the node that asks for rows of the right table, and ``keep`` the first one
    beside that table.
    """

    subscribe: str
    keep: str
    left: Detour
    right: Detour
