"""Plans which members keep standbys: as many as asked for, never beside the task itself.

A standby stays where it is unless the tags say that it would stand better elsewhere, or an instance
would carry more than its share (``standby_moves``). It goes only when its successor has caught up.
The member that hands a task over keeps its copy as a standby before another one begins, so it may
take several rounds until all are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from streamlet.assignor.claims import best_first
from streamlet.assignor.draft import Draft
from streamlet.assignor.learners import Budget
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.standby_moves import move_standbys
from streamlet.assignor.standby_places import InstanceLoads, TaskStandbys
from streamlet.assignor.target import TargetAssignment
from streamlet.assignor.values import Copy, Role


def keep_standbys(
    draft: Draft, assignment: TargetAssignment, tasks: Sequence[int], budget: Budget, *, calm: bool
) -> None:
    """Give each of the tasks its standbys, after all else about it has been decided.

    With ``calm``, and as long as active tasks are moving, no standby begins to move: where standbys
    end follows from where active tasks do.
    """
    view = draft.view
    wanted = view.group.rules.standbys
    if wanted == 0:
        return
    placed = _placed(draft, tasks)
    loads = InstanceLoads.of(view, assignment, _tasks_of_members(draft, placed))
    for standbys in placed:
        _keep_held(view, loads, standbys, wanted)
    loads.open()
    for standbys in placed:
        _fill(view, loads, standbys, wanted)
    move_standbys(loads, placed, budget, begin=not (calm or _moving(draft)))
    for standbys in placed:
        _order(draft, loads, standbys)


def _moving(draft: Draft) -> bool:
    """True if active tasks are on their way: another round comes when they have arrived."""
    return any(part.learner or part.pending or part.revoke for part in draft.members)


def _placed(draft: Draft, tasks: Iterable[int]) -> list[TaskStandbys]:
    view = draft.view
    placed = {task: TaskStandbys(task, waits=task in draft.unassigned) for task in tasks}
    for member, part in enumerate(draft.members):
        here = view.instance_of[member]
        for task in {*part.active, *part.revoke, *part.learner, *part.pending} & placed.keys():
            placed[task].busy.add(here)
        if not view.instances[here].stays:
            continue
        for task in part.being_learned & placed.keys():
            placed[task].next_standby = here
        for task, next_owner in part.release.items():
            if view.instance_of[next_owner] != here:
                placed[task].releaser = member
    return list(placed.values())


def _tasks_of_members(draft: Draft, placed: Iterable[TaskStandbys]) -> Counter[int]:
    """The number of tasks of each member, standbys that it holds already included."""
    members: Counter[int] = Counter()
    for member, part in enumerate(draft.members):
        members[member] = len(part.active) + len(part.learner) + len(part.pending)
    for standbys in placed:
        for member, copy in draft.view.holders[standbys.task]:
            members[member] += copy.role is Role.STANDBY
    return members


def _keep_held(view: View, loads: InstanceLoads, standbys: TaskStandbys, wanted: int) -> None:
    """Choose among the copies that are standbys already, or as good as that."""
    standbys.held = {
        view.instance_of[member]: (member, copy)
        for member, copy in reversed(best_first(view, standbys.task))
        if view.instance_of[member] not in standbys.busy
        and (copy.role is Role.STANDBY or view.instances[view.instance_of[member]].stays)
    }
    releaser = standbys.releaser
    if releaser != ABSENT:
        standbys.held[view.instance_of[releaser]] = (releaser, Copy(Role.RELEASED, ready=True))
    keep = sorted(
        (i for i in standbys.held if view.instances[i].stays and standbys.stands(i)),
        key=standbys.rank,
    )
    while len(keep) > wanted:
        keep.remove(_least_of_use(loads, standbys, keep))
    standbys.chosen = keep
    for instance in keep:
        loads.add(instance, standbys.task)
    if standbys.next_standby != ABSENT and len(keep) < wanted:
        loads.add(standbys.next_standby, standbys.task)


def _least_of_use(loads: InstanceLoads, standbys: TaskStandbys, keep: Sequence[int]) -> int:
    """The standby that the others are spread best without; of equals the coldest, the last."""

    def without(instance: int) -> tuple[int, ...]:
        return loads.clashes(standbys, [other for other in keep if other != instance])

    return min(reversed(keep), key=without)


def _fill(view: View, loads: InstanceLoads, standbys: TaskStandbys, wanted: int) -> None:
    """Begin standbys that are missing: with state on disk, else where the load is the lowest."""
    missing = wanted - len(standbys.chosen) - (standbys.next_standby != ABSENT)
    for _ in range(0 if standbys.waits else missing):
        free = [i for i in standbys.held if standbys.takes(i) and view.instances[i].stays]
        ranked = [
            (
                loads.clashes(standbys, [*standbys.chosen, instance]),
                instance not in standbys.held,
                standbys.rank(instance)[1]
                if instance in standbys.held
                else loads.relative(instance),
                instance,
            )
            for instance in (*free, *loads.emptiest(standbys))
        ]
        if not ranked:
            break
        instance = min(ranked)[-1]
        standbys.chosen.append(instance)
        loads.add(instance, standbys.task)


def _order(draft: Draft, loads: InstanceLoads, standbys: TaskStandbys) -> None:
    """Let members keep the standbys, and those that are needed until others have caught up."""
    view = draft.view
    coming = standbys.coming() if standbys.moves or standbys.would_move else []
    # A member that does not learn never reports that it has caught up: nothing is kept until then.
    reported = any(
        i not in standbys.held or view.members[standbys.held[i][0]].learners
        for i in standbys.coming()
    )
    for instance in standbys.chosen + (standbys.meanwhile() if reported else []):
        member = loads.seat(standbys, instance)
        draft.members[member].standby.add(standbys.task)
        if instance in coming and view.members[member].learners:
            draft.members[member].awaited.add(standbys.task)
