"""Which learners a plan must not drop.

A learner is useful if its task would still be at least as well off where it learns: its owner
leaves, or moving the task there leaves no instance further from its band than the plan does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from streamlet.assignor.facts import Facts
from streamlet.assignor.values import Role
from streamlet.types import TaskId


def useful_learners(facts: Facts) -> Iterator[tuple[TaskId, str]]:
    """Tasks that nobody else takes over, each with the one member that learned it usefully."""
    rules = facts.group.rules
    if not rules.learners or rules.mode == "eager":
        return
    load, bands = _loads_and_bands(facts)
    for task in facts.tasks:
        learners = [m for m in facts.members if facts.role(m, task) is Role.LEARNER]
        taking_over = facts.learning[task] + facts.pending[task] + facts.revoking[task]
        if len(learners) != 1 or not facts.stateful(task) or taking_over or not facts.active[task]:
            continue
        learner, owner = learners[0], facts.active[task][0]
        if _may_learn(facts, learner, owner, task) and not _worse(
            facts, load, bands, task, facts.state(owner).instance, facts.state(learner).instance
        ):
            yield task, learner


def _may_learn(facts: Facts, learner: str, owner: str, task: TaskId) -> bool:
    state, other = facts.state(learner), facts.state(owner)
    return (
        state.learners
        and state.instance != other.instance
        and facts.can_run(learner, task)
        and not facts.is_leaving(learner)
        and (other.learners or facts.is_leaving(owner))
    )


def _worse(
    facts: Facts,
    load: dict[str, int],
    bands: dict[str, tuple[int, int]],
    task: TaskId,
    source: str,
    target: str,
) -> bool:
    if source not in bands:  # it leaves
        return False
    weight = facts.infos[task].weight

    def excess(instance: str, more: int) -> int:
        low, high = bands[instance]
        return max(load[instance] + more - high, low - load[instance] - more, 0)

    before = excess(source, 0) + excess(target, 0)
    return excess(source, -weight) + excess(target, weight) > before


def _loads_and_bands(facts: Facts) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """Where the stateful tasks end by the plan, and what each staying instance should have."""
    load = {state.instance: 0 for state in facts.group.members}
    total = 0
    for task in facts.tasks:
        if not facts.stateful(task) or task in facts.plan.unassigned:
            continue
        total += facts.infos[task].weight
        heirs = facts.learning[task] + facts.pending[task]
        for member in (heirs or facts.active[task] or facts.revoking[task])[:1]:
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
