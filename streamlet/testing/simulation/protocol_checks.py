"""The duties of the hand-over protocol, watched on the wire, in the changelogs and in each member.

``checks`` says what must never be seen of a task. These say which step comes before which, so that
a step left out shows even where nothing worse came of it this time. Rules have the numbers of
docs/rules/groups.md; F is the change of a group's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamlet.assignor.values import Copy, GroupState, Role
from streamlet.coordinator.commit_metadata import CommitMetadata, Positions
from streamlet.coordinator.events import CommitOutcome
from streamlet.coordinator.messages import JoinGroup, OffsetCommit, Request
from streamlet.coordinator.states import BETWEEN, MembershipState
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.task_record import CARRIED_OUT, OURS, TaskStage
from streamlet.testing.simulation.counting import input_of, task_of
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember
    from streamlet.testing.simulation.world import World

#: Stages of claims that leave a stopped task for good, with what its last commit must have come to.
_AFTER_STOP = {
    TaskStage.RELEASED: ("M5", {CommitOutcome.ACCEPTED, CommitOutcome.UNKNOWN}),
    TaskStage.HELD: ("F2", {CommitOutcome.ACCEPTED}),
}
#: How late a worker may be with giving a hand-over back: it may be in a user function.
_SLACK_MS = 500
#: A hand-over may take so many times as long as the slowest message.
_TRIPS = 20


class ProtocolChecks:
    """Notes what is broken with ``Checks``."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: The active period that was claimed last: epoch, and the process that did.
        self._claimed: dict[TopicPartition, tuple[int, int]] = {}
        #: The last commit that was a marker: epoch, offset and text.
        self._marked: dict[TopicPartition, tuple[int, int, str]] = {}
        self._committed: dict[TopicPartition, int] = {}
        #: When each process sent its last JoinGroup.
        self._joined_ms: dict[int, int] = {}
        self._by: dict[TopicPartition, str] = {}
        #: Active periods of which records were given up, by process.
        self._undelivered: set[tuple[int, TaskId, int]] = set()

    def _note(self, rule: str, text: str, task: TaskId, member: SimMember) -> None:
        label = self._world.cluster.label(task)
        self._world.checks.note(rule, f"{member.name}, {label}: {text}", (task,), (member.name,))

    # -- commits -------------------------------------------------------------------------------

    def begun(self, member: SimMember, partition: TopicPartition, offset: int) -> None:
        """The task was claimed before the simulation began."""
        self._claimed[partition] = 1, member.uid
        self._committed[partition] = offset

    def sent(self, member: SimMember, request: Request) -> None:
        """M2: no commit is begun between JoinGroup and SyncGroup, unless the join is parked."""
        state, after_ms = member.machine.view.state, member.config.parked_commit_after_ms
        if isinstance(request, JoinGroup):
            self._joined_ms[member.uid] = self._world.now_ms
        if not isinstance(request, OffsetCommit) or state not in BETWEEN:
            return
        waits_ms = self._world.now_ms - self._joined_ms.get(member.uid, self._world.now_ms)
        parked = state is MembershipState.JOINING and after_ms is not None and waits_ms >= after_ms
        if not parked:
            task = task_of(min(request.offsets))
            self._note("M2", f"a commit is begun while {state}", task, member)

    def joins_blocked(self, member: SimMember, generation: int) -> None:
        """M5: a unit is begun by an order of the member's generation."""
        if generation != member.machine.view.generation:
            text = f"{member.name} begins a unit by an order of generation {generation}"
            self._world.checks.note("M5", text, members=(member.name,))

    def accepted(
        self, member: SimMember, partition: TopicPartition, offset: int, text: str
    ) -> None:
        """Check C4, M4, M5 and M7 for an accepted commit."""
        metadata = CommitMetadata.from_text(text)
        assert metadata is not None
        task, before = task_of(partition), self._committed.get(partition, 0)
        epoch, claimant = self._claimed.get(partition, (0, 0))
        if metadata.epoch > epoch:
            self._claimed[partition] = metadata.epoch, member.uid
            if (
                metadata.state.epoch >= metadata.epoch
                or offset != before
                or metadata.release_to is not None
            ):
                self._note("M4", f"epoch {metadata.epoch} begins without a claim", task, member)
        elif metadata.epoch == epoch and claimant != member.uid:
            self._note("M4", f"epoch {epoch} was claimed by another process", task, member)
        elif metadata.epoch == epoch and self._by.get(partition, metadata.by) != metadata.by:
            self._note("F4", f"it goes on in epoch {epoch} under another member id", task, member)
        self._by[partition] = metadata.by
        if (member.uid, task, metadata.epoch) in self._undelivered:
            self._note("C4", "it commits though records were not delivered", task, member)
        marked = self._marked.get(partition, (0, 0, ""))
        if metadata.epoch == marked[0] and (offset, text) != marked[1:]:
            self._note("M5", "it commits behind its marker", task, member)
        if metadata.release_to is not None:
            self._marked[partition] = metadata.epoch, offset, text
            if not self._ordered(member.machine.view.member_id, task, metadata):
                self._note("M7", "its marker answers no order of its generation", task, member)
        self._committed[partition] = offset

    def _ordered(self, member_id: str, task: TaskId, metadata: CommitMetadata) -> bool:
        plans = [
            one.plan for key, one in self._world.planned.items() if key[0] == metadata.generation
        ]
        parts = [plan.members[metadata.by] for plan in plans if metadata.by in plan.members]
        return any(part.release.get(task) == metadata.release_to for part in parts)

    def gave_up(self, member: SimMember) -> None:
        """Note that records of a member were given up: all its tasks are to be lost.

        The epoch of one without a claim may be that of its next period.
        """
        claimed = [one for one in member.worker.registry.tasks.values() if one.claimed]
        self._undelivered |= {(member.uid, active.task, active.epoch) for active in claimed}

    def wrote(self, member: SimMember, active: ActiveTask) -> None:
        """M4: nothing goes to a changelog before the claim of its epoch."""
        claimed = self._claimed.get(input_of(active.task), (0, 0))
        if claimed != (active.epoch, member.uid):
            self._note("M4", "it writes to the changelog without a claim", active.task, member)

    def offsets(self) -> Mapping[TopicPartition, int]:
        """The offsets committed so far."""
        return dict(self._committed)

    # -- members -------------------------------------------------------------------------------

    def wanted(self, member: SimMember, task: TaskId, positions: Positions | None) -> None:
        """M7: a marker that a member begins with is of the order it holds."""
        if positions is None or member.loss_unseen:
            return
        orders = {member.manager.generation, member.generation_before}
        own = {(member.machine.view.member_id, generation) for generation in orders}
        answers = {(one.release_to, one.generation) for one in positions.metadata if one}
        if len(answers) != 1 or not answers <= own:
            self._note("M7", f"it begins with a marker for {answers}, not {own}", task, member)

    def delivered(self, member: SimMember, orders: Assignment, nonce: int | None) -> None:
        """M9: no process is given the moves that its predecessor was ordered to make."""
        moves = orders.release or orders.pending or orders.revoke
        if moves and nonce is not None and orders.answers_nonce != nonce:
            self._world.checks.note(
                "M9", f"{member.name} gets orders of its predecessor", members=(member.name,)
            )

    def described(self, member: SimMember, copies: Mapping[TaskId, Copy]) -> None:
        """M6 and F3: of stopped tasks those that are held are active, and no others.

        The last commit of the others may have arrived.
        """
        for stage, rule, wrong in (
            (TaskStage.STOPPED, "M6", {Role.ACTIVE}),
            (TaskStage.HELD, "F3", set(Role) - {Role.ACTIVE}),
        ):
            for task in member.tasks(stage) & copies.keys():
                if copies[task].role in wrong:
                    self._note(rule, f"{stage}, it is said to be {copies[task].role}", task, member)

    def went_round(
        self,
        member: SimMember,
        before: Mapping[TaskId, TaskStage],
        outcomes: Mapping[TaskId, CommitOutcome],
    ) -> None:
        """M1, M4, M5, M8 and F2, of a worker that knows of all that happened."""
        world, slowest_ms = self._world, self._world.scenario.network.delay_ms[1]
        slack_ms = _SLACK_MS + _TRIPS * slowest_ms
        overdue_ms = world.now_ms - world.settings.handover_timeout_ms - slack_ms
        claims, tasks = member.manager.claims, member.worker.registry.tasks
        for task, claim in claims.items():
            stage = None if task not in tasks else tasks[task].stage
            if stage not in CARRIED_OUT[claim.stage]:
                self._note("M1", f"it is {stage} under a claim that is {claim.stage}", task, member)
            elif claim.claimed and claim.stage in OURS and not (stage and tasks[task].claimed):
                self._note("M4", "its claim counts though it was not made", task, member)
            if claim.stage is TaskStage.WAITING and claim.since_ms < overdue_ms:
                self._note("M8", "its hand-over is not given back", task, member)
            rule, good = _AFTER_STOP.get(claim.stage, ("", set()))
            if rule and before.get(task) is TaskStage.STOPPED and outcomes.get(task) not in good:
                text = f"it is {claim.stage} after a commit that was {outcomes.get(task)}"
                self._note(rule, text, task, member)
        opening = {task for task, claim in claims.items() if claim.stage is TaskStage.OPENING}
        for task in member.worker.activation.tasks - opening:
            self._note("M1", "it is opened though it is not ours, or runs", task, member)
        for task in tasks.keys() - claims.keys():
            self._note("M1", "it is open without a claim", task, member)

    def late(self, member: SimMember, reason: str) -> None:
        """Check liveness: in a calm group no hand-over reaches its time limit."""
        world, limit_ms = self._world, self._world.settings.handover_timeout_ms
        slowest_ms = world.scenario.network.delay_ms[1]
        calm = world.now_ms - max(world.disturbed_ms, world.slow_until_ms) > limit_ms
        if calm and limit_ms > _TRIPS * slowest_ms and not any(m.paused for m in world.members):
            world.checks.note("liveness", f"{member.name}: {reason}", members=(member.name,))

    def began(self, member: SimMember, task: TaskId) -> None:
        """A task whose copy was to be promoted was opened and read instead."""
        self._note("promotion", "it begins without the copy that was there", task, member)

    def waits_for_itself(self, member: SimMember, task: TaskId) -> None:
        """A task is to be opened, whose folder the worker itself closes only after a pause."""
        self._note("closing", "it waits for a folder that the worker closes late", task, member)

    # -- changes of the group's type -----------------------------------------------------------

    def planned(self, leader: SimMember, state: GroupState) -> None:
        """F: leaders plan nothing before all members have come into the other group."""
        there = [self._world.by_id[member.member_id] for member in state.members]
        for member in there:
            migration = member.protocol.migration
            if migration is None or migration.protocol_type != leader.protocol.protocol_type:
                continue
            if len(there) < migration.members and self._world.now_ms < migration.until_ms:
                text = f"{leader.name} plans for {len(there)} members of {migration.members}"
                self._world.checks.note("F", text, members=(leader.name,))

    def ordered_over(self, member: SimMember, generation: int) -> None:
        """F1: the type is not changed while a task is on its way."""
        for (number, _), made in self._world.planned.items():
            parts = made.plan.members.values() if number == generation else ()
            if any(part.release or part.pending or part.revoke for part in parts):
                text = f"{member.name} is ordered over while tasks move"
                self._world.checks.note("F1", text, members=(member.name,))

    def gathered(
        self, subscriptions: Mapping[str, Subscription], given: Mapping[str, Assignment]
    ) -> None:
        """F5, L5: the newest claim on each task counts."""
        claims: dict[TaskId, list[tuple[int, str]]] = {}
        for member_id, one in subscriptions.items():
            for task, copy in one.copies.items():
                if copy.role is Role.ACTIVE:
                    claims.setdefault(task, []).append((copy.generation, member_id))
        for task, found in claims.items():
            newest = max(found)
            tied = sum(generation == newest[0] for generation, _ in found) > 1
            part = given.get(newest[1])
            if tied or part is None or part.error:
                continue  # or the leader could not read it
            if task not in part.active | part.release.keys() | part.revoke:
                text = f"{self._world.name_of(newest[1])} is not given what it claims last"
                self._world.checks.note("F5", text, (task,))
