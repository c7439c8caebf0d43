"""The entries of an application's control topic; values only.

Times are wall-clock ms. An instance is named by its process id, which is kept with its state folder
and outlives restarts, because several instances may bear one ``--name``. The types of fields bound
what is read from the topic.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import attrs
import msgspec

from streamlet.bounded import HOST, INT32_MAX, PORT_MAX, Int32, Int64, Name, TimeMs
from streamlet.kafka.ports import NewTopic

#: A task as printed.
TaskText: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,6}_[0-9]{1,6}\Z")]


@attrs.frozen(order=True)
class MemberKey:
    """A member for as long as its instance has this state folder, whatever its member ids are."""

    instance: Name  # process id
    number: Int32


@attrs.frozen
class OfMember:
    """An entry of a member."""

    instance: Name
    number: Int32

    @property
    def key(self) -> MemberKey:
        """The key that it is kept by."""
        return MemberKey(self.instance, self.number)


@attrs.frozen
class Mark:
    """An instance is to leave: it hands its tasks over, then ends.

    ``deadline_ms`` None: as the instance's own ``scale.down.timeout.ms`` has it, or with
    ``unlimited`` none at all. A mark holds until it is removed, and never for an instance that
    started after it was set. With ``successors`` (process ids) the instance is being replaced: it
    leaves only while they are all in the group.
    """

    instance: Name
    since_ms: TimeMs
    deadline_ms: TimeMs | None = None
    name: Name = ""  # what people call the instance
    unlimited: bool = False
    successors: tuple[Name, ...] = ()

    @property
    def key(self) -> str:
        """The key that it is kept by."""
        return self.instance


@attrs.frozen
class TaskProgress:
    """One task as its member has it right now.

    ``role`` is active, learner, standby, pending or released. ``stage`` of a copy is ``learning``,
    ``ready`` or (pending) ``waiting`` for its owner's mark; of an active task ``restoring``,
    ``running`` or ``stopped``; else ``released``. ``lag`` counts changelog records that a copy has
    still to read, or input records that an active task has. ``restored`` and ``end`` are offsets
    summed over the changelogs, ``rate`` is in records per second; None: not known. ``generation``
    is that of the assignment an active or pending task comes from. ``problem`` is why an active
    task stands still although it is given to the member; None: it does not. ``late`` counts the
    records that an active task left out of closed windows since the member has it open, ``dropped``
    those that it left out for want of a key or a time. ``misplaced`` names an input
    whose keys do not lie where its partitioner puts them. ``paused``: an active task processes
    nothing, because an operator paused it. ``waits_for`` is the task whose commit is awaited by
    records that it wrote, since ``waits_s`` seconds.
    """

    task: TaskText  # as printed, 0_3
    role: str
    stage: str
    lag: Int64 | None = None
    restored: Int64 | None = None
    end: Int64 | None = None
    rate: float | None = None
    eta_s: float | None = None
    generation: Int32 = -1
    problem: str | None = None
    misplaced: str | None = None
    late: Int64 | None = None
    dropped: Int64 | None = None
    paused: bool = False
    waits_for: TaskText | None = None
    waits_s: Int64 | None = None


@attrs.frozen
class MemberProgress(OfMember):
    """The progress of a member, as of ``at_ms``.

    ``plans_by`` are the settings it would plan by as leader, as far as they are not the defaults;
    None: it does not say. ``repartitions`` are the repartition topics, each with the reason why
    state behind it is not exact; empty if it is. ``global_tables`` are the topics of global tables,
    each with the records that the member's copy lacks; None: it does not say. ``inputs`` are the
    topics that the tasks read, each with the number of partitions that are read, as the leader
    reports them; None: it is another member, or they are too many. ``read_committed``: records of
    transactions count for it once these were committed; None: it does not say. ``exactly_once``: it
    commits by transactions. ``memory`` has the parts of its memory, each with the bytes it uses and
    the bytes it may use; None: it does not say. ``latencies`` are topics that it writes, each with
    the longest time of the last half minute from a record to its output, ms; None: it does not say.
    """

    member: Name  # what people call it, h1-0
    member_id: Name
    at_ms: TimeMs
    state: str = ""  # of the worker, as Kafka Streams calls it
    generation: Int32 = -1
    leaving: bool = False
    tasks: tuple[TaskProgress, ...] = ()
    busy: float | None = None  # share of the time it processed records since it said so last
    plans_by: tuple[tuple[str, str], ...] | None = None
    repartitions: tuple[tuple[str, str], ...] | None = None
    global_tables: tuple[tuple[str, Int64], ...] | None = None
    inputs: tuple[tuple[str, Int32], ...] | None = None
    read_committed: bool | None = None
    exactly_once: bool = False
    memory: tuple[tuple[str, Int64, Int64], ...] | None = None
    latencies: tuple[tuple[str, Int64], ...] | None = None

    def task(self, task: str) -> TaskProgress | None:
        """The progress of one task, if the member reports it."""
        return next((one for one in self.tasks if one.task == task), None)


@attrs.frozen
class MemberAddress(OfMember):
    """The host and the port at which a member answers."""

    member: Name
    host: Name
    port: Int32


@attrs.frozen
class Endpoint(MemberAddress):
    """The HTTP address of a member: metrics and health."""


@attrs.frozen
class StoreServer(MemberAddress):
    """The address at which a member answers queries of its stores: Kafka's ``application.server``.

    ``scheme`` is that of streamlet's own server, ``http`` or ``https``; empty: the application has
    another one there, which streamlet does not ask.
    """

    scheme: str = ""

    @property
    def address(self) -> str:
        """Host and port, as ``application.server`` has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str | None:
        """The URL of streamlet's own server; None: there is none, or no such address can be."""
        is_ours = self.scheme in ("http", "https") and 0 < self.port <= PORT_MAX
        return f"{self.scheme}://{self.address}" if is_ours and HOST.fullmatch(self.host) else None


