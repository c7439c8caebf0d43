"""The assignor: from what the members say of themselves to who does what in this generation.

A pure function without clock, input, output or chance: whoever leads, with whatever order of
members and tasks, comes to the same plan. What must be known from earlier rounds is in the
members' own words.
"""

from __future__ import annotations

from streamlet.assignor.allowance import Allowance
from streamlet.assignor.claims import resolve
from streamlet.assignor.draft import Draft
from streamlet.assignor.order import View
from streamlet.assignor.stateless import move_in_two_rounds
from streamlet.assignor.values import GroupState, Plan


def assign(group: GroupState) -> Plan:
    """Decide who runs what, who learns what and who gives up what in this generation.

    The tasks move by revoking them in one round and assigning them in the next; those that do not
    move are not touched.
    """
    view = View.of(group)
    claims = resolve(view)
    draft = Draft.of(view)
    allowance = Allowance.of(group.rules)
    sheets = [
        move_in_two_rounds(draft, claims, _of_kind(view, stateful), allowance)
        for stateful in (True, False)
    ]
    outside = sorted({i for sheet in sheets for i in sheet.outside()})
    revoking = any(member.revoke for member in draft.members)
    return Plan(
        members=draft.freeze(),
        follow_up_ms=0 if revoking or allowance.refused else None,
        unassigned=draft.ids(draft.unassigned),
        out_of_band=tuple(view.instances[i].name for i in outside),
    )


def _of_kind(view: View, stateful: bool) -> list[int]:
    return [number for number, info in enumerate(view.tasks) if info.stateful == stateful]
