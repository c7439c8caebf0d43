"""An application's own assignor: its plans are validated before a member acts on them.

It is the user's code and it decides for the whole group. A plan that breaks one of the rules U1 to
U13 (``assignor.validate``), or none at all because it raised, is not used: streamlet's own plan
takes its place and the log says which rule and why. Failing instead would take down one leader
after the other, each over the same code, until no member is left to run the tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from streamlet.assignor.assign import assign
from streamlet.assignor.validate import validate
from streamlet.assignor.values import GroupState, MemberState, Plan, Violation
from streamlet.errors import error_text
from streamlet.logs import get_logger
from streamlet.rebalance.leader import Assignor

log = get_logger(__name__)


class CustomAssignor:
    """An assignor that asks ``own`` first, and streamlet's where that has no plan that holds.

    Args:
        own: the user's.
    """

    def __init__(self, own: Assignor) -> None:
        self._own = own
        #: Why the last plan was refused, None if it was used.
        self.refused: str | None = None

    def __call__(self, group: GroupState) -> Plan:
        """Plan; never raises for what ``own`` does."""
        try:
            plan = self._own(_untouchable(group))
            self.refused = _wrong(group, plan)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an exit would end the membership's thread without a word
            self.refused = f"it failed: {error_text(error)}"
        else:
            if self.refused is None:
                return plan
        log.error(
            "the application's assignor has no plan for generation %d, streamlet's own is used: %s",
            group.generation,
            self.refused,
        )
        return assign(group)


def _wrong(group: GroupState, plan: object) -> str | None:
    """The faults of an answer, as text; empty if there are none."""
    if not isinstance(plan, Plan):
        return f"expected a Plan, it returned {type(plan).__name__}"
    by_rule: dict[str, list[Violation]] = {}
    for broken in validate(group, plan, custom=True):
        by_rule.setdefault(broken.rule, []).append(broken)
    return "it broke " + "; ".join(map(_named, by_rule.values())) if by_rule else None


def _named(broken: Sequence[Violation]) -> str:
    """A broken rule with one example: of a large group there may be thousands."""
    more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"{broken[0].rule}: {broken[0].text}{more}"


def _untouchable(group: GroupState) -> GroupState:
    """A copy of the facts with dicts of its own: what ``own`` does to them is lost."""
    return attrs.evolve(group, members=tuple(map(_copied, group.members)))


def _copied(member: MemberState) -> MemberState:
    return attrs.evolve(member, copies=dict(member.copies), tags=dict(member.tags))
