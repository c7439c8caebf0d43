"""An operator's view of a group's members: who is in it, and taking static ones out of it.

A static member that stops for good keeps its tasks for a session timeout, because it may be
restarting. ``remove`` ends that at once (KIP-345): one LeaveGroup names the static ids,
the group rebalances without them. It is meant for members that are down; one that is alive notices,
joins again, and only a rebalance was had.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import attrs

from streamlet.admin.current import named
from streamlet.admin.snapshot import GroupSnapshot, MemberSnapshot
from streamlet.admin.status import member_state
from streamlet.admin.window import GroupWindow
from streamlet.coordinator.codes import name_of
from streamlet.errors import NotFoundError
from streamlet.rights import GROUP_REFUSED, Right, missing

_REQUEST_MS = 30_000
#: How long a rebalance is waited for where what members say of themselves is wanted.
SETTLE_MS = 3_000


@attrs.frozen
class ListedMember:
    """A member of a group. ``instance_id`` is its static id, None for a dynamic one."""

    member: str
    instance_id: str | None
    state: str


@attrs.frozen
class Removal:
    """The outcome for one id that was to be removed; ``error`` is Kafka's name of the reason."""

    instance_id: str
    error: str | None

    @property
    def ok(self) -> bool:
        """True if it is out of the group."""
        return self.error is None

    @property
    def refused(self) -> bool:
        """True if we lack the right."""
        return self.error == name_of(GROUP_REFUSED)


def listed(window: GroupWindow) -> list[ListedMember]:
    """The members of the group, by name; by member id if a new one has reported nothing yet.

    Raises:
        NotFoundError: there is no such application.
        BrokerError: the coordinator does not answer, or will not tell.
    """
    group = window.settled(SETTLE_MS)
    if not group.stable and group.members:
        group = named(group, window.reports())
    return [
        ListedMember(m.name, m.described.instance_id, member_state(group, m)) for m in group.members
    ]


def remove(
    window: GroupWindow, ids: Sequence[str], reason: str = "removed by an operator"
) -> list[Removal]:
    """Take static members out of the group, all in one request; a result per id given.

    An id is that of a member (``a-0``), or that of an instance (``a``), which stands for all its
    members that are there.

    Raises:
        NotFoundError: there is no such application.
        BrokerError: the coordinator does not answer, or refuses.
    """
    there = static_ids(window.group())
    meant = {asked: meaning(asked, there) for asked in ids}
    errors = _removed(window, [one for ids in meant.values() for one in ids], reason)
    return [
        Removal(asked, next(filter(None, map(errors.get, ids)), None))
        for asked, ids in meant.items()
    ]


def remove_left_over(
    window: GroupWindow,
    ours: Iterable[str],
    process_id: str,
    instance_id: str | None,
    recorded: Iterable[str] = (),
) -> dict[str, str | None]:
    """Remove what earlier runs of an instance left behind; Kafka's error by static id.

    Args:
        window: onto the application.
        ours: static ids of the members that are about to start.
        process_id: the instance's; no other process can use it as long as we hold its folder.
        instance_id: its static id.
        recorded: static ids it had when it ran last.
    """
    try:
        group = window.group()
    except NotFoundError:
        return {}
    found = left_over(group, frozenset(ours), process_id, instance_id, frozenset(recorded))
    return _removed(window, found, "a later run of the instance has no such member")


def _removed(
    window: GroupWindow, instance_ids: Iterable[str], reason: str
) -> dict[str, str | None]:
    wanted = list(dict.fromkeys(instance_ids))
    if not wanted:
        return {}
    codes = window.transport.remove_members(window.name, wanted, _REQUEST_MS, reason).result()
    return {one: name_of(code) if (code := codes.get(one, -1)) else None for one in wanted}


def right_to_remove(application: str) -> str:
    """The right to remove members of an application, and the command that grants it."""
    return missing(Right("READ", "group", application))


def static_ids(group: GroupSnapshot) -> list[str]:
    """The static ids in a group, in order."""
    ids = (member.described.instance_id for member in group.members)
    return sorted(one for one in ids if one is not None)


def meaning(asked: str, there: Sequence[str]) -> tuple[str, ...]:
    """The members an id stands for: the one of that name, or those of the instance of that name.

    An id that no member has stands for itself: the coordinator will refuse it.
    """
    if asked in there:
        return (asked,)
    return tuple(one for one in there if _instance_of(one) == asked) or (asked,)


def removal_hint(application: str, ids: Sequence[str]) -> str:
    """The hint how to remove static members that are down; empty if there are none."""
    if not ids:
        return ""
    named = " ".join(f"--instance-id {one}" for one in ids)
    return f"; static members that are down: streamlet members remove {application} {named}"


def left_over(
    group: GroupSnapshot,
    ours: frozenset[str],
    process_id: str,
    instance_id: str | None,
    recorded: frozenset[str],
) -> list[str]:
    """Static ids of an instance in a group that none of its members uses any more.

    They are those that bear its id with a number too high, and those that say they are its process.
    While the group rebalances nothing is known; then those count that it had when it ran last.
    """
    found = []
    for member in group.members:
        one = member.described.instance_id
        if one is None or one in ours:
            continue
        beyond = instance_id is not None and _instance_of(one) == instance_id
        if beyond or _is_of(group, member, process_id, recorded):
            found.append(one)
    return sorted(found)


def _is_of(
    group: GroupSnapshot, member: MemberSnapshot, process_id: str, recorded: frozenset[str]
) -> bool:
    if group.stable:
        return member.subscription is not None and member.subscription.instance == process_id
    return member.described.instance_id in recorded


def _instance_of(member_id: str) -> str | None:
    """The instance's part of a member's static id; None where it has no number."""
    match = re.fullmatch(r"(.+)-\d+", member_id, re.DOTALL)
    return None if match is None else match[1]
