"""``App``: what a user writes a topology with, and what is run.

The composition root: here the language, the settings and the runtime come together.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamlet.absent import explains_misuse
from streamlet.arguments import (
    call_problem,
    calls_told_by_form,
    check_callable,
    types_checked_inside,
)
from streamlet.config import Settings
from streamlet.config.security import OAUTH_FUNCTION
from streamlet.config.sources import Entry, FileEntries
from streamlet.dsl.describing import Describing
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.one_app import OneApp
from streamlet.dsl.processors.wrapping import ProcessorWrapper, as_wrapper
from streamlet.dsl.sources import Sources
from streamlet.errors import (
    AppNotFoundError,
    ConfigError,
    NotFoundError,
    WrongTypeError,
)
from streamlet.hosting.running import Running
from streamlet.lazy_results import is_async
from streamlet.named_objects import named_object
from streamlet.processing.policy import Answer, ErrorHandler, ErrorPolicy, UncaughtRule
from streamlet.queries.app_queries import Queries
from streamlet.runtime.listeners import (
    Listeners,
    StandbyUpdateListener,
    StateListener,
    StateRestoreListener,
)
from streamlet.serdes import SerdeLike
from streamlet.tasks.served_tasks import ServedTasks
from streamlet.topology.names import APPLICATION_EXPECTED, is_application_id
from streamlet.types import ms_of
from streamlet.user_code import shown

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from streamlet.admin.members import Removal
    from streamlet.admin.metadata import InstanceMetadata
    from streamlet.admin.window import ApplicationInfo, GroupWindow
    from streamlet.hosting.hosted import HostedApp
    from streamlet.rebalance.leader import Assignor
    from streamlet.reset.plan import ResetResult
    from streamlet.scaling.replace import ReplaceResult
    from streamlet.scaling.scale_down import ScaleDownResult


@explains_misuse
@calls_told_by_form
class App(OneApp, Sources, Describing, Queries, Running):
    """An application: a name, settings and a topology.

    Args:
        name: the application's id; its group and its internal topics are called by it.
        bootstrap_servers: brokers to ask first; the same as ``bootstrap.servers`` in ``config``.
        config: settings by their dotted names, durations in ms or as ``timedelta``.
        assignor: a function from ``GroupState`` to ``Plan`` (``streamlet.assignor.values``), asked
            before streamlet's own, which takes over where its plan breaks a rule or it raises. All
            instances should have the same: the group's leader asks it for all.
        on_error: what becomes of a record that a serde or a user function fails on, or calls
            ``sys.exit`` on: ``"fail"``, ``"skip"``, ``("dead_letter", topic)`` or a ``Retry``.
        deserialization_handler: the same for records that cannot be read, or a function of
            ``(context, record, error)`` that returns one of these answers.
        processing_handler: likewise, for records that an operator fails on.
        production_handler: likewise, for records that are not encoded, or that brokers refuse.
        uncaught_handler: the answer to an error that ends a worker, or a function of the error that
            returns one: ``"replace_thread"``, ``"shutdown_client"`` or ``"shutdown_application"``.
            Without it ``run`` raises; ``streamlet run`` replaces workers, up to five times.
        key: type or serde of keys that have no type: of sources without ``key=``, and of results
            whose type is not known where they are written, as ``default.key.serde`` has it.
        value: the same of values, as ``default.value.serde``.
        processor_wrapper: a hook around nodes: a ``ProcessorWrapper``, or its class. One that the
            setting ``processor.wrapper`` names (``module:attribute``) takes its place.
        oauth: a function that gets tokens for OAUTHBEARER; confluent-kafka's ``oauth_cb``.
        tracer_provider: OpenTelemetry's: turns spans on (extra ``otel``), as ``tracing.enabled``.
        http_port: where runs answer queries over HTTP; the same as ``http.port`` in ``config``.

    Raises:
        ConfigError: everything that is wrong with the settings, at once.
        TopologyError: there is no serde for ``key`` or ``value``.
    """

    @types_checked_inside
    def __init__(
        self,
        name: str,
        *,
        bootstrap_servers: str | None = None,
        config: Mapping[str, object] | None = None,
        assignor: Assignor | None = None,
        on_error: Answer = "fail",
        key: SerdeLike[Any] = None,
        value: SerdeLike[Any] = None,
        deserialization_handler: Answer | ErrorHandler | None = None,
        processing_handler: Answer | ErrorHandler | None = None,
        production_handler: Answer | ErrorHandler | None = None,
        uncaught_handler: UncaughtRule | None = None,
        processor_wrapper: ProcessorWrapper | type[ProcessorWrapper] | None = None,
        oauth: Callable[[str], tuple[Any, ...]] | None = None,
        tracer_provider: TracerProvider | None = None,
        http_port: int | None = None,
    ) -> None:
        if not isinstance(name, str) or not is_application_id(name):
            raise ConfigError([f"App name {shown(name)}: {APPLICATION_EXPECTED}"])
        if assignor is not None and not callable(assignor):
            raise ConfigError(
                [f"assignor: expected a function from GroupState to Plan, not {shown(assignor)}"]
            )
        if is_async(assignor):
            raise ConfigError([f"assignor: {assignor!r} is async; a plan cannot be awaited"])
        self.name, self.assignor, self.tracer_provider = name, assignor, tracer_provider
        given = processor_wrapper
        try:
            self.processor_wrapper = None if given is None else as_wrapper(given)
        except ValueError as error:
            raise ConfigError([f"processor_wrapper: {error}"]) from error
        self._answers = ErrorPolicy.of(
            on_error,
            deserialization=deserialization_handler,
            processing=processing_handler,
            production=production_handler,
            uncaught=uncaught_handler,
        )
        if config is not None and not isinstance(config, Mapping):
            raise ConfigError([f"config: expected a dict of settings, not {shown(config)}"])
        if tracer_provider is not None and not hasattr(tracer_provider, "get_tracer"):
            raise ConfigError(
                [f"tracer_provider: expected OpenTelemetry's, not {shown(tracer_provider)}"]
            )
        own: dict[str, object] = {"bootstrap.servers": bootstrap_servers, "http.port": http_port}
        own[OAUTH_FUNCTION] = oauth
        self._config = {**(config or {}), **{key: it for key, it in own.items() if it is not None}}
        #: The settings as the program gives them; ``load_settings`` lays others over them.
        self.settings = Settings.load(self._config)
        #: Called with what workers do, each in its own process.
        self.listeners = Listeners()
        self._builder = Builder(name, Kind.default(key, "key"), Kind.default(value, "value"))
        self._served, self._tables = ServedTasks(), {}
        self._made = True

    def __repr__(self) -> str:
        return f"App({self.name!r})"

    def load_settings(
        self,
        *,
        file: Path | FileEntries | None = None,
        environ: Mapping[str, str] | None = None,
        overrides: Sequence[str | Entry] = (),
    ) -> Settings:
        """The settings with those of a file, the environment and the command line over them.

        Raises:
            ConfigError: everything that is wrong with any of them, at once.
        """
        return Settings.load(self._config, file=file, environ=environ, overrides=overrides)

    @property
    def policy(self) -> ErrorPolicy:
        """The rules for records that fail, by the program and its own settings."""
        return self._answers.with_letters(self.settings.errors_dead_letter_queue_topic_name)

    def _hosted(self, settings: Settings) -> HostedApp:
        return hosted(self, settings)

    def set_state_listener(self, listener: StateListener | None) -> None:
        """Call a listener at each change of a worker's state, as ``listener(new, old)``.

        The states are Kafka Streams': CREATED, REBALANCING, RUNNING, PENDING_SHUTDOWN, NOT_RUNNING,
        ERROR. It is called on the worker's own loop and in its process, so set it in the module
        that defines the application. An exception ends the worker, as in Kafka Streams.
        """
        if listener is not None:
            check_callable("set_state_listener()", listener, "a function of two states")
            if problem := call_problem(listener, "new", "old"):
                raise WrongTypeError(f"set_state_listener(): it is called as {problem}")
        self.listeners.state = listener

    def set_global_state_restore_listener(self, listener: StateRestoreListener | None) -> None:
        """Call a listener while stores are restored before their tasks run; rules as for states."""
        self.listeners.restore = listener

    def set_standby_update_listener(self, listener: StandbyUpdateListener | None) -> None:
        """Call a listener while copies of stores are read, those of standbys and of learners.

        It is called on the thread that reads changelogs, in the worker's process. An exception ends
        the worker.
        """
        self.listeners.standby = listener

    def metadata(self, settings: Settings | None = None) -> tuple[InstanceMetadata, ...]:
        """The instances of this application that are running now, anywhere, by name.

        As ``metadataForAllStreamsClients`` and ``metadataForLocalThreads`` in Kafka Streams: the
        members of each with their ids, static ones included, their tasks, and where each serves
        metrics. That of this process is ``local``. Tasks are as of the last rebalance, and are not
        known while another is under way.

        Args:
            settings: in place of the program's with ``STREAMLET_…`` variables over them.

        Returns:
            Nothing if no instance is running.

        Raises:
            BrokerError: the coordinator does not answer, or will not tell.
            TimedOutError: the control topic was not read in time.
        """
        from streamlet.admin.members import SETTLE_MS
        from streamlet.admin.metadata import instances

        here = None if self._run is None else self._run.process_id
        with self._window(settings) as window:
            try:
                group = window.settled(SETTLE_MS)
            except NotFoundError:
                return ()
            return instances(group, here, window.reports().endpoints.values())

    def remove_members(
        self, instance_ids: Sequence[str], settings: Settings | None = None
    ) -> list[Removal]:
        """Take static members that are down out of the group, in one request.

        Their tasks are given to others at once, not after a session timeout. A member that is alive
        joins again.

        Args:
            instance_ids: of members (``a-0``), or of instances (``a``) for all their members.
            settings: in place of the program's with ``STREAMLET_…`` variables over them.

        Returns:
            For each id whether it was removed, or Kafka's name of the reason.

        Raises:
            NotFoundError: the application has never run.
            BrokerError: the coordinator does not answer, or will not tell.
        """
        from streamlet.admin.members import remove

        with self._window(settings) as window:
            return remove(window, instance_ids)

    def _window(self, settings: Settings | None) -> GroupWindow:
        """The window on this application from outside."""
        from streamlet.admin.window import ApplicationInfo
        from streamlet.hosting.clients import open_window

        used = settings or self.load_settings(environ=os.environ)
        return open_window(ApplicationInfo(self.name, used), "members")

    def scale_down(
        self,
        *,
        percent: float | None = None,
        names: Sequence[str] = (),
        timeout: timedelta | float | None = None,
        wait: bool = True,
        dry_run: bool = False,
        even_all: bool = False,
    ) -> ScaleDownResult:
        """Let instances of this application leave, wherever they run, as ``streamlet scale-down``.

        They hand their tasks over to those that stay, then end by themselves.

        Args:
            percent: how much stays; those leave whose state is least.
            names: who leaves, in place of ``percent``.
            timeout: after which they leave whatever is ready, seconds or a ``timedelta``; None for
                the setting ``scale.down.timeout.ms`` of each, ``math.inf`` for no limit.
            wait: until they have left.
            dry_run: only plan.
            even_all: also if no instance would stay.

        Raises:
            StreamletError: no such instance, none would stay, the broker refuses; nothing was
                marked. Or ``TimedOutError``: they are not gone long after their time.
        """
        from streamlet.scaling import commands
        from streamlet.scaling.scale_down import ScaleDownRequest

        timeout_ms = None if timeout is None else _limit_ms(timeout)
        wanted = ScaleDownRequest(percent, tuple(names), timeout_ms, even_all)
        return commands.scale_down(self._as_scaled(), wanted, wait=wait, dry_run=dry_run)

    def cancel_scale_down(self, names: Sequence[str] = (), *, wait: bool = True) -> ScaleDownResult:
        """Let instances stay that are on their way out: those named, or all.

        Args:
            names: who stays.
            wait: until no member learns a task that it will not get.

        Raises:
            StreamletError: no such instance, or the broker refuses; no mark was taken back.
        """
        from streamlet.scaling import commands

        return commands.cancel_scale_down(self._as_scaled(), names, wait=wait)

    def replace(
        self,
        old: Sequence[str],
        new: Sequence[str],
        *,
        timeout: timedelta | float | None = None,
        join_timeout: timedelta | float = 300,
    ) -> ReplaceResult:
        """Wait for new instances, let old ones hand over and leave, as ``streamlet replace``.

        Args:
            old: names of those that leave.
            new: names of the new instances; the caller starts them.
            timeout: as in ``scale_down``.
            join_timeout: how long the new ones are waited for, at first and when one is lost; then
                the old ones stay, and ``problem`` of the result says why.

        Raises:
            StreamletError: as ``scale_down``.
        """
        from streamlet.scaling import commands
        from streamlet.scaling.replace import Replacement

        timeout_ms = None if timeout is None else _limit_ms(timeout)
        wanted = Replacement(tuple(old), tuple(new), timeout_ms, _limit_ms(join_timeout))
        return commands.replace(self._as_scaled(), wanted)

    def reset(self, to: str | datetime = "earliest", *, dry_run: bool = False) -> ResetResult:
        """Reset this application once all its instances are stopped.

        As ``streamlet reset``: positions are set, changelogs and repartition topics are emptied,
        and each instance discards the state on its disk when it starts next.

        Args:
            to: where its topics are read from then on: ``"earliest"``, ``"latest"``, or a time; one
                without a time zone is in UTC.
            dry_run: only plan.

        Raises:
            StreamletError: it is running, there is no such application, the broker refuses; nothing
                was changed. Or ``TimedOutError``: it is unfinished, call again.
        """
        from streamlet.reset import commands
        from streamlet.reset.start import StartPosition

        return commands.reset(self._as_scaled(), StartPosition.of(to), dry_run=dry_run)

    def _as_scaled(self) -> ApplicationInfo:
        """The application as the scaling commands need it."""
        from streamlet.admin.window import ApplicationInfo

        settings = self.load_settings(environ=os.environ)
        topology = None if self._builder.graph.is_empty else self.topology(settings)
        return ApplicationInfo.of(self.name, settings, topology, self.assignor)


@types_checked_inside
def load_app(reference: str) -> App:
    """The application that ``module:attribute`` leads to; modules of the current folder included.

    Raises:
        AppNotFoundError: it leads to no application; the message says which step failed.
    """
    try:
        found: App = named_object(reference, App, "flights:app")
    except LookupError as error:
        raise AppNotFoundError(str(error)) from error.__cause__
    return found


def hosted(app: App, settings: Settings) -> HostedApp:
    """The parts of an application, over these settings, that a host makes workers of."""
    from streamlet.hosting.hosted import HostedApp

    policy = app._answers.with_letters(settings.errors_dead_letter_queue_topic_name)
    parts = policy, app.assignor, app.listeners, app._served, app.tracer_provider
    return HostedApp(app.topology(settings), settings, *parts)


def _limit_ms(duration: timedelta | float) -> float:
    """A time limit, ``math.inf`` for none."""
    return math.inf if duration == math.inf else ms_of(duration)
