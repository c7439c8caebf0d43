"""Puts a worker together in this process: clients, membership, state folder, loop.

The one place that knows which implementation stands behind each port.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import attrs

from streamlet.admin.inspector import GroupInspector
from streamlet.assignor.assign import assign
from streamlet.assignor.values import Copy, GroupState, Leaving, Plan
from streamlet.clock import Clock, SystemClock
from streamlet.config import Settings
from streamlet.control.agreement import planning_settings
from streamlet.control.values import Endpoint
from streamlet.coordinator.events import SessionEvent
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.session import GroupSession
from streamlet.coordinator.transport import Transport
from streamlet.kafka.client import KafkaAdmin, KafkaSink, KafkaSource
from streamlet.local import (
    MemberIdentity,
    admin_for,
    check_supported,
    open_clients,
    open_control,
)
from streamlet.logs import get_logger
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.global_tables import GlobalTables
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.rebalance.custom_assignor import CustomAssignor
from streamlet.rebalance.envelope import Envelope
from streamlet.rebalance.leader import Assignor
from streamlet.rebalance.protocol import TasksProtocol, rules_from, types_for
from streamlet.rebalance.values import Subscription
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.control_link import ControlLink
from streamlet.runtime.listeners import Observer
from streamlet.runtime.metrics.advisor import Advisor
from streamlet.runtime.metrics.values import Snapshot
from streamlet.runtime.reporting import Reporter
from streamlet.runtime.stream_thread import StreamThread
from streamlet.state.directory import INSTANCE_LOCK, StateDirectory, fields_of
from streamlet.tasks.activation import Activation
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.commit import LOOK_MS, AtLeastOnceCommit
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.tasks.commit_loop import Purge
from streamlet.tasks.dormant import Cleanup, dormant_copies
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.meters import Meters
from streamlet.tasks.opening import TaskOpener, changelogs_of
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.targets import Targets
from streamlet.tasks.task_events import HandoverRules
from streamlet.topology.graph import Topology
from streamlet.types import TaskId

log = get_logger(__name__)


def open_worker(
    topology: Topology,
    settings: Settings,
    member: MemberIdentity,
    *,
    assignor: Assignor | None = None,
    policy: ErrorPolicy,
    observer: Observer,
    measured: Callable[[Snapshot], None] | None = None,
    endpoint: tuple[str, int] | None = None,
    clock: Clock | None = None,
    on_leaving: Callable[[Leaving | None], None] = lambda leaving: None,
    known_counts: Mapping[str, int] | None = None,
    on_member_id: Callable[[str], None] = lambda member_id: None,
) -> StreamThread:
    """A worker that is ready to run; topics are checked, and created where they are ours.

    ``measured`` is given what the worker measures, once a second, on the worker's thread; others
    find it at ``endpoint``, host and port, with advice where the worker leads. On some thread
    ``on_leaving`` is called when the instance is marked to leave, or is not any more, and
    ``on_member_id`` with each member id. ``known_counts`` as ``known`` of ``Catalog``.

    Raises:
        ConfigError: settings that cannot be carried out.
        BrokerError: the broker does not answer, or lacks a topic.
        TopologyError: the topology does not fit the topics.
    """
    check_supported(settings)
    meters = Meters(clock := clock or SystemClock())
    admin = admin_for(settings)
    (catalog := Catalog(topology, admin, settings, known_counts)).prepare()
    board = RebalanceEvents(TaskManager(HandoverRules.from_settings(settings)), clock)
    with ExitStack() as undo:
        link = _link(topology.application, settings, member, board, clock, on_leaving, endpoint)
        undo.callback(link.close)
        directory = _directory(topology, settings, board, admin)
        session = _session(
            topology, settings, member, catalog, board, link, assignor, clock, on_member_id
        )
        undo.callback(session.close)
        targets = _targets(topology, settings, session, catalog, clock)
        copies = _copies(topology, settings, targets, board, clock)
        edges = _edges(topology, settings, catalog)
        name = f"{topology.application}-{member.member}"
        catalog.learn_limits(policy.topics)
        sink = _sink(topology, settings, name, catalog, session)
        tables = _global_tables(topology, settings, member, directory, policy, sink, clock, undo)
        worker = StreamThread(
            settings,
            group=session,
            board=board,
            source=_source(settings, name, headers=True, topics=catalog.inputs),
            sink=sink,
            activation=_activation(
                topology, settings, targets, copies, catalog, edges, policy, clock, tables
            ),
            copies=copies,
            commit=_commit(catalog, settings, session, sink, admin, clock),
            catalog=catalog,
            purge=Purge(admin, frozenset(topology.repartition_topics), session.alive),
            clock=clock,
            policy=policy,
            observer=observer,
            meters=meters,
            measured=measured,
            advisor=None if endpoint is None else _advisor(topology.application, settings, link),
            cleanup=_cleanup(settings, member, directory, board, link, clock),
            link=link,
            reporter=_reporter(settings, member, board, link, session, clock, meters, edges),
            global_tables=tables,
            siblings=member.members > 1,
        )
        undo.pop_all()
    return worker


def _directory(
    topology: Topology, settings: Settings, board: RebalanceEvents, admin: KafkaAdmin
) -> StateDirectory:
    """The state folder, once the board knows of the dormant copies in it."""
    directory = StateDirectory(settings.state_dir, topology.application)
    board.add_dormant(dormant_copies(directory, admin))
    return directory


def _commit(
    catalog: Catalog,
    settings: Settings,
    session: GroupSession,
    sink: KafkaSink,
    admin: KafkaAdmin,
    clock: Clock,
) -> AtLeastOnceCommit:
    name = f"{catalog.topology.application}-check"
    delivery = ChangelogDelivery(
        *(sink, admin, clock), open_source=lambda: _source(settings, name, headers=True)
    )
    look_ms = min(LOOK_MS, settings.metadata_max_age_ms)
    return AtLeastOnceCommit(session, delivery, clock, texts=catalog.texts, look_ms=look_ms)


def _cleanup(
    settings: Settings,
    member: MemberIdentity,
    directory: StateDirectory,
    board: RebalanceEvents,
    link: ControlLink,
    clock: Clock,
) -> Cleanup:
    return Cleanup(
        directory,
        member.instance,
        delay_ms=settings.state_cleanup_delay_ms,
        needed=1 + settings.num_standby_replicas,
        view=lambda: link.view,
        forget=board.forget_dormant,
        clock=clock,
    )


def _reporter(
    settings: Settings,
    member: MemberIdentity,
    board: RebalanceEvents,
    link: ControlLink,
    session: GroupSession,
    clock: Clock,
    meters: Meters,
    edges: EdgePlan,
) -> Reporter:
    return Reporter(
        *(member.key, member.member, board),
        publish=link.publish,
        member_id=lambda: session.view.member_id,
        clock=clock,
        busy=meters.busy,
        plans_by=planning_settings(settings),
        repartitions=tuple((edge.topic, edge.reason or "") for edge in edges.edges),
        read_committed=settings.read_committed,
    )


def _advisor(application: str, settings: Settings, link: ControlLink) -> Advisor:
    """Looks at our own group from outside, while our member leads it."""

    @contextmanager
    def opened() -> Iterator[GroupInspector]:
        with open_clients(settings, f"{application}-advice") as (transport, admin):
            yield GroupInspector(
                transport, admin, application, control=lambda: link.view, history=deque()
            )

    return Advisor(opened, lambda: link.leads)


def _sink(
    topology: Topology, settings: Settings, name: str, catalog: Catalog, session: GroupSession
) -> KafkaSink:
    """A producer that knows its topics, and what they take; it writes while our tasks are ours."""
    sink = KafkaSink(
        *(settings.bootstrap_servers, settings.client_config("producer")),
        lost_ms=settings.session_timeout_ms,
        limits=catalog.limits,
        ask=catalog.ask_settings,
        may_write=session.may_write,
        name=name,
    )
    session.fence.take_back = sink.fence
    outputs = {topic for part in topology.subtopologies for topic in part.output_topics}
    sink.introduce(outputs | set(_changelogs(topology)))
    return sink


def _link(
    application: str,
    settings: Settings,
    member: MemberIdentity,
    board: RebalanceEvents,
    clock: Clock,
    on_leaving: Callable[[Leaving | None], None],
    endpoint: tuple[str, int] | None,
) -> ControlLink:
    """Our end of the control topic; it reads while the rest is put together."""

    def leaving_changed(leaving: Leaving | None) -> None:
        board.set_leaving(leaving)
        on_leaving(leaving)

    noted = fields_of(StateDirectory(settings.state_dir, application).path / INSTANCE_LOCK)
    link = ControlLink(
        *(member.key, member.name),
        lambda: open_control(application, settings, clock),
        clock,
        leave_timeout_ms=settings.scale_down_timeout_ms,
        on_leaving=leaving_changed,
        reset=str(noted.get("reset", "")),
        shutdown=str(noted.get("shutdown", "")),
    )
    link.start()
    if endpoint is not None:
        link.publish(Endpoint(member.instance, member.number, member.member, *endpoint))
    return link


def _source(
    settings: Settings, name: str, *, headers: bool = False, topics: Iterable[str] = ()
) -> KafkaSource:
    """A consumer that knows its topics already: what it is assigned later flows at once."""
    config = settings.client_config("consumer")
    source = KafkaSource(settings.bootstrap_servers, config, name=name, headers=headers)
    source.introduce(topics)
    return source


def _changelogs(topology: Topology) -> list[str]:
    """Every topic that stores are restored from."""
    logs = (changelogs_of(part, TaskId(part.id, 0)) for part in topology.subtopologies)
    return sorted({tp.topic for some in logs for tp in some.values()})


def _changelog_source(topology: Topology, settings: Settings, purpose: str) -> KafkaSource:
    """A consumer that reads what stores are restored from."""
    name = f"{topology.application}-{purpose}"
    return _source(settings, name, headers=True, topics=_changelogs(topology))


def _session(
    topology: Topology,
    settings: Settings,
    member: MemberIdentity,
    catalog: Catalog,
    board: RebalanceEvents,
    link: ControlLink,
    assignor: Assignor | None,
    clock: Clock,
    on_member_id: Callable[[str], None],
) -> GroupSession:
    config = MembershipConfig.from_settings(
        topology.application,
        settings,
        member=member.number,
        first_nonce=clock.wall_ms(),
        jitter=member.number,
    )
    config = attrs.evolve(
        config,
        announce_joins=HandoverRules.from_settings(settings).announced_joins,
        protocol_types=types_for(settings.stream_rebalancing_mode),
    )
    plan = assign if assignor is None else CustomAssignor(assignor)

    def planned(state: GroupState) -> Plan:
        link.planned(state)
        return plan(state)

    protocol = TasksProtocol(
        _identity(topology, settings, member, config.instance_id, clock),
        rules_from(settings, learners=True),
        planned,
        tasks=catalog.tasks,
        wall_ms=clock.wall_ms,
        rejoin=lambda reason: session.rejoin(reason),
        belongings=tuple(part.belongings for part in topology.subtopologies),
        envelope=Envelope(catalog),
        flip_timeout_ms=settings.rebalance_timeout_ms,
        before=link.last_members,
    )
    transport = Transport(
        settings.bootstrap_servers, settings.client_config("group"), client_id=member.name
    )

    def describe() -> Mapping[TaskId, Copy]:
        copies = board.describe()
        protocol.leaving, protocol.disk_fails = board.said_leaving, board.disk_fails
        return copies

    def offer(event: SessionEvent) -> None:
        link.take(event)  # it notes who leads
        board.offer(event)

    session = GroupSession(
        config, protocol, transport, clock, offer, describe=describe, on_member_id=on_member_id
    )
    return session


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
    )


def _activation(
    topology: Topology,
    settings: Settings,
    targets: Targets,
    copies: StateUpdater,
    catalog: Catalog,
    edges: EdgePlan,
    policy: ErrorPolicy,
    clock: Clock,
    tables: GlobalTables | None,
) -> Activation:
    new_task = partial(
        Task, policy=policy, partition_counts=catalog.counts, idle_ms=settings.max_task_idle_ms
    )
    stores = None if tables is None else tables.stores
    return Activation(
        topology,
        targets=targets,
        open_stores=TaskOpener.in_folder(topology, settings),
        copies=copies,
        settings=settings,
        edges=edges,
        new_task=partial(new_task, wall_ms=clock.wall_ms, global_stores=stores),
        limits=catalog.limits.by_topic,
        clock=clock,
    )


def _targets(
    topology: Topology, settings: Settings, session: GroupSession, catalog: Catalog, clock: Clock
) -> Targets:
    return Targets(
        topology,
        inputs=catalog.inputs_of,
        later=catalog.came_later,
        positions=session,
        admin=admin_for(settings),  # of its own: commits and topics do not wait for it
        settings=settings,
        open_source=lambda: _changelog_source(topology, settings, "entries"),
        clock=clock,
    )


def _edges(topology: Topology, settings: Settings, catalog: Catalog) -> EdgePlan:
    return EdgePlan(topology, catalog.counts, catalog.topic_ids, exact=settings.repartition_exact)


def _global_tables(
    topology: Topology,
    settings: Settings,
    member: MemberIdentity,
    directory: StateDirectory,
    policy: ErrorPolicy,
    sink: KafkaSink,
    clock: Clock,
    undo: ExitStack,
) -> GlobalTables | None:
    """This worker's copy of the global tables, which ``undo`` closes; None without any."""
    if not topology.global_tables:
        return None
    tables = GlobalTables(
        topology.global_tables,
        directory.path / f"global-{member.number}",
        _source(settings, f"{topology.application}-global"),
        admin_for(settings),
        clock,
        policy=policy,
        sink=sink,
        application=topology.application,
        flush_timeout_ms=settings.session_timeout_ms,
        cache_bytes=settings.cache_max_bytes // 4,
        write_ms=settings.commit_interval_ms,
        look_ms=settings.metadata_max_age_ms,
    )
    undo.callback(tables.close)
    return tables


def _copies(
    topology: Topology,
    settings: Settings,
    targets: Targets,
    board: RebalanceEvents,
    clock: Clock,
) -> StateUpdater:
    def reader(purpose: str) -> StoreChangelogReader:
        source = _changelog_source(topology, settings, purpose)
        return StoreChangelogReader(source, targets.admin, clock)

    return StateUpdater(
        open_stores=TaskOpener.in_folder(topology, settings),
        reader=reader("copies"),
        restores=reader("restore"),
        targets=targets,
        settings=settings,
        clock=clock,
        wake=board.wake,
    )
