"""The partitions protocol, the member's side: plain consumers that share topics.

::

    eager (V0)         revoke all ─▶ JoinGroup ─▶ SyncGroup ─▶ start
    cooperative (V1)   JoinGroup ─▶ SyncGroup ─▶ start what is new, revoke what is taken away
                          ▲                          │ only if something was
                          └──────────────────────────┘

A cooperative member goes on reading while it joins, and says what it has. What moves is taken from
its owner in one rebalance and given away in the next, so nothing is read twice at a time. A group
goes from V0 to V1 in two rolling restarts: first every member gets a version of the program that
knows V1 and still speaks V0, then every member is asked to speak V1. ``leader`` has the rules for
the time when both are there.

Claims change at the moment an assignment is delivered, on the control thread. The thread that reads
the records may learn of it later; until it has given up what was revoked, that stays claimed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

import attrs

from streamlet.assignor.values import Copy
from streamlet.errors import FatalGroupError
from streamlet.logs import get_logger
from streamlet.partitions import wire
from streamlet.partitions.leader import plan, read
from streamlet.partitions.sticky import PartitionAssignor, sticky
from streamlet.rebalance.consumer_protocol import ConsumerProtocolError
from streamlet.rebalance.values import Assignment as TasksAssignment
from streamlet.rebalance.values import NeedMetadata, RunAssignor
from streamlet.types import TaskId, TopicPartition

log = get_logger(__name__)

#: Kafka's word for groups whose members speak ConsumerProtocol, and our protocol's name in it.
PROTOCOL_TYPE = "consumer"
PROTOCOL = "streamlet-partitions"

VERSIONS = {"eager": wire.V0_EAGER, "cooperative": wire.V1_COOPERATIVE}


def _in_order(topics: Iterable[str]) -> tuple[str, ...]:
    """Each topic once, sorted."""
    return tuple(sorted(set(topics)))


@attrs.define(eq=False, slots=False)
class PartitionsProtocol:
    """One member's side of the protocol; its claims may be asked for and given up by any thread.

    Args:
        topics: what the member reads.
        version: ``V0_EAGER`` or ``V1_COOPERATIVE``.
        partitions: how many partitions each of these topics has, topics that do not exist left
            out; asked when we lead.
        rejoin: called with a reason when another rebalance is needed.
        overtaken: called with a reason when an eager member has to join although its partitions
            were not given up: the reading thread must stop.
        assign: the assignor, used when we lead.
        tags: what the member says of itself to assignors.
    """

    protocol_type = PROTOCOL_TYPE
    _topics: tuple[str, ...] = attrs.field(converter=_in_order)
    _version: int
    _partitions: Callable[[Iterable[str]], Mapping[str, int]]
    _rejoin: Callable[[str], None]
    _overtaken: Callable[[str], None]
    _assign: PartitionAssignor = sticky
    _tags: Mapping[str, str] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._lock = threading.Lock()
        self._subscription: wire.PartitionsSubscription | None = None
        #: Partitions that the group counts on no other member to read.
        self._claims: frozenset[TopicPartition] = frozenset()
        #: The part of the claims that is ours until further notice; the rest is to be given up.
        self._assigned: frozenset[TopicPartition] = frozenset()
        #: The last assignment as it is to be carried out, for the event that follows it.
        self.received = wire.PartitionsAssignment(self._version)
        #: Rebalances whose members were of both versions; ``num.incompatible.rebalance``.
        self.incompatible_rebalances = 0
        #: Partition counts of the last plan made here, empty if none was.
        self.planned_for: dict[str, int] = {}

    @property
    def claims(self) -> frozenset[TopicPartition]:
        """The partitions that the group counts on no other member to read."""
        with self._lock:
            return self._claims

    # -- on the control thread: ``GroupProtocol`` ----------------------------------------------

    def subscribe(
        self, need: NeedMetadata, copies: Mapping[TaskId, Copy]
    ) -> tuple[tuple[str, bytes], ...]:
        """The subscription: our topics and, at V1, our partitions; ``copies`` are not used."""
        with self._lock:
            overtaken = self._version == wire.V0_EAGER and bool(self._claims)
            if overtaken or need.generation < 0:
                self._claims = self._assigned = frozenset()
            self._subscription = wire.PartitionsSubscription(
                self._version, self._topics, self._claims, need.nonce, need.generation, self._tags
            )
            if need.reduced:
                self._subscription = attrs.evolve(self._subscription, tags={})
        if overtaken:
            self._overtaken(f"the group rebalances: {need.reason}")
        return ((PROTOCOL, wire.encode_subscription(self._subscription)),)

    def assign(self, run: RunAssignor) -> dict[str, bytes]:
        """Plan as the leader; raises what ``leader.plan`` does."""
        members = read(run.members)
        known = [one.subscription for one in members if one.subscription is not None]
        topics = sorted({topic for one in known for topic in one.topics})
        self.planned_for = dict(self._partitions(topics))
        plans = plan(members, self.planned_for, self._assign)
        return {name: wire.encode_assignment(part) for name, part in plans.items()}

    def decode(self, assignment: bytes) -> TasksAssignment:
        """Store our assignment in ``received``; returns an empty one, which is for tasks.

        Raises:
            FatalGroupError: the leader cannot read what we say, or breaks the protocol.
        """
        try:
            given = wire.decode_assignment(assignment)
        except ConsumerProtocolError as error:
            raise FatalGroupError(
                f"the group's leader sent what is no assignment: {error}"
            ) from error
        if given.error == wire.PartitionsError.UNREADABLE:
            raise FatalGroupError(
                "the group's leader cannot read what this member says of itself;"
                " is another program using this group?"
            )
        subscription = self._subscription
        cached = subscription is not None and given.answers != subscription.nonce
        if cached and subscription is not None:
            given = self._predecessors(given, subscription)
        with self._lock:
            stays = self._claims - given.revoked
            if not stays <= given.assigned:
                raise FatalGroupError(_violation(stays - given.assigned))
            revoked = self._claims & given.revoked
            self._assigned = given.assigned
            self._claims = given.assigned | revoked
        self.received = attrs.evolve(given, revoked=revoked)
        if given.error == wire.PartitionsError.INCOMPATIBLE:
            self.incompatible_rebalances += 1
            log.warning(
                "members with rebalance.protocol eager and cooperative are in the group at the"
                " same time: the eager ones get no partitions until all are the same"
            )
        return TasksAssignment()

    def lost(self) -> None:
        """The group gave everything away."""
        with self._lock:
            self._claims = self._assigned = frozenset()
            self.received = wire.PartitionsAssignment(self._version)

    # -- for the thread that reads the records
    # ---------------------------------------------------------

    def gave_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Give up partitions whose records are processed and committed; others may have them.

        What an assignment gave back to us meanwhile stays claimed.
        """
        with self._lock:
            gone = self._claims & frozenset(partitions) - self._assigned
            self._claims -= gone
        if gone:
            self._rejoin("revoked partitions are given up")

    def surrender(self, seen: wire.PartitionsAssignment) -> None:
        """Give up all partitions before the next JoinGroup (eager).

        ``seen`` is the assignment that was being carried out; if the group has given us another
        since, that one stands.
        """
        with self._lock:
            if self.received is seen:
                self._claims = self._assigned = frozenset()

    # -- inside --------------------------------------------------------------------------------

    def _predecessors(
        self, cached: wire.PartitionsAssignment, subscription: wire.PartitionsSubscription
    ) -> wire.PartitionsAssignment:
        """The assignment of a process with our static id before us, as far as it is of use.

        The coordinator hands it out without asking the leader. It is exclusively ours; but if the
        leader would answer us otherwise, or has partitions to move, it must be asked.
        """
        if cached.identity != subscription.identity or cached.revoked:
            self._rejoin("restarted, and the group does not know what has changed")
        mine = frozenset(p for p in cached.assigned if p.topic in self._topics)
        return attrs.evolve(cached, assigned=mine, revoked=frozenset())


def _violation(missing: frozenset[TopicPartition]) -> str:
    names = ", ".join(map(str, sorted(missing)))
    return (
        "the group's leader broke the cooperative protocol: the new assignment lacks partitions"
        f" that were not revoked first: {names}"
    )
