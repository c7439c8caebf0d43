"""The nodes of a topology as values: what is to be done, not how.

A node names its parents; ``graph`` puts nodes together, ``subtopologies`` cuts the graph where a
topic lies between. Serdes are held, never called, here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import attrs

from streamlet.topology.operator import OperatorFactory

#: When the results of an operator come, if not each with a record.
Timed: TypeAlias = Literal["", "at commits", "by the clock"]


@attrs.frozen(eq=False)
class WindowSpec:
    """The windows of a store: a ``state.window_rows.WindowLayout``.

    ``text`` describes them for people, and ``grace_ms`` is for them too.
    """

    key: Any
    text: str
    retention_ms: int | None
    size_ms: int | None
    grace_ms: int
    bucket_ms: int = 0


@attrs.frozen(eq=False)
class BufferSpec:
    """The buffer of a ``suppress``: when its updates are sent, and what happens when it is full.

    ``until`` is ``"window closes"`` or ``"time limit"``. Updates wait until stream time is
    ``wait_ms`` past their buffer time, which is their window's end, or the time of the key's first
    update. None for ``max_records`` or ``max_bytes``: there is no such bound.
    """

    key: Any
    until: str
    wait_ms: int
    max_records: int | None
    max_bytes: int | None
    when_full: str


@attrs.frozen(eq=False)
class StoreSpec:
    """A state store: its name, how it is encoded, whether it is kept on disk and in a topic.

    ``named`` is False when the name was made up from the node's number, and so moves with it.
    ``source_topic`` is set for a table read straight from a topic that is its own changelog.
    ``window`` makes it a window store, ``buffer`` one of updates that wait, ``join`` one of a join
    of streams: the "records" of a side, or those that are "unmatched". The serdes ``key`` and
    ``value`` are of its rows then.
    """

    name: str
    key: Any
    value: Any
    persistent: bool = True
    logged: bool = True
    named: bool = True
    source_topic: str | None = None
    window: WindowSpec | None = None
    buffer: BufferSpec | None = None
    join: Literal["", "records", "unmatched"] = ""


@attrs.frozen(eq=False)
class SourceNode:
    """Reads topics.

    ``timestamp`` is ``(key, value, record_timestamp_ms) -> ms``, None for the record's own. With
    ``partition_time`` it also takes the highest time of the partition so far, -1 before the first.
    ``reset`` is where to begin without a commit, None for the setting ``auto.offset.reset``.
    """

    name: str
    topics: tuple[str, ...]
    key: Any
    value: Any
    timestamp: Callable[..., int] | None = None
    reset: str | None = None
    partition_time: bool = False


@attrs.frozen(eq=False)
class ProcessorNode:
    """One operator with the stores it touches; ``reads`` are those of them it never writes.

    It is not ``deterministic`` if it may make something else of the same record a second time.
    ``timed`` tells when its results come if not each with a record: at commits, or by the clock.
    One that is ``aside`` gets none of its parent's results, but records that came too late there.
    """

    name: str
    parents: tuple[str, ...]
    factory: OperatorFactory
    stores: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    deterministic: bool = True
    timed: Timed = ""
    aside: bool = False


@attrs.frozen(eq=False)
class SinkNode:
    """Writes a topic; without one (""), each record to the topic that the node above has chosen.

    ``partitioner`` is ``(key, value, partitions) -> partition``, None for murmur2. With ``origin``
    each record bears its origin in a header.
    """

    name: str
    parents: tuple[str, ...]
    topic: str
    key: Any
    value: Any
    partitioner: Callable[[Any, Any, int], int] | None = None
    origin: bool = False

    @property
    def by_record(self) -> bool:
        """True if each record has a topic of its own, in the column ``olds`` of its batch."""
        return not self.topic


@attrs.frozen
class InternalTopic:
    """A topic that streamlet makes: ``kind`` is ``repartition`` or ``changelog``.

    ``partitions`` None means: as many as the tasks of the subtopology that owns it. ``named`` as in
    ``StoreSpec``. Records of a ``plain`` repartition topic never bear a prefix.
    """

    name: str
    kind: str
    partitions: int | None = None
    named: bool = True
    plain: bool = False
