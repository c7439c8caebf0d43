"""Checks a plan against the rules U1 to U13; names each broken rule.

Shares no code with the assignor, so that neither can hide the other's mistakes; a user's own
assignor is held to the same rules. A single plan cannot show everything: that it does not depend on
the order of the input or the leader (U8) and how many rounds it takes (U10) needs several.

* U1 each task has one active member, or is inside one hand-over or one revoke-then-assign
* U2 what a live member claims is given to no member else in this round
* U3 at most one copy of a task per instance
* U4 stateless tasks have no learner, no standby and no hand-over
* U5 a member that has not caught up takes over only what no member runs, or from one whose time is
up
* U6 a useful learner keeps its task; one that cannot learn gets none
* U7 leaving members gain nothing
* U9 a plan that changes nothing asks for no further round
* U11 the budgets for learners (standbys that move among them) and moves hold
* U12 what travels stays below the broker's limit
* U13 nothing is said about tasks and members there are not
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streamlet.assignor.facts import Facts
from streamlet.assignor.usefulness import useful_learners
from streamlet.assignor.values import GroupState, MemberPlan, Plan, Role, Violation
from streamlet.types import TaskId

#: The most the coordinator stores of a group, in bytes.
MOST_METADATA_BYTES = 1_000_000


def validate(
    group: GroupState, plan: Plan, *, metadata_bytes: int = 0, custom: bool = False
) -> list[Violation]:
    """Name every rule that the plan breaks for this group; none means it may be carried out.

    ``metadata_bytes`` is the encoded size of all subscriptions and assignments, if it is known.
    ``custom``: an application's own assignor made the plan. Where tasks are to end is then its own
    affair, and with it which learners are useful (that half of U6).
    """
    strange = list(_strange(group, plan))
    if strange:  # what follows looks tasks and members up
        return strange
    facts = Facts.of(group, plan)
    checks = (*_CHECKS, _learners_can) if custom else (*_CHECKS, _learners_can, _learners_kept)
    violations = [violation for check in checks for violation in check(facts)]
    if metadata_bytes >= MOST_METADATA_BYTES:
        violations.append(Violation("U12", f"{metadata_bytes} bytes of metadata are too many"))
    return violations


def _strange(group: GroupState, plan: Plan) -> Iterator[Violation]:
    tasks = {info.task for info in group.tasks}
    members = {member.member_id for member in group.members}
    if plan.members.keys() != members:
        odd = tuple(sorted(plan.members.keys() ^ members))
        yield Violation("U13", "the plan is not for exactly the members there are", members=odd)
    for member, part in sorted(plan.members.items()):
        named = {*part.active, *part.learner, *part.standby, *part.revoke, *part.being_learned}
        named |= part.awaited
        if unknown := (named | part.release.keys() | part.pending.keys()) - tasks:
            odd_tasks = tuple(sorted(unknown))
            yield Violation("U13", f"{member} is given unknown tasks", odd_tasks, (member,))


def _one_active(facts: Facts) -> Iterator[Violation]:
    """Check U1: each task is active once, or handed over between two members, or may wait."""
    for task in facts.tasks:
        active, releasing = facts.active[task], facts.releasing[task]
        pending, revoking = facts.pending[task], facts.revoking[task]
        involved = tuple(sorted({*active, *releasing, *pending, *revoking}))
        match (len(active), len(releasing), len(pending), len(revoking)):
            case (1, 0, 0, 0) | (0, 0, 0, 1):
                pass
            case (0, 1, 1, 0):
                orders = (facts.part(releasing[0]).release[task], facts.part(pending[0]).pending)
                if orders[0] != pending[0] or orders[1][task] != releasing[0]:
                    yield Violation("U1", f"the two ends of {task} differ", (task,), involved)
            case (0, 0, 0, 0):
                if not facts.may_wait(task):
                    yield Violation("U1", f"{task} is given to no member", (task,))
            case _:
                yield Violation("U1", f"{task} is given out more than once", (task,), involved)
        for member in (*active, *pending):
            if not facts.can_run(member, task):
                yield Violation("U1", f"{member} cannot run {task}", (task,), (member,))


def _claims_bind(facts: Facts) -> Iterator[Violation]:
    """Check U2: a task stays with whom a claim binds it to, as L1, L2, L5 and L6 have it."""
    for task in facts.tasks:
        owner, bound = facts.owner(task), facts.bound(task)
        for member in facts.releasing[task] + facts.revoking[task]:
            if member not in (owner, bound):
                text = f"{member} cannot give up {task}, which it does not run"
                yield Violation("U2", text, (task,), (member,))
        if owner is not None:
            holding = facts.active[task] + facts.releasing[task] + facts.revoking[task]
            if holding != [owner]:
                text = f"{owner} runs {task}, but it is with {holding}"
                yield Violation("U2", text, (task,), (owner, *holding))
        elif bound is not None and facts.active[task] + facts.revoking[task] != [bound]:
            text = f"{bound} may run {task} by an open order, but does not get it"
            yield Violation("U2", text, (task,), (bound,))


def _one_copy(facts: Facts) -> Iterator[Violation]:
    """Check U3: an instance has one copy of a task, and a member one role in it."""
    for task in facts.tasks:
        seen: dict[str, str] = {}
        for member in facts.holding(task):
            instance = facts.state(member).instance
            other = seen.setdefault(instance, member)
            if other == member:
                continue
            inside = {other, member} <= {*facts.releasing[task], *facts.pending[task]}
            read = any(facts.role(m, task) in _READING for m in facts.pending[task])
            if (
                not inside or read
            ):  # a next owner that reads the copy keeps its owner from the folder
                text = f"{instance} has more than one copy of {task}"
                yield Violation("U3", text, (task,), (other, member))
    for member, part in facts.parts():
        sets = (part.active, part.learner, part.standby, part.revoke, {*part.pending})
        twice = {t for n, some in enumerate(sets) for more in sets[n + 1 :] for t in some & more}
        twice |= part.release.keys() & {*part.active, *part.learner, *part.revoke, *part.pending}
        if twice:
            text = f"{member} has several roles"
            yield Violation("U3", text, tuple(sorted(twice)), (member,))


def _stateless_plain(facts: Facts) -> Iterator[Violation]:
    """Check U4: no member copies a task without state."""
    for member, part in facts.parts():
        named = {*part.learner, *part.standby, *part.release, *part.pending}
        if wrong := sorted(task for task in named if not facts.stateful(task)):
            text = f"{member} is to copy tasks without state"
            yield Violation("U4", text, tuple(wrong), (member,))


def _warm(facts: Facts) -> Iterator[Violation]:
    """Check U5: no owner gives a task to a copy that has not caught up."""
    for member, part in facts.parts():
        for task, owner in sorted(part.pending.items()):
            copy = facts.state(member).copies.get(task)
            warm = copy is not None and (copy.ready or copy.role is Role.PENDING)
            inside = facts.state(member).instance == facts.state(owner).instance
            if not (warm or inside or facts.is_late(owner)):
                text = f"{member} has not caught up with {task} and {owner} still runs it"
                yield Violation("U5", text, (task,), (member, owner))


def _learners_can(facts: Facts) -> Iterator[Violation]:
    """Check U6 of members: a member that cannot learn is given nothing to learn."""
    for member, part in facts.parts():
        wrong = tuple(sorted({*part.learner, *part.pending, *part.awaited}))
        if not facts.state(member).learners and wrong:
            yield Violation("U6", f"{member} does not know how to learn", wrong, (member,))


def _learners_kept(facts: Facts) -> Iterator[Violation]:
    """Check U6 of tasks: what is usefully learned goes on."""
    for task, member in useful_learners(facts):
        part = facts.part(member)
        if task not in {*part.learner, *part.pending, *part.active}:
            text = f"{member} loses {task}, which it was usefully learning"
            yield Violation("U6", text, (task,), (member,))


def _leavers_gain_nothing(facts: Facts) -> Iterator[Violation]:
    """Check U7: a member that leaves gains nothing."""
    for member, part in facts.parts():
        if not facts.is_leaving(member):
            continue
        running = (Role.ACTIVE, Role.PENDING) if facts.is_late(member) else _RUNNING
        gains = {
            *(task for task in part.active if facts.role(member, task) not in running),
            *(task for task in part.learner if facts.role(member, task) is not Role.LEARNER),
            *(task for task in part.standby if facts.role(member, task) is not Role.STANDBY),
            *(task for task in part.pending if facts.role(member, task) is not Role.PENDING),
        }
        if gains:
            text = f"{member} is leaving and gains tasks"
            yield Violation("U7", text, tuple(sorted(gains)), (member,))


def _settled_is_silent(facts: Facts) -> Iterator[Violation]:
    """Check U9: no further round is asked for where the plan changes nothing."""
    asks = facts.plan.follow_up_ms is not None and facts.plan.deferral_deadline_ms is None
    if asks and not facts.plan.unassigned and all(map(_changes_nothing(facts), facts.members)):
        yield Violation("U9", "nothing changes, yet another round is asked for")


def _changes_nothing(facts: Facts) -> Callable[[str], bool]:
    def unchanged(member: str) -> bool:
        part, state = facts.part(member), facts.state(member)
        roles = {Role.ACTIVE: part.active, Role.LEARNER: part.learner, Role.STANDBY: part.standby}
        same = all(
            tasks == {task for task, copy in state.copies.items() if copy.role is role}
            for role, tasks in roles.items()
        )
        ready = any(copy.ready and copy.role is Role.LEARNER for copy in state.copies.values())
        orders = part.release or part.pending or part.revoke
        return same and not ready and not orders and not facts.is_leaving(member)

    return unchanged


def _within_budgets(facts: Facts) -> Iterator[Violation]:
    """Check U11: learners from earlier rounds may exceed a budget, new ones may not.

    Standbys begin to move only within what learners leave of it.
    """
    rules = facts.group.rules
    of_source: dict[str, list[tuple[TaskId, str]]] = {}
    everywhere: list[tuple[TaskId, str]] = []
    counts: list[tuple[str, list[tuple[TaskId, str]], int]] = []
    for member, part in facts.parts():
        pairs = [(task, member) for task in sorted(part.learner)]
        everywhere += pairs
        counts.append((f"{member} learns", pairs, rules.max_learners_member))
        for pair in pairs:
            for source in facts.active[pair[0]] + facts.revoking[pair[0]]:
                of_source.setdefault(source, []).append(pair)
    for source, pairs in sorted(of_source.items()):
        counts.append((f"{source} is learned from in", pairs, rules.max_learners_source))
    counts.append(("the group learns", everywhere, rules.max_learners_group))
    for what, pairs, most in counts:
        new = [(t, m) for t, m in pairs if facts.role(m, t) is not Role.LEARNER]
        if len(pairs) > most and new:
            tasks = tuple(task for task, _ in pairs)
            yield Violation("U11", f"{what} {len(pairs)} tasks, more than {most}", tasks)
    yield from _successors_within_budgets(facts)
    yield from _within_moves(facts)


def _successors_within_budgets(facts: Facts) -> Iterator[Violation]:
    """Check U11 of standbys: one moves by one more, which copies while the other stays."""
    rules = facts.group.rules
    moving = {
        task
        for task, keepers in facts.keeping.items()
        if len(keepers) > rules.standbys and not any(map(facts.is_leaving, keepers))
    }
    everywhere, begun = 0, False
    for member, part in facts.parts():
        copies = facts.state(member).copies
        copied = {t for t in part.standby & moving if t not in copies or not copies[t].ready}
        new = tuple(sorted(t for t in copied if facts.role(member, t) is not Role.STANDBY))
        everywhere += len(part.learner | copied)
        begun |= bool(new)
        if new and len(part.learner | copied) > rules.max_learners_member:
            yield Violation("U11", f"{member} begins too many standbys that move", new, (member,))
    if begun and everywhere > rules.max_learners_group:
        text = f"a standby begins to move, with {everywhere} tasks to copy in the group"
        yield Violation("U11", text, tuple(sorted(moving)))


def _within_moves(facts: Facts) -> Iterator[Violation]:
    most = facts.group.rules.max_moves
    begun = [
        task
        for member, part in facts.parts()
        for task in (*part.revoke, *part.release)
        if not facts.is_late(member)
        and facts.can_run(member, task)
        and not _goes_on(part, facts, task)
    ]
    if most and len(begun) > most and not facts.nobody_stays():
        text = f"{len(begun)} moves begin, more than {most}"
        yield Violation("U11", text, tuple(sorted(begun)))


def _goes_on(part: MemberPlan, facts: Facts, task: TaskId) -> bool:
    next_owner = part.release.get(task)
    return next_owner is not None and facts.role(next_owner, task) is Role.PENDING


#: Roles in which a member reads the changelog into the task's folder.
_READING = (Role.LEARNER, Role.STANDBY)

#: Roles in which a member has or had the task in its own hands.
_RUNNING = (Role.ACTIVE, Role.PENDING, Role.RELEASED)

_CHECKS: tuple[Callable[[Facts], Iterator[Violation]], ...] = (
    _one_active,
    _claims_bind,
    _one_copy,
    _stateless_plain,
    _warm,
    _leavers_gain_nothing,
    _settled_is_silent,
    _within_budgets,
)
