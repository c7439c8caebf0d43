"""The events of a scenario's steps, as values; ``scenario`` reads them from JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from streamlet.rebalance.wire import VERSION
from streamlet.types import TaskId


@attrs.frozen
class TaskSpec:
    """A task of the simulated application; ``end`` is where its changelog ends, in records."""

    label: str
    task: TaskId
    stateful: bool = True
    weight: int = 1
    end: int = 100_000


@attrs.frozen
class InstanceSpec:
    """An instance that may come: ``capacity`` None is the number of its members."""

    name: str
    members: int = 1
    capacity: float | None = None
    tags: Mapping[str, str] = attrs.field(factory=dict)
    instance_id: str | None = None
    mode: str | None = None
    learners: bool = True
    version: int = VERSION  # of our bytes that its program knows at most
    #: Which version of a subtopology its program has, by number; the others are the common ones.
    topology: Mapping[int, str] = attrs.field(factory=dict)

    @property
    def member_names(self) -> tuple[str, ...]:
        """The only member bears the instance's name, several bear numbers."""
        if self.members == 1:
            return (self.name,)
        return tuple(f"{self.name}-{number}" for number in range(self.members))


@attrs.frozen
class Held:
    """The copy one member has at the start: lag of a learner, offset of a copy on disk."""

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    learner: Mapping[str, int] = attrs.field(factory=dict)
    dormant: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen
class NetworkSpec:
    """Chances of a message to be lost or doubled, and how long one takes, from and to, in ms."""

    loss: float = 0.0
    duplicate: float = 0.0
    delay_ms: tuple[int, int] = (0, 0)


@attrs.frozen
class Event:
    """An event of a step."""

    @classmethod
    def key(cls) -> str:
        """The key of such events in a file."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


@attrs.frozen
class OfInstances(Event):
    """An event of these instances."""

    instances: tuple[str, ...]


@attrs.frozen
class WithTimes(Event):
    """An event with a time, ms, for each member, instance or task of these."""

    times: Mapping[str, int]


class Join(OfInstances):
    """Instances start, with what is on their disks."""


class Leave(OfInstances):
    """Instances are stopped: they commit and leave the group."""


class Crash(OfInstances):
    """Instances die and are taken out of the group at once."""


class Restart(OfInstances):
    """Instances die and are back at once, with disk and static id."""


@attrs.frozen
class Deploy(Event):
    """Instances run another program from their next start on, or the same one otherwise.

    ``field`` is one of ``InstanceSpec``: mode, version or topology; ``values`` are by instance.
    """

    field: str
    values: Mapping[str, Any]


class Pause(OfInstances):
    """Instances stand still, heartbeats too."""


class Resume(OfInstances):
    """Paused instances go on and find what has come in meanwhile."""


class Expel(OfInstances):
    """The coordinator throws out the members of these instances, which live on."""


class Busy(WithTimes):
    """The workers' loops of members or instances are in a user function for so long, ms."""


class SlowControl(WithTimes):
    """The control threads of members or instances have no processor for so long, ms."""


class SlowCopies(WithTimes):
    """The next step of the threads that keep copies takes so long, ms, by member or instance."""


class ShortLog(WithTimes):
    """The changelogs of tasks seem to end a record earlier, for so long, ms."""


@attrs.frozen
class Drain(OfInstances):
    """Instances are marked as leaving, with a deadline after ``timeout_ms`` or none."""

    timeout_ms: int | None = None


@attrs.frozen
class DrainPercent(Event):
    """Scale down: instances beyond this percentage are marked as leaving."""

    percent: float
    timeout_ms: int | None = None


class CancelDrain(OfInstances):
    """Drain requests of these instances are withdrawn."""


@attrs.frozen
class Ready(Event):
    """Copies catch up: per member or instance the tasks, ``"all"`` or ``"one"``."""

    tasks: Mapping[str, tuple[str, ...] | str]


@attrs.frozen
class Lag(Event):
    """Copies are so many records behind, per member or instance and task."""

    lags: Mapping[str, Mapping[str, int]]


@attrs.frozen
class Lose(Event):
    """The n-th request of a kind that is sent from now on never arrives; or its answer does not."""

    sender: str
    request: str
    nth: int = 1
    answer: bool = False


@attrs.frozen
class Truncate(Event):
    """The second half of these tasks' changelogs is gone."""

    tasks: tuple[str, ...]


@attrs.frozen
class CoordinatorRestart(Event):
    """The coordinator fails over: parked requests and connections are lost."""


@attrs.frozen
class AddTasks(Event):
    """More partitions are created: more tasks."""

    tasks: tuple[TaskSpec, ...]


@attrs.frozen
class Step:
    """Events delivered together, then time that passes, then rounds until all is settled."""

    events: tuple[Event, ...] = ()
    advance_ms: int = 0
    settle_rounds: int | None = None


@attrs.frozen
class Expect:
    """The expectations at the end; None or empty: not checked."""

    rebalances: int | None = None
    max_rebalances: int | None = None
    final_loads: tuple[int, ...] | None = None
    exited: tuple[str, ...] | None = None
    exited_count: int | None = None
    cold_moves: int | None = None
    stateful_moves: int | None = None
    max_learners: int | None = None
    final: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    kept: tuple[str, ...] = ()
    in_band: bool | None = None
    protocol_type: str | None = None
