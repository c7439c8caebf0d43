"""An application as an operator's command sees it: its group, its control topic, its state.

The only input and output of this room; joins nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs

from streamlet.admin.current import CurrentGroup
from streamlet.admin.inspector import fetch_positions, settled
from streamlet.admin.snapshot import GroupSnapshot
from streamlet.assignor.assign import assign
from streamlet.assignor.values import GroupState, Leaving, Rules
from streamlet.clock import Clock, SystemClock
from streamlet.config import Settings
from streamlet.control.agreement import settings_of
from streamlet.control.topic import ControlTopic
from streamlet.control.values import Mark, MemberKey
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.transport import Transport
from streamlet.errors import BrokerError, MissingRightError, NotFoundError, TimedOutError
from streamlet.kafka.ports import Admin, RecordSource
from streamlet.local import open_clients, open_control, operator_source
from streamlet.logs import get_logger
from streamlet.rebalance.custom_assignor import CustomAssignor
from streamlet.rebalance.leader import Assignor
from streamlet.rebalance.protocol import rules_from
from streamlet.rights import on_topics
from streamlet.scaling.present import owners, present
from streamlet.scaling.sizes import (
    RECORD_BYTES,
    changelog_partitions,
    changelogs_by_subtopology,
    task_sizes,
)
from streamlet.topology.graph import Topology
from streamlet.topology.names import CHANGELOG_SUFFIX
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition

log = get_logger(__name__)

_REQUEST_MS = 10_000
#: How long a group that rebalances is waited for.
_SETTLE_MS = 30_000


@attrs.frozen
class ApplicationInfo:
    """The known facts of an application: with a topology, sizes need no guessing."""

    name: str
    settings: Settings
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
        """The settings that shape its plans."""
        return rules_from(self.settings, learners=True)


@attrs.frozen
class ApplicationInspector:
    """One application, looked at from outside; for one thread. ``stopped`` ends every wait.

    ``open_source`` makes a consumer with headers, for a look into topics.
    """

    application: ApplicationInfo
    transport: Transport
    admin: Admin
    control: ControlTopic
    stopped: threading.Event
    open_source: Callable[[], RecordSource]
    clock: Clock = attrs.field(factory=SystemClock)

    def current(self) -> CurrentGroup:
        """The application as it is now, once its group is stable.

        Raises:
            NotFoundError: no such application, or it is not running.
            TimedOutError: it goes on rebalancing.
            BrokerError: the broker does not answer or refuses, or there is no control topic.
        """
        group = self._stable()
        if self.control.name not in self.admin.topics():
            name = self.control.name
            raise MissingRightError(
                f"topic {name} is not there or may not be seen: either the application runs a "
                f"streamlet without it, or {on_topics('READ', [name])}, and WRITE likewise"
            )
        return CurrentGroup(group, self.control.read())

    def _stable(self) -> GroupSnapshot:
        name = self.application.name
        found = settled(self.transport, name, _SETTLE_MS, clock=self.clock, wait=self.stopped.wait)
        if found.stable:
            return found
        if not found.members:
            raise NotFoundError(f"{name} is not running: its group has no members")
        raise TimedOutError(
            f"{name} is still in {found.described.state} after {_SETTLE_MS // 1000} s; "
            "nothing was marked"
        )

    def state(self, current: CurrentGroup, marks: Mapping[str, Mark]) -> GroupState:
        """The assignor's input if exactly these were marked."""
        leaving = {key: Leaving(m.since_ms, m.deadline_ms) for key, m in marks.items()}
        now_ms, progress = self.clock.wall_ms(), current.control.progress
        return present(current.group, self._rules(current), now_ms, leaving, progress)

    def _rules(self, current: CurrentGroup) -> Rules:
        """The rules of the group's leader; the command's own where the leader reports none."""
        leader = current.group.leader
        if leader is None:
            return self.application.rules
        key = MemberKey(leader.reported.instance, leader.reported.member)
        found = settings_of(current.control, key)
        return self.application.rules if found is None else rules_from(found, learners=True)

    def sizes(self, current: CurrentGroup) -> dict[TaskId, int]:
        """Bytes of each stateful task's changelogs on the brokers' disks.

        Where the brokers do not tell (``DESCRIBE`` on the cluster is needed), 100 bytes for each
        offset between the first and the end.
        """
        state = self.state(current, {})
        stateful = [info.task for info in state.tasks if info.stateful]
        partitions = changelog_partitions(self._changelogs(state), stateful)
        everything = sorted({tp for found in partitions.values() for tp in found})
        return task_sizes(partitions, self._bytes(everything))

    def _changelogs(self, state: GroupState) -> Mapping[int, frozenset[str]]:
        topology = self.application.topology
        if topology is not None:
            return {
                part.id: frozenset(filter(None, map(part.changelog_topic, _names(part))))
                for part in topology.subtopologies
            }
        committed = fetch_positions(self.transport, self.admin, self.application.name)
        # Of a commit of a later version the sizes stay unknown.
        texts = ((tp, CommitMetadata.read(one.metadata)) for tp, one in committed.items())
        commits = {tp: found for tp, found in texts if found is not None}
        stateful = {info.task for info in state.tasks if info.stateful}
        running = {
            task: member.member_id for task, member in owners(state).items() if task in stateful
        }
        own = f"{self.application.name}-"
        topics = (name for name in self.admin.topics() if name.startswith(own))
        return changelogs_by_subtopology(
            commits, running, (name for name in topics if name.endswith(CHANGELOG_SUFFIX))
        )

    def _bytes(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        if not topics:
            return {}
        try:
            sizes = self.transport.log_sizes(topics, _REQUEST_MS).result()
        except BrokerError as error:
            log.warning("the brokers do not tell how large topics are: %s", error)
            sizes = {}
        untold = [tp for tp in partitions if tp not in sizes]
        if untold:
            there = self.admin.topics()
            untold = [tp for tp in untold if tp.topic in there]
        if untold:
            ends = self.admin.end_offsets(untold)
            starts = self.admin.start_offsets(untold)
            sizes |= {tp: (ends[tp] - starts[tp]) * RECORD_BYTES for tp in untold}
        return sizes


def _names(part: Subtopology) -> list[str]:
    return [spec.name for spec in part.stores]


@contextmanager
def opened(
    application: ApplicationInfo, stopped: threading.Event
) -> Iterator[ApplicationInspector]:
    """The application's cluster, as long as the block lasts."""
    settings = application.settings
    with (
        open_clients(settings, f"streamlet-operator-{os.getpid()}") as (transport, admin),
        open_control(application.name, settings) as control,
    ):
        yield ApplicationInspector(
            *(application, transport, admin, control, stopped),
            open_source=lambda: operator_source(settings, application.name),
        )
