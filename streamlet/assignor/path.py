"""Plans the stateful tasks in this round: every move on warm state.

The target says where a task should end; this says how it gets there. A task stays with its owner
until the member at its target is ready, and is then handed over by one order; until then that
member learns. Only a task without an owner, or one whose owner has run out of time, goes to a copy
that is not ready.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from streamlet.assignor.claims import Ownership, best_first
from streamlet.assignor.destinations import Destinations
from streamlet.assignor.draft import Draft
from streamlet.assignor.learners import Budget, LearnerRequest, urgent_first
from streamlet.assignor.loads import uneven
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.target import TargetAssignment
from streamlet.assignor.values import MemberPlan, Role
from streamlet.assignor.waits import RELEASE_MS, Allowance

#: Within how long all releases of a plan begin, ms: some eight hand-overs, one after the other. The
#: first begins when what the rebalance and the last of the learning brought about is over.
RELEASES_MS = 1_000
FIRST_RELEASE_MS = 200


def move_warm(
    draft: Draft,
    claims: Sequence[Ownership],
    tasks: Sequence[int],
    allowance: Allowance,
    budget: Budget,
    waiting: frozenset[int],
) -> PlanningOutcome:
    """Plan the stateful tasks: unassigned ones, target, hand-overs, learners, members.

    While some are ``waiting`` for their owner to come back nothing else is moved for balance.
    """
    calm = bool(waiting)
    _go_on_learning(draft, waiting, budget)
    found = Destinations.of(draft.view, claims, tasks, calm=calm)
    draft.unassigned.update(task for task in tasks if task not in found.owner)
    steps = _Steps(draft, found, allowance, budget)
    steps.keep_and_hand_over()
    steps.learn()
    if not calm:
        steps.even_out()
    later = steps.uneven or found.unsettled
    return PlanningOutcome(found.assignment, 0 if steps.hurry else RELEASE_MS if later else None)


def _go_on_learning(draft: Draft, tasks: frozenset[int], budget: Budget) -> None:
    """Let tasks that wait for a lost owner be learned meanwhile where they are already."""
    view = draft.view
    for task in sorted(tasks):
        for member, copy in best_first(view, task):
            able = view.members[member].learners and view.tasks[task].stateful
            stays = view.instances[view.instance_of[member]].stays
            if copy.role is Role.LEARNER and able and stays:
                draft.members[member].learner.add(task)
                budget.spend(member)
                break


@attrs.frozen
class PlanningOutcome:
    """The result of planning one kind of task; ``next_ms``: another round is needed then."""

    assignment: TargetAssignment
    next_ms: int | None = None


@attrs.define
class _Steps:
    """The orders to each member about its stateful tasks in this round.

    ``found`` says who runs each task, and where it is to end; its words are explained there.
    ``ready_to_learn``: tasks that their next_owners can have as soon as they are their learners.
    ``hurry``: another round is needed at once; ``uneven``: one is needed to spread tasks over
    members once they have them.
    """

    draft: Draft
    found: Destinations
    allowance: Allowance
    budget: Budget
    requests: list[LearnerRequest] = attrs.field(factory=list)
    ready_to_learn: set[int] = attrs.field(factory=set)
    hurry: bool = False
    uneven: bool = False

    @property
    def view(self) -> View:
        return self.draft.view

    def keep_and_hand_over(self) -> None:
        """Keep what stays, order what is ready to be handed over, ask for learners for the rest."""
        going: list[int] = []
        for task, owner in sorted(self.found.owner.items()):
            if task in self.found.ordered or not self.found.is_home(task):
                going.append(task)
                self.found.member_load.remove(task, owner)
                if (next_owner := self.found.next_owner(task)) != ABSENT:
                    self.found.member_load.add(task, next_owner)
            else:
                self._keep(task)
        for task in going:
            if task in self.found.ordered:
                self.allowance.spend()
                self._order(task, self.found.ordered[task])
            else:
                self._send(task)

    def _keep(self, task: int) -> None:
        owner = self.found.owner[task]
        if self.view.member_can_run(owner, task):
            self.draft.members[owner].active.add(task)
        else:
            self.draft.members[owner].revoke.add(task)

    def _order(self, task: int, next_owner: int) -> None:
        self.draft.hand_over(task, self.found.owner[task], next_owner)
        self.found.learning.pop(task, None)

    def _send(self, task: int) -> None:
        """Take a task one step nearer to its home."""
        owner = self.found.owner[task]
        next_owner = (
            self.found.next_owner(task)
            if task in self.found.learning
            else self._choose_next_owner(task)
        )
        supports = self.view.members[owner].learners
        releases = supports and self.view.group.rules.handover == "release" and next_owner != ABSENT
        running = task not in self.found.fresh
        late = task in self.found.late
        ready = next_owner != ABSENT and self._is_ready(task, next_owner)
        if not self.view.member_can_run(owner, task) or (running and late and not releases):
            self.draft.members[owner].revoke.add(task)
        elif running and late:
            self.allowance.spend()
            self._order(task, next_owner)
        elif running and ready and releases and self.allowance.take():
            self._order(task, next_owner)
        elif (
            running
            and ready
            and not supports
            and task in self.found.learning
            and self.allowance.take()
        ):
            self.draft.members[owner].revoke.add(task)
        else:
            self.draft.members[owner].active.add(task)
            if next_owner != ABSENT and not (running and ready and releases):
                self.requests.append(LearnerRequest(task, owner, next_owner))
            # Nothing more will be heard of it: it is ready already, or its time is up.
            self.hurry |= not running and (late or ready)
            if ready and not releases and (supports or task not in self.found.learning):
                self.ready_to_learn.add(task)

    def _choose_next_owner(self, task: int) -> int:
        """The member of the new home that takes the task: by a ready copy, or by load."""
        home = self.found.assignment.target_instance[task]
        able = [
            member
            for member, _ in best_first(self.view, task)
            if self.view.instance_of[member] == home and self.view.members[member].learners
        ]
        next_owner = self.found.member_load.choose(
            task, home, able[0] if able else ABSENT, learners=True
        )
        if next_owner != ABSENT:
            self.found.member_load.add(task, next_owner)
        return next_owner

    def _is_ready(self, task: int, member: int) -> bool:
        copy = self.view.members[member].copies.get(self.view.tasks[task].task)
        return copy is not None and copy.ready

    def learn(self) -> None:
        """Let learners go on, then begin new ones as far as the budgets reach."""
        for task, member in self.found.learning.items():
            self._begin(task, self.found.owner[task], member)
        begun = set(self.found.learning)
        for request in urgent_first(self.found.assignment, self.requests):
            if request.task in begun:
                continue
            member = self._with_budget(request)
            if member != ABSENT:
                self._begin(request.task, request.owner, member)

    def _with_budget(self, request: LearnerRequest) -> int:
        """The wished member, or another of its instance that may still begin to learn."""
        instance = self.view.instance_of[request.next_owner]
        others = sorted(
            self.view.runners(instance, request.task),
            key=lambda m: (self.found.member_load.load[m], m),
        )
        for member in [request.next_owner, *others]:
            if self.view.members[member].learners and self.budget.allows(member, request.owner):
                return member
        return ABSENT

    def _begin(self, task: int, owner: int, member: int) -> None:
        self.budget.spend(member, owner)
        self.hurry |= task in self.ready_to_learn
        self.draft.members[member].learner.add(task)
        if task in self.draft.members[owner].active:
            self.draft.members[owner].being_learned.add(task)

    def even_out(self) -> None:
        """Let the members of one instance have alike many tasks; their state need not be copied."""
        for number, instance in enumerate(self.view.instances):
            if len(instance.members) == 1 or not instance.stays:
                continue
            parts = [(member, self.draft.members[member]) for member in instance.members]
            owned = [(t, m) for m, part in parts for t in part.active - part.being_learned]
            arriving = {t: m for m, part in parts for t in part.pending}
            for task, member in uneven(
                self.found.member_load, number, owned + list(arriving.items())
            ):
                if task in self.found.fresh or task in arriving or self._is_held(task, number):
                    self.uneven = True  # its member can give it up only once it has it
                elif self.allowance.take():
                    self._move_inside(task, member)

    def _is_held(self, task: int, instance: int) -> bool:
        """True if another member of the instance reads the task's copy: its owner waits for that.

        They have one folder. Were the reader to take the task over, it would wait for the owner.
        """
        owner = self.found.owner[task]
        return any(
            self.view.instance_of[member] == instance
            and member != owner
            and copy.role in (Role.LEARNER, Role.STANDBY)
            for member, copy in self.view.holders[task]
        )

    def _move_inside(self, task: int, target: int) -> None:
        owner = self.found.owner[task]
        pair = (self.view.members[owner], self.view.members[target])
        self.draft.members[owner].active.discard(task)
        if self.view.group.rules.handover == "release" and all(member.learners for member in pair):
            self._order(task, target)
        else:
            self.draft.members[owner].revoke.add(task)


def release_delays(members: Mapping[str, MemberPlan]) -> dict[str, int]:
    """The delay of each member that is to release tasks, by id, ms from when it learns of it."""
    owners = sorted(member for member, part in members.items() if part.release)
    return {
        member: FIRST_RELEASE_MS + RELEASES_MS * number // len(owners)
        for number, member in enumerate(owners)
    }
