"""``streamlet run``: one instance of an application, or all of it on Spark."""

from __future__ import annotations

import os
import platform
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamlet.errors import ConfigError
from streamlet.tools.command import Common, command
from streamlet.tools.settings import key_values

if TYPE_CHECKING:
    from streamlet.app import App
    from streamlet.config import Settings
    from streamlet.runtime.metrics.exposition import Exposition
    from streamlet.tools.run_progress import RunProgress


class Engine(StrEnum):
    """What runs the tasks."""

    NATIVE = "native"
    SPARK = "spark"


class Written(StrEnum):
    """What is written."""

    UPDATES = "updates"
    LATEST = "latest"


class Aggregations(StrEnum):
    """What does the aggregations."""

    SQL = "sql"
    TASKS = "tasks"


_SPARK = "With --engine spark"

Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Folder or URL where Spark keeps positions and state. [default: below state.dir]",
        rich_help_panel=_SPARK,
    ),
]
Trigger = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time from micro-batch to micro-batch, as 1s or 500ms; or available-now: process "
        "what is there and end. [default: 1s]",
        rich_help_panel=_SPARK,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where Spark runs, as spark://host:7077. [default: local[*]]",
        rich_help_panel=_SPARK,
    ),
]
SparkOutput = Annotated[
    Written | None,
    typer.Option(
        "--output",
        help="Every update, or the latest per key and micro-batch. [default: updates]",
        rich_help_panel=_SPARK,
    ),
]
SparkAggregations = Annotated[
    Aggregations | None,
    typer.Option(
        "--aggregations",
        help="What does the aggregations. [default: with --output latest Spark SQL where the "
        "result is the same, else the tasks]",
        rich_help_panel=_SPARK,
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(metavar="K=V", help="A tag of this instance (instance.tags); repeatable."),
]
Capacity = Annotated[
    float | None,
    typer.Option(metavar="X", help="Share of work it takes (instance.capacity)."),
]
InstanceId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Static id of this instance (group.instance.id)."),
]
Name = Annotated[
    str | None,
    typer.Option(metavar="N", help="Name of this instance. [default: the host's name]"),
]
Processes = Annotated[
    int,
    typer.Option(
        min=0, help="Worker processes; 0 runs one worker in this very process (debuggers)."
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        metavar="P", min=0, max=65535, help="Serve /metrics, /health, /ready; 0: any free port."
    ),
]
MetricsHost = Annotated[str, typer.Option(metavar="H", help="Interface to serve them on.")]
DrainOnSigterm = Annotated[
    bool,
    typer.Option(
        "--drain-on-sigterm",
        help="Let a first SIGTERM hand all tasks over before it ends, as SIGUSR1 does.",
    ),
]


@command("run")
def run(
    common: Common,
    app: Annotated[str, typer.Argument(metavar="APP", help="module:attribute of the App.")],
    name: Name = None,
    processes: Processes = 1,
    state_dir: Annotated[
        Path | None, typer.Option(metavar="D", help="Where state is kept (state.dir).")
    ] = None,
    instance_id: InstanceId = None,
    capacity: Capacity = None,
    tag: Tags = None,
    drain_on_sigterm: DrainOnSigterm = False,
    engine: Annotated[
        Engine, typer.Option(help="What runs the tasks: this process, or Spark.")
    ] = Engine.NATIVE,
    checkpoint: Checkpoint = None,
    trigger: Trigger = None,
    master: Master = None,
    output: SparkOutput = None,
    aggregations: SparkAggregations = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "0.0.0.0",
) -> None:
    """Run one instance of an application until Ctrl-C: once is graceful, twice is now.

    Start as many instances as you like, here or on other machines; each takes its share of the
    tasks. Workers that fail are started again and find their state on disk. SIGUSR1, and "streamlet
    drain" on this host, have it hand over its tasks and then end by itself.

    With --engine spark the application is one query in Spark instead, which needs the extra spark.
    """
    from streamlet.app import load_app
    from streamlet.local import check_supported

    native = {
        "--name": name,
        "--processes": processes if processes != 1 else None,
        "--state-dir": state_dir if checkpoint is not None else None,
        "--instance-id": instance_id,
        "--capacity": capacity,
        "--tag": tag,
        "--drain-on-sigterm": drain_on_sigterm,
    }
    spark: dict[str, Any] = {"checkpoint": checkpoint, "trigger": trigger, "master": master}
    spark |= {"output": output, "aggregations": aggregations}
    _check_engine(engine, native, {f"--{option}": value for option, value in spark.items()})
    key_values(tag or [], "--tag")
    given = {
        "state.dir": state_dir,
        "group.instance.id": instance_id,
        "instance.capacity": capacity,
        "instance.tags": ",".join(tag) if tag else None,
    }
    overrides = _overrides(common, given)
    application = load_app(app)
    settings = application.load_settings(environ=os.environ, overrides=overrides)
    if engine is Engine.SPARK:
        from streamlet.spark.session import require_pyspark
        from streamlet.tools.run_spark import SparkOptions, run_on_spark

        require_pyspark()
        told: dict[str, Any] = {name: value for name, value in spark.items() if value is not None}
        options = SparkOptions(**told, metrics_port=metrics_port, metrics_host=metrics_host)
        run_on_spark(common.output, app, application, settings, options)
        return
    check_supported(settings)
    orders = _orders(app, name, processes, overrides)
    _run(common, application, settings, orders, (metrics_port, metrics_host), drain_on_sigterm)


