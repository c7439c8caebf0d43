"""Scaling an application down: plan, mark, follow; and taking marks back.

Marks are all that is done here. The members read them, hand their tasks over and leave by
themselves, so nothing depends on whoever wrote the marks from then on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from streamlet.control.records import place_of
from streamlet.control.values import Mark
from streamlet.errors import (
    BrokerError,
    ConfigError,
    NotFoundError,
    RefusedError,
    TimedOutError,
)
from streamlet.group.live import LiveGroup
from streamlet.group.look import describe
from streamlet.scaling.cluster import Cluster, Situation
from streamlet.scaling.plan import Plan, burdens, make_plan
from streamlet.scaling.present import Instance
from streamlet.scaling.progress import Progress, progress
from streamlet.scaling.selection import by_percent, check_percent, check_somebody_stays, find
from streamlet.scaling.turn import our_turn
from streamlet.types import TaskId

_LOOK_MS = 500
#: How long after a deadline leavers may take: their last commits, and leaving the group.
_AFTER_DEADLINE_MS = 60_000
#: How long new owners are waited for to say that they run what was handed to them last.
_LAST_WORD_MS = 2_000


@attrs.frozen
class Wanted:
    """What is asked for.

    ``timeout_ms``: None is as each instance's ``scale.down.timeout.ms`` says, ``math.inf`` none.
    """

    percent: float | None = None
    names: tuple[str, ...] = ()
    timeout_ms: float | None = None
    asked_twice: bool = False

    def check(self) -> Wanted:
        """Itself, if it can be.

        Raises:
            ConfigError: it cannot.
        """
        if (self.percent is None) == (not self.names):
            raise ConfigError(["say either how many percent stay, or by name who leaves"])
        if self.percent is not None:
            check_percent(self.percent)
        return self


@attrs.frozen
class Result:
    """How a command ended; ``done``: everybody who was to leave has left."""

    leaving: tuple[str, ...]
    staying: tuple[str, ...]
    moves: tuple[dict[str, Any], ...]
    estimate_s: float
    done: bool

    @classmethod
    def of(cls, plan: Plan, *, done: bool) -> Result:
        """What became of a plan."""
        return cls(
            leaving=tuple(one.name for one in plan.leaving),
            staying=tuple(one.name for one in plan.staying),
            moves=tuple(move.as_dict() for move in plan.moves),
            estimate_s=round(plan.estimate_s, 1),
            done=done,
        )

    def as_dict(self) -> dict[str, Any]:
        """The document that commands print."""
        return {
            "leaving": list(self.leaving),
            "staying": list(self.staying),
            "moves": [dict(move) for move in self.moves],
            "estimate_s": self.estimate_s,
            "done": self.done,
        }


#: Told how far it is, every time that changes.
Watcher: TypeAlias = Callable[[Progress], None]


@attrs.define
class ScaleDown:
    """Scales one application down."""

    cluster: Cluster
    wanted: Wanted
    #: Bytes of each task; asked for once, so that the choice is the same when marks are set.
    _sizes: Mapping[TaskId, int] = attrs.field(init=False, factory=dict)

    def plan(self) -> Plan:
        """Who would leave and what would move; nothing is marked.

        Raises:
            NotFoundError: no such application or instance, or it is not running.
            RefusedError: nobody would stay, or another scale-down is under way.
            TimedOutError: the group goes on rebalancing.
            BrokerError: the broker does not answer, or refuses.
        """
        self.wanted.check()
        situation = self.cluster.situation()
        find(situation.everybody, self.wanted.names)
        self._sizes = self.cluster.sizes(situation)
        return self._plan(situation)

    def mark(self, plan: Plan) -> Plan:
        """Mark those that are to leave; the plan as it is now.

        Whoever is marked already stays marked as it is, unless there is another time limit. If the
        group changed since the plan was made so that others would leave, nothing is marked.

        Raises:
            RefusedError: the group changed, another command is at it, or we were told to stop.
            BrokerError: the broker does not answer, or refuses.
            DeliveryError: the marks were not taken.
        """
        cluster = self.cluster
        if not plan.leaving:
            return plan
        if cluster.stopped.is_set():
            raise RefusedError("stopped before anybody was marked")
        with our_turn(cluster.control, cluster.clock, "scale-down", cluster.stopped):
            situation = cluster.situation()
            now = self._plan(situation)
            fresh = {one.key for one in now.leaving} - situation.marks.keys()
            if fresh and {one.key for one in now.leaving} != {one.key for one in plan.leaving}:
                raise RefusedError(
                    "the group has changed: "
                    f"{', '.join(one.name for one in now.leaving)} would leave now. "
                    "Nothing was marked; look at the plan again"
                )
            mark_all(cluster, situation, now.leaving, self.wanted.timeout_ms)
            return now

    def _plan(self, situation: Situation) -> Plan:
        leaving = self._chosen(situation)
        check_somebody_stays(situation.everybody, leaving, asked_twice=self.wanted.asked_twice)
        return plan_for(self.cluster, situation, leaving, self._sizes)

    def _chosen(self, situation: Situation) -> Collection[str]:
        if self.wanted.percent is None:
            named = find(situation.everybody, self.wanted.names)
            return {*situation.marks, *(one.key for one in named)}
        state = self.cluster.state(situation, {})
        return by_percent(
            situation.everybody,
            burdens(state, self._sizes),
            self.wanted.percent,
            situation.marks.keys(),
        )


def plan_for(
    cluster: Cluster,
    situation: Situation,
    leaving: Collection[str],
    sizes: Mapping[TaskId, int],
) -> Plan:
    """The plan for these instances (process ids) to leave."""
    now_ms = cluster.clock.wall_ms()
    marks = {key: situation.marks.get(key, Mark(key, now_ms)) for key in leaving}
    return make_plan(
        cluster.state(situation, marks),
        situation.everybody,
        sizes,
        share=cluster.application.settings.restore_max_share,
        assignor=cluster.application.assignor,
    )


def mark_all(
    cluster: Cluster, situation: Situation, leaving: Sequence[Instance], timeout_ms: float | None
) -> None:
    """Write marks for these instances; in our turn."""
    now_ms = cluster.clock.wall_ms()
    marks = []
    for one in leaving:
        before = situation.marks.get(one.key)
        mark = before or Mark(one.key, now_ms, name=one.name)
        if timeout_ms is not None:
            unlimited = math.isinf(timeout_ms)
            deadline_ms = None if unlimited else now_ms + int(timeout_ms)
            mark = attrs.evolve(mark, deadline_ms=deadline_ms, unlimited=unlimited)
        if mark != before:
            marks.append(mark)
    cluster.control.write(*marks)
    cluster.control.flush()


def cancel(cluster: Cluster, names: Sequence[str]) -> tuple[Result, tuple[Instance, ...]]:
    """Take marks back: of these instances, or of all.

    Returns:
        The result, whose ``leaving`` are those that are still marked; and who stays after all.

    Raises:
        NotFoundError: no such application or instance, or it is not running; all stay marked.
        BrokerError: the broker does not answer, or refuses.
        DeliveryError: the topic did not take it.
    """
    # Before anything is written: a broker may make a topic for whatever name is written to.
    find(cluster.situation().everybody, names)
    with our_turn(cluster.control, cluster.clock, "cancelling a scale-down", cluster.stopped):
        situation = cluster.situation()
        meant = find(situation.everybody, names) if names else situation.everybody
        back = tuple(one for one in meant if one.key in situation.marks)
        cluster.control.remove(*(place_of(situation.marks[one.key]) for one in back))
        cluster.control.flush()
    left = situation.marks.keys() - {one.key for one in back}
    result = Result(
        tuple(one.name for one in situation.everybody if one.key in left),
        tuple(one.name for one in situation.everybody if one.key not in left),
        (),
        0.0,
        not back,
    )
    return result, back


@attrs.define
class Follower:
    """Follows an application until what was asked for is so; a broker that restarts is waited for.

    Args:
        cluster: the application.
        note: told what went wrong meanwhile.
    """

    cluster: Cluster
    note: Callable[[str], None]
    _group: LiveGroup | None = None
    _must_read: bool = False

    def until_left(self, plan: Plan, watcher: Watcher, deadline_ms: int | None) -> bool:
        """Wait until all have left; whether they have (we may be told to stop).

        Raises:
            TimedOutError: some are there long after their deadline (wall-clock ms).
        """
        before: Progress | None = None
        left_ms: int | None = None
        while True:
            found = self._look(plan)
            if found is not None and found != before:
                watcher(found)
                before = found
            if found is not None and found.done:
                now_ms = self.cluster.clock.now_ms()
                left_ms = now_ms if left_ms is None else left_ms
                all_run = found.moved == len(found.steps) or not plan.staying
                if all_run or now_ms - left_ms >= _LAST_WORD_MS:
                    return True
            self._check_time(found, deadline_ms)
            if self.cluster.stopped.wait(_LOOK_MS / 1000):
                return False

    def until_calm(self, stay_after_all: Sequence[Instance]) -> bool:
        """Wait until these are treated as staying, and nobody learns; whether it is so."""
        keys = {one.key for one in stay_after_all}
        while True:
            group = self._described()
            if group is not None and group.stable and not _stirred(group, keys):
                return True
            if self.cluster.stopped.wait(_LOOK_MS / 1000):
                return False

    def _look(self, plan: Plan) -> Progress | None:
        group = self._described()
        if group is not None:
            self._group = group
        return (
            None if self._group is None else progress(plan, self._group, self.cluster.control.view)
        )

    def _described(self) -> LiveGroup | None:
        """The group if it is stable or empty, with the control topic read up to now."""
        try:
            if self._must_read:
                self.cluster.control.read()
                self._must_read = False
            while self.cluster.control.follow(0):
                pass
            group = describe(self.cluster.transport, self.cluster.application.name)
        except NotFoundError:
            return None
        except (BrokerError, TimedOutError) as error:
            self._must_read = True
            self.note(f"{error}; the marks hold meanwhile")
            return None
        return group if group.stable or not group.members else None

    def _check_time(self, found: Progress | None, deadline_ms: int | None) -> None:
        now_ms = self.cluster.clock.wall_ms()
        if (
            found is not None
            and deadline_ms is not None
            and now_ms > deadline_ms + _AFTER_DEADLINE_MS
        ):
            raise TimedOutError(
                f"{', '.join(found.leaving)} had to be gone by now and "
                f"{'is' if len(found.leaving) == 1 else 'are'} not; the marks hold"
            )


def _stirred(group: LiveGroup, keys: Collection[str]) -> bool:
    """Whether any of these is still treated as leaving, or anybody learns anything."""
    return any(
        member.told.learner or (member.said.leaving is not None and member.said.instance in keys)
        for member in group.members
    )
