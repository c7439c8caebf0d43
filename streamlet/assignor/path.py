"""What to do about stateful tasks in this round: every move on warm state.

The target says where a task should end; this says how it gets there. A task stays with its owner
until the member at its target is ready, and is then handed over by one order; until then that
member learns. Only a task without an owner, or one whose owner has run out of time, goes to a copy
that is not ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from streamlet.assignor.allowance import RELEASE_MS, Allowance
from streamlet.assignor.balance import balance
from streamlet.assignor.claims import Claim
from streamlet.assignor.copies import best_first
from streamlet.assignor.draft import Draft
from streamlet.assignor.learners import (
    Budget,
    Wish,
    drop_useless,
    keeps_learners,
    may_learn,
    under_way,
    urgent_first,
)
from streamlet.assignor.members import Bench, uneven
from streamlet.assignor.order import NOBODY, View
from streamlet.assignor.orphans import adopt, best_copy
from streamlet.assignor.target import Sheet, place
from streamlet.assignor.values import Role


def move_warm(
    draft: Draft,
    claims: Sequence[Claim],
    tasks: Sequence[int],
    allowance: Allowance,
    *,
    calm: bool = False,
) -> Outcome:
    """Plan the stateful tasks: orphans, target, hand-overs, learners, members of an instance."""
    round_ = _Round.of(draft, claims, tasks, allowance)
    round_.give_orphans()
    round_.resume_orders_and_learners()
    round_.clear_leaving()
    if not calm:
        round_.balance()
    round_.give_homeless()
    round_.keep_and_hand_over()
    round_.learn()
    if not calm:
        round_.even_out()
    return Outcome(round_.sheet, 0 if round_.hurry else RELEASE_MS if round_.uneven else None)


def go_on_learning(draft: Draft, tasks: Iterable[int]) -> None:
    """Let tasks that wait for a lost owner be learned meanwhile by whoever does so already."""
    view = draft.view
    for task in sorted(tasks):
        for member, copy in best_first(view, task):
            able = view.members[member].learners and view.tasks[task].stateful
            stays = view.instances[view.instance_of[member]].stays
            if copy.role is Role.LEARNER and able and stays:
                draft.members[member].learner.add(task)
                break


@attrs.frozen
class Outcome:
    """What is known after a kind of task was planned; ``next_ms``: another round is needed then."""

    sheet: Sheet
    next_ms: int | None = None


@attrs.define
class _Round:
    """One round's decisions on stateful tasks, in the order in which they are made.

    ``owner``: who runs the task in this round. ``fresh``: tasks given to their owner only now, so
    that it has nothing to release yet. ``adopted``: fresh ones that went to a copy, and whose;
    ``homeless``: fresh ones without any copy. ``learning`` and ``ordered``: members that take a
    task over, by learning or by an order that is still open; ``learned``: those that learned it
    until now. ``going``: tasks that must leave their owners, for wherever they are needed;
    ``forced``: tasks whose owner is out of time. ``ready_to_learn``: tasks that their
    heirs can have as soon as they are their learners. ``hurry``: another round is needed at once;
    ``uneven``: one is needed to spread tasks over members once they have them.
    """

    draft: Draft
    claims: Sequence[Claim]
    tasks: Sequence[int]
    allowance: Allowance
    sheet: Sheet
    bench: Bench
    budget: Budget
    owner: dict[int, int] = attrs.field(factory=dict)
    fresh: set[int] = attrs.field(factory=set)
    adopted: dict[int, int] = attrs.field(factory=dict)
    homeless: list[int] = attrs.field(factory=list)
    going: list[int] = attrs.field(factory=list)
    learning: dict[int, int] = attrs.field(factory=dict)
    learned: dict[int, int] = attrs.field(factory=dict)
    ordered: dict[int, int] = attrs.field(factory=dict)
    forced: set[int] = attrs.field(factory=set)
    wishes: list[Wish] = attrs.field(factory=list)
    ready_to_learn: set[int] = attrs.field(factory=set)
    hurry: bool = False
    uneven: bool = False

    @classmethod
    def of(
        cls, draft: Draft, claims: Sequence[Claim], tasks: Sequence[int], allowance: Allowance
    ) -> _Round:
        view = draft.view
        sheet = Sheet.of(view, tasks)
        return cls(draft, claims, tasks, allowance, sheet, Bench(view), Budget(view))

    @property
    def view(self) -> View:
        return self.draft.view

    # --- who runs what in this round -----------------------------------------------------------

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

    # --- where it should end -------------------------------------------------------------------

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
        """Whether an open order may be given again: also between members of one instance."""
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
        self.forced = {task for task, owner in self.owner.items() if self._is_late(owner)}
        going = [task for task in self.owner if self._must_go(task)]
        for task in going:
            holder = best_copy(sheet, task) if task in self.forced else NOBODY
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
        if task in self.forced or not self.view.member_can_run(owner, task):
            return True
        stays = self.view.instances[self.view.instance_of[owner]].stays
        return not stays and task not in self.learning

    def _is_late(self, owner: int) -> bool:
        leaving = self.view.instances[self.view.instance_of[owner]].leaving
        deadline = None if leaving is None else leaving.deadline_ms
        return deadline is not None and deadline <= self.view.group.now_ms

    def _cannot_wait(self, task: int) -> bool:
        return task in self.forced or not self.view.member_can_run(self.owner[task], task)

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
            and self._is_home(task)
            and keeps_learners(self.view, owner)
            and self.view.instances[self.view.instance_of[owner]].stays
        }
        likes = {task: self._likes(task) for task in movable}
        movable |= {t: NOBODY for t in self.homeless + self.going if t in self.sheet.home}
        balance(self.sheet, movable, likes)
        # With weights a task may be on its way to a place that has turned out not to be the best.
        while balance(self.sheet, dict.fromkeys(sorted(self.learning), NOBODY), {}):
            balance(self.sheet, movable, likes)
        for task, learner in list(self.learning.items()):
            if self.sheet.home[task] != self.view.instance_of[learner]:
                del self.learning[task]

    def give_homeless(self) -> None:
        """Give what nobody has a copy of to members of the instances found for it."""
        for task in self.homeless:
            if task in self.sheet.home:
                self._seat(task)
            else:
                self.draft.unassigned.add(task)

    def _is_home(self, task: int) -> bool:
        home = self.sheet.home.get(task, NOBODY)
        return home in (NOBODY, self.view.instance_of[self.owner[task]])

    # --- how it gets there ---------------------------------------------------------------------

    def keep_and_hand_over(self) -> None:
        """Keep what stays, order what is ready to be handed over, wish learners for the rest."""
        going: list[int] = []
        for task, owner in sorted(self.owner.items()):
            learner = self.learned.get(task, NOBODY)
            if learner != NOBODY and self.sheet.home[task] == self.view.instance_of[learner]:
                self.learning[task] = learner  # given up before, but no better place was found
            if task in self.ordered or not self._is_home(task):
                going.append(task)
                self.bench.rise(task, owner)
                if (member := self._heir(task)) != NOBODY:
                    self.bench.seat(task, member)
            else:
                self._keep(task)
        for task in going:
            if task in self.ordered:
                self.allowance.spend()
                self._order(task, self.ordered[task])
            else:
                self._send(task)

    def _heir(self, task: int) -> int:
        return self.ordered.get(task, self.learning.get(task, NOBODY))

    def _keep(self, task: int) -> None:
        owner = self.owner[task]
        if self.view.member_can_run(owner, task):
            self.draft.members[owner].active.add(task)
        else:
            self.draft.members[owner].revoke.add(task)

    def _order(self, task: int, heir: int) -> None:
        self.draft.hand_over(task, self.owner[task], heir)
        self.learning.pop(task, None)

    def _send(self, task: int) -> None:
        """Take a task one step nearer to its home."""
        owner = self.owner[task]
        heir = self._heir(task) if task in self.learning else self._choose_heir(task)
        supports = self.view.members[owner].learners
        releases = supports and self.view.group.rules.handover == "release" and heir != NOBODY
        running = task not in self.fresh
        late = task in self.forced
        ready = heir != NOBODY and self._is_ready(task, heir)
        if not self.view.member_can_run(owner, task) or (running and late and not releases):
            self.draft.members[owner].revoke.add(task)
        elif running and late:
            self.allowance.spend()
            self._order(task, heir)
        elif running and ready and releases and self.allowance.take():
            self._order(task, heir)
        elif running and ready and not supports and task in self.learning and self.allowance.take():
            self.draft.members[owner].revoke.add(task)
        else:
            self.draft.members[owner].active.add(task)
            if heir != NOBODY and not (running and ready and releases):
                self.wishes.append(Wish(task, owner, heir))
            # Nothing more will be heard of it: it is ready already, or its time is up.
            self.hurry |= not running and (late or ready)
            if ready and not releases:
                self.ready_to_learn.add(task)

    def _choose_heir(self, task: int) -> int:
        """The member of the new home that takes the task: by a ready copy, or by load."""
        home = self.sheet.home[task]
        able = [
            member
            for member, _ in best_first(self.view, task)
            if self.view.instance_of[member] == home and self.view.members[member].learners
        ]
        heir = self.bench.choose(task, home, able[0] if able else NOBODY, learners=True)
        if heir != NOBODY:
            self.bench.seat(task, heir)
        return heir

    def _is_ready(self, task: int, member: int) -> bool:
        copy = self.view.members[member].copies.get(self.view.tasks[task].task)
        return copy is not None and copy.ready

    def learn(self) -> None:
        """Let learners go on, then begin new ones as far as the budgets reach."""
        for task, member in self.learning.items():
            self._begin(task, self.owner[task], member)
        begun = set(self.learning)
        for wish in urgent_first(self.sheet, self.wishes):
            if wish.task in begun:
                continue
            member = self._with_budget(wish)
            if member != NOBODY:
                self._begin(wish.task, wish.owner, member)

    def _with_budget(self, wish: Wish) -> int:
        """The wished member, or another of its instance that may still begin to learn."""
        instance = self.view.instance_of[wish.heir]
        others = sorted(
            self.view.runners(instance, wish.task), key=lambda m: (self.bench.load[m], m)
        )
        for member in [wish.heir, *others]:
            if self.view.members[member].learners and self.budget.allows(member, wish.owner):
                return member
        return NOBODY

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
            for task, member in uneven(self.bench, number, owned + list(arriving.items())):
                if task in self.fresh or task in arriving:
                    self.uneven = True  # its member can give it up only once it has it
                elif self.allowance.take():
                    self._move_inside(task, member)

    def _move_inside(self, task: int, target: int) -> None:
        owner = self.owner[task]
        pair = (self.view.members[owner], self.view.members[target])
        self.draft.members[owner].active.discard(task)
        if self.view.group.rules.handover == "release" and all(member.learners for member in pair):
            self._order(task, target)
        else:
            self.draft.members[owner].revoke.add(task)
