"""The plan while it is being made: who gets which order, by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs

from streamlet.assignor.claims import Ownership
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.values import MemberPlan
from streamlet.types import TaskId


@attrs.define
class MemberDraft:
    """One member's part.

    A task is in at most one of the first six, but for release with standby.
    """

    active: set[int] = attrs.field(factory=set)
    learner: set[int] = attrs.field(factory=set)
    standby: set[int] = attrs.field(factory=set)
    release: dict[int, int] = attrs.field(factory=dict)
    pending: dict[int, int] = attrs.field(factory=dict)
    revoke: set[int] = attrs.field(factory=set)
    being_learned: set[int] = attrs.field(factory=set)
    awaited: set[int] = attrs.field(factory=set)
    leave: bool = False


@attrs.define
class Draft:
    """Every member's part, and what concerns all."""

    view: View
    members: list[MemberDraft]
    unassigned: set[int] = attrs.field(factory=set)

    @classmethod
    def of(cls, view: View) -> Draft:
        """A plan that orders nothing yet."""
        return cls(view, [MemberDraft() for _ in view.members])

    def hand_over(self, task: int, source: int, target: int) -> None:
        """Order one member to release the task and tell the other to wait for its mark."""
        self.members[source].release[task] = target
        self.members[target].pending[task] = source

    def counts(self) -> Counter[int]:
        """The number of tasks that each member has or is about to have; 0 if some weigh more.

        Weights cannot always be evened out in one round, and the next must not try again.
        """
        if any(info.weight != 1 for info in self.view.tasks):
            return Counter()
        parts = enumerate(self.members)
        return Counter({n: len(p.active | p.pending.keys() | p.learner) for n, p in parts})

    def freeze(self) -> dict[str, MemberPlan]:
        """The parts as values, by member id."""
        return {
            self.view.member_id(number): self._freeze(draft)
            for number, draft in enumerate(self.members)
        }

    def _freeze(self, draft: MemberDraft) -> MemberPlan:
        return MemberPlan(
            active=self.ids(draft.active),
            learner=self.ids(draft.learner),
            standby=self.ids(draft.standby),
            release=self._by_id(draft.release),
            pending=self._by_id(draft.pending),
            revoke=self.ids(draft.revoke),
            leave=draft.leave,
            being_learned=self.ids(draft.being_learned),
            awaited=self.ids(draft.awaited),
        )

    def ids(self, tasks: set[int]) -> frozenset[TaskId]:
        """Task numbers as ids."""
        return frozenset(self.view.tasks[task].task for task in tasks)

    def _by_id(self, orders: dict[int, int]) -> dict[TaskId, str]:
        return {
            self.view.tasks[task].task: self.view.member_id(orders[task]) for task in sorted(orders)
        }


def order_to_leave(draft: Draft) -> None:
    """Members whose time is up leave as soon as they own nothing any more."""
    view = draft.view
    for number, part in enumerate(draft.members):
        leaving = view.instances[view.instance_of[number]].leaving
        deadline = None if leaving is None else leaving.deadline_ms
        part.leave = deadline is not None and deadline <= view.group.now_ms


def close_down(draft: Draft, claims: Sequence[Ownership]) -> None:
    """Plan the end of a group whose members all leave: tasks are committed and go to no member."""
    for part in draft.members:
        part.leave = True
    for task, claim in enumerate(claims):
        if claim.owner == ABSENT:
            draft.unassigned.add(task)
        else:
            draft.members[claim.owner].revoke.add(task)
