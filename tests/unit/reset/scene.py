"""An application that ran, on a cluster in memory: what commands that change it are tried on."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, cast

import attrs

from streamlet.admin.window import ApplicationInfo, GroupWindow
from streamlet.clock import ManualClock
from streamlet.config import Settings
from streamlet.control.topic import ControlTopic, prepare_control
from streamlet.control.view import ControlView
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.messages import (
    Answer,
    Committed,
    GroupDescription,
    GroupListing,
    LeaveGroup,
    LeaveGroupAnswer,
    MemberDescription,
    OffsetCommit,
    OffsetCommitAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
    Request,
)
from streamlet.processing.edges.records import pack
from streamlet.reset.reset import Reset
from streamlet.reset.start import StartPosition
from streamlet.state.changelog import encode_column
from streamlet.state.entries import CommitEntry
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.topology.graph import Topology
from streamlet.topology.internal_topics import CHANGELOG_CONFIG, REPARTITION_CONFIG
from streamlet.types import StateNumber, TopicPartition
from tests.futures import done

COUNTS = "words-counts-changelog"
BETWEEN = "words-KSTREAM-AGGREGATE-STATE-STORE-between-repartition"
FOREIGN = "words-eu-counts-changelog"
TEXT = CommitMetadata(7, "id-h1-0", 3, {TopicPartition(COUNTS, 0): 50}, StateNumber(7, 4)).to_text()


def fill_changelog(
    log: MemoryLog, at: TopicPartition, count: int, application: str = "words"
) -> None:
    """Records as an owner of the application flushes them: the last one bears the commit entry."""
    state = StateNumber(7, 4)
    values, _ = encode_column(state, [b"row"] * count)
    written = {at.topic: 4}
    entry = CommitEntry(state, {}, written, {}, application).header()
    headers = [None] * (count - 1) + [(entry,)]
    log.append(at, [b"k"] * count, values, None, headers)


def fill_repartition(log: MemoryLog, at: TopicPartition, count: int) -> None:
    """Records as a task writes them to an exact repartition topic."""
    origins = [n + 1 << 20 for n in range(count)]
    values = pack([b"v"] * count, [1] * count, origins, [0] * count)
    log.append(at, [b"k"] * count, values)


@attrs.define
class Coordinator:
    """A group's positions, and members if somebody runs; ``codes`` answer the next commits."""

    positions: dict[TopicPartition, tuple[int, str]]
    members: tuple[MemberDescription, ...] = ()
    codes: list[int] = attrs.field(factory=list)
    forgets: int = 0
    groups: tuple[str, ...] = ("words", "words-eu")
    #: Groups that are not described: the error; 0: there is none.
    hidden: dict[str, int] = attrs.field(factory=dict)
    #: Ids of members that join again when they are taken out.
    alive: set[str] = attrs.field(factory=set)

    def describe_group(self, group: str, timeout_ms: int) -> Future[GroupDescription]:
        if group in self.hidden:
            return done(GroupDescription(group, "Dead", "", "", (), self.hidden[group]))
        state = "Stable" if self.members else "Empty"
        return done(GroupDescription(group, state, "stream", "streamlet-v1", self.members, 0))

    def delete_group(self, group: str, timeout_ms: int) -> Future[int]:
        code = self.codes.pop(0) if self.codes else 0
        if not code:
            self.positions.clear()
        return done(code)

    def list_groups(self, timeout_ms: int) -> Future[list[GroupListing]]:
        return done([GroupListing(name, "stream", "Stable") for name in self.groups])

    def send(self, request: Request, connection: str, timeout_ms: int) -> Future[Answer]:
        if isinstance(request, LeaveGroup):
            gone = request.member_id not in self.alive
            self.members = tuple(
                m for m in self.members if not (gone and m.member_id == request.member_id)
            )
            return done(LeaveGroupAnswer(0))
        return self.ask(request, timeout_ms)

    def ask(self, request: Request, timeout_ms: int) -> Future[Answer]:
        if isinstance(request, OffsetFetch):
            found = {
                tp: Committed(*self.positions.get(tp, (-1, "")), 0) for tp in request.partitions
            }
            return done(OffsetFetchAnswer(0, found))
        assert isinstance(request, OffsetCommit)
        assert (request.generation, request.member_id) == (-1, "")
        code = self.codes.pop(0) if self.codes else 0
        self.forgets -= 1
        if not code and self.forgets < 0:
            self.positions.update(request.offsets)
        return done(OffsetCommitAnswer(dict.fromkeys(request.offsets, code)))


@attrs.define
class Scene:
    log: MemoryLog
    admin: MemoryAdmin
    coordinator: Coordinator
    topology: Topology | None = None
    clock: ManualClock = attrs.field(factory=lambda: ManualClock(1_000))
    stopped: threading.Event = attrs.field(factory=threading.Event)

    def first(self, topic: str) -> TopicPartition:
        return TopicPartition(topic, 0)

    def window(self) -> GroupWindow:
        source, sink = MemorySource(self.log), MemorySink(self.log)
        control = ControlTopic("words", source, sink, self.admin, self.clock)
        application = ApplicationInfo("words", Settings.load(), self.topology)
        return GroupWindow(
            application,
            *(cast(Any, self.coordinator), lambda: self.admin, lambda: control),
            lambda: MemorySource(self.log, headers=True),
            self.stopped,
            self.clock,
        )

    def reset(self, to: str = "earliest") -> Reset:
        return Reset(self.window(), StartPosition.of(to))

    def view(self) -> ControlView:
        return self.reset().window.control.read()

    def write(self, *entries: Any) -> None:
        control = self.reset().window.control
        control.write(*entries)
        control.flush()


def ran() -> Scene:
    """An application that ran: 2 partitions of input, a repartition topic, a changelog."""
    log = MemoryLog()
    admin = MemoryAdmin(log)
    prepare_control(admin, "words")
    log.create("lines", 2)
    log.create(COUNTS, 2, {**dict(CHANGELOG_CONFIG), "max.message.bytes": "5000000"})
    log.create(BETWEEN, 2, dict(REPARTITION_CONFIG))
    log.create(FOREIGN, 2)
    log.create("words-eu-streamlet-control", 1)
    for partition in range(2):
        log.append(TopicPartition("lines", partition), [b"k"] * 40, [b"v"] * 40, [*range(40)])
        fill_changelog(log, TopicPartition(COUNTS, partition), 50)
        fill_repartition(log, TopicPartition(BETWEEN, partition), 30)
    committed = {TopicPartition("lines", 0): (40, TEXT), TopicPartition(BETWEEN, 1): (30, TEXT)}
    return Scene(log, admin, Coordinator(committed))
