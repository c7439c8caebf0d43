"""The instances of a running application as values, for programs (``App.metadata``); pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from streamlet.absent import explains_misuse
from streamlet.admin.snapshot import GroupSnapshot, InstanceSnapshot, MemberSnapshot
from streamlet.admin.status import member_state
from streamlet.assignor.values import Role
from streamlet.control.values import Endpoint
from streamlet.types import TaskId


@attrs.frozen
class TaskMetadata:
    """A task of a member: ``active``, ``standby``, ``learner``, ``pending`` or ``released``."""

    task: TaskId
    role: str


@attrs.frozen
class MemberMetadata:
    """A worker process, one member of the group; ``state`` in Kafka Streams' words.

    ``instance_id`` is its static id (``group.instance.id``), None for a dynamic member.
    ``endpoint`` is where its instance serves metrics and health, ``host:port``; None if nowhere.
    """

    member: str
    member_id: str
    instance_id: str | None
    state: str
    tasks: tuple[TaskMetadata, ...]
    endpoint: str | None = None

    @property
    def active_tasks(self) -> tuple[TaskId, ...]:
        """The tasks it processes."""
        return tuple(one.task for one in self.tasks if one.role == Role.ACTIVE)

    @property
    def standby_tasks(self) -> tuple[TaskId, ...]:
        """The tasks it keeps copies of, for good or to take them over."""
        return tuple(one.task for one in self.tasks if one.role in (Role.STANDBY, Role.LEARNER))


@explains_misuse
@attrs.frozen
class InstanceMetadata:
    """One ``streamlet run`` or ``App.run``. ``local``: it runs in this process."""

    name: str
    process_id: str
    capacity: float
    tags: dict[str, str]
    leaving: bool
    members: tuple[MemberMetadata, ...]
    local: bool = False

    @property
    def instance_ids(self) -> tuple[str, ...]:
        """The static ids of its members, as ``App.remove_members`` takes them."""
        return tuple(m.instance_id for m in self.members if m.instance_id is not None)


def instances(
    group: GroupSnapshot, here: str | None = None, endpoints: Iterable[Endpoint] = ()
) -> tuple[InstanceMetadata, ...]:
    """The instances of a group, by name.

    ``here`` is the process id of the one in this process; ``endpoints`` are the control topic's.
    """
    known = {(one.instance, one.member): f"{one.host}:{one.port}" for one in endpoints}
    return tuple(_instance(group, one, here, known) for one in group.instances)


def _instance(
    group: GroupSnapshot,
    instance: InstanceSnapshot,
    here: str | None,
    endpoints: Mapping[tuple[str, str], str],
) -> InstanceMetadata:
    reported = instance.reported
    return InstanceMetadata(
        name=instance.name,
        process_id=reported.instance,
        capacity=reported.capacity,
        tags=dict(sorted(reported.tags.items())),
        leaving=instance.leaving or any(m.assigned.leave for m in instance.members),
        members=tuple(
            _member(group, one, endpoints.get((reported.instance, one.name)))
            for one in instance.members
        ),
        local=here is not None and reported.instance == here,
    )


def _member(group: GroupSnapshot, member: MemberSnapshot, endpoint: str | None) -> MemberMetadata:
    return MemberMetadata(
        member=member.name,
        member_id=member.described.member_id,
        instance_id=member.described.instance_id,
        state=member_state(group, member),
        tasks=tuple(TaskMetadata(task, role.value) for task, role in member.tasks),
        endpoint=endpoint,
    )
