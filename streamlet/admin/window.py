"""One application, looked at from outside: its group, its control topic, its positions.

The window of every command and program that is no member. It joins nothing. Clients that a look
does not need are not opened, and all are closed with the window.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

import attrs

from streamlet.admin.current import CurrentGroup
from streamlet.admin.snapshot import GroupSnapshot, read
from streamlet.assignor.assign import assign
from streamlet.assignor.values import Rules
from streamlet.clock import Clock, SystemClock
from streamlet.closing import Closing
from streamlet.config import Settings
from streamlet.control.topic import ControlTopic, applications_of
from streamlet.control.view import ControlView
from streamlet.coordinator.codes import name_of
from streamlet.coordinator.messages import Committed, OffsetFetch, OffsetFetchAnswer
from streamlet.errors import BrokerError, MissingRightError, NoSuchGroupError, NotFoundError
from streamlet.kafka.ports import Admin, RecordSource, TopicInfo
from streamlet.rebalance.custom_assignor import CustomAssignor
from streamlet.rebalance.leader import Assignor
from streamlet.rebalance.protocol import rules_from
from streamlet.rights import GROUP_REFUSED, Right, missing
from streamlet.topology.graph import Topology
from streamlet.types import TopicPartition
from streamlet.user_code import shown

if TYPE_CHECKING:
    from streamlet.coordinator.transport import Transport

#: How long the coordinator is asked, ms.
REQUEST_MS = 10_000
#: How often a group that rebalances is looked at, s.
POLL_S = 0.1
_PARTITIONS_AT_ONCE = 5_000


@attrs.frozen
class ApplicationInfo:
    """The known facts of an application: with a topology, sizes need no guessing."""

    name: str
    settings: Settings = attrs.field(factory=Settings.load)
    topology: Topology | None = None
    assignor: Assignor = assign

    @classmethod
    def of(
        cls, name: str, settings: Settings, topology: Topology | None, own: Assignor | None
    ) -> ApplicationInfo:
        """An application with an assignor of its own, if it has one."""
        return cls(name, settings, topology, assign if own is None else CustomAssignor(own))

    @property
    def custom(self) -> bool:
        """True if an assignor of its own makes its plans."""
        return isinstance(self.assignor, CustomAssignor)

    @property
    def rules(self) -> Rules:
        """The settings that the group plans by."""
        return rules_from(self.settings, learners=True)


@attrs.define(eq=False)
class GroupWindow(Closing):
    """One application as it shows from outside; for one thread. Close it, or use it in ``with``.

    Args:
        application: which.
        transport: the connection to the group's coordinator.
        open_admin: opens an admin client, on first use.
        open_control: opens the control topic, likewise; None: it is not read.
        open_source: opens a consumer with headers; None: no topic is looked into.
        stopped: ends every wait.
        clock: the time.
        poll_s: how often a group that rebalances is looked at.
    """

    application: ApplicationInfo
    transport: Transport
    _open_admin: Callable[[], Admin]
    _open_control: Callable[[], ControlTopic] | None = None
    _open_source: Callable[[], RecordSource] | None = None
    stopped: threading.Event = attrs.field(factory=threading.Event)
    clock: Clock = attrs.field(factory=SystemClock)
    poll_s: float = POLL_S
    _admin: Admin | None = attrs.field(default=None, init=False)
    _control: ControlTopic | None = attrs.field(default=None, init=False)

    @property
    def name(self) -> str:
        """The application's id."""
        return self.application.name

    @property
    def admin(self) -> Admin:
        """The admin client."""
        if self._admin is None:
            self._admin = self._open_admin()
        return self._admin

    @property
    def control(self) -> ControlTopic:
        """The control topic."""
        if self._control is None:
            assert self._open_control is not None, "a window without a control topic"
            self._control = self._open_control()
        return self._control

    def source(self) -> RecordSource:
        """A consumer with headers, for a look into topics; the caller closes it."""
        assert self._open_source is not None, "a window that looks into no topic"
        return self._open_source()

    def group(self) -> GroupSnapshot:
        """The group as it is now; raises as ``describe``."""
        try:
            return describe(self.transport, self.name)
        except NoSuchGroupError:
            raise NoSuchGroupError(unknown(self.name, self.admin.topics())) from None

    def settled(self, wait_ms: int) -> GroupSnapshot:
        """The group once it is stable or empty; as it is when that takes longer than ``wait_ms``.

        Raises as ``describe``.
        """
        deadline = self.clock.now_ms() + wait_ms
        while True:
            found = self.group()
            if found.stable or not found.members or self.clock.now_ms() >= deadline:
                return found
            if self.stopped.wait(self.poll_s):
                return found

    def reports(self) -> ControlView:
        """The members' own reports in the control topic, up to now.

        Raises:
            TimedOutError: the topic was not read in time.
            BrokerError: the broker does not answer.
        """
        return ControlView() if self._open_control is None else self.control.latest()

    def current(self) -> CurrentGroup:
        """The group as it is now, and what its members say."""
        return CurrentGroup(self.group(), self.reports())

    def committed(
        self, topics: Mapping[str, TopicInfo] | None = None
    ) -> dict[TopicPartition, Committed]:
        """Every position the application has committed, of whatever partition there is.

        ``topics`` are all that there are, where the caller knows them.

        Raises:
            BrokerError: the coordinator does not answer or will not tell.
        """
        everything = [
            TopicPartition(topic.name, partition)
            for topic in (self.admin.topics() if topics is None else topics).values()
            if not topic.internal
            for partition in range(topic.partitions)
        ]
        found: dict[TopicPartition, Committed] = {}
        for start in range(0, len(everything), _PARTITIONS_AT_ONCE):
            some = tuple(everything[start : start + _PARTITIONS_AT_ONCE])
            request = OffsetFetch(self.name, some, require_stable=False)
            answer = self.transport.ask(request, REQUEST_MS).result()
            assert isinstance(answer, OffsetFetchAnswer), answer
            if answer.error:
                raise _refused(f"positions of {self.name}", self.name, answer.error)
            rows = answer.committed.items()
            found |= {tp: one for tp, one in rows if one.offset >= 0 and not one.error}
        return found

    def close_control(self) -> None:
        """Close the control topic, if it is open."""
        if self._control is not None:
            self._control.close()
            self._control = None

    def close(self) -> None:
        """Close the opened clients except consumers."""
        self.transport.close()
        if self._admin is not None:
            self._admin.close()
        self.close_control()


