"""Scaling an application down: plan, mark, follow; and taking marks back.

Marks are all that is done here. The members read them, hand their tasks over and leave by
themselves, so nothing depends on the command that wrote the marks from then on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from streamlet.admin.current import CurrentGroup
from streamlet.admin.snapshot import InstanceSnapshot, called
from streamlet.admin.window import GroupWindow
from streamlet.control.records import place_of
from streamlet.control.values import Mark
from streamlet.errors import ConfigError, RefusedError
from streamlet.scaling.cluster import planning_state, running, state_sizes
from streamlet.scaling.command_lock import command_lock
from streamlet.scaling.plan import ScaleDownPlan, as_json, burdens, make_plan
from streamlet.scaling.selection import by_percent, check_percent, check_some_stay, find
from streamlet.types import TaskId


@attrs.frozen
class ScaleDownRequest:
    """The request of a command.

    ``timeout_ms``: None is as each instance's ``scale.down.timeout.ms`` says, ``math.inf`` none.
    ``successors`` are the instances without which those named are to stay.
    """

    percent: float | None = None
    names: tuple[str, ...] = ()
    timeout_ms: float | None = None
    asked_twice: bool = False
    successors: tuple[str, ...] = ()

    def check(self) -> ScaleDownRequest:
        """The request, once it is checked that it can be carried out.

        Raises:
            ConfigError: it cannot.
        """
        if (self.percent is None) == (not self.names):
            raise ConfigError(["say either how many percent stay, or by name who leaves"])
        if self.percent is not None:
            check_percent(self.percent)
        return self


@attrs.frozen
class ScaleDownResult:
    """The result of a command; ``done``: all that were to leave have left."""

    leaving: tuple[str, ...]
    staying: tuple[str, ...]
    moves: tuple[dict[str, Any], ...]
    estimate_s: float
    done: bool

    @classmethod
    def of(cls, plan: ScaleDownPlan, *, done: bool) -> ScaleDownResult:
        """Make the result of a plan."""
        names = called((*plan.leaving, *plan.staying))
        return cls(
            leaving=tuple(names[one.key] for one in plan.leaving),
            staying=tuple(names[one.key] for one in plan.staying),
            moves=tuple(move.as_dict() for move in plan.moves),
            estimate_s=round(plan.estimate_s, 1),
            done=done,
        )

    def as_dict(self) -> dict[str, Any]:
        """The document that commands print."""
        return as_json(self)


@attrs.define
class ScaleDown:
    """Scales one application down."""

    window: GroupWindow
    wanted: ScaleDownRequest
    #: Bytes of each task; asked for once, so that the choice is the same when marks are set.
    _sizes: Mapping[TaskId, int] = attrs.field(init=False, factory=dict)

    def plan(self) -> ScaleDownPlan:
        """Plan who leaves and what moves; nothing is marked.

        Raises:
            NotFoundError: no such application or instance, or it is not running.
            RefusedError: no instance would stay, or another scale-down is under way.
            TimedOutError: the group goes on rebalancing.
            BrokerError: the broker does not answer, or refuses.
        """
        self.wanted.check()
        current = running(self.window)
        find(current.instances, self.wanted.names)
        self._sizes = state_sizes(self.window, current)
        return self._plan(current)

    def mark(self, plan: ScaleDownPlan) -> ScaleDownPlan:
        """Mark those that are to leave; the plan as it is now.

        An instance that is marked already stays marked as it is, unless there is another time
        limit. If the group changed since the plan was made so that others would leave, nothing is
        marked.

        Raises:
            RefusedError: the group changed, another command is running, or we were stopped.
            BrokerError: the broker does not answer, or refuses.
            DeliveryError: the marks were not taken.
        """
        window = self.window
        if not plan.leaving:
            return plan
        if window.stopped.is_set():
            raise RefusedError("stopped before an instance was marked")
        with command_lock(window, "scale-down"):
            current = running(window)
            now = self._plan(current)
            fresh = {one.key for one in now.leaving} - current.marks.keys()
            if fresh and {one.key for one in now.leaving} != {one.key for one in plan.leaving}:
                raise RefusedError(
                    "the group has changed: "
                    f"{', '.join(one.name for one in now.leaving)} would leave now. "
                    "Nothing was marked; look at the plan again"
                )
            self._mark(current, now.leaving)
            return now

    def _mark(self, current: CurrentGroup, leaving: Sequence[InstanceSnapshot]) -> None:
        """Write drain requests under the command lock; existing ones keep their other fields."""
        wanted, all_instances = self.wanted, current.instances
        now_ms = self.window.clock.wall_ms()
        named = find(all_instances, wanted.names)
        successors = tuple(one.key for one in find(all_instances, wanted.successors))
        marks = []
        for one in leaving:
            before = current.marks.get(one.key)
            mark = before or Mark(one.key, now_ms, name=one.name)
            if one in named:
                mark = attrs.evolve(mark, successors=successors)
            if wanted.timeout_ms is not None:
                unlimited = math.isinf(wanted.timeout_ms)
                deadline_ms = None if unlimited else now_ms + int(wanted.timeout_ms)
                mark = attrs.evolve(mark, deadline_ms=deadline_ms, unlimited=unlimited)
            if mark != before:
                marks.append(mark)
        self.window.control.write(*marks)
        self.window.control.flush()

    def _plan(self, current: CurrentGroup) -> ScaleDownPlan:
        leaving = self._chosen(current)
        check_some_stay(current.instances, leaving, asked_twice=self.wanted.asked_twice)
        window, now_ms = self.window, self.window.clock.wall_ms()
        marks = {key: current.marks.get(key, Mark(key, now_ms)) for key in leaving}
        return make_plan(
            planning_state(window, current, marks),
            current.instances,
            self._sizes,
            share=window.application.settings.restore_max_share,
            assignor=window.application.assignor,
        )

    def _chosen(self, current: CurrentGroup) -> Collection[str]:
        if self.wanted.percent is None:
            named = find(current.instances, self.wanted.names)
            return {*current.marks, *(one.key for one in named)}
        state = planning_state(self.window, current, {})
        return by_percent(
            current.instances,
            burdens(state, self._sizes),
            self.wanted.percent,
            current.marks.keys(),
        )


def cancel(
    window: GroupWindow, names: Sequence[str]
) -> tuple[ScaleDownResult, tuple[InstanceSnapshot, ...]]:
    """Take marks back: of these instances, or of all.

    Returns:
        The result, whose ``leaving`` are those that are still marked; and who stays after all.

    Raises:
        NotFoundError: no such application or instance, or it is not running; all stay marked.
        BrokerError: the broker does not answer, or refuses.
        DeliveryError: the topic did not take it.
    """
    # Before anything is written: a broker may make a topic for whatever name is written to.
    find(running(window).instances, names)
    with command_lock(window, "cancelling a scale-down"):
        current = running(window)
        meant = find(current.instances, names) if names else current.instances
        back = tuple(one for one in meant if one.key in current.marks)
        window.control.remove(*(place_of(current.marks[one.key]) for one in back))
        window.control.flush()
    left = current.marks.keys() - {one.key for one in back}
    names_now = called(current.instances)
    result = ScaleDownResult(
        tuple(names_now[one.key] for one in current.instances if one.key in left),
        tuple(names_now[one.key] for one in current.instances if one.key not in left),
        (),
        0.0,
        not back,
    )
    return result, back
