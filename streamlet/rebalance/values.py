"""The subscriptions of members and the assignments of leaders; ``wire`` makes bytes of them.

And the two questions of a membership that they answer: how a member describes itself, and, where it
leads, what each member gets.

The schemas are complete from the start (learners, leaving, deferral and migration included), so
that a later version of streamlet reads an older one's bytes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Set

import attrs

from streamlet.assignor.values import Copy, Leaving, MemberPlan, MemberState
from streamlet.types import TaskId


@attrs.frozen
class TypeMigration:
    """All members go over into a group of another type, with their tasks held open.

    ``members`` is how many there were when it was ordered. Until so many have come over, or
    ``until_ms`` (wall-clock time) is there, no member is given what another may hold.
    """

    protocol_type: str
    members: int
    until_ms: int


@attrs.frozen
class Subscription:
    """A member's part of a JoinGroup.

    ``subtopologies`` is one 8-byte hash per subtopology number; a task goes only to members whose
    number and hash match. ``nonce`` changes to force a rebalance. ``learners`` says whether the
    member can learn. ``wants_type`` is the protocol type the member would rather use, and ``mode``
    its ``stream.rebalancing.mode``. ``migration`` is the last one ordered, until it is over.
    ``belongings`` are the topics and stores of each subtopology, as ``numbering.packed`` has them.
    ``imbalance`` is its ``stream.imbalance.percentage`` (None: it does not say) and ``started_ms``
    the wall-clock time its process began: of several that differ the latest counts.
    ``disk_fails``: its stores could not be used for ``task.timeout.ms``, so tasks with state are
    to run at other instances, as far as any can run them.
    ``exactly_once``: it commits by transactions. ``may_mix``: members that do, and members that do
    not, may run its topology side by side.
    """

    instance: str  # process id, persisted with the state folder
    name: str  # what --name says, for people
    member: int = 0  # number of the member within its instance
    capacity: float = 1.0
    instance_members: int = 1
    subtopologies: tuple[bytes, ...] = ()
    copies: dict[TaskId, Copy] = attrs.field(factory=dict)
    instance_id: str | None = None
    leaving: Leaving | None = None
    deferral_deadline_ms: int | None = None
    tags: dict[str, str] = attrs.field(factory=dict)
    joined_generation: int = -1
    nonce: int = 0
    wants_type: str = "stream"
    learners: bool = True
    stateful: frozenset[int] = frozenset()  # numbers of subtopologies with stores, for status
    imbalance: float | None = None
    started_ms: int = 0
    mode: str = "incremental"
    migration: TypeMigration | None = None
    reason: str = ""  # why it asked for this rebalance, "" if it did not; for people
    belongings: tuple[bytes, ...] = ()  # empty: it does not say
    disk_fails: bool = False
    exactly_once: bool = False
    may_mix: bool = False


def staying(subscriptions: Iterable[Subscription]) -> frozenset[str]:
    """The instances (process ids) of a group that nothing asks to leave."""
    return frozenset(one.instance for one in subscriptions if one.leaving is None)


def member_states(
    subscriptions: Mapping[str, Subscription], leaders: tuple[bytes, ...]
) -> tuple[MemberState, ...]:
    """The states of members when they joined, as the assignor takes them.

    A member whose instance has to leave stays while one of its successors is not among those that
    stay: an instance that is being replaced keeps its tasks if the new one is lost. One whose disk
    fails runs those tasks with state that no other member can run.

    Args:
        subscriptions: what each member says of itself, by member id.
        leaders: the leader's subtopologies.
    """
    stay = staying(subscriptions.values())
    good = [one for one in subscriptions.values() if one.instance in stay and not one.disk_fails]
    safe = frozenset[int]().union(*(_shared(one, leaders) for one in good))
    return tuple(
        _member_state(one, subscriptions[one], leaders, stay, safe) for one in subscriptions
    )


def _shared(subscription: Subscription, leaders: tuple[bytes, ...]) -> frozenset[int]:
    """The subtopologies that the member has just as the leader has them."""
    pairs = enumerate(zip(subscription.subtopologies, leaders, strict=False))
    return frozenset(number for number, (theirs, leads) in pairs if theirs == leads)


def _member_state(
    member_id: str,
    subscription: Subscription,
    leaders: tuple[bytes, ...],
    staying: Set[str],
    safe: Set[int],
) -> MemberState:
    """``safe`` are the subtopologies that a member whose disk is good can run."""
    same = _shared(subscription, leaders)
    if subscription.disk_fails:
        same -= subscription.stateful & safe
    leaving = subscription.leaving
    return MemberState(
        member_id=member_id,
        instance=subscription.instance or member_id,
        number=subscription.member,
        capacity=subscription.capacity,
        instance_id=subscription.instance_id,
        runs=None if len(same) == len(leaders) else same,
        copies=subscription.copies,
        tags=subscription.tags,
        leaving=leaving if leaving is not None and staying >= {*leaving.successors} else None,
        learners=subscription.learners,
        joined_generation=subscription.joined_generation,
        deferral_deadline_ms=subscription.deferral_deadline_ms,
    )


def newest_imbalance(subscriptions: Iterable[Subscription]) -> float | None:
    """The band in the subscription of the process that began last; None where there is none.

    So a restart of one instance changes it for the group, whichever member leads.
    """
    telling = [s for s in subscriptions if s.imbalance is not None]
    return max(telling, key=_seniority).imbalance if telling else None


def _seniority(subscription: Subscription) -> tuple[int, str, int]:
    return subscription.started_ms, subscription.instance, subscription.member


class AssignmentError(enum.IntEnum):
    """The reasons why an assignment has no tasks."""

    NONE = 0
    TOO_NEW = 1  # describe yourself again at the version in the head
    UNREADABLE = 2  # the leader cannot make sense of your description
    MOVED = 3  # your topology cannot run beside the group's; ``reason`` says why


@attrs.frozen
class Assignment(MemberPlan):
    """The leader's answer to one member; its orders bear the generation of the SyncGroup answer.

    The plan for the member, and what it has to know besides. ``release`` names the member id that
    gets a task, ``pending`` the one that has it. ``leave`` is an order to leave once nothing is
    owned. ``follow_up_ms`` is the time of the next follow-up rebalance, None for none: by the wall
    clock on the wire, by the member's monotonic clock once ``session`` has delivered it.
    The member begins to release tasks ``release_delay_ms`` after the first plan that says so.
    ``prefixes``: all members can read prefixes in repartition topics, so that they may be written.
    ``held``: likewise records there may wait for the commit of the task that wrote them.
    ``compact``: likewise all can read commit metadata in compact form.
    ``migration`` to another type than the group's is an order to go there; to its own, that some
    members are missing.
    """

    follow_up_ms: int | None = None
    deferral_deadline_ms: int | None = None
    error: int = 0
    leader: str = ""  # member id, for status
    answers_nonce: int = 0  # nonce of the subscription this answers; another one: it was cached
    answers_identity: bytes = b""  # ``wire.identity_of`` that subscription
    generation: int = -1  # of the rebalance it comes from, for status
    made_ms: int | None = None  # wall-clock time the leader made it, for status
    reason: str = ""  # of the rebalance, for status; of the error where there is one
    migration: TypeMigration | None = None
    release_delay_ms: int = 0
    prefixes: bool = False
    compact: bool = False
    held: bool = False
    unassigned: frozenset[TaskId] = frozenset()  # tasks with no member at all, for status

    def agreed(self) -> Assignment:
        """An empty one that says as this one what all members can read."""
        return Assignment(prefixes=self.prefixes, compact=self.compact, held=self.held)

    def summary(self) -> str:
        """The tasks in it, for the log."""
        parts = {
            "active": self.active,
            "learner": self.learner,
            "standby": self.standby,
            "release": self.release,
            "pending": self.pending,
            "revoke": self.revoke,
        }
        named = [f"{name} {' '.join(map(str, sorted(of)))}" for name, of in parts.items() if of]
        return ", ".join(named) or "nothing"


# -- the questions of a membership -----------------------------------------------------------------


@attrs.frozen
class NeedMetadata:
    """Describe yourself now, as of all commands before this one; answer by MetadataReady.

    ``nonce`` must be in the bytes: it makes them differ when a rebalance is to be forced.
    ``reduced`` > 0: the broker could not store the group's state; leave out what can be done
    without (the more the higher). ``generation`` is that of the last assignment delivered under
    this member id, -1 for none; ``reason`` is why we join, for people. ``protocol_type`` is what
    to join as, empty if there is no choice.
    """

    request: int
    member_id: str
    generation: int
    nonce: int
    reduced: int = 0
    reason: str = ""
    protocol_type: str = ""


@attrs.frozen
class JoinedMember:
    """A member in the form that the leader receives."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@attrs.frozen
class RunAssignor:
    """We lead: plan ``generation``; AssignmentsReady or AssignorFailed answers."""

    generation: int
    members: tuple[JoinedMember, ...]
    reduced: int = 0
    member_id: str = ""  # our own