@attrs.frozen
class ResetEpoch:
    """The number of resets of an application; state from before the last one counts for nothing.

    While a reset is under way, or was broken off, ``pending`` are the topics it deletes and makes
    again, and ``sources`` the topics whose positions it sets: what a second attempt has to know,
    because the first may have deleted the trace of it. ``positions`` are those committed before
    (topic, partition, offset; -1: none), where it sets others relative to them. ``filled`` are the
    topics in whose place a backfill has read files: the state has their keys where their
    partitioners put them.
    """

    epoch: Int32
    at_ms: TimeMs = 0
    pending: tuple[NewTopic, ...] | None = None
    sources: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    positions: tuple[tuple[str, Int32, Int64], ...] = ()

    @property
    def next_epoch(self) -> int:
        """The number of the next reset; behind the highest that is read it begins again."""
        return self.epoch + 1 if 0 <= self.epoch < INT32_MAX else 1

    @property
    def text(self) -> str:
        """The form in which state folders note it; unique per reset, empty before the first."""
        return f"{self.epoch}@{self.at_ms}" if self.epoch else ""


@attrs.frozen
class Shutdown:
    """The application is to end: an error handler of an instance decided so.

    It holds for the instances that run then, never for one that starts later.
    """

    instance: Name  # process id of the one that decided
    name: Name
    at_ms: TimeMs
    reason: str = ""

    @property
    def text(self) -> str:
        """The form in which state folders note it; unique per shutdown."""
        return f"{self.at_ms}@{self.instance}"


@attrs.frozen
class Command:
    """An operator's command that is about to change marks.

    One at a time may: the first in the topic's order, until it takes its entry back, or until it
    must be dead, because its entry is older than a command ever needs.
    """

    id: Name
    what: Name  # for people: "scale-down on host-7"
    at_ms: TimeMs

    @property
    def key(self) -> str:
        """The key that it is kept by."""
        return self.id


@attrs.frozen
class ChangelogTypes:
    """The types that the rows of a changelog are of, as the marks of its store's serdes.

    ``topic_id`` is Kafka's, of the topic that has the rows: of another topic with this name it says
    nothing.
    """

    changelog: Name
    store: Name
    types: tuple[str, str]  # of its keys and of its values
    topic_id: str = ""

    @property
    def key(self) -> str:
        """The key that it is kept by."""
        return self.changelog


@attrs.frozen
class NamedPart:
    """A node or store of a topology's document; a source names the topics that it reads."""

    name: str
    topics: tuple[str, ...] = ()


@attrs.frozen
class Part:
    """A subtopology of a topology's document."""

    id: Int32
    sources: tuple[NamedPart, ...] = ()
    processors: tuple[NamedPart, ...] = ()
    sinks: tuple[NamedPart, ...] = ()
    stores: tuple[NamedPart, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names of its nodes and stores, and of the topics that it reads."""
        every = (*self.sources, *self.processors, *self.sinks, *self.stores)
        return frozenset(name for one in every for name in (one.name, *one.topics))

    @property
    def topics_and_stores(self) -> frozenset[str]:
        """The topics that it reads, and the names of its stores."""
        topics = (topic for source in self.sources for topic in source.topics)
        return frozenset((*topics, *(store.name for store in self.stores)))


@attrs.frozen
class TopologyParts:
    """The part of a topology's document that commands go by."""

    subtopologies: tuple[Part, ...] = ()


@attrs.frozen
class Description:
    """The topology that the group runs, as the member that leads it has it.

    ``topology`` is the document that ``streamlet describe --json`` prints, and ``forms`` the other
    forms in which that command prints it, by name. ``version`` is of streamlet.
    """

    member: Name  # what people call it, h1-0
    version: Name
    topology: dict[str, Any]
    forms: dict[str, str]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The subtopologies."""
        return msgspec.convert(self.topology, TopologyParts).subtopologies


#: The pause of a whole application.
ALL = "all"


@attrs.frozen
class PauseMark:
    """Tasks process nothing until the entry is removed: of one subtopology, or all of them."""

    what: Annotated[str, msgspec.Meta(pattern=r"\A(all|[0-9]{1,6})\Z")]
    since_ms: TimeMs = 0
    by: str = ""  # host of the operator

    @property
    def key(self) -> str:
        """The key that it is kept by."""
        return self.what


Entry: TypeAlias = (
    Mark
    | MemberProgress
    | Endpoint
    | StoreServer
    | ResetEpoch
    | Shutdown
    | Command
    | ChangelogTypes
    | Description
    | PauseMark
)
