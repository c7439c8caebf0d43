"""Puts a group there that is Stable at generation 1, with tasks that run already.

The members' machines are led through one join by hand, so that they, their hand-over rules and the
coordinator agree on everything a real join would have left behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.events import (
    Answered,
    Assigned,
    Command,
    CoordinatorFound,
    Event,
    MetadataReady,
    Send,
    StartMembership,
    WakeAt,
)
from streamlet.coordinator.messages import (
    JoinGroup,
    JoinGroupAnswer,
    OffsetCommit,
    OffsetCommitAnswer,
    SyncGroupAnswer,
)
from streamlet.rebalance import wire
from streamlet.rebalance.envelope import CONSUMER, STREAM, open_subscription
from streamlet.rebalance.protocol import PROTOCOL, TYPES
from streamlet.rebalance.values import Assignment, NeedMetadata, Subscription
from streamlet.state.task_state import TaskState
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.task_events import SetCopies
from streamlet.tasks.task_record import TaskStage
from streamlet.testing.simulation.counting import GROUP, changelog_of, input_of, row_of
from streamlet.testing.simulation.events import Held
from streamlet.testing.simulation.member import SimMember
from streamlet.testing.simulation.stores import SimState
from streamlet.types import StateNumber, TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.world import World

GENERATION = 1

C = TypeVar("C", bound=Command)


def begin(world: World) -> None:
    """Bring up the members of ``start``; nothing happens if there are none."""
    scenario = world.scenario
    names = sorted(scenario.start, key=lambda name: name != scenario.leader)  # the first leads
    members: list[SimMember] = []
    there = [i for i in world.cluster.instances.values() if i.spec.member_names[0] in names]
    usual = scenario.settings.stream_rebalancing_mode
    types = {TYPES[instance.spec.mode or usual] for instance in there}
    kind = STREAM if types == {STREAM} else CONSUMER  # one that wants "stream" makes do
    for instance in there:
        for number, name in enumerate(instance.spec.member_names):
            if name in scenario.start:
                instance.starts = 1
                members.append(world.new_member(instance, number, kind))
    members.sort(key=lambda member: names.index(member.name))
    learned = {label for held in scenario.start.values() for label in held.learner}
    leader = ""
    joins: list[tuple[JoinGroup, bytes]] = []
    for member in members:
        member_id = world.coordinator.new_id(member.name)
        world.name_member(member_id, member)
        leader = leader or member_id
        held = scenario.start[member.name]
        joins.append(_join(world, member, held, (member_id, leader), learned))
    if joins:
        world.coordinator.seed(joins, GENERATION, world.now_ms)
    for member in members:
        _run(world, member, scenario.start[member.name])


def _join(
    world: World, member: SimMember, held: Held, ids: tuple[str, str], learned: set[str]
) -> tuple[JoinGroup, bytes]:
    """Lead one member through its join; its request and what it was assigned."""
    member_id, leader = ids
    _tell(member, StartMembership())
    need = _only(NeedMetadata, _tell(member, CoordinatorFound("coordinator")))
    protocols = member.protocol.subscribe(need, {})
    kind = member.protocol.protocol_type
    join = _only(Send, _tell(member, MetadataReady(need.request, kind, protocols)))
    answer = JoinGroupAnswer(0, GENERATION, kind, PROTOCOL, leader, member_id, True)
    sync = _only(Send, _tell(member, Answered(join.number, answer)))
    opened = open_subscription(protocols[0][1], kind)
    subscription = wire.decode_subscription(opened.data)
    orders = _orders(world, held, subscription, learned)
    version = wire.read_head(opened.data).version
    assignment = wire.encode_assignment(orders, version)
    if kind == CONSUMER:
        assignment = world.envelope.assignment(orders, assignment, opened.version)
    synced = _tell(member, Answered(sync.number, SyncGroupAnswer(0, assignment)))
    delivered = _only(Assigned, synced)
    orders = member.protocol.decode(delivered.assignment)
    assigned = attrs.evolve(delivered, assignment=orders)
    decided = member.manager.handle(assigned, world.now_ms)  # all of it has happened long ago
    member.session.thread.resume()
    member.worker.begin_with([one for one in decided if isinstance(one, SetCopies)])
    assert isinstance(join.request, JoinGroup)
    return attrs.evolve(join.request, member_id=member_id), assignment


def _orders(world: World, held: Held, subscription: Subscription, learned: set[str]) -> Assignment:
    tasks = {label: spec.task for label, spec in world.cluster.by_label.items()}
    return Assignment(
        active=frozenset(tasks[label] for label in held.active),
        learner=frozenset(tasks[label] for label in held.learner),
        standby=frozenset(tasks[label] for label in held.standby),
        being_learned=frozenset(tasks[label] for label in held.active if label in learned),
        answers_nonce=subscription.nonce,
        answers_identity=wire.identity_of(subscription),
    )


def _tell(member: SimMember, event: Event) -> list[Command]:
    commands = member.machine.handle(event, member.world.now_ms)
    for command in commands:
        if isinstance(command, WakeAt):
            member.session.wake_at(command.at_ms)
    return commands


def _only(kind: type[C], commands: list[Command]) -> C:
    (found,) = (command for command in commands if isinstance(command, kind))
    return found


def _run(world: World, member: SimMember, held: Held) -> None:
    """Give the member its copies and its running tasks, each with a commit behind it."""
    by_label, disk = world.cluster.by_label, member.instance.disk
    for label, lag in held.learner.items():
        disk[by_label[label].task] = max(by_label[label].end - lag, 0)
    for label in (*held.standby, *held.active):
        if by_label[label].stateful:
            disk[by_label[label].task] = by_label[label].end
    disk.update({by_label[label].task: offset for label, offset in held.dormant.items()})
    offsets: dict[TopicPartition, tuple[int, str]] = {}
    for label in held.active:
        active = _running(world, member, by_label[label].task)
        ends = {changelog_of(active.task): 1} if active.subtopology.stateful else {}
        by = member.machine.view.member_id
        offset = active.committed[input_of(active.task)]
        world.protocol.begun(member, input_of(active.task), offset)
        text = CommitMetadata(active.epoch, by, GENERATION, ends, active.contained).to_text()
        offsets[input_of(active.task)] = (offset, text)
    if offsets:
        request = OffsetCommit(
            GROUP, GENERATION, member.machine.view.member_id, member.config.instance_id, offsets
        )
        key = ("start", member.uid)
        ((_, answer),) = world.coordinator.handle(key, request, world.now_ms)
        assert isinstance(answer, OffsetCommitAnswer)
        world.checks.committed(member, request, answer)
    member.worker.follow_from_the_start()


def _running(world: World, member: SimMember, task: TaskId) -> ActiveTask:
    record = member.manager.records[task]
    record.move_to(TaskStage.RUNNING)
    record.claimed = True
    if world.cluster.is_stateful(task):
        world.cluster.write(task, StateNumber(1, 1), 1)
        state = SimState(world, member.instance, task)
        state.load(row_of(task, 1), changelog_of(task), 1, 1, newest=StateNumber(1, 1))
        TaskState.restored(state, StateNumber(1, 1))  # no disk refuses before the beginning
    world.checks.owner[task] = member.instance.spec.name
    return member.worker.adopt(task, member.machine.view.member_id)
