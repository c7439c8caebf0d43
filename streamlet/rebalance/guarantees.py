"""Members of one group with different guarantees; pure.

``processing.guarantee`` is changed one instance at a time, so for a while members commit by
transactions and members do not. Who takes a task over then has to tell what counts of what the
other wrote. In changelogs it can. In repartition topics it can where all members read committed
records: what a transaction wrote there counts by itself, what is written without one bears a prefix
that members of both guarantees read, and an owner under ``exactly_once`` goes on with the prefixes
of its predecessor until these are decided (``edges.forms``, ``edges.held_writer``). Members under
``read_uncommitted`` would count aborted records; where there are any, the others are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.assignor.values import Role
from streamlet.rebalance.values import Subscription

#: Roles of tasks that a member runs, or was promised.
_RUNS = frozenset({Role.ACTIVE, Role.PENDING})
#: Guarantees by whether members commit by transactions.
_NAMES = {True: "exactly_once", False: "at_least_once"}
#: The reason why a member under exactly_once cannot follow a leader of an earlier version.
LEADER_TOO_OLD = (
    "processing.guarantee=exactly_once: an instance that runs has a version of streamlet that does "
    "not know it. This instance does not join; nothing was changed. Upgrade all instances first"
)


def mixed(subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """The members whose guarantee is not that of the others, with the reason, if all must agree.

    The guarantee of those that run tasks counts, and of several that of the process which began
    first; where none runs any, that of the process which began last.
    """
    saying = subscriptions.values()
    if len({one.exactly_once for one in saying}) < 2 or all(one.may_mix for one in saying):
        return {}
    running = [one for one in saying if any(c.role in _RUNS for c in one.copies.values())]
    if running:
        counts = min(running, key=lambda one: (one.started_ms, one.instance, one.member))
    else:
        counts = max(saying, key=lambda one: (one.started_ms, one.instance, one.member))
    return {
        member: _refusal(one, counts)
        for member, one in sorted(subscriptions.items())
        if one.exactly_once is not counts.exactly_once
    }


def _refusal(refused: Subscription, other: Subscription) -> str:
    own, theirs = _NAMES[refused.exactly_once], _NAMES[other.exactly_once]
    return (
        f"processing.guarantee={own}: {other.name}-{other.member} runs under {theirs}, and they "
        "cannot run side by side where repartition topics or tables are read uncommitted. This "
        "instance does not join; nothing was changed. Set consumer.isolation.level=read_committed "
        "in all instances, one after the other, and then the guarantee; or stop all in order, and "
        "start them with the other guarantee"
    )
