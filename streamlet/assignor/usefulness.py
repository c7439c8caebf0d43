"""Finds the learners that a plan must not drop.

A learner that stays may lose its task to one that is ready. It must not lose it to one that has yet
to begin, or to no member, if its own move would bring the instances nearer to their bands; and a
plan that begins no learner at all must not drop one whose move does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from streamlet.assignor.facts import Facts
from streamlet.assignor.values import Role
from streamlet.types import TaskId


def useful_learners(facts: Facts) -> Iterator[tuple[TaskId, str]]:
    """Tasks that no other member takes over, each with the one member that learned it usefully."""
    rules = facts.group.rules
    if not rules.learners or rules.mode == "eager":
        return
    load, bands = _loads_and_bands(facts)
    begins = _new_learners(facts)
    # What is revoked will be placed only in the next round, maybe where something was learned.
    settled = not any(facts.revoking[task] for task in facts.tasks)
    begins_none = settled and not any(map(begins, facts.tasks))
    some_wait = _budget_is_used_up(facts)
    for task in facts.tasks:
        learners = [m for m in facts.members if facts.role(m, task) is Role.LEARNER]
        new = begins(task)
        taken = set(facts.learning[task]) - set(new) | {*facts.pending[task]}
        if len(learners) != 1 or not facts.active[task] or taken or not facts.stateful(task):
            continue
        learner, owner = learners[0], facts.active[task][0]
        if not _may_learn(facts, learner, owner, task) or not (new or begins_none):
            continue
        source, target = (
            facts.state(new[0] if new else owner).instance,
            facts.state(learner).instance,
        )
        added, left = _added_excess(load, bands, facts.infos[task].weight, source, target)
        if (added < 0 and not some_wait) or (begins_none and added == left == 0):
            yield task, learner


def _budget_is_used_up(facts: Facts) -> bool:
    """True if learners may be waiting, so that the plan does not show where tasks will end."""
    rules = facts.group.rules
    of_member = [len(part.learner) for _, part in facts.parts()]
    of_source = [len(part.being_learned) for _, part in facts.parts()]
    return (
        max(of_member, default=0) >= rules.max_learners_member
        or max(of_source, default=0) >= rules.max_learners_source
        or sum(of_member) >= rules.max_learners_group
    )


def _new_learners(facts: Facts) -> Callable[[TaskId], list[str]]:
    """Members that begin to learn a task."""
    return lambda task: [m for m in facts.learning[task] if facts.role(m, task) is not Role.LEARNER]


def _may_learn(facts: Facts, learner: str, owner: str, task: TaskId) -> bool:
    state, other = facts.state(learner), facts.state(owner)
    return (
        state.learners
        and state.instance != other.instance
        and facts.can_run(learner, task)
        and not facts.is_leaving(learner)
        and (other.learners or facts.is_leaving(owner))
    )


def _added_excess(
    load: dict[str, int], bands: dict[str, tuple[int, int]], weight: int, source: str, target: str
) -> tuple[int, int]:
    """The excess added to both instances' bands once the weight has gone over."""

    def excess(instance: str, more: int) -> int:
        low, high = bands[instance]
        return max(load[instance] + more - high, low - load[instance] - more, 0)

    if source not in bands:  # it leaves, so the task must go somewhere
        return excess(target, weight) - excess(target, 0), excess(target, weight)
    before = excess(source, 0) + excess(target, 0)
    return excess(source, -weight) + excess(target, weight) - before, excess(target, weight)


def _loads_and_bands(facts: Facts) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """The loads of stateful tasks by the plan, and the band of each staying instance."""
    load = {state.instance: 0 for state in facts.group.members}
    total = 0
    for task in facts.tasks:
        if not facts.stateful(task) or task in facts.plan.unassigned:
            continue
        total += facts.infos[task].weight
        next_owners = facts.learning[task] + facts.pending[task]
        for member in (next_owners or facts.active[task] or facts.revoking[task])[:1]:
            load[facts.state(member).instance] += facts.infos[task].weight
    capacity: dict[str, Fraction] = {}
    for state in facts.group.members:
        if not facts.is_leaving(state.member_id):
            own = Fraction(str(state.capacity))
            capacity[state.instance] = max(own, capacity.get(state.instance, own))
    whole = sum(capacity.values(), Fraction(0)) or Fraction(1)
    width = Fraction(str(facts.group.rules.imbalance))
    bands: dict[str, tuple[int, int]] = {}
    for instance, own in capacity.items():
        expected = total * own / whole
        low = min(math.ceil(expected * (1 - width)), math.floor(expected))
        high = max(math.floor(expected * (1 + width)), math.ceil(expected))
        bands[instance] = (low, high)
    return load, bands
