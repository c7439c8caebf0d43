"""Looks at an application from outside, over two connections that are given.

Reads the group off its coordinator and the lag off commits and end offsets. It joins nothing and
changes nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.admin.advice import Observation, advise
from streamlet.admin.current import CurrentGroup, loads
from streamlet.admin.snapshot import GroupSnapshot, last_round, read, tasks, unassigned_for_good
from streamlet.admin.status import document
from streamlet.admin.unread import reported_inputs, unread_partitions, unread_violations
from streamlet.assignor.validate import validate
from streamlet.assignor.values import Rules, Violation
from streamlet.clock import Clock, SystemClock
from streamlet.control.view import ControlView
from streamlet.coordinator.codes import name_of
from streamlet.coordinator.messages import Committed, OffsetFetch, OffsetFetchAnswer
from streamlet.errors import (
    BrokerError,
    MissingRightError,
    NoSuchGroupError,
    NotFoundError,
    TimedOutError,
)
from streamlet.kafka.ports import Admin
from streamlet.rights import GROUP_REFUSED, Right, missing
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    from streamlet.coordinator.transport import Transport

_REQUEST_MS = 10_000
#: How long a group that rebalances is waited for: to be read at all, and to be checked.
_SETTLE_MS = 2_000
_SETTLE_CHECK_MS = 15_000
#: How often it is looked at meanwhile.
POLL_S = 0.1
_PARTITIONS_AT_ONCE = 5_000
#: How long a violation that members' reports show must last: reports are a moment late.
_CONFIRM_S = 1.5


def _refused(what: str, application: str, code: int) -> BrokerError:
    said = f"{what}: {name_of(code)}"
    if code == GROUP_REFUSED:
        return MissingRightError(f"{said}; {missing(Right('DESCRIBE', 'group', application))}")
    return BrokerError(said)


def describe(group: Transport, application: str) -> GroupSnapshot:
    """An application's group as it is now.

    Raises:
        NotFoundError: there is no such group, or it is not an application's.
        BrokerError: the coordinator does not answer or will not tell; Kafka's name of the reason.
    """
    described = group.describe_group(application, _REQUEST_MS).result()
    if described.error:
        raise _refused(f"group {application}", application, described.error)
    if described.state == "Dead":
        raise NoSuchGroupError(f"there is no application {application!r} on this cluster")
    live = read(described)
    if not live.ours:
        raise NotFoundError(
            f"{application!r} is a group of other clients, of type "
            f"{described.protocol_type!r}, and no application of streamlet"
        )
    return live


def settled(
    group: Transport,
    application: str,
    wait_ms: int,
    *,
    clock: Clock,
    wait: Callable[[float], object],
    poll_s: float = POLL_S,
) -> GroupSnapshot:
    """An application's group once it is stable or empty; as it is when that takes too long.

    Raises as ``describe``.

    Args:
        group: the connection to the coordinator.
        application: the application's id.
        wait_ms: how long to wait for it.
        clock: the time.
        wait: waits for so many seconds; true to wait no longer.
        poll_s: how often to look.
    """
    deadline = clock.now_ms() + wait_ms
    while True:
        found = describe(group, application)
        if found.stable or not found.members or clock.now_ms() >= deadline or wait(poll_s):
            return found


def fetch_positions(
    group: Transport, offsets: Admin, application: str
) -> dict[TopicPartition, Committed]:
    """Every position the application has committed, of whatever partition there is."""
    everything = [
        TopicPartition(topic.name, partition)
        for topic in offsets.topics().values()
        if not topic.internal
        for partition in range(topic.partitions)
    ]
    found: dict[TopicPartition, Committed] = {}
    for start in range(0, len(everything), _PARTITIONS_AT_ONCE):
        some = tuple(everything[start : start + _PARTITIONS_AT_ONCE])
        request = OffsetFetch(application, some, require_stable=False)
        answer = group.ask(request, _REQUEST_MS).result()
        assert isinstance(answer, OffsetFetchAnswer), answer
        if answer.error:
            raise _refused(f"positions of {application}", application, answer.error)
        rows = answer.committed.items()
        found |= {tp: one for tp, one in rows if one.offset >= 0 and not one.error}
    return found


@attrs.frozen
class GroupInspector:
    """Looks at an application; ``stopped`` ends a wait for a group that rebalances.

    ``control`` reads what the members say of themselves. With a ``history`` the document bears
    advice, made of it and of this look.
    """

    group: Transport
    offsets: Admin
    application: str
    check: bool = False
    rules: Rules = attrs.field(factory=Rules)
    control: Callable[[], ControlView] = ControlView
    history: deque[Observation] | None = None
    custom: bool = False  # an application's own assignor makes the plans
    stopped: threading.Event = attrs.field(factory=threading.Event)
    clock: Clock = attrs.field(factory=SystemClock)
    poll_s: float = POLL_S
    confirm_s: float = _CONFIRM_S

    def now(self) -> dict[str, Any]:
        """The status document.

        Raises:
            NotFoundError: no such application.
            TimedOutError: it is to be checked and goes on rebalancing.
        """
        live = self._settled()
        control = self.control()
        violations = []
        if self.check and live.stable:
            violations = self._violations(live) + self._lasting(CurrentGroup(live, control))
        seen = self._seen(control)
        inputs = reported_inputs(live, control)
        told = inputs is not None or not live.members
        unread = self._unread(inputs, seen, control) if told else {}
        if self.check and live.stable:
            violations += unread_violations(unread)
        found = document(live, seen.lag(), violations, control, unread)
        if self.history is not None:
            self.history.append(seen)
            members = loads(CurrentGroup(live, control))
            advice = advise(self.history, members, len(tasks(live))).to_dict()
            found["advice"] = advice | {"unread": sum(unread.values())}
        return found

    def _settled(self) -> GroupSnapshot:
        """The group once it is stable or empty; as it is when that takes too long."""
        wait_ms = _SETTLE_CHECK_MS if self.check else _SETTLE_MS
        live = settled(
            self.group,
            self.application,
            wait_ms,
            clock=self.clock,
            wait=self.stopped.wait,
            poll_s=self.poll_s,
        )
        if self.check and live.members and not live.stable:
            raise TimedOutError(
                f"{self.application} is still in {live.described.state} after {wait_ms} ms; "
                "it can be checked when it is Stable"
            )
        return live

    def _violations(self, live: GroupSnapshot) -> list[Violation]:
        state, plan = last_round(live, self.rules, self.clock.wall_ms())
        found = validate(state, plan, metadata_bytes=live.metadata_bytes, custom=self.custom)
        return found + unassigned_for_good(live, found)

    def _lasting(self, first: CurrentGroup) -> list[Violation]:
        """The violations in members' reports that are still there a moment later."""
        found = first.violations()
        if not found or self.stopped.wait(self.confirm_s):
            return []
        live = describe(self.group, self.application)
        again = CurrentGroup(live, self.control()).violations() if live.stable else []
        kept = {(violation.rule, violation.tasks, violation.members) for violation in again}
        return [one for one in found if (one.rule, one.tasks, one.members) in kept]

    def _unread(
        self, inputs: Mapping[str, int] | None, seen: Observation, control: ControlView
    ) -> dict[TopicPartition, int]:
        """The input partitions that no task reads, with the records that each holds."""
        unread = unread_partitions(self.offsets.topics(), seen.committed, inputs)
        if not unread:
            return {}
        starts, ends = self.offsets.start_offsets(unread), self._ends(unread, control)
        return {tp: ends[tp] - starts[tp] for tp in unread if tp in starts and tp in ends}

    def exists(self) -> None:
        """Raise NotFoundError if there is no such application."""
        describe(self.group, self.application)

    def observe(self) -> Observation:
        """Commit and end of every partition the application has committed."""
        return self._seen(self.control())

    def _seen(self, control: ControlView) -> Observation:
        committed = fetch_positions(self.group, self.offsets, self.application)
        ends = self._ends(sorted(committed), control) if committed else {}
        offsets = {tp: one.offset for tp, one in committed.items()}
        return Observation(self.clock.now_ms(), offsets, ends)

    def _ends(
        self, partitions: Sequence[TopicPartition], control: ControlView
    ) -> dict[TopicPartition, int]:
        """The ends as members read: an application's id does not tell its settings."""
        said = control.read_committed
        return self.offsets.readable_ends(partitions, read_committed=said)
