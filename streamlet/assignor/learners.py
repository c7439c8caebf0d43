"""Plans learners: those that go on, and new ones within the budgets.

A learner is useful as long as its task would be better off where it learns: it then keeps its task
from round to round, whichever member leads. New ones are chosen for the members that leave first,
then for the fullest; what the budgets do not allow waits for the next round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from streamlet.assignor.claims import known_lag
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.target import TargetAssignment
from streamlet.assignor.values import Role


def under_way(view: View, task: int, owner: int) -> int:
    """The most advanced member that learns the task in order to take it over, or absent."""
    if not keeps_learners(view, owner):
        return ABSENT
    learning = [
        (not copy.ready, known_lag(copy), member)
        for member, copy in view.holders[task]
        if copy.role is Role.LEARNER and may_learn(view, task, member, owner)
    ]
    return min(learning, default=(True, 0, ABSENT))[-1]


def keeps_learners(view: View, owner: int) -> bool:
    """True if the owner's tasks may be learned: one without learner support keeps what it has."""
    return view.members[owner].learners or not view.instances[view.instance_of[owner]].stays


def may_learn(view: View, task: int, member: int, owner: int) -> bool:
    """True if the member may learn a task that the owner runs."""
    instance = view.instance_of[member]
    return (
        view.instances[instance].stays
        and instance != view.instance_of[owner]
        and view.members[member].learners
        and view.member_can_run(member, task)
    )


def drop_useless(
    assignment: TargetAssignment, owners: dict[int, int], learning: dict[int, int]
) -> None:
    """Stop learning tasks that are better kept by their owners than moved back later.

    The least advanced goes first. Changes the assignment and ``learning`` in place.
    """
    order = sorted(
        learning, key=lambda task: (_progress(assignment.view, task, learning[task]), task)
    )
    useless: list[int] = []
    before = ABSENT
    while before != len(useless):
        before = len(useless)
        for task in order:
            if task not in useless and not _is_useful(assignment, task, owners[task]):
                assignment.put(task, assignment.view.instance_of[owners[task]])
                useless.append(task)
    for task in reversed(useless):
        # One given up early may do no harm now that others have been given up as well.
        assignment.put(task, assignment.view.instance_of[learning[task]])
        if not _is_useful(assignment, task, owners[task]):
            assignment.put(task, assignment.view.instance_of[owners[task]])
            del learning[task]


def take_up_again(
    assignment: TargetAssignment,
    owners: dict[int, int],
    learned: dict[int, int],
    learning: dict[int, int],
) -> None:
    """Go on learning what was given up, where that was of no use or does no harm after all.

    Tasks without an owner are placed before learners are looked at, and may have gone elsewhere
    since. The most advanced goes first. Changes the assignment and ``learning`` in place.
    """
    view = assignment.view
    given_up = [
        task for task in learned if task not in learning and task in assignment.target_instance
    ]
    given_up.sort(key=lambda task: (_progress(view, task, learned[task]), -task), reverse=True)
    for task in given_up:
        target, home = view.instance_of[learned[task]], view.instance_of[owners[task]]
        if assignment.target_instance[task] == home != target:
            assignment.put(task, target)
            if not _is_useful(assignment, task, owners[task]):
                assignment.put(task, home)
        if assignment.target_instance[task] == target:
            learning[task] = learned[task]


def _is_useful(assignment: TargetAssignment, task: int, owner: int) -> bool:
    """True if the move under way should go on.

    Not if giving it up lowers the excess; and not if it only shifts the excess, for then the task
    would have to move once more.
    """
    view, instance_load = assignment.view, assignment.instance_load
    home, weight = view.instance_of[owner], view.tasks[task].weight
    relief = instance_load.change(assignment.target_instance[task], -weight)
    cost = instance_load.change(home, weight) if view.instances[home].stays else 0
    return relief + cost > 0 or (relief + cost == 0 and relief >= 0)


def _progress(view: View, task: int, learner: int) -> tuple[bool, int]:
    copy = view.members[learner].copies[view.tasks[task].task]
    return (copy.ready, -known_lag(copy))


@attrs.frozen
class LearnerRequest:
    """A task that ``next_owner`` should learn to take it over from its owner."""

    task: int
    owner: int
    next_owner: int


@attrs.define
class Budget:
    """Learners counted per member, per source member and in all."""

    view: View
    of_member: Counter[int] = attrs.field(factory=Counter)
    of_source: Counter[int] = attrs.field(factory=Counter)
    of_group: int = 0

    def spend(self, member: int, source: int = ABSENT) -> None:
        """Count a learner, also one that goes on from earlier rounds.

        The successor of a standby counts too; it is not learned from any member.
        """
        self.of_member[member] += 1
        self.of_source[source] += 1
        self.of_group += 1

    def allows(self, member: int, source: int = ABSENT) -> bool:
        """True if one more is within all three."""
        rules = self.view.group.rules
        return (
            self.of_member[member] < rules.max_learners_member
            and (source == ABSENT or self.of_source[source] < rules.max_learners_source)
            and self.of_group < rules.max_learners_group
        )


def urgent_first(
    assignment: TargetAssignment, requests: Iterable[LearnerRequest]
) -> list[LearnerRequest]:
    """Sort requests: of members that leave first, by their deadlines; then of the fullest."""

    def urgency(request: LearnerRequest) -> tuple[int, ...]:
        source = assignment.view.instance_of[request.owner]
        leaving = assignment.view.instances[source].leaving
        deadline = None if leaving is None else leaving.deadline_ms
        return (
            int(leaving is None),
            int(deadline is None),
            deadline or 0,
            -assignment.instance_load.relative(source),
            request.task,
        )

    return sorted(requests, key=urgency)
