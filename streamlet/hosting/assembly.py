"""Puts a worker together in this process: clients, membership, state folder, loop.

The one place that knows which implementation stands behind each port.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import attrs

from streamlet.admin.status_look import StatusLook
from streamlet.admin.window import ApplicationInfo
from streamlet.assignor.values import Leaving
from streamlet.clock import Clock, SystemClock
from streamlet.closing import Closing
from streamlet.config import ClientKind, Settings
from streamlet.control.agreement import planning_settings
from streamlet.control.values import Endpoint, MemberKey, MemberProgress
from streamlet.control.view import ControlView
from streamlet.coordinator.group_client import group_client
from streamlet.coordinator.ports import GroupTransport
from streamlet.coordinator.transactions import TransactionTransport
from streamlet.errors import ConfigError
from streamlet.hosting.clients import admin_for, open_control, open_window
from streamlet.hosting.hosted import HostedApp
from streamlet.hosting.live import live_look
from streamlet.hosting.preparing import check_supported
from streamlet.hosting.tracing import worker_tracing
from streamlet.kafka.client import (
    KafkaAdmin,
    KafkaSink,
    KafkaSource,
    TransactionalSink,
    abort_open,
    sink_type,
    source_type,
    transactional_type,
)
from streamlet.kafka.ports import FencedSink, RecordSink
from streamlet.logs import get_logger
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.global_tables import GlobalTables
from streamlet.processing.policy import ErrorPolicy
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.control_link import ControlLink
from streamlet.runtime.listeners import Observer
from streamlet.runtime.metrics.advisor import Advisor
from streamlet.runtime.metrics.values import Snapshot
from streamlet.runtime.reporting import Reporter
from streamlet.runtime.stream_thread import StreamThread
from streamlet.runtime.uncaught import UncaughtErrors
from streamlet.runtime.watchdog import Watchdog
from streamlet.runtime.worker import Worker
from streamlet.runtime.worker_group import GroupPorts, MemberIdentity, WorkerGroup
from streamlet.runtime.worker_ports import WorkerPorts
from streamlet.runtime.worker_status import Companions
from streamlet.state.directory import StateDirectory
from streamlet.tasks.dormant import Cleanup, dormant_copies
from streamlet.tasks.meters import Meters
from streamlet.tasks.opening import TaskOpener, changelogs_of, reads_committed
from streamlet.tasks.served_tasks import ServedTasks
from streamlet.topology.graph import Topology
from streamlet.tracing.off import NoTracing
from streamlet.types import TaskId
from streamlet.web.entry import server_entry
from streamlet.web.live.reader import LiveReader

log = get_logger(__name__)


def open_worker(
    app: HostedApp,
    member: MemberIdentity,
    observer: Observer,
    *,
    measured: Callable[[Snapshot], None] | None = None,
    endpoint: tuple[str, int] | None = None,
    clock: Clock | None = None,
    on_leaving: Callable[[Leaving | None], None] = lambda leaving: None,
    known_counts: Mapping[str, int] | None = None,
    on_member_id: Callable[[str], None] = lambda member_id: None,
    leaves: Callable[[], bool] = lambda: False,
    on_drained: Callable[[], None] = lambda: None,
) -> StreamThread:
    """A worker that is ready to run; topics are checked, and created where they are ours.

    ``measured`` is given what the worker measures, once a second, on the worker's thread; others
    find it at ``endpoint``, host and port, with advice where the worker leads. On some thread
    ``on_leaving`` is called when the instance is marked to leave, or is not any more, and
    ``on_member_id`` with each member id. ``known_counts`` as ``known`` of ``Catalog``, ``leaves``
    and ``on_drained`` as of ``Worker``.

    Raises:
        ConfigError: settings that cannot be carried out.
        BrokerError: the broker does not answer, or lacks a topic.
        TopologyError: the topology does not fit the topics.
    """
    check_supported(settings := app.settings)
    clock = clock or SystemClock()
    admin = admin_for(settings)
    (catalog := Catalog(app.topology, admin, settings, known_counts)).prepare()
    catalog.learn_limits(app.policy.topics)
    outside = GroupPorts(
        clock=clock,
        transport=group_client(settings, member.name),
        open_sink=partial(_sink, settings, member, catalog),
        committing=_committing,
        abort_of=partial(_abort_of, app.name, settings),
        open_control=partial(open_control, app.name, settings, clock),
        assignor=app.assignor,
        on_leaving=on_leaving,
        on_member_id=on_member_id,
    )
    with ExitStack() as undo:
        tracing = worker_tracing(app, member.member)
        group = WorkerGroup(settings, member, catalog, outside)
        undo.callback(group.close)
        kafka = _KafkaWorker(settings, member, catalog, group, app.policy, clock, tracing)
        worker = Worker(
            settings,
            kafka.ports(admin),
            group.session,
            group.rebalance_events,
            catalog,
            kafka.edges,
            app.policy,
            tracing.observed(app.listeners.around(observer)),
            kafka.meters,
            kafka.companions(admin, measured, endpoint, undo, app.served),
            siblings=member.members > 1,
            leaves=leaves,
            on_drained=on_drained,
        )
        undo.pop_all()
    uncaught = UncaughtErrors(app.policy.uncaught, group.link, clock)
    return StreamThread(worker, uncaught, Watchdog(clock, settings.max_poll_interval_ms))


@attrs.frozen(eq=False)
class _KafkaWorker:
    """The parts of a worker that is in a group on a broker, and keeps its state on this disk."""

    settings: Settings
    member: MemberIdentity
    catalog: Catalog
    group: WorkerGroup
    policy: ErrorPolicy
    clock: Clock
    tracing: NoTracing
    meters: Meters = attrs.field(init=False)
    edges: EdgePlan = attrs.field(init=False)

    @meters.default
    def _counting(self) -> Meters:
        return self.tracing.meters(self.clock)

    @edges.default
    def _between_tasks(self) -> EdgePlan:
        catalog, settings = self.catalog, self.settings
        return EdgePlan(
            *(catalog.topology, catalog.counts, catalog.topic_ids),
            exact=settings.repartition_exact,
            transactions=settings.exactly_once,
            timeout_ms=settings.session_timeout_ms,
        )

    @property
    def topology(self) -> Topology:
        """The topology that it runs."""
        return self.catalog.topology

    def ports(self, admin: KafkaAdmin) -> WorkerPorts:
        """The ports of a worker: its clients and its folder."""
        settings, topics = self.settings, self.catalog.inputs
        name = f"{self.topology.application}-{self.member.member}"
        return WorkerPorts(
            clock=self.clock,
            source=_source(settings, name, "main.consumer", headers=True, topics=topics),
            sink=self.group.sink,
            transactions=sink if isinstance(sink := self.group.sink, TransactionalSink) else None,
            admin=admin,
            log_admin=admin_for(settings),  # of its own: commits and topics do not wait for it
            positions=self.group.session,
            open_source=self._open_source,
            open_stores=TaskOpener.in_folder(self.topology, settings, self.tracing.kept),
            new_task=self.tracing.new_task,
        )

    def companions(
        self,
        admin: KafkaAdmin,
        measured: Callable[[Snapshot], None] | None,
        endpoint: tuple[str, int] | None,
        undo: ExitStack,
        served: ServedTasks,
    ) -> Companions:
        """The parts beside it, once the group knows of the dormant copies in its folder."""
        link = self.group.link
        assert link is not None
        if endpoint is not None:
            member = self.member
            link.publish(Endpoint(member.instance, member.number, member.member, *endpoint))
        server = self._query_server(link, served)
        if server is not None:
            undo.callback(server.close)
        directory = StateDirectory(self.settings.state_dir, self.topology.application)
        self.group.rebalance_events.add_dormant(dormant_copies(directory, admin))
        return Companions(
            link=link,
            reporter=self._reporter(link),
            tables=self._global_tables(directory, undo),
            advisor=None if endpoint is None else Advisor(self._status, self._leads),
            cleanup=self._cleanup(directory),
            abandoned=self.group.abandoned,
            measured=measured,
            served=served,
            server=server,
            tracing=self.tracing,
        )

    def _query_server(self, link: ControlLink, served: ServedTasks) -> Closing | None:
        """The server of queries over HTTP, published, where the settings want one."""
        settings, member = self.settings, self.member
        if settings.http_port is None:
            if settings.application_server is not None:
                link.publish(server_entry(settings, member.key, member.member, None))
            return None
        try:
            from streamlet.web.server import QueryServer
        except ImportError as error:
            raise ConfigError(
                [f"http.port needs the extra http ({error.name}): pip install 'streamlet[http]'"]
            ) from error
        about = ApplicationInfo(self.topology.application, settings, self.topology)
        look = partial(live_look, about, self._control_view, self.policy.topics)
        live = LiveReader(look, self.clock)
        server = QueryServer(served, settings, member.key, member.member, self.clock, live)
        link.publish(server.entry)
        return server

    def _open_source(self, purpose: str) -> KafkaSource:
        """A consumer that reads what stores are restored from, or checks what others wrote."""
        name, logs = f"{self.topology.application}-{purpose}", _changelogs(self.topology)
        committed = purpose != "check" and reads_committed(self.topology, self.settings)
        return _source(
            self.settings, name, "restore.consumer", headers=True, topics=logs, committed=committed
        )

    def _cleanup(self, directory: StateDirectory) -> Cleanup:
        return Cleanup(
            directory,
            self.member.instance,
            delay_ms=self.settings.state_cleanup_delay_ms,
            needed=1 + self.settings.num_standby_replicas,
            view=self._control_view,
            forget=self.group.rebalance_events.forget_dormant,
            clock=self.clock,
        )

    def _reporter(self, link: ControlLink) -> Reporter:
        always = MemberProgress(
            *(self.member.instance, self.member.number, self.member.member, "", 0),
            plans_by=planning_settings(self.settings),
            repartitions=tuple(
                (edge.topic, (edge.reason or "") if edge.plain else "") for edge in self.edges.edges
            ),
            read_committed=self.settings.read_committed,
            exactly_once=self.settings.exactly_once,
        )
        return Reporter(
            always,
            self.group.rebalance_events,
            publish=link.publish,
            member_id=self._member_id,
            clock=self.clock,
            busy=self.meters.busy,
            settings=self.settings,
            latencies=self.meters.topics.slowest,
        )

    def _global_tables(self, directory: StateDirectory, undo: ExitStack) -> GlobalTables | None:
        """This worker's copy of the global tables, which ``undo`` closes; None without any."""
        topology, settings = self.topology, self.settings
        if not topology.global_tables:
            return None
        tables = GlobalTables(
            topology.global_tables,
            directory.path / f"global-{self.member.number}",
            _source(settings, f"{topology.application}-global", "global.consumer"),
            admin_for(settings),
            self.clock,
            policy=self.policy,
            sink=self._letters(undo),
            application=topology.application,
            flush_timeout_ms=settings.session_timeout_ms,
            cache_bytes=settings.cache_max_bytes // 4,
            write_ms=settings.commit_interval_ms,
            look_ms=settings.metadata_max_age_ms,
        )
        undo.callback(tables.close)
        return tables

    def _letters(self, undo: ExitStack) -> RecordSink:
        """The producer of dead letters of global tables, which no commit covers."""
        if not isinstance(self.group.sink, TransactionalSink):
            return self.group.sink
        config = (settings := self.settings).client_config("producer")
        sink = KafkaSink(settings.bootstrap_servers, config, name=f"{self.member.member}-letters")
        undo.callback(sink.close)
        return sink

    @contextmanager
    def _status(self) -> Iterator[StatusLook]:
        """Looks at our own group from outside, while our member leads it."""
        application = ApplicationInfo(self.topology.application, self.settings)
        with open_window(application, "advice") as window:
            yield StatusLook(window, control=self._control_view, history=deque())

    def _control_view(self) -> ControlView:
        assert self.group.link is not None
        return self.group.link.view

    def _leads(self) -> bool:
        return self.group.link is not None and self.group.link.leads

    def _member_id(self) -> str:
        return self.group.session.view.member_id


