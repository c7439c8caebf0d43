"""The leader's side of the tasks protocol: from all descriptions to all assignments.

Pure. It knows the leader's own view of topics and topology and the clock's time as values; the
assignor is any function of ``GroupState -> Plan``. It keeps nothing between two rebalances: what
must be known is in the members' own words.

The releases of one plan are staggered over time. All at once, each of the dozen steps from a stop
to the first record at the new home would wait for all the others'. So the leader
delays each, as far apart as there is time, while the tasks go on: delays that followed from the
tasks' numbers came as close as 90 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs

from streamlet.assignor.path import release_delays
from streamlet.assignor.values import GroupState, MemberPlan, Plan, Role, Rules, TaskInfo
from streamlet.control.values import MemberKey
from streamlet.logs import get_logger
from streamlet.rebalance import type_migration, wire
from streamlet.rebalance.envelope import CONSUMER, STREAM, Envelope, open_subscription
from streamlet.rebalance.guarantees import mixed
from streamlet.rebalance.numbering import UNREAD, difference
from streamlet.rebalance.values import (
    Assignment,
    AssignmentError,
    JoinedMember,
    RunAssignor,
    Subscription,
    TypeMigration,
    member_states,
    newest_imbalance,
)
from streamlet.types import TaskId
from streamlet.user_code import listed

log = get_logger(__name__)

#: How many members' reasons are listed, and how many names of members that have gone.
_REASONS = 3

#: Of an error about a member's bytes, in the log.
_REASON_CHARS = 200

Assignor: TypeAlias = Callable[[GroupState], Plan]


@attrs.frozen
class LeaderView:
    """The knowledge of a leader besides the descriptions.

    ``tasks`` are all there are, ``subtopologies`` the hashes of its own topology. ``wall_ms`` is
    wall-clock time.
    ``protocol_type`` is the group's; in "consumer" all members' bytes travel in ``envelope``.
    ``migration_timeout_ms``: how long who changes the type waits for the others. ``latest``: the
    highest version of our bytes it knows. ``before``: the members of the last generation and their
    names, as far as they are known. ``belongings`` are the names of what each of its
    subtopologies reads and keeps. ``waits``: records that wait for commits may be in the
    repartition topics.
    """

    tasks: tuple[TaskInfo, ...]
    subtopologies: tuple[bytes, ...]
    rules: Rules
    wall_ms: int
    protocol_type: str = STREAM
    envelope: Envelope = attrs.field(factory=Envelope)
    migration_timeout_ms: int = 60_000
    latest: int = wire.VERSION
    before: Mapping[MemberKey, str] = attrs.field(factory=dict)
    belongings: Sequence[Sequence[str]] = ()
    waits: bool = False


@attrs.frozen
class _Read:
    """A description as far as it could be read; ``head`` is None where even that is garbage.

    ``layout`` is the version of what is around it.
    """

    member_id: str
    subscription: Subscription | None
    head: wire.WireHeader | None
    layout: int = 0
    version: int = wire.VERSION  # that both it and we know

    @property
    def eager(self) -> bool:
        """True if it stops everything at each join, and can do nothing else."""
        return self.subscription is not None and self.subscription.mode == "eager"


def plan(run: RunAssignor, view: LeaderView, assign: Assignor) -> dict[str, bytes]:
    """Plan a generation and encode every member's part.

    A member whose description cannot be read may hold anything: then no member gains a task, and it
    is asked to describe itself otherwise. Likewise while members have topologies that cannot run in
    one group: those that run tasks go on, the others are refused. A description with which no plan
    can be made counts as one that cannot be read.

    Raises:
        Exception: whatever an assignor raises that has no plan for any member.
    """
    read = [_read(member, view.protocol_type, view.latest) for member in run.members]
    subscriptions = {r.member_id: r.subscription for r in read if r.subscription is not None}
    gone: list[str] = []
    refused: dict[str, str] = {}
    try:
        refused = _refused(run.member_id, view, subscriptions) | _too_old(view, read)
        refused |= mixed(subscriptions)
        if len(subscriptions) == len(read) and not refused:
            decided, migration = _decide(run, view, read, subscriptions, assign)
            gone = _gone(view.before, subscriptions.values())
        else:
            decided, migration = _keep_claims(subscriptions), None
    except Exception as error:
        read = _without_culprits(run, view, read, assign, error)
        subscriptions = {r.member_id: r.subscription for r in read if r.subscription is not None}
        decided, migration, refused = _keep_claims(subscriptions), None, {}
    reason = _reason(subscriptions.values(), gone)
    log.info("generation %d is planned: %s", run.generation, reason)
    delays = release_delays(decided.members)
    joining = [r for r in read if r.member_id not in refused]
    # Who cannot be read gets no task; what waits for a commit must not become plain for it.
    unknown = wire.VERSION if view.waits else 0
    versions = (unknown if r.head is None else r.head.latest for r in joining)
    known = min(versions, default=wire.VERSION)
    prefixes, compact = known >= wire.PREFIX_VERSION, known >= wire.COMPACT_VERSION
    held = known >= wire.HELD_VERSION
    for_all = Assignment(migration=migration, prefixes=prefixes, compact=compact, held=held)
    answers = {r.member_id: _answer(decided, for_all, r, delays.get(r.member_id, 0)) for r in read}
    if run.member_id in subscriptions:
        answers[run.member_id] = _signed(answers[run.member_id], run, view, decided, reason)
    answers |= {member: _refusal(subscriptions[member], why) for member, why in refused.items()}
    return {r.member_id: _encoded(view, answers[r.member_id], r) for r in read}


def _without_culprits(
    run: RunAssignor,
    view: LeaderView,
    read: Sequence[_Read],
    assign: Assignor,
    error: Exception,
) -> list[_Read]:
    """The descriptions, without those with which no plan can be made.

    Raises:
        Exception: the error itself, where a plan fails with each of them.
    """
    culprits = {
        r.member_id
        for r in read
        if r.subscription is not None and not _plannable(run, view, r, assign)
    }
    if culprits == {r.member_id for r in read if r.subscription is not None}:
        raise error  # the fault is the assignor's, not a member's
    log.error(
        "generation %d has no plan, all tasks stay where they are: %s: %r. No plan can be made "
        "with the descriptions of: %s",
        run.generation,
        type(error).__name__,
        str(error)[:_REASON_CHARS],
        listed(sorted(map(repr, culprits)), _REASONS) or "no single member",
    )
    return [
        attrs.evolve(r, subscription=None, head=None) if r.member_id in culprits else r
        for r in read
    ]


def _plannable(run: RunAssignor, view: LeaderView, read: _Read, assign: Assignor) -> bool:
    """True if a plan for this member alone can be made."""
    assert read.subscription is not None
    subscriptions = {read.member_id: read.subscription}
    try:
        _refused(run.member_id, view, subscriptions)
        _decide(run, view, [read], subscriptions, assign)
    except Exception as error:
        log.warning("no plan can be made with what member %r says: %r", read.member_id, error)
        return False
    return True


def _refused(
    leader: str, view: LeaderView, subscriptions: Mapping[str, Subscription]
) -> dict[str, str]:
    """Members whose topology cannot run beside that of the members that run tasks, with the reason.

    The leader itself yields if it runs nothing and they do: the next leader plans in their numbers.
    """
    found = {
        member: differs
        for member, theirs in sorted(subscriptions.items())
        if (differs := difference(view.belongings, theirs.belongings))
    }
    ours = subscriptions.get(leader)
    claiming = [member for member in found if _claims(subscriptions[member])]
    if claiming and (ours is None or not _claims(ours)):
        return {leader: found[claiming[0]].here}
    return {member: differs.there for member, differs in found.items()}


def _too_old(view: LeaderView, read: Sequence[_Read]) -> dict[str, str]:
    """Members that cannot read records which are in repartition topics by now, with the reason."""
    found = {
        r.member_id: UNREAD
        for r in read
        if view.waits and r.subscription is not None and r.version < wire.HELD_VERSION
    }
    if found:
        log.warning("refused: %s: %s", listed(sorted(found), _REASONS), UNREAD)
    return found


def _claims(subscription: Subscription) -> bool:
    return any(copy.role in _RANK for copy in subscription.copies.values())


def _refusal(subscription: Subscription, why: str) -> Assignment:
    """The answer to a refused member; without its identity, so that no restart takes it over."""
    return Assignment(error=AssignmentError.MOVED, reason=why, answers_nonce=subscription.nonce)


def _decide(
    run: RunAssignor,
    view: LeaderView,
    read: Sequence[_Read],
    subscriptions: Mapping[str, Subscription],
    assign: Assignor,
) -> tuple[Plan, TypeMigration | None]:
    """Plan; while all move to another type nothing is given but what is claimed."""
    subscriptions = type_migration.credible(subscriptions, view.wall_ms, view.migration_timeout_ms)
    gathering = type_migration.gathering(subscriptions, view.protocol_type, view.wall_ms)
    if gathering is not None:
        return attrs.evolve(_keep_claims(subscriptions), follow_up_ms=gathering.until_ms), gathering
    eager = any(r.eager for r in read)
    decided = assign(_group_state(run, view, subscriptions, eager=eager))
    wanted = type_migration.wanted(
        subscriptions, view.protocol_type, view.wall_ms, view.migration_timeout_ms
    )
    if wanted is None or any(r.version < type_migration.MIGRATION_VERSION for r in read):
        return decided, None
    due = type_migration.not_before_ms(subscriptions, decided, wanted, view.wall_ms)
    if due is None:
        return _keep_claims(subscriptions), wanted
    if decided.follow_up_ms is not None:
        due = min(due, decided.follow_up_ms)
    return attrs.evolve(decided, follow_up_ms=due), None


def _reason(subscriptions: Collection[Subscription], gone: Sequence[str]) -> str:
    """The members that have gone, and the ones that asked for the rebalance and why."""
    reasons = sorted(f"{s.name}-{s.member}: {s.reason}" for s in subscriptions if s.reason)
    parts = [f"{listed(gone, _REASONS)} {'has' if len(gone) == 1 else 'have'} gone"] if gone else []
    if reasons:
        parts.append(listed(reasons, _REASONS))
    return ", ".join(parts) or "a member has gone"


def _gone(before: Mapping[MemberKey, str], subscriptions: Iterable[Subscription]) -> list[str]:
    """Names of the members that the last generation had and this one has not."""
    there = {MemberKey(one.instance, one.member) for one in subscriptions}
    return sorted(name for key, name in before.items() if key not in there)


def _group_state(
    run: RunAssignor, view: LeaderView, subscriptions: Mapping[str, Subscription], *, eager: bool
) -> GroupState:
    """``eager``: a member stops everything at each join, so that nothing is handed over warm."""
    rules = attrs.evolve(view.rules, mode="eager" if eager else "incremental")
    imbalance = newest_imbalance(subscriptions.values())
    if imbalance is not None:
        rules = attrs.evolve(rules, imbalance=imbalance)
    if run.reduced >= 2:  # the last resort against a group too large to store
        rules = attrs.evolve(rules, standbys=0)  # each is named in two places
    members = member_states(
        {member: subscriptions[member] for member in sorted(subscriptions)}, view.subtopologies
    )
    return GroupState(view.tasks, members, run.generation, view.wall_ms, rules)


def _read(member: JoinedMember, protocol_type: str, latest: int) -> _Read:
    unread = _Read(member.member_id, None, None, version=latest)
    try:
        opened = open_subscription(member.metadata, protocol_type)
        unread = attrs.evolve(unread, layout=max(opened.version, 0))
        head = wire.read_head(opened.data)
        unread = attrs.evolve(unread, head=head, version=head.common(latest))
        subscription = wire.decode_subscription(opened.data, latest)
        if opened.eager:  # what V0 means, whatever is inside
            subscription = attrs.evolve(subscription, mode="eager")
        return attrs.evolve(unread, subscription=subscription)
    except wire.TooNewError:
        return unread
    except Exception as error:  # bytes of others: what else they can bring about is not known
        log.warning(
            "what member %r says cannot be read, it gains nothing: %r",
            member.member_id,
            str(error)[:_REASON_CHARS],
        )
        return attrs.evolve(unread, head=None)


#: A claim that holds nevertheless where no member has the better one (L2, L4).
_RANK = {Role.ACTIVE: 0, Role.PENDING: 1}


def _keep_claims(subscriptions: Mapping[str, Subscription]) -> Plan:
    """Give each member what it claims, and the copies it has, and nothing else.

    Of several claims the newest counts (L5).
    """
    owners: dict[TaskId, tuple[int, int, str]] = {}
    for member in sorted(subscriptions):
        for task, copy in subscriptions[member].copies.items():
            if copy.role in _RANK:
                claim = (_RANK[copy.role], -copy.generation, member)
                owners[task] = min(owners.get(task, claim), claim)
    active: dict[str, set[TaskId]] = {member: set() for member in subscriptions}
    for task, (_, _, owner) in owners.items():
        active[owner].add(task)
    return Plan(
        {
            member: MemberPlan(
                active=frozenset(mine),
                learner=_of_role(subscriptions[member], Role.LEARNER),
                standby=_of_role(subscriptions[member], Role.STANDBY),
            )
            for member, mine in active.items()
        }
    )


def _of_role(subscription: Subscription, role: Role) -> frozenset[TaskId]:
    return frozenset(task for task, copy in subscription.copies.items() if copy.role is role)


def _follow_up(plan: Plan, wall_ms: int) -> int | None:
    """Say when the leader has to join again: not at all where those who revoke will."""
    if plan.follow_up_ms is None or any(part.revoke for part in plan.members.values()):
        return None
    return max(plan.follow_up_ms, wall_ms)


def _encoded(view: LeaderView, answer: Assignment, read: _Read) -> bytes:
    """One member's answer at a version it reads."""
    data = wire.encode_assignment(answer, read.version, view.latest)
    if view.protocol_type == CONSUMER:
        data = view.envelope.assignment(answer, data, read.layout)
    return data


