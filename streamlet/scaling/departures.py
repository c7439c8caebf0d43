"""Tells instances that have left from those that only seem to; pure.

An instance hands its tasks over, leaves the group and removes its mark. Its mark may also go
because the scale-down was cancelled, or because the instance was started again, which removes it;
then it stays. And it may end before it has handed everything over: it is stopped, or dies. Started
again at once it is back within moments, without its mark.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from streamlet.admin.snapshot import GroupSnapshot, InstanceSnapshot
from streamlet.control.view import ControlView

#: How long an instance that has gone with tasks is given to be back: a start takes some seconds,
#: and removes the mark before the instance joins.
_RETURN_MS = 15_000
_RUNNING = frozenset({"active", "pending"})


@attrs.define
class Departures:
    """Follows leaving instances from one snapshot to the next."""

    leaving: tuple[InstanceSnapshot, ...]
    #: Process ids of those that still may leave, of those that stay after all, and of those that
    #: ended before they had handed over their tasks.
    _open: set[str] = attrs.field(factory=set)
    _stay: set[str] = attrs.field(factory=set)
    _cut_short: set[str] = attrs.field(factory=set)
    #: Those that reported that they run nothing any more.
    _empty: set[str] = attrs.field(factory=set)
    #: Since when those without such a report have been gone.
    _gone_ms: dict[str, int] = attrs.field(factory=dict)

    def look(
        self, group: GroupSnapshot, view: ControlView, now_ms: int, *, fresh: bool
    ) -> list[str]:
        """Take a new snapshot of group and control topic; a line for each problem.

        ``fresh``: the group was read after the control topic, so that one explains the other.
        """
        before = self._stay | self._cut_short
        self._empty |= set(_empty(view))
        there = {one.key for one in group.instances}
        gone = {one.key for one in departed(self.leaving, group, view)}
        self._gone_ms = {key: self._gone_ms.get(key, now_ms) for key in gone - self._empty}
        if fresh:
            reporting = {member.instance for member in view.progress}
            self._stay = {one.key for one in self.leaving} & there & reporting - view.marks.keys()
        waited = {key for key, since in self._gone_ms.items() if now_ms - since >= _RETURN_MS}
        self._cut_short = waited & view.marks.keys() | self._cut_short & gone
        settled = self._stay | (gone & self._empty) | waited
        self._open = {one.key for one in self.leaving} - settled
        return [self._line(one) for one in self.failed if one.key not in before]

    @property
    def under_way(self) -> list[InstanceSnapshot]:
        """The instances whose leaving has not ended yet; none before the first look."""
        return [one for one in self.leaving if one.key in self._open]

    @property
    def failed(self) -> list[InstanceSnapshot]:
        """The instances that did not leave as they were asked to."""
        return [one for one in self.leaving if one.key in self._stay | self._cut_short]

    def summary(self) -> str:
        """The end of it, for people."""
        failed = self.failed
        left = [one.name for one in self.leaving if one not in failed]
        parts = [self._line(one) for one in failed]
        return "; ".join([*parts, *([f"{', '.join(left)} left"] if left else [])])

    def _line(self, one: InstanceSnapshot) -> str:
        if one.key in self._stay:
            return (
                f"{one.name} stays: its mark was removed, because the scale-down was cancelled or "
                "the instance was started again"
            )
        return f"{one.name} ended before it had handed over its tasks; others restore them"


def departed(
    leaving: tuple[InstanceSnapshot, ...], group: GroupSnapshot, view: ControlView
) -> list[InstanceSnapshot]:
    """The instances that the group does not know any more, and that took back their reports.

    For one that died the leader takes it back, so one whose worker is only started again has not
    left. Where no other instance is there to do so, the group alone counts.
    """
    there = {one.key for one in group.instances}
    others = there - {one.key for one in leaving}
    reporting = {member.instance for member in view.progress} if others else set()
    return [one for one in leaving if one.key not in there | reporting]


def _empty(view: ControlView) -> Iterator[str]:
    """Instances whose members all report that they leave and run nothing."""
    running = {
        member.instance
        for member in view.progress.values()
        if not member.leaving or any(task.role in _RUNNING for task in member.tasks)
    }
    for member in view.progress.values():
        if member.instance not in running:
            yield member.instance
