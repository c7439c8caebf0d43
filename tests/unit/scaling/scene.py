"""An application whose group and control topic a test plays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

import attrs

from streamlet.admin.window import ApplicationInfo, GroupWindow
from streamlet.clock import ManualClock
from streamlet.control.topic import ControlTopic
from streamlet.control.values import Entry, Mark, MemberKey, MemberProgress, TaskProgress
from streamlet.coordinator.messages import (
    Answer,
    Committed,
    GroupDescription,
    MemberDescription,
    OffsetFetch,
    OffsetFetchAnswer,
    Request,
)
from streamlet.scaling.scale_down import ScaleDown, ScaleDownRequest
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.types import TopicPartition
from tests.unit.scaling.group import member

THREE = (member("h1", "0_0"), member("h2", "0_1"), member("h3", "0_2"))


def done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


@attrs.define
class Coordinator:
    """Answers as set."""

    members: tuple[MemberDescription, ...] = THREE
    state: str = "Stable"
    error: int = 0
    failure: Exception | None = None
    kind: str = "stream"

    def describe_group(self, group: str, timeout_ms: int) -> Future[GroupDescription]:
        if self.failure is not None:
            return done(self.failure)
        members = () if self.state in ("Dead", "Empty") else self.members
        return done(
            GroupDescription(group, self.state, self.kind, "streamlet-v1", members, self.error)
        )

    def ask(self, request: Request, timeout_ms: int) -> Future[Answer]:
        assert isinstance(request, OffsetFetch)
        text = '{"v":1,"epoch":1,"by":"id-h1-0","gen":7,"ends":{"changes":{"0":4}},"state":[1,1]}'
        found = {TopicPartition("in", 0): Committed(5, text, 0)}
        return done(OffsetFetchAnswer(0, found))

    def log_sizes(
        self, topics: Mapping[str, Sequence[int]], timeout_ms: int
    ) -> Future[dict[TopicPartition, int]]:
        return done({TopicPartition("changes", p): 100 * (p + 1) for p in topics["changes"]})


@attrs.define
class Scene:
    log: MemoryLog
    coordinator: Coordinator
    clock: ManualClock
    stopped: threading.Event

    def cluster(self) -> GroupWindow:
        """As one more command sees it."""
        admin = MemoryAdmin(self.log)
        source, sink = MemorySource(self.log), MemorySink(self.log)
        control = ControlTopic("flights", source, sink, admin, self.clock)
        return GroupWindow(
            ApplicationInfo("flights"),
            *(cast(Any, self.coordinator), lambda: admin, lambda: control),
            lambda: MemorySource(self.log, headers=True),
            self.stopped,
            self.clock,
        )

    def marks(self) -> dict[str, Mark]:
        return {mark.name: mark for mark in self.cluster().control.read().marks.values()}

    def report(self, name: str, *, leaving: bool = True, tasks: str = "") -> None:
        """A member says what it does, as its instance does until it ends."""
        running = tuple(TaskProgress(task, "active", "running") for task in tasks.split())
        said = MemberProgress(
            f"process-{name}", 0, f"{name}-0", f"id-{name}-0", 1, leaving=leaving, tasks=running
        )
        self._write(said)

    def end(self, name: str) -> None:
        """A member takes back what it said."""
        with_it = self.cluster().control
        with_it.remove((MemberProgress, MemberKey(f"process-{name}", 0)))

    def unmark(self, name: str) -> None:
        """Remove the mark of an instance."""
        self.cluster().control.remove((Mark, f"process-{name}"))

    def _write(self, entry: Entry) -> None:
        self.cluster().control.write(entry)

    def run(self, wanted: ScaleDownRequest) -> list[str]:
        command = ScaleDown(self.cluster(), wanted)
        return [one.name for one in command.mark(command.plan()).leaving]


@attrs.define
class Script(threading.Event):
    """Each wait is half a second, in which the next thing happens; then it stops."""

    scene: Scene
    steps: list[Callable[[], object]]

    def __attrs_pre_init__(self) -> None:
        threading.Event.__init__(self)

    def wait(self, timeout: float | None = None) -> bool:
        self.scene.clock.advance(500)
        if not self.steps:
            return True
        self.steps.pop(0)()
        return False


NOTHING: Callable[[], object] = lambda: None  # noqa: E731
