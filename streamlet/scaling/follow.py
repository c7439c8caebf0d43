"""Follows an application until a command's aim is reached; the application does not depend on it.

Input and output are those of ``cluster``; a broker that restarts is waited for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import attrs

from streamlet.admin.snapshot import GroupSnapshot, InstanceSnapshot
from streamlet.admin.window import GroupWindow
from streamlet.errors import (
    BrokerError,
    NotFoundError,
    StreamletError,
    TimedOutError,
    WithdrawnError,
)
from streamlet.scaling.departures import Departures
from streamlet.scaling.outages import OutageReport
from streamlet.scaling.plan import ScaleDownPlan
from streamlet.scaling.progress import Progress, progress

_LOOK_MS = 500
#: How long after a deadline leavers may take: their last commits, and leaving the group.
_AFTER_DEADLINE_MS = 60_000
#: How long new owners are waited for to say that they run what was handed to them last.
_LAST_WORD_MS = 2_000

#: Called with the progress every time that it changes.
Watcher: TypeAlias = Callable[[Progress], None]
#: Called with the group each time that it is seen stable; may raise to end the following.
Check: TypeAlias = Callable[[GroupSnapshot], None]


def no_check(_: GroupSnapshot) -> None:
    """Check nothing more."""


@attrs.define
class ApplicationFollower:
    """Follows one application.

    Args:
        window: on the application.
        note: called with what an operator has to know meanwhile.
        check: looks at the group beside what is followed.
        limit_ms: the command's own time limit, for a broker that stays away; None for no limit.
    """

    window: GroupWindow
    note: Callable[[str], None]
    check: Check = no_check
    limit_ms: float | None = None
    _outage: OutageReport = attrs.field(init=False)
    _check_outage: OutageReport = attrs.field(init=False)
    _until_ms: float = attrs.field(init=False)
    _group: GroupSnapshot | None = None
    #: Whether the control topic has to be read to its end, so that marks just written are known.
    _must_read: bool = True

    def __attrs_post_init__(self) -> None:
        clock = self.window.clock
        self._outage = OutageReport(self.note, clock)
        self._check_outage = OutageReport(self.note, clock)
        limit_ms = math.inf if self.limit_ms is None else self.limit_ms
        self._until_ms = clock.now_ms() + limit_ms + _AFTER_DEADLINE_MS

    def until_left(self, plan: ScaleDownPlan, watcher: Watcher) -> bool:
        """Wait until all have left; False if stopped before.

        Raises:
            TimedOutError: some are there long after the deadline of their marks, or no broker
                answered until after the command's own limit.
            WithdrawnError: some stay after all, or ended before their tasks were handed over.
        """
        before: Progress | None = None
        settled_ms: int | None = None
        departures = Departures(plan.leaving)
        while True:
            group = self._described()
            found = self._look(plan, departures, group)
            if found is not None and found != before:
                watcher(found)
                before = found
            if found is not None and not departures.under_way:
                now_ms = self.window.clock.now_ms()
                settled_ms = now_ms if settled_ms is None else settled_ms
                all_run = found.moved == len(found.steps) or not plan.staying
                if all_run or departures.failed or now_ms - settled_ms >= _LAST_WORD_MS:
                    return _succeeded(departures)
            self._check_outage_time()
            self._check_time(departures.under_way)
            if self.window.stopped.wait(_LOOK_MS / 1000):
                return False

    def until_calm(self, stay_after_all: Sequence[InstanceSnapshot]) -> bool:
        """Wait until these count as staying and no member learns; False if stopped before.

        A group without members is calm.
        """
        keys = {one.key for one in stay_after_all}
        while True:
            group = self._described()
            if group is not None and not _stirred(group, keys):
                return True
            if self.window.stopped.wait(_LOOK_MS / 1000):
                return False

    def _look(
        self, plan: ScaleDownPlan, departures: Departures, group: GroupSnapshot | None
    ) -> Progress | None:
        """Read the progress of the plan; ``group`` is None while it cannot be read."""
        if group is not None:
            self._group = group
        if self._group is None:
            return None
        view = self.window.control.view
        now_ms = self.window.clock.now_ms()
        for line in departures.look(self._group, view, now_ms, fresh=group is not None):
            self.note(line)
        if group is not None and group.stable and departures.under_way:
            self._checked(group)
        return progress(plan, self._group, view)

    def _checked(self, group: GroupSnapshot) -> None:
        """Run the check; if a broker is away, the next look runs it again."""
        try:
            self.check(group)
        except StreamletError as error:
            if not error.passing:
                raise
            self._check_outage.failed(error, "trying again")
        else:
            self._check_outage.over()

    def _described(self) -> GroupSnapshot | None:
        """The group if it is stable or empty, with the control topic read up to now."""
        try:
            if self._must_read:
                self.window.control.read()
                self._must_read = False
            self.window.reports()
            group = self.window.group()
        except NotFoundError:
            return None
        except (BrokerError, TimedOutError) as error:
            self._outage.failed(error, "the marks hold meanwhile")
            return None
        self._outage.over()
        return group if group.stable or not group.members else None

    def _check_outage_time(self) -> None:
        if self._outage.lasts and self.window.clock.now_ms() > self._until_ms:
            raise TimedOutError(
                "no broker answers, so it is unknown whether all have left; the marks hold"
            )

    def _check_time(self, under_way: Sequence[InstanceSnapshot]) -> None:
        now_ms = self.window.clock.wall_ms()
        marks = self.window.control.view.marks
        deadlines = [marks[one.key].deadline_ms for one in under_way if one.key in marks]
        known = [deadline for deadline in deadlines if deadline is not None]
        names = [one.name for one in under_way]
        if names and len(known) == len(names) and now_ms > max(known) + _AFTER_DEADLINE_MS:
            raise TimedOutError(
                f"{', '.join(names)} had to be gone by now and "
                f"{'is' if len(names) == 1 else 'are'} not; the marks hold"
            )


def _succeeded(departures: Departures) -> bool:
    if departures.failed:
        raise WithdrawnError(departures.summary())
    return True


def _stirred(group: GroupSnapshot, keys: Collection[str]) -> bool:
    """True while any of these instances counts as leaving, or any member learns a task."""
    return any(
        member.assigned.learner
        or (member.reported.leaving is not None and member.reported.instance in keys)
        for member in group.members
    )
