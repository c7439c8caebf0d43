"""Groups in one line: ``group(member("A", active="0_0 0_1"), member("B", learner="0_0"))``."""

from __future__ import annotations

import attrs

from streamlet.assignor.assign import assign
from streamlet.assignor.validate import validate
from streamlet.assignor.values import (
    Copy,
    GroupState,
    Leaving,
    MemberState,
    Plan,
    Role,
    Rules,
    TaskInfo,
)
from streamlet.types import TaskId

GENERATION = 8
NOW = 1_000_000
BEHIND = 50_000


def ids(text: str) -> list[TaskId]:
    """Task ids from ``0_0 0_1``."""
    return [TaskId.parse(word) for word in text.split()]


def task(text: str) -> TaskId:
    """One task id."""
    return TaskId.parse(text)


def member(
    name: str,
    *,
    active: str = "",
    ready: str = "",
    learner: str = "",
    caught_up: str = "",
    standby: str = "",
    released: str = "",
    pending: str = "",
    dormant: str = "",
    instance: str = "",
    leaves: int | bool = False,
    **traits: object,
) -> MemberState:
    """A member by its copies; one instance each unless told otherwise.

    ``ready`` are learners that have caught up, ``learner`` those that have not; ``caught_up`` and
    ``standby`` likewise. ``leaves`` may be a deadline.
    """
    copies: dict[TaskId, Copy] = {}
    copies |= {t: Copy(Role.DORMANT, lag=BEHIND) for t in ids(dormant)}
    copies |= {t: Copy(Role.STANDBY, lag=BEHIND) for t in ids(standby)}
    copies |= {t: Copy(Role.LEARNER, lag=BEHIND) for t in ids(learner)}
    copies |= {t: Copy(Role.STANDBY, ready=True, lag=7) for t in ids(caught_up)}
    copies |= {t: Copy(Role.LEARNER, ready=True, lag=7) for t in ids(ready)}
    copies |= {t: Copy(Role.RELEASED, ready=True, lag=0) for t in ids(released)}
    copies |= {t: Copy(Role.PENDING, GENERATION - 1, ready=True, lag=7) for t in ids(pending)}
    copies |= {t: Copy(Role.ACTIVE, GENERATION - 1, ready=True, lag=0) for t in ids(active)}
    leaving = None
    if leaves is not False:
        leaving = Leaving(NOW - 1, None if leaves is True else leaves)
    state = MemberState(
        name,
        instance or f"i-{name}",
        0,
        copies=copies,
        leaving=leaving,
        joined_generation=GENERATION - 1 if copies else -1,
    )
    return attrs.evolve(state, **traits)  # type: ignore[arg-type]


def group(
    *members: MemberState,
    tasks: str = "",
    stateless: str = "",
    weights: dict[str, int] | None = None,
    **rules: object,
) -> GroupState:
    """A group whose tasks are those that anybody holds, and those named."""
    plain = set(ids(stateless))
    heavy = {task(name): weight for name, weight in (weights or {}).items()}
    named = {t for m in members for t in m.copies} | set(ids(tasks)) | plain
    infos = tuple(TaskInfo(t, t not in plain, heavy.get(t, 1)) for t in sorted(named))
    settings = attrs.evolve(Rules(), **rules)  # type: ignore[arg-type]
    return GroupState(infos, members, GENERATION, NOW, settings)


def planned(state: GroupState) -> Plan:
    """The assignor's plan, which must break no rule."""
    plan = assign(state)
    assert validate(state, plan) == []
    return plan


def active(plan: Plan, name: str) -> str:
    """What a member runs, as text."""
    return text(plan.members[name].active)


def text(tasks: object) -> str:
    """Tasks in order, as text."""
    assert isinstance(tasks, (frozenset, dict))
    return " ".join(map(str, sorted(tasks)))
