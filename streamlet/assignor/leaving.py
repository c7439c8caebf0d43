"""Orders to leave: at a deadline, or when no instance stays."""

from __future__ import annotations

from collections.abc import Sequence

from streamlet.assignor.claims import Ownership
from streamlet.assignor.draft import Draft
from streamlet.assignor.order import ABSENT


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
