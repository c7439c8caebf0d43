"""The rules that must hold in a simulated group, checked while it runs.

A leader's plan is held to the rules U1 to U13 (``assignor.validate``) and made once more from the
same facts in another order (U8). Members are held to what the hand-over protocol promises:

* S1 committed positions and epochs only go up
* S2 no member runs a task beside a member that can still commit it
* S3 an active period begins with the state that its committed positions contain
* U1 once quiet, each task runs in exactly one place
* U13 no member keeps a copy open, or a folder locked, that no plan asks for
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.assignor.validate import validate
from streamlet.assignor.values import GroupState, Plan, Role, Violation
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.events import Failed
from streamlet.coordinator.messages import OffsetCommit, OffsetCommitAnswer
from streamlet.rebalance.leader import Assignor
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.task_record import OURS, TaskStage
from streamlet.testing.simulation.counting import task_of
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember
    from streamlet.testing.simulation.world import World

#: The group's name in the fake coordinator is the world's; rules about members need it not.
_OPEN = OURS | {TaskStage.WAITING}


@attrs.frozen
class Broken:
    """A rule that was broken, with names as the scenario has them."""

    rule: str
    text: str
    tasks: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


class Checks:
    """Collects what was broken, and counts what moved."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.broken: list[Broken] = []
        #: Instance that runs each task, or ran it last.
        self.owner: dict[TaskId, str] = {}
        #: Tasks that changed their instance at least once.
        self.moved: set[TaskId] = set()
        self.stateful_moves = self.stateless_moves = self.cold_moves = 0
        #: Plans are made a second time, in another order, every so many rounds.
        self.permute_every = 1
        self._plans = 0
        self._committed: dict[TopicPartition, tuple[int, int]] = {}  # offset, epoch
        #: Tasks given to a copy that was not ready while their owner lived, by task and member id.
        self._given_cold: dict[tuple[TaskId, str], bool] = {}

    def note(
        self, rule: str, text: str, tasks: Iterable[TaskId] = (), members: Iterable[str] = ()
    ) -> None:
        """Remember something broken; members by name."""
        labels = tuple(self._world.cluster.labels(tasks))
        broken = Broken(rule, text, labels, tuple(members))
        if broken not in self.broken:
            self.broken.append(broken)

    # -- plans ---------------------------------------------------------------------------------

    def planned(self, state: GroupState, plan: Plan, assign: Assignor) -> list[Violation]:
        """Look a plan over, before it is sent."""
        violations = validate(state, plan)
        if self._plans % self.permute_every == 0 and assign(_turned(state)) != plan:
            violations.append(Violation("U8", "the plan depends on the order of its input"))
        self._plans += 1
        for one in violations:
            self.note(one.rule, one.text, one.tasks, self._world.names_of(one.members))
        self._note_cold(state, plan)
        return violations

    def _note_cold(self, state: GroupState, plan: Plan) -> None:
        """Remember which tasks go to copies that are not ready, though their owners live.

        The members of an instance have one disk: a copy that one of them read is warm for all.
        """
        members = {member.member_id: member for member in state.members}
        warm = {
            (member.instance, task)
            for member in state.members
            for task, copy in member.copies.items()
            if copy.ready
        }
        for member_id, part in plan.members.items():
            member = members[member_id]
            for task in (*part.active, *part.pending):
                copy = member.copies.get(task)
                if copy is None or copy.role not in (Role.ACTIVE, Role.PENDING):
                    lives = bool(self._world.of(self.owner.get(task, "")))
                    cold = (member.instance, task) not in warm
                    self._given_cold[task, member_id] = lives and cold

    # -- members -------------------------------------------------------------------------------

    def begins(self, member: SimMember, active: ActiveTask) -> None:
        """S3: its stores hold the count up to where it begins."""
        stores: Any = active.state
        (offset,) = active.committed.values()
        if active.subtopology.stateful and stores.count != offset:
            label, name = self._world.cluster.label(active.task), member.name
            text = f"{name} starts {label} at {offset} with state {stores.count}"
            self.note("S3", text, (active.task,), (name,))

    def started(self, member: SimMember, task: TaskId) -> None:
        """S2, and where the task is now."""
        if self._world.accepts(member):
            self._check_single_owner(member, task)
        here = member.instance.spec.name
        before = self.owner.get(task)
        self.owner[task] = here
        if before in (None, here):
            return
        self.moved.add(task)
        if not self._world.cluster.is_stateful(task):
            self.stateless_moves += 1
            return
        self.stateful_moves += 1
        self.cold_moves += self._given_cold.get((task, member.machine.view.member_id), False)

    def _check_single_owner(self, member: SimMember, task: TaskId) -> None:
        """S2. Who was thrown out while it stood still cannot know it yet, but commits nothing."""
        others = [
            other.name
            for other in self._world.members
            if other is not member and other.worker.runs(task) and self._world.accepts(other)
        ]
        if others:
            text = f"{member.name} runs {self._world.cluster.label(task)} beside {others}"
            self.note("S2", text, (task,), (member.name, *others))

    def committed(
        self, member: SimMember, request: OffsetCommit, answer: OffsetCommitAnswer
    ) -> None:
        """S1, and S2 once more."""
        for partition, (offset, text) in sorted(request.offsets.items()):
            if answer.errors.get(partition) != 0:
                continue
            metadata = CommitMetadata.from_text(text)
            assert metadata is not None
            old_offset, old_epoch = self._committed.get(partition, (0, 0))
            task = task_of(partition)
            if offset < old_offset or metadata.epoch < old_epoch:
                where = f"{offset} in epoch {metadata.epoch} after {old_offset} in {old_epoch}"
                label = self._world.cluster.label(task)
                self.note(
                    "S1", f"{member.name} commits {label} at {where}", (task,), (member.name,)
                )
            self._committed[partition] = (offset, metadata.epoch)
            self._world.protocol.accepted(member, partition, offset, text)
            self._check_single_owner(member, task)

    def refused(self, name: str, code: int) -> None:
        """The coordinator will never take a commit."""
        self.note("M5", f"a commit of {name} was refused (error {code})", members=(name,))

    def ended(self, member: SimMember) -> None:
        """A member gave up for a reason that no cluster may give it.

        A coordinator that fails over forgets a static id's new holder unless a rebalance was
        completed since, and then fences it: that is Kafka's way, the supervisor starts it again.
        """
        if isinstance(member.ended, Failed) and not self._world.was_forgotten(member):
            self.note("membership", f"{member.name}: {member.ended.error}", members=(member.name,))

    # -- the whole -----------------------------------------------------------------------------

    def at_rest(self, unassigned: Iterable[TaskId]) -> None:
        """U1 and U13, for a group in which nothing is under way."""
        world = self._world
        waiting = set(unassigned)
        stays = any(member.instance.leaving is None for member in world.members)
        gathering = any(member.protocol.gathering for member in world.members)
        for task in world.cluster.specs:
            holders = [m.name for m in world.members if task in m.tasks(*_OPEN)]
            running = [m.name for m in world.members if m.worker.runs(task)]
            if len(holders) > 1 or holders != running:
                text = f"{world.cluster.label(task)} is with {holders} and runs in {running}"
                self.note("U1", text, (task,), holders)
            elif not holders and stays and task not in waiting and not gathering:
                self.note("U1", f"{world.cluster.label(task)} runs nowhere", (task,))
        for member in world.members:
            self._nothing_leaks(member)

    def _nothing_leaks(self, member: SimMember) -> None:
        wanted = member.manager.followed.copies.keys() - member.tasks(*OURS)
        if extra := member.worker.updater.kept.keys() - wanted:
            self.note("U13", f"{member.name} still follows copies", extra, (member.name,))
        held = {t for t, name in member.instance.locks.items() if name == member.name}
        if extra := held - wanted - member.worker.held:
            self.note("U13", f"{member.name} still locks folders", extra, (member.name,))


def _turned(state: GroupState) -> GroupState:
    """The same facts in another order."""
    members = tuple(
        attrs.evolve(member, copies=dict(reversed(member.copies.items())))
        for member in reversed(state.members)
    )
    return attrs.evolve(state, tasks=tuple(reversed(state.tasks)), members=members)
