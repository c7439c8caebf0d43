"""The place of a worker in its group: the membership, what it says there, and the control topic.

A member joins by what the task manager says of its tasks (``describe``), plans where it leads
(``planned``), and hands on what happens (``offer``): to the control link first, which notes who
leads, then to the worker. All three are called on the control thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from streamlet.assignor.assign import assign
from streamlet.assignor.values import Copy, GroupState, Leaving, Plan
from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.control.topic import ControlTopic
from streamlet.control.values import MemberKey
from streamlet.coordinator.events import SessionEvent
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.ports import GroupTransport
from streamlet.coordinator.session import GroupSession
from streamlet.kafka.ports import FencedSink
from streamlet.rebalance.custom_assignor import CustomAssignor
from streamlet.rebalance.envelope import Envelope
from streamlet.rebalance.leader import Assignor
from streamlet.rebalance.protocol import TasksProtocol, rules_from, types_for
from streamlet.rebalance.values import Subscription
from streamlet.runtime.abandoned import AbandonedTransactions
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.control_link import ControlLink
from streamlet.state.directory import INSTANCE_LOCK, StateDirectory, fields_of
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.opening import may_mix
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_events import HandoverRules
from streamlet.topology.description import noted
from streamlet.topology.edges import edges_of
from streamlet.topology.graph import Topology
from streamlet.types import TaskId


@attrs.frozen
class MemberIdentity:
    """The identity of a worker: instance's process id and name, its number, number of workers."""

    instance: str
    name: str
    number: int = 0
    members: int = 1

    @property
    def member(self) -> str:
        """Its name for people, ``h1-0``."""
        return f"{self.name}-{self.number}"

    @property
    def key(self) -> MemberKey:
        """Its key in the control topic."""
        return MemberKey(self.instance, self.number)


@attrs.frozen(eq=False, kw_only=True)
class GroupPorts:
    """The world outside as a membership uses it.

    Attributes:
        clock: the time.
        transport: the way to the coordinator; closed with the session.
        open_sink: opens the worker's producer, which asks before it writes for our tasks.
        committing: makes a transport of this one that commits by the producer, if that does.
        abort_of: has the open transaction of a member aborted; None: no member has any.
        open_control: opens the control topic, on a thread of its own; None: there is none.
        assignor: plans where we lead; None: the one that comes with streamlet.
        on_leaving: called when the instance is marked to leave, or is not any more.
        on_member_id: called with each member id.
    """

    clock: Clock
    transport: GroupTransport
    open_sink: Callable[[Callable[[], bool]], FencedSink]
    committing: Callable[[GroupTransport, FencedSink], GroupTransport] = lambda plain, sink: plain
    abort_of: Callable[[MemberKey], None] | None = None
    open_control: Callable[[], ControlTopic] | None = None
    assignor: Assignor | None = None
    on_leaving: Callable[[Leaving | None], None] = lambda leaving: None
    on_member_id: Callable[[str], None] = lambda member_id: None


