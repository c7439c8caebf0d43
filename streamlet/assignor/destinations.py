"""Where each stateful task is, and where it should be: the two ends of every move.

First who runs what in this round, by claims and, for tasks nobody runs, by copies. Then where each
should end: what is on its way already counts as moved, what leaves needs a new home, and the rest
is balanced from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from streamlet.assignor.balance import balance
from streamlet.assignor.claims import Ownership
from streamlet.assignor.copies import best_first
from streamlet.assignor.learners import (
    drop_useless,
    keeps_learners,
    may_learn,
    take_up_again,
    under_way,
)
from streamlet.assignor.members import Bench
from streamlet.assignor.order import NOBODY, View
from streamlet.assignor.orphans import adopt, best_copy
from streamlet.assignor.target import Sheet, place


@attrs.define
class Destinations:
    """Owners and homes of the stateful tasks, decided step by step.

    ``owner``: who runs the task in this round. ``fresh``: tasks given to their owner only now, so
    that it has nothing to release yet. ``adopted``: fresh ones that went to a copy, and whose;
    ``homeless``: those without any copy. ``learning`` and ``ordered``: members that take a task
    over, by learning or by an order that is still open; ``learned``: those that learned it until
    now. ``going``: tasks that must leave their owners, for wherever they are needed. ``late``:
    tasks whose owner is out of time. ``unsettled``: a task that is being handed over has to go on
    from there, which can be planned only once it has come.
    """

    view: View
    claims: Sequence[Ownership]
    tasks: Sequence[int]
    sheet: Sheet
    bench: Bench
    owner: dict[int, int] = attrs.field(factory=dict)
    fresh: set[int] = attrs.field(factory=set)
    adopted: dict[int, int] = attrs.field(factory=dict)
    homeless: list[int] = attrs.field(factory=list)
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
        found = cls(view, claims, tasks, Sheet.of(view, tasks), Bench(view))
        found.give_orphans()
        found.resume_orders_and_learners()
        found.clear_leaving()
        if not calm:
            found.balance()
            found.unsettled = found.may_improve_once_handed_over()
        found.give_homeless()
        take_up_again(found.sheet, found.owner, found.learned, found.learning)
        return found

    def is_home(self, task: int) -> bool:
        """True if the task may stay where it runs."""
        home = self.sheet.home.get(task, NOBODY)
        return home in (NOBODY, self.view.instance_of[self.owner[task]])

    def next_owner(self, task: int) -> int:
        """The member that is taking the task over already, or nobody."""
        return self.ordered.get(task, self.learning.get(task, NOBODY))

    def give_orphans(self) -> None:
        """Leave tasks with those that claim them; give the others at once (L1 to L3)."""
        for task in self.tasks:
            if self.claims[task].owner != NOBODY:
                self.owner[task] = self.claims[task].owner
                self.sheet.put(task, self.view.instance_of[self.owner[task]])
        self.adopted = adopt(self.sheet, self.claims, self.tasks)
        for task, member in self.owner.items():
            self.bench.seat(task, member)
        for task in sorted(self.adopted):
            self._seat(task, self.adopted[task])
        self.homeless = [task for task in self.tasks if task not in self.owner]
        self.fresh = {
            task
            for task in self.tasks
            if self.claims[task].owner == NOBODY or self.claims[task].outright
        }

    def _seat(self, task: int, holder: int = NOBODY) -> None:
        """Find the member of its home that runs a task nobody ran."""
        home = self.sheet.home[task]
        if self.view.instances[home].stays:
            holder = self.bench.choose(task, home, holder)
        self.owner[task] = holder
        self.bench.seat(task, holder)

    def resume_orders_and_learners(self) -> None:
        """Count as moved what is on its way already, as long as that is of use."""
        self.sheet.able = self.view.instance_can_learn
        for task, owner in self.owner.items():
            orders = [m for m in self.claims[task].pending if self._may_take(task, m, owner)]
            if orders:
                self.ordered[task] = orders[0]
                self.sheet.put(task, self.view.instance_of[orders[0]])
                continue
            learner = under_way(self.view, task, owner)
            if learner != NOBODY:
                self.learning[task] = learner
                self.sheet.put(task, self.view.instance_of[learner])
        self.learned = dict(self.learning)
        drop_useless(self.sheet, self.owner, self.learning)

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
        view, sheet = self.view, self.sheet
        self.late = {task for task, owner in self.owner.items() if self._is_late(owner)}
        going = [task for task in self.owner if self._must_go(task)]
        for task in going:
            holder = best_copy(sheet, task, staying=True) if task in self.late else NOBODY
            sheet.put(task, NOBODY if holder == NOBODY else view.instance_of[holder])
            self.learning.pop(task, None)
        self.going = homeless = [task for task in going if task not in sheet.home]
        place(sheet, homeless, {task: self._likes(task) for task in homeless})
        sheet.able = view.instance_can_run
        # Some cannot wait for a member that learns: they will be revoked, then given.
        place(sheet, [t for t in homeless if t not in sheet.home and self._cannot_wait(t)], {})
        sheet.able = view.instance_can_learn

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

        What has to move anyway costs nothing to move elsewhere; and what nobody ran and nobody has
        a copy of is given only now.
        """
        movable = {
            task: owner
            for task, owner in self.owner.items()
            if task in self.sheet.home
            and self.is_home(task)
            and keeps_learners(self.view, owner)
            and self.view.instances[self.view.instance_of[owner]].stays
        }
        likes = {task: self._likes(task) for task in movable}
        movable |= {t: NOBODY for t in self.homeless + self.going if t in self.sheet.home}
        if balance(self.sheet, movable, likes):
            return
        # With weights a task may be on its way to a place that has turned out not to be the best.
        # Not as long as others are to move as well: where those end is not certain yet.
        while balance(self.sheet, dict.fromkeys(sorted(self.learning), NOBODY), {}):
            balance(self.sheet, movable, likes)
        for task, learner in list(self.learning.items()):
            if self.sheet.home[task] != self.view.instance_of[learner]:
                del self.learning[task]

    def may_improve_once_handed_over(self) -> bool:
        """True if a task whose order is still open had better end elsewhere: others joined since.

        Nobody asks for another round when it has been taken over, so the plan has to.
        """
        if not self.ordered or not self.sheet.outside():
            return False
        return bool(balance(self.sheet.copy(), self.ordered, {}))

    def give_homeless(self) -> None:
        """Give what nobody has a copy of to members of the instances found for it."""
        for task in self.homeless:
            if task in self.sheet.home:
                self._seat(task)