def unknown(application: str, topics: Collection[str]) -> str:
    """The sentence for an application that is not there, with those that are called alike."""
    alike = get_close_matches(application, sorted(applications_of(topics) - {application}))
    hint = f", did you mean {' or '.join(alike)}?" if alike else ""
    return f"there is no application {shown(application)} on this cluster{hint}"


def describe(group: Transport, application: str) -> GroupSnapshot:
    """An application's group as it is now.

    Raises:
        NotFoundError: there is no such group, or it is not an application's.
        BrokerError: the coordinator does not answer or will not tell; Kafka's name of the reason.
    """
    described = group.describe_group(application, REQUEST_MS).result()
    if described.error:
        raise _refused(f"group {application}", application, described.error)
    if described.state == "Dead":
        raise NoSuchGroupError(f"there is no application {shown(application)} on this cluster")
    found = read(described)
    if not found.ours:
        raise NotFoundError(
            f"{shown(application)} is a group of other clients, of type "
            f"{described.protocol_type!r}, and no application of streamlet"
        )
    return found


def _refused(what: str, application: str, code: int) -> BrokerError:
    text = f"{what}: {name_of(code)}"
    if code == GROUP_REFUSED:
        return MissingRightError(f"{text}; {missing(Right('DESCRIBE', 'group', application))}")
    return BrokerError(text)
