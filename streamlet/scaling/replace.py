"""Swapping hosts: new instances in, then the old ones out, then a look at what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.admin.current import CurrentGroup
from streamlet.admin.status_look import StatusLook
from streamlet.admin.window import GroupWindow
from streamlet.errors import ConfigError, RefusedError, TimedOutError
from streamlet.scaling.cluster import running
from streamlet.scaling.follow import ApplicationFollower
from streamlet.scaling.leavers import in_order
from streamlet.scaling.outages import outlast
from streamlet.scaling.plan import ScaleDownPlan, as_json
from streamlet.scaling.scale_down import ScaleDownRequest, cancel
from streamlet.scaling.selection import find
from streamlet.scaling.succession import Succession, SuccessorLostError, are, lacking

_LOOK_S = 0.5


@attrs.frozen
class Replacement:
    """The old and the new instances. ``join_timeout_ms``: how long the new ones are waited for."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    timeout_ms: float | None = None
    join_timeout_ms: float = 300_000

    @property
    def scale_down(self) -> ScaleDownRequest:
        """Its second half: the old ones leave only while the new ones are there."""
        return ScaleDownRequest(names=self.old, timeout_ms=self.timeout_ms, successors=self.new)

    def check(self) -> Replacement:
        """The request, once it is checked that it can be carried out.

        Raises:
            ConfigError: it cannot.
        """
        both = sorted({*self.old} & {*self.new})
        if not self.old or not self.new:
            raise ConfigError(["say which instances are old and which are new"])
        if both:
            raise ConfigError([f"{', '.join(both)} cannot be both old and new"])
        return self

    def await_new(self, window: GroupWindow, note: Callable[[str], None]) -> None:
        """Wait until all new instances are in the group; nothing is marked yet.

        A broker that is away meanwhile is waited for as long.

        Raises:
            NotFoundError: an old instance does not run.
            RefusedError: a new one is marked to leave.
            TimedOutError: some have not come in time.
        """
        deadline = window.clock.now_ms() + self.join_timeout_ms
        waited_for: list[str] = []
        while missing := self._to_come(
            outlast(
                lambda: running(window),
                deadline - window.clock.now_ms(),
                note=note,
                clock=window.clock,
                stopped=window.stopped,
            )
        ):
            if missing != waited_for:
                left_s = max(0.0, deadline - window.clock.now_ms()) / 1_000
                note(f"waiting for {', '.join(missing)} to join, for {left_s:,.0f} s at most")
                waited_for = missing
            if window.clock.now_ms() > deadline or window.stopped.wait(_LOOK_S):
                raise TimedOutError(
                    f"{', '.join(missing)} did not join; nothing was marked. Start it with "
                    "streamlet run --name, then give this command again"
                )

    def _to_come(self, current: CurrentGroup) -> list[str]:
        find(current.instances, self.old)
        missing = lacking(self.new, current.instances)
        if not missing:
            new = find(current.instances, self.new)
            going = [one.name for one in new if one.key in current.marks]
            if going:
                raise RefusedError(f"{', '.join(going)} is to leave itself; nothing was marked")
        return missing

    def succession(self, window: GroupWindow, note: Callable[[str], None]) -> Succession:
        """Looks after the new ones, from now on."""
        limit_ms = self.timeout_ms
        until_ms = None if limit_ms is None else window.clock.now_ms() + limit_ms
        return Succession(window, self.old, self.new, self.join_timeout_ms, until_ms, note)

    def checked(
        self, window: GroupWindow, plan: ScaleDownPlan, follower: ApplicationFollower
    ) -> ReplaceResult:
        """The result, once nothing moves any more."""
        calm = follower.until_calm(())
        found = _status(window, check=True)
        running = _actives(found)
        lost = in_order({*self.new} - {name for one in found["instances"] for name in _names(one)})
        result = ReplaceResult.of(self, plan, done=calm and not lost)
        if lost:
            problem = f"{', '.join(self.old)} left, but {are(lost)} gone"
            return attrs.evolve(result, tasks=running, problem=problem)
        new = {one["name"] for one in found["instances"] if {*_names(one)} & {*self.new}}
        return attrs.evolve(
            result,
            tasks={name: count for name, count in running.items() if name in new},
            violations=tuple(found["violations"]),
        )

    def given_up(
        self, window: GroupWindow, plan: ScaleDownPlan, lost: SuccessorLostError
    ) -> ReplaceResult:
        """The result where a new instance was lost: the old ones stay."""
        ours = [one for one in plan.leaving if {one.name, one.key} & {*self.old}]
        kept = [one for one in ours if one.key in lost.there]
        if kept:
            cancel(window, [one.key for one in kept])
        names = ", ".join(one.name for one in kept)
        stay = f"; {names} stay{'s' * (len(kept) == 1)}" if kept else ""
        tasks = _actives(_status(window, check=False))
        result = ReplaceResult.of(self, plan, done=False)
        return attrs.evolve(result, tasks=tasks, problem=f"{lost}{stay}")


@attrs.frozen
class ReplaceResult:
    """The result of a swap.

    ``tasks`` that each new instance runs, and what a check found wrong. ``problem``: why the new
    ones did not take over; then ``tasks`` are those of all instances.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    moves: tuple[dict[str, Any], ...]
    estimate_s: float
    tasks: dict[str, int] = attrs.field(factory=dict)
    violations: tuple[dict[str, Any], ...] = ()
    done: bool = attrs.field(kw_only=True)
    problem: str | None = None

    @classmethod
    def of(cls, wanted: Replacement, plan: ScaleDownPlan, *, done: bool) -> ReplaceResult:
        """Make the result of a plan."""
        moves = tuple(move.as_dict() for move in plan.moves)
        return cls(wanted.old, wanted.new, moves, round(plan.estimate_s, 1), done=done)

    def as_dict(self) -> dict[str, Any]:
        """The document that the command prints."""
        return as_json(self)


def _status(window: GroupWindow, *, check: bool) -> dict[str, Any]:
    """The status document of the application."""
    return StatusLook(window, check, control=window.control.read).now()


def _actives(document: dict[str, Any]) -> dict[str, int]:
    """The number of tasks that each instance runs."""
    return {
        one["name"]: sum(
            task["role"] in ("active", "pending")
            for member in one["members"]
            for task in member["tasks"]
        )
        for one in document["instances"]
    }


def _names(instance: dict[str, Any]) -> tuple[str, str]:
    return instance["name"], instance["process_id"]
