"""The tasks protocol, the member's side: what it says of its tasks and how it takes orders.

Pure but for what a member must remember between two rebalances. It knows neither Kafka nor the
assignor it calls, which is any function of ``GroupState -> Plan``.

A member describes itself in each JoinGroup (``subscribe``). The leader reads all descriptions, has
the assignor plan and encodes all assignments (``leader``). Each member reads its own (``decode``)
and compares it with what it runs (``orders``): tasks in both go on untouched, only those that move
stop. Moves take two rounds: the owner is ordered to ``revoke``, stops and commits, and rejoins
without the task; the next plan gives it to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from streamlet.assignor.values import CLAIMS, Copy, Leaving, Role, Rules, TaskInfo
from streamlet.config import Settings
from streamlet.control.values import MemberKey
from streamlet.errors import FatalGroupError, RefusedError
from streamlet.logs import get_logger
from streamlet.rebalance import wire
from streamlet.rebalance.envelope import CONSUMER, STREAM, Envelope, open_assignment
from streamlet.rebalance.guarantees import LEADER_TOO_OLD
from streamlet.rebalance.leader import Assignor, LeaderView, plan
from streamlet.rebalance.numbering import packed, refusal
from streamlet.rebalance.values import (
    Assignment,
    AssignmentError,
    NeedMetadata,
    RunAssignor,
    Subscription,
    TypeMigration,
)
from streamlet.types import TaskId

log = get_logger(__name__)

#: The refusal of an assignment that no member of ours made.
_OTHERS = (
    "the group has consumers of group.protocol=consumer, and the broker, not a member of ours, "
    "assigns partitions to all: end them, or give the application another id"
)
#: Name of the protocol, in groups of either type.
PROTOCOL = "streamlet-v1"

#: The type of the group a member wants to be in, by its ``stream.rebalancing.mode``.
TYPES = {"eager": CONSUMER, "upgrading": CONSUMER, "incremental": STREAM}


def types_for(mode: str) -> tuple[str, str]:
    """The type that a member in this mode joins as, and the one it accepts meanwhile."""
    return (CONSUMER, STREAM) if TYPES[mode] == CONSUMER else (STREAM, CONSUMER)


def rules_from(settings: Settings, *, learners: bool) -> Rules:
    """The rules of a plan, from settings; ``learners`` if members of this version learn."""
    s = settings
    return Rules(
        standbys=s.num_standby_replicas,
        learners=learners,
        handover=s.learner_handover,
        imbalance=s.stream_imbalance_percentage,
        acceptable_lag=s.acceptable_recovery_lag,
        max_learners_member=s.max_learners_per_member,
        max_learners_source=s.max_learners_per_source,
        max_learners_group=s.max_learners_per_group,
        max_moves=s.max_moves_per_rebalance,
        move_interval_ms=s.rebalance_move_interval_ms,
        deferral_ms=s.scheduled_rebalance_max_delay_ms,
        initial_delay_ms=s.initial_assignment_delay_ms,
        rack_tags=s.rack_aware_assignment_tags,
    )


#: Answers of leaders in a row that may be malformed. Each costs a rebalance.
_MALFORMED_MOST = 3


@attrs.define(eq=False, slots=False)
class TasksProtocol:
    """One member's side of the protocol; for the thread that owns the membership machine.

    Args:
        identity: what is the same in each of the member's descriptions.
        rules: shape the plans this member makes as leader.
        assign: the assignor.
        tasks: every task there is, by our own view of topics and topology; asked when we lead.
        wall_ms: wall-clock time, for deadlines.
        rejoin: called with a reason when an assignment read calls for another rebalance.
        belongings: the names of what each subtopology reads and keeps.
        envelope: what goes around our bytes in a group of type "consumer".
        migration_timeout_ms: as leader, how long to wait for all to come into a group of another
            type.
        latest: the highest version of our bytes this member knows.
        before: the members of the last generation and their names; asked when we lead.
        waits: whether records of the application's repartition topics wait for commits, once all
            members can read these.
    """

    _identity: Subscription
    _rules: Rules
    _assign: Assignor
    _tasks: Callable[[], Sequence[TaskInfo]]
    _wall_ms: Callable[[], int]
    _rejoin: Callable[[str], None]
    _belongings: Sequence[Sequence[str]] = ()
    _envelope: Envelope = attrs.field(factory=Envelope)
    _migration_timeout_ms: int = 60_000
    _latest: int = attrs.field(default=wire.VERSION, kw_only=True)
    _before: Callable[[], Mapping[MemberKey, str]] = dict
    _waits: bool = False
    #: What all members can read, as of the last plan; no plan at all changes nothing of it.
    _agreed: Assignment = attrs.field(factory=Assignment, init=False)

    def __attrs_post_init__(self) -> None:
        #: Type of the group we are in, or were last ordered to join.
        self.protocol_type = TYPES[self._identity.mode]
        #: The change of type that we were ordered to make, or made; None once all have come.
        self.migration: TypeMigration | None = None
        #: Says that this member is on its way out, in every description from now on.
        self.leaving: Leaving | None = None
        #: Says that our stores cannot be used, likewise.
        self.disk_fails = False
        #: Version to write at; lower than ours while the leader is older.
        self._version = self._latest
        #: The last description of this member, to tell answers to it from cached ones.
        self._described: Subscription | None = None
        #: What to say as the generation we joined in, -1 until this member id got an assignment.
        self._joined_generation = -1
        self._deferral_deadline_ms: int | None = None
        self._malformed_in_a_row = 0

    @property
    def gathering(self) -> bool:
        """True while members are missing after a change of the group's type."""
        return self.migration is not None and self.migration.protocol_type == self.protocol_type

    def subscribe(
        self, need: NeedMetadata, copies: Mapping[TaskId, Copy]
    ) -> tuple[tuple[str, bytes], ...]:
        """Describe ourselves, with the copies we hold and the claims we have right now."""
        if need.protocol_type not in ("", self.protocol_type):
            log.info("joining as type %s, not %s", need.protocol_type, self.protocol_type)
            self.protocol_type = need.protocol_type
        if need.generation < 0:
            self._joined_generation = -1
        elif self._joined_generation < 0:
            self._joined_generation = need.generation
        mode = self._identity.mode
        described = attrs.evolve(
            self._identity,
            copies=dict(sorted(copies.items())),
            leaving=self.leaving,
            disk_fails=self.disk_fails,
            deferral_deadline_ms=self._deferral_deadline_ms,
            joined_generation=self._joined_generation,
            nonce=need.nonce,
            wants_type=TYPES[mode],
            migration=self.migration,
            reason=self._own_reason(need),
            belongings=packed(self._belongings),
        )
        self._described = _reduced(described, need.reduced)
        data = wire.encode_subscription(self._described, self._version, self._latest)
        if self.protocol_type == CONSUMER:
            data = self._envelope.subscription(
                self._described, data, eager=mode == "eager", generation=need.generation
            )
        return ((PROTOCOL, data),)

    def _own_reason(self, need: NeedMetadata) -> str:
        """The reason of a rebalance, if it is because of us; most just follow one that began."""
        if not need.member_id or self._described is None:
            return "joined"
        return need.reason if need.nonce != self._described.nonce else ""

    def assign(self, run: RunAssignor) -> dict[str, bytes]:
        """Plan as the leader; see ``leader.plan``."""
        view = LeaderView(
            tuple(self._tasks()),
            self._identity.subtopologies,
            self._rules,
            self._wall_ms(),
            self.protocol_type,
            self._envelope,
            self._migration_timeout_ms,
            self._latest,
            self._before(),
            self._belongings,
            waits=self._waits and self._agreed.held,
        )
        return plan(run, view, self._assign)

    def decode(self, data: bytes) -> Assignment:
        """Read our own assignment, and ask for another rebalance where it calls for one.

        Raises:
            wire.WireError: if the leader's bytes are malformed, several times in a row.
            FatalGroupError: if the leader cannot read ours.
            RefusedError: if our subtopologies have other numbers than the group's, or if the
                broker assigns partitions, because others are in the group (KIP-848).
        """
        try:
            given, data = data, open_assignment(data, self.protocol_type)
            if given and not data:
                raise RefusedError(_OTHERS)
            assignment = wire.decode_assignment(data, self._latest) if data else self._agreed
        except wire.TooNewError as error:  # from a newer program with our static id
            return self._again(Assignment(), f"restarted as an older program: {error}")
        except wire.WireError as error:
            return self._malformed(error)
        self._malformed_in_a_row = 0
        if assignment.error == AssignmentError.UNREADABLE:
            raise FatalGroupError(
                "the group's leader cannot read what we say of ourselves;"
                " is another program using this group?"
            )
        if data:
            self._version = wire.read_head(data).common(self._latest)
            if self._identity.exactly_once and self._version < wire.GUARANTEE_VERSION:
                raise RefusedError(LEADER_TOO_OLD)
        if assignment.error == AssignmentError.TOO_NEW:
            known = f"the leader knows version {self._version} at most"
            log.info("%s, we know %d: joining again", known, self._latest)
            return self._again(Assignment(), known)
        answers_us = self._described is None or assignment.answers_nonce == self._described.nonce
        if assignment.error == AssignmentError.MOVED and answers_us:
            raise RefusedError(refusal(assignment.reason))
        self._deferral_deadline_ms = assignment.deferral_deadline_ms
        self._agreed = assignment.agreed()
        if assignment.migration is not None or self.gathering:
            self.migration = assignment.migration  # else it failed, and leaders had better know
        if data and self._described is not None and not answers_us:
            return self._predecessors(self._described, assignment)
        return assignment

    def _malformed(self, error: wire.WireError) -> Assignment:
        """Take nothing, and join again for another answer; at the last try say so."""
        self._malformed_in_a_row += 1
        problem = f"the answer of the group's leader cannot be read: {error}"
        if self._malformed_in_a_row > _MALFORMED_MOST:
            raise wire.WireError(
                f"{problem}, {self._malformed_in_a_row} times in a row;"
                " is another program in this group, or between us and the broker?"
            ) from error
        log.warning("%s; joining again", problem)
        return self._again(Assignment(), problem)

    def _again(self, assignment: Assignment, reason: str) -> Assignment:
        """Take this, and have the group rebalance."""
        self._rejoin(reason)
        return assignment

    def _predecessors(self, subscription: Subscription, cached: Assignment) -> Assignment:
        """Take over the assignment of a process with our static id before us (M9).

        The coordinator hands a restarted static member its old assignment without asking the
        leader; the nonce gives it away. Tasks that simply run are ours, also while the group plans
        again because our settings are others. Hand-overs are not to be carried out a second time:
        their tasks are not run, and the group plans again. Of another program or state folder
        nothing is run.
        """
        identity = wire.identity_of(subscription)
        if not wire.same_program(cached.answers_identity, identity):
            return self._again(
                Assignment(), "restarted with another topology or another state folder"
            )
        quiet = attrs.evolve(
            cached, release={}, pending={}, revoke=frozenset(), leave=False, migration=None
        )
        if quiet != cached:
            return self._again(quiet, "restarted in the middle of a hand-over")
        if cached.answers_identity != identity:
            return self._again(cached, "restarted with other settings")
        return cached


def _reduced(subscription: Subscription, level: int) -> Subscription:
    """Leave out optional parts, more at each level; claims always stay."""
    if level == 0:
        return subscription
    if level == 1:
        copies = {t: c for t, c in subscription.copies.items() if c.role is not Role.DORMANT}
        return attrs.evolve(subscription, copies=copies)
    copies = {t: c for t, c in subscription.copies.items() if c.role in CLAIMS}
    return attrs.evolve(
        subscription, copies=copies, tags={}, stateful=frozenset(), reason="", belongings=()
    )
