"""The two ends of every move: where each stateful task is, and where it should be.

First the owners in this round, by claims and, for tasks without an owner, by copies: state that is
warm somewhere goes before balance there. The best copy takes the task, whatever its holder has to
do already, and learners put the loads right afterwards; without any copy the emptiest takes it, and
what is being learned does not count, only what is run. Then where each should end: what is on its
way already counts as moved, what leaves needs a new home, and the rest is balanced from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from streamlet.assignor.balance import balance
from streamlet.assignor.claims import Ownership, Worth, best_first, known_lag, worth
from streamlet.assignor.learners import (
    drop_useless,
    keeps_learners,
    may_learn,
    take_up_again,
    under_way,
)
from streamlet.assignor.loads import MemberLoad
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.target import TargetAssignment, place
from streamlet.assignor.values import Copy


@attrs.define
class Destinations:
    """Owners and homes of the stateful tasks, decided step by step.

    ``owner``: who runs the task in this round. ``fresh``: tasks given to their owner only now, so
    that it has nothing to release yet. ``adopted``: fresh ones that went to a copy, and whose;
    ``unplaced``: those without any copy. ``learning`` and ``ordered``: members that take a task
    over, by learning or by an order that is still open; ``learned``: those that learned it until
    now. ``going``: tasks that must leave their owners, for wherever they are needed. ``late``:
    tasks whose owner is out of time. ``unsettled``: a task that is being handed over has to go on
    from there, which can be planned only once it has come.
    """

    view: View
    claims: Sequence[Ownership]
    tasks: Sequence[int]
    assignment: TargetAssignment
    member_load: MemberLoad
    owner: dict[int, int] = attrs.field(factory=dict)
    fresh: set[int] = attrs.field(factory=set)
    adopted: dict[int, int] = attrs.field(factory=dict)
    unplaced: list[int] = attrs.field(factory=list)
    learning: dict[int, int] = attrs.field(factory=dict)
    learned: dict[int, int] = attrs.field(factory=dict)
    ordered: dict[int, int] = attrs.field(factory=dict)
    going: list[int] = attrs.field(factory=list)
    late: set[int] = attrs.field(factory=set)
    unsettled: bool = False

    @classmethod
    def of(
        cls, view: View, claims: Sequence[Ownership], tasks: Sequence[int], *, calm: bool
    ) -> Destinations:
        """Decide all; with ``calm`` nothing is moved for balance."""
        found = cls(view, claims, tasks, TargetAssignment.of(view, tasks), MemberLoad(view))
        found.give_orphans()
        found.resume_orders_and_learners()
        found.clear_leaving()
        if not calm:
            found.balance()
            found.unsettled = found.may_improve_once_handed_over()
        found.give_unplaced()
        take_up_again(found.assignment, found.owner, found.learned, found.learning)
        return found

    def is_home(self, task: int) -> bool:
        """True if the task may stay where it runs."""
        home = self.assignment.target_instance.get(task, ABSENT)
        return home in (ABSENT, self.view.instance_of[self.owner[task]])

    def next_owner(self, task: int) -> int:
        """The member that is taking the task over already, or absent."""
        return self.ordered.get(task, self.learning.get(task, ABSENT))

    def give_orphans(self) -> None:
        """Leave tasks with those that claim them; give the others at once (L1 to L3)."""
        for task in self.tasks:
            if self.claims[task].owner != ABSENT:
                self.owner[task] = self.claims[task].owner
                self.assignment.put(task, self.view.instance_of[self.owner[task]])
        self.adopted = adopt(self.assignment, self.claims, self.tasks)
        for task, member in self.owner.items():
            self.member_load.add(task, member)
        for task in sorted(self.adopted):
            self._seat(task, self.adopted[task])
        self.unplaced = [task for task in self.tasks if task not in self.owner]
        self.fresh = {
            task
            for task in self.tasks
            if self.claims[task].owner == ABSENT or self.claims[task].outright
        }

    def _seat(self, task: int, holder: int = ABSENT) -> None:
        """Find the member of its target instance for a task without an owner."""
        home = self.assignment.target_instance[task]
        if self.view.instances[home].stays:
            holder = self.member_load.choose(task, home, holder)
        self.owner[task] = holder
        self.member_load.add(task, holder)

    def resume_orders_and_learners(self) -> None:
        """Count as moved what is on its way already, as long as that is of use."""
        self.assignment.able = self.view.instance_can_learn
        for task, owner in self.owner.items():
            orders = [m for m in self.claims[task].pending if self._may_take(task, m, owner)]
            if orders:
                self.ordered[task] = orders[0]
                self.assignment.put(task, self.view.instance_of[orders[0]])
                continue
            learner = under_way(self.view, task, owner)
            if learner != ABSENT:
                self.learning[task] = learner
                self.assignment.put(task, self.view.instance_of[learner])
        self.learned = dict(self.learning)
        drop_useless(self.assignment, self.owner, self.learning)

    def _may_take(self, task: int, member: int, owner: int) -> bool:
        """True if an open order may be given again: also between members of one instance."""
        view = self.view
        if view.instance_of[member] == view.instance_of[owner]:
            stays = view.instances[view.instance_of[member]].stays
            return stays and view.members[member].learners and view.member_can_run(member, task)
        return may_learn(view, task, member, owner)

    def clear_leaving(self) -> None:
        """Find new homes for what leaving members run, and for what its owner cannot run.

        Where the time is up, the most advanced copy is the best home, ready or not.
        """
        view, assignment = self.view, self.assignment
        self.late = {task for task, owner in self.owner.items() if self._is_late(owner)}
        going = [task for task in self.owner if self._must_go(task)]
        for task in going:
            holder = best_copy(assignment, task, staying=True) if task in self.late else ABSENT
            assignment.put(task, ABSENT if holder == ABSENT else view.instance_of[holder])
            self.learning.pop(task, None)
        self.going = unplaced = [task for task in going if task not in assignment.target_instance]
        place(assignment, unplaced, {task: self._likes(task) for task in unplaced})
        assignment.able = view.instance_can_run
        # Some cannot wait for a member that learns: they will be revoked, then given.
        place(
            assignment,
            [t for t in unplaced if t not in assignment.target_instance and self._cannot_wait(t)],
            {},
        )
        assignment.able = view.instance_can_learn

    def _must_go(self, task: int) -> bool:
        owner = self.owner[task]
        if task in self.ordered:
            return False
        if task in self.late or not self.view.member_can_run(owner, task):
            return True
        stays = self.view.instances[self.view.instance_of[owner]].stays
        return not stays and task not in self.learning

    def _is_late(self, owner: int) -> bool:
        leaving = self.view.instances[self.view.instance_of[owner]].leaving
        deadline = None if leaving is None else leaving.deadline_ms
        return deadline is not None and deadline <= self.view.group.now_ms

    def _cannot_wait(self, task: int) -> bool:
        return task in self.late or not self.view.member_can_run(self.owner[task], task)

    def _likes(self, task: int) -> list[int]:
        """Instances that may learn the task and have a copy of it, the best copy first."""
        owner = self.owner[task]
        able = [m for m, _ in best_first(self.view, task) if may_learn(self.view, task, m, owner)]
        return list(dict.fromkeys(self.view.instance_of[member] for member in able))

    def balance(self) -> None:
        """Move what must move to bring every instance into its band, from where it is or will be.

        What has to move anyway costs nothing to move elsewhere; and what no member ran and no
        member has a copy of is given only now.
        """
        movable = {
            task: owner
            for task, owner in self.owner.items()
            if task in self.assignment.target_instance
            and self.is_home(task)
            and keeps_learners(self.view, owner)
            and self.view.instances[self.view.instance_of[owner]].stays
        }
        likes = {task: self._likes(task) for task in movable}
        movable |= {
            t: ABSENT for t in self.unplaced + self.going if t in self.assignment.target_instance
        }
        if balance(self.assignment, movable, likes):
            return
        # With weights a task may be on its way to a place that has turned out not to be the best.
        # Not as long as others are to move as well: where those end is not certain yet.
        while balance(self.assignment, dict.fromkeys(sorted(self.learning), ABSENT), {}):
            balance(self.assignment, movable, likes)
        for task, learner in list(self.learning.items()):
            if self.assignment.target_instance[task] != self.view.instance_of[learner]:
                del self.learning[task]

    def may_improve_once_handed_over(self) -> bool:
        """True if a task in hand-over should move on afterwards, because instances joined since.

        No member asks for another round when it has been taken over, so the plan has to. Without
        that a group stayed with one task here and three there.
        """
        if not self.ordered or not self.assignment.outside():
            return False
        return bool(balance(self.assignment.copy(), self.ordered, {}))

    def give_unplaced(self) -> None:
        """Give tasks without a copy to members of the instances found for them."""
        for task in self.unplaced:
            if task in self.assignment.target_instance:
                self._seat(task)


def adopt(
    assignment: TargetAssignment, claims: Sequence[Ownership], tasks: Sequence[int]
) -> dict[int, int]:
    """Find an instance for every task without an owner; tells which copy decided, by member.

    Tasks that no member can run stay unassigned.
    """
    unassigned = [task for task in tasks if claims[task].owner == ABSENT]
    chosen: dict[int, int] = {}
    for task in unassigned:
        holder = best_copy(assignment, task)
        if holder != ABSENT:
            chosen[task] = holder
            assignment.put(task, assignment.view.instance_of[holder])
    place(assignment, [task for task in unassigned if task not in chosen], {})
    return chosen


def best_copy(assignment: TargetAssignment, task: int, *, staying: bool = False) -> int:
    """The member whose copy is worth most and that may gain the task, or absent.

    ``staying`` looks only among those that stay.
    """
    view = assignment.view
    candidates = [
        (member, copy)
        for member, copy in best_first(view, task)
        if may_gain(view, member, copy)
        and (not staying or view.instances[view.instance_of[member]].stays)
    ]
    ranked = min(
        candidates, key=lambda held: _rank(assignment, task, *held), default=(ABSENT, None)
    )
    return ranked[0]


def may_gain(view: View, member: int, copy: Copy) -> bool:
    """True if the member may be given the task.

    One that leaves gains nothing; but what it has just stopped it may go on with until a member
    else is ready, as long as its time is not up.
    """
    instance = view.instances[view.instance_of[member]]
    if instance.leaving is None:
        return True
    deadline = instance.leaving.deadline_ms
    in_time = deadline is None or view.group.now_ms < deadline
    return worth(copy) is Worth.PREVIOUS_OWNER and in_time


def _rank(assignment: TargetAssignment, task: int, member: int, copy: Copy) -> tuple[int, ...]:
    """Copies that are ready differ little, so room decides among them; others differ by lag."""
    instance = assignment.view.instance_of[member]
    full = int(assignment.view.tasks[task].weight > assignment.instance_load.room(instance))
    load = assignment.instance_load.relative(instance)
    lag = known_lag(copy)
    if copy.ready:
        return (worth(copy), full, load, lag, member)
    return (worth(copy), lag, full, load, member)