def _overrides(common: Common, given: dict[str, Any]) -> list[str]:
    """Settings of the command line, those of options of their own last."""
    given = {**given, "bootstrap.servers": common.given_servers}
    overrides = [f"{key}={value}" for key, value in common.settings.items()]
    return overrides + [f"{key}={value}" for key, value in given.items() if value is not None]


def _check_engine(engine: Engine, native: dict[str, Any], spark: dict[str, Any]) -> None:
    """Refuse options of the other engine, which would do nothing here."""
    strange, other = (spark, "spark") if engine is Engine.NATIVE else (native, "native")
    problems = [
        f"{option} means nothing to --engine {engine}; it is one of --engine {other}"
        for option, value in strange.items()
        if value
    ]
    if problems:
        raise ConfigError(problems)


def _orders(app: str, name: str | None, processes: int, overrides: list[str]) -> dict[str, Any]:
    """What each worker process is told: where the app is, and what was given over its settings."""
    if processes > 0 and app.startswith("__main__"):
        raise ConfigError(["an app defined in __main__ runs with --processes 0 only"])
    return {
        "app": app,
        "name": name or platform.node() or "instance",
        "members": processes,
        "overrides": overrides,
    }


def _run(
    common: Common,
    app: App,
    settings: Settings,
    orders: dict[str, Any],
    metrics: tuple[int | None, str],
    drain_on_sigterm: bool,
) -> None:
    from streamlet.local import (
        check_topics,
        clear_left_over,
        forget_instance,
        prepare_instance,
    )
    from streamlet.runtime.background import lower_priority
    from streamlet.runtime.metrics.server import serving
    from streamlet.state.directory import StateDirectory
    from streamlet.state.instances import InstanceRecord
    from streamlet.tools.run_progress import RunProgress

    topology = app.topology()
    check_topics(topology, settings)
    process_id, lock = StateDirectory(settings.state_dir, app.name).lock_instance()
    port, host = metrics
    served = serving(
        app.name,
        orders["name"],
        orders["members"],
        settings,
        port,
        host=host,
        told=lambda url: common.output.note(f"metrics on {url}/metrics"),
    )
    with lock, served as exposition:
        record = InstanceRecord(lock, orders["name"])
        progress = RunProgress(common.output, app.name, orders["name"], record.say)
        orders["process_id"] = process_id
        ended = "failed"
        try:
            clear_left_over(topology, settings, process_id, lock, max(orders["members"], 1))
            prepare_instance(app.name, settings, process_id, lock)
            if orders["members"]:
                code = _supervise(orders, progress, exposition, drain_on_sigterm)
            else:
                code = _run_here(app, settings, orders, progress, exposition, drain_on_sigterm)
            if progress.drained:
                lower_priority(of_all=True)  # others may still be at their hand-overs
                forget_instance(app.name, settings, process_id)
            ended = "failed" if code else "drained" if progress.drained else "stopped"
        finally:
            record.say(drains=0, tasks=0, ended=ended)
    progress.ended(code)
    if code:
        raise typer.Exit(code)


def _supervise(
    orders: dict[str, Any],
    progress: RunProgress,
    exposition: Exposition | None,
    drain_on_sigterm: bool,
) -> int:
    import logging

    from streamlet.clock import SystemClock
    from streamlet.runtime.instance import Instance, worker_command
    from streamlet.tools.log import is_json

    orders["log_level"] = logging.getLevelName(logging.getLogger().level).lower()
    orders["log_json"] = is_json()
    orders["path"] = [entry for entry in sys.path if entry]
    orders["measures"] = exposition is not None
    orders["endpoint"] = None if exposition is None else exposition.address

    def on_event(member: int, event: dict[str, Any]) -> None:
        if exposition is None or not exposition.event(member, event):
            progress.event(member, event)

    instance = Instance(
        worker_command(),
        orders,
        orders["members"],
        clock=SystemClock(),
        on_event=on_event,
        drain_on_sigterm=drain_on_sigterm,
    )
    return instance.run()


def _run_here(
    app: App,
    settings: Settings,
    orders: dict[str, Any],
    progress: RunProgress,
    exposition: Exposition | None,
    drain_on_sigterm: bool,
) -> int:

    from streamlet.assembly import open_worker
    from streamlet.clock import SystemClock
    from streamlet.local import MemberIdentity
    from streamlet.runtime.background import lower_priority
    from streamlet.runtime.signals import GracefulStop
    from streamlet.tools.run_progress import ended_event, leaving_event

    member = MemberIdentity(orders["process_id"], orders["name"])
    clock = SystemClock()
    with GracefulStop(drains=True, drain_on_sigterm=drain_on_sigterm) as stop:
        worker = open_worker(
            app.topology(),
            settings,
            member,
            assignor=app.assignor,
            policy=app.policy,
            observer=app.listeners.around(progress.observer()),
            measured=None if exposition is None else partial(exposition.take, 0),
            endpoint=None if exposition is None else exposition.address,
            on_leaving=lambda leaving: progress.event(0, leaving_event(leaving)),
        )
        worker.on_drained = partial(lower_priority, of_all=True)

        def keep_going() -> bool:
            if stop.drain.is_set():
                stop.drain.clear()
                worker.drain(clock.wall_ms())
            return not stop.asked.is_set()

        try:
            worker.run(keep_going)
        finally:
            progress.event(0, ended_event(worker.counters, worker.drained))
    return 0
