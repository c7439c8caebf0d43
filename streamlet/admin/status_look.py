"""The status of an application: its group, its lag, and whether what must hold does.

Reads the group off its coordinator and the lag off commits and end offsets, through a window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from streamlet.admin.advice import Observation, advise
from streamlet.admin.current import CurrentGroup, loads
from streamlet.admin.snapshot import GroupSnapshot, last_round, tasks, unassigned_for_good
from streamlet.admin.status import document
from streamlet.admin.unread import reported_inputs, unread_partitions, unread_violations
from streamlet.admin.window import GroupWindow
from streamlet.assignor.validate import validate
from streamlet.assignor.values import Violation
from streamlet.control.view import ControlView
from streamlet.errors import TimedOutError
from streamlet.kafka.ports import TopicInfo
from streamlet.types import TopicPartition

#: How long a group that rebalances is waited for: to be read at all, and to be checked.
_SETTLE_MS = 2_000
_SETTLE_CHECK_MS = 15_000


@attrs.frozen
class StatusReading:
    """The status document of an application, with what it was made of.

    Attributes:
        status: the document.
        seen: committed positions and ends.
        control: what the members say.
        topics: all topics of the cluster.
    """

    status: dict[str, Any]
    seen: Observation
    control: ControlView
    topics: Mapping[str, TopicInfo]


@attrs.frozen
class StatusLook:
    """Makes the status document of an application.

    Args:
        window: onto the application.
        check: whether what must always hold is checked.
        control: gives what the members say, in place of the control topic.
        history: earlier looks; with them the document bears advice.
        confirm_s: how long a violation that members' reports show must last: reports are a moment
            late.
        settle_ms: how long a group that rebalances is waited for, unless it is to be checked.
    """

    window: GroupWindow
    check: bool = False
    control: Callable[[], ControlView] | None = None
    history: deque[Observation] | None = None
    confirm_s: float = 1.5
    settle_ms: int = _SETTLE_MS

    def now(self) -> dict[str, Any]:
        """The status document; raises as ``read``."""
        return self.read().status

    def read(self) -> StatusReading:
        """The status document, with what it was made of.

        Raises:
            NotFoundError: no such application.
            TimedOutError: it is to be checked and goes on rebalancing.
        """
        group = self._settled()
        control = self.reports()
        violations = []
        if self.check and group.stable:
            violations = self._violations(group) + self._lasting(CurrentGroup(group, control))
        topics = self.window.admin.topics()
        seen = self._seen(control, topics)
        inputs = reported_inputs(group, control)
        known = inputs is not None or not group.members
        unread = self._unread(inputs, seen, control, topics) if known else {}
        if self.check and group.stable:
            violations += unread_violations(unread)
        found = document(group, seen.lag(), violations, control, unread)
        if self.history is not None:
            self.history.append(seen)
            members = loads(CurrentGroup(group, control))
            advice = advise(self.history, members, len(tasks(group))).to_dict()
            found["advice"] = advice | {"unread": sum(unread.values())}
        return StatusReading(found, seen, control, topics)

    def _settled(self) -> GroupSnapshot:
        """The group once it is stable or empty; as it is when that takes too long."""
        wait_ms = _SETTLE_CHECK_MS if self.check else self.settle_ms
        group = self.window.settled(wait_ms)
        if self.check and group.members and not group.stable:
            raise TimedOutError(
                f"{self.window.name} is still in {group.described.state} after {wait_ms} ms; "
                "it can be checked when it is Stable"
            )
        return group

    def _violations(self, group: GroupSnapshot) -> list[Violation]:
        application = self.window.application
        state, plan = last_round(group, application.rules, self.window.clock.wall_ms())
        custom = application.custom
        found = validate(state, plan, metadata_bytes=group.metadata_bytes, custom=custom)
        return found + unassigned_for_good(group, found)

    def _lasting(self, first: CurrentGroup) -> list[Violation]:
        """The violations in members' reports that are still there a moment later."""
        found = first.violations()
        if not found or self.window.stopped.wait(self.confirm_s):
            return []
        group = self.window.group()
        again = CurrentGroup(group, self.reports()).violations() if group.stable else []
        kept = {(violation.rule, violation.tasks, violation.members) for violation in again}
        return [one for one in found if (one.rule, one.tasks, one.members) in kept]

    def _unread(
        self,
        inputs: Mapping[str, int] | None,
        seen: Observation,
        control: ControlView,
        topics: Mapping[str, TopicInfo],
    ) -> dict[TopicPartition, int]:
        """The input partitions that no task reads, with the records that each holds."""
        unread = unread_partitions(topics, seen.committed, inputs)
        if not unread:
            return {}
        starts, ends = self.window.admin.start_offsets(unread), self._ends(unread, control)
        return {tp: ends[tp] - starts[tp] for tp in unread if tp in starts and tp in ends}

    def reports(self) -> ControlView:
        """The members' own reports as of now; raises as ``GroupWindow.reports``."""
        return self.window.reports() if self.control is None else self.control()

    def exists(self) -> None:
        """Raise NotFoundError if there is no such application."""
        self.window.group()

    def observe(self) -> Observation:
        """Commit and end of every partition the application has committed."""
        return self._seen(self.reports(), self.window.admin.topics())

    def _seen(self, control: ControlView, topics: Mapping[str, TopicInfo]) -> Observation:
        committed = self.window.committed(topics)
        ends = self._ends(sorted(committed), control) if committed else {}
        offsets = {tp: one.offset for tp, one in committed.items()}
        return Observation(self.window.clock.now_ms(), offsets, ends)

    def _ends(
        self, partitions: Sequence[TopicPartition], control: ControlView
    ) -> dict[TopicPartition, int]:
        """End offsets that members may read up to, for the application's isolation level."""
        committed = control.read_committed
        return self.window.admin.readable_ends(partitions, read_committed=committed)