def _answer(decided: Plan, for_all: Assignment, read: _Read, release_delay_ms: int) -> Assignment:
    """One member's part of the plan; ``for_all`` are fields with equal values."""
    if read.head is None:
        return attrs.evolve(for_all, error=AssignmentError.UNREADABLE)
    if read.subscription is None:
        return attrs.evolve(for_all, error=AssignmentError.TOO_NEW)
    part = decided.members.get(read.member_id, MemberPlan())
    return attrs.evolve(
        for_all,
        **attrs.asdict(part, recurse=False),
        deferral_deadline_ms=decided.deferral_deadline_ms,
        answers_nonce=read.subscription.nonce,
        answers_identity=wire.identity_of(read.subscription),
        release_delay_ms=release_delay_ms,
    )


def _signed(
    answer: Assignment, run: RunAssignor, view: LeaderView, decided: Plan, reason: str
) -> Assignment:
    """Add to the leader's own part what need not be repeated for each member."""
    answer = attrs.evolve(answer, follow_up_ms=_follow_up(decided, view.wall_ms))
    if run.reduced:
        return answer
    return attrs.evolve(
        answer,
        leader=run.member_id,
        generation=run.generation,
        made_ms=view.wall_ms,
        reason=reason,
        unassigned=decided.unassigned,
    )