class WorkerGroup:
    """The membership of a worker, not started.

    Args:
        settings: the application's.
        member: its identity.
        catalog: knows topology, topics and tasks.
        ports: the world outside.

    Attributes:
        rebalance_events: what the worker shares with the control thread.
        link: our end of the control topic, which reads already; None without a control topic.
        sink: the worker's producer: it writes while our tasks are ours.
        session: the membership.
        abandoned: has open transactions of lost members aborted; None where there are none.
    """

    def __init__(
        self, settings: Settings, member: MemberIdentity, catalog: Catalog, ports: GroupPorts
    ) -> None:
        self._on_leaving = ports.on_leaving
        self._exactly_once = settings.exactly_once
        self._plan = assign if ports.assignor is None else CustomAssignor(ports.assignor)
        rules = HandoverRules.from_settings(settings)
        self.rebalance_events = RebalanceEvents(TaskManager(rules), ports.clock)
        self.link = link = self._new_link(settings, member, catalog.topology, ports)
        self.abandoned = None
        if ports.abort_of is not None and link is not None:
            before = None if settings.exactly_once else member.key
            self.abandoned = AbandonedTransactions(ports.abort_of, self._reported, before)
        waits = settings.repartition_exact and any(
            edge.after_commit for edge in edges_of(catalog.topology, catalog.counts)
        )
        config = _config(settings, member, catalog.topology.application, ports.clock, waits=waits)
        self._protocol = self._new_protocol(
            settings, member, catalog, config, ports.clock, waits=waits
        )
        self.sink = ports.open_sink(self._may_write)
        transport = ports.committing(ports.transport, self.sink)
        self.session = GroupSession(
            *(config, self._protocol, transport, ports.clock),
            self._offer,
            describe=self._describe,
            on_member_id=ports.on_member_id,
            take_back=self.sink.fence,
        )
        if self.link is not None:
            self.link.start()

    def close(self) -> None:
        """End it before the worker that it was to be for was there."""
        if self.link is not None:
            self.link.close()
        self.session.close()

    def _new_link(
        self, settings: Settings, member: MemberIdentity, topology: Topology, ports: GroupPorts
    ) -> ControlLink | None:
        if ports.open_control is None:
            return None
        directory = StateDirectory(settings.state_dir, topology.application)
        fields = fields_of(directory.path / INSTANCE_LOCK)
        return ControlLink(
            *(member.key, member.name),
            ports.open_control,
            ports.clock,
            leave_timeout_ms=settings.scale_down_timeout_ms,
            on_leaving=self._leaving_changed,
            reset=str(fields.get("reset", "")),
            shutdown=str(fields.get("shutdown", "")),
            types=topology.changelog_types,
            description=noted(topology, member.member),
        )

    def _new_protocol(
        self,
        settings: Settings,
        member: MemberIdentity,
        catalog: Catalog,
        config: MembershipConfig,
        clock: Clock,
        *,
        waits: bool,
    ) -> TasksProtocol:
        link, topology = self.link, catalog.topology
        return TasksProtocol(
            _identity(topology, settings, member, config.instance_id, clock),
            rules_from(settings, learners=True),
            self._planned,
            tasks=catalog.tasks,
            wall_ms=clock.wall_ms,
            rejoin=self._rejoin,
            belongings=tuple(part.belongings for part in topology.subtopologies),
            envelope=Envelope(catalog),
            migration_timeout_ms=settings.rebalance_timeout_ms,
            before=dict if link is None else link.last_members,
            waits=waits,
        )

    def _may_write(self) -> bool:
        return self.session.may_write()

    def _rejoin(self, reason: str) -> None:
        self.session.rejoin(reason)

    def _leaving_changed(self, leaving: Leaving | None) -> None:
        self.rebalance_events.set_leaving(leaving)
        self._on_leaving(leaving)

    def _planned(self, state: GroupState) -> Plan:
        """The plan of a leader; the link knows who is in the group by it."""
        if self.link is not None:
            if self.abandoned is not None:
                present = (MemberKey(one.instance, one.number) for one in state.members)
                self.abandoned.planned(frozenset(filter(self._opens_transactions, present)))
            self.link.planned(state)
        return self._plan(state)

    def _reported(self) -> set[MemberKey]:
        """The members that report that they commit by transactions."""
        assert self.link is not None
        return {key for key, one in self.link.view.progress.items() if one.exactly_once}

    def _opens_transactions(self, key: MemberKey) -> bool:
        """True if a member commits by transactions; one without a report does as we do."""
        assert self.link is not None
        report = self.link.view.progress.get(key)
        return self._exactly_once if report is None else report.exactly_once

    def _describe(self) -> Mapping[TaskId, Copy]:
        """Our tasks for a JoinGroup; what is said of leaving and of the disk is as of then."""
        copies = self.rebalance_events.describe()
        self._protocol.leaving = self.rebalance_events.described_leaving
        self._protocol.disk_fails = self.rebalance_events.disk_fails
        return copies

    def _offer(self, event: SessionEvent) -> None:
        """Take what happens in the group."""
        if self.link is not None:
            self.link.take(event)  # it notes who leads
        self.rebalance_events.offer(event)


def _config(
    settings: Settings, member: MemberIdentity, application: str, clock: Clock, *, waits: bool
) -> MembershipConfig:
    config = MembershipConfig.from_settings(
        application,
        settings,
        waits=waits,
        member=member.number,
        first_nonce=clock.wall_ms(),
        jitter=member.number,
    )
    return attrs.evolve(
        config,
        announce_joins=HandoverRules.from_settings(settings).announced_joins,
        protocol_types=types_for(settings.stream_rebalancing_mode),
    )


def _identity(
    topology: Topology,
    settings: Settings,
    member: MemberIdentity,
    instance_id: str | None,
    clock: Clock,
) -> Subscription:
    """The identity of the member in each subscription."""
    return Subscription(
        instance=member.instance,
        name=member.name,
        member=member.number,
        instance_members=member.members,
        capacity=settings.instance_capacity or float(member.members),
        subtopologies=tuple(part.hash for part in topology.subtopologies),
        stateful=frozenset(part.id for part in topology.subtopologies if part.stateful),
        instance_id=instance_id,
        tags=dict(settings.instance_tags),
        learners=settings.stream_rebalancing_mode != "eager",
        mode=settings.stream_rebalancing_mode,
        imbalance=settings.stream_imbalance_percentage,
        started_ms=clock.wall_ms(),
        exactly_once=settings.exactly_once,
        may_mix=may_mix(topology, settings),
    )