def _sink(
    settings: Settings, member: MemberIdentity, catalog: Catalog, may_write: Callable[[], bool]
) -> KafkaSink:
    """A producer that knows its topics, and what they take; it writes while our tasks are ours."""
    topology = catalog.topology
    config = settings.client_config("producer")
    make: Callable[..., KafkaSink] = sink_type(settings.kafka_client, config)
    if settings.exactly_once:
        own_id = _transactional_id(topology.application, member.key)
        make_own = transactional_type(settings.kafka_client, config)
        make = partial(make_own, own_id, settings.transaction_timeout_ms)
    sink = make(
        *(settings.bootstrap_servers, config),
        lost_ms=settings.session_timeout_ms,
        limits=catalog.limits,
        ask=catalog.ask_settings,
        may_write=may_write,
        name=f"{topology.application}-{member.member}",
    )
    outputs = {topic for part in topology.subtopologies for topic in part.output_topics}
    sink.introduce(outputs | set(_changelogs(topology)))
    return sink


def _transactional_id(application: str, member: MemberKey) -> str:
    """The id that a member keeps as long as its instance has its state folder."""
    return f"{application}-{member.instance}-{member.number}"


def _abort_of(application: str, settings: Settings, member: MemberKey) -> None:
    """Have the open transaction of a member aborted."""
    own_id = _transactional_id(application, member)
    log.info("aborting what %s may have left open: it is not in the group any more", own_id)
    abort_open(own_id, settings.bootstrap_servers, settings.client_config("producer"))


def _committing(plain: GroupTransport, sink: FencedSink) -> GroupTransport:
    """The transport to the coordinator, wrapped so that a transactional producer commits."""
    return TransactionTransport(plain, sink) if isinstance(sink, TransactionalSink) else plain


def _source(
    settings: Settings,
    name: str,
    kind: ClientKind,
    *,
    headers: bool = False,
    topics: Iterable[str] = (),
    committed: bool | None = None,
) -> KafkaSource:
    """A consumer that knows its topics already: what it is assigned later flows at once.

    ``committed``: whether it gets what is committed only; None: as the settings have it.
    """
    config = settings.client_config(kind)
    if committed is not None or settings.read_committed:
        config["isolation.level"] = "read_uncommitted" if committed is False else "read_committed"
    make = source_type(settings.kafka_client, config)
    source = make(settings.bootstrap_servers, config, name=name, headers=headers)
    source.introduce(topics)
    return source


def _changelogs(topology: Topology) -> list[str]:
    """Every topic that stores are restored from."""
    logs = (changelogs_of(part, TaskId(part.id, 0)) for part in topology.subtopologies)
    return sorted({tp.topic for some in logs for tp in some.values()})
