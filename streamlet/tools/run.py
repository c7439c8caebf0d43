"""``streamlet run``: one instance of an application, or all of it on Spark."""

from __future__ import annotations

import platform
from enum import StrEnum
from typing import Annotated, Any

import typer

from streamlet.bounded import WORKERS_MAX
from streamlet.errors import ConfigError
from streamlet.tools.application import StateDir
from streamlet.tools.command import Common, command
from streamlet.tools.durations import limit_ms
from streamlet.tools.settings import key_values
from streamlet.tools.spark_arguments import SparkArguments


class Engine(StrEnum):
    """The engine that runs the tasks."""

    NATIVE = "native"
    SPARK = "spark"


_FOREVER = "infinite"
_NO_ARGUMENTS = SparkArguments()

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
    typer.Option(
        metavar="N",
        help="Name of this instance, or of the Spark application. [default: the host's name, "
        "or APP]",
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        min=0,
        max=WORKERS_MAX,
        help="Worker processes; 0 runs one worker in this very process (debuggers).",
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        metavar="P", min=0, max=65535, help="Serve /metrics, /health, /ready; 0: any free port."
    ),
]
MetricsHost = Annotated[
    str, typer.Option(metavar="H", help="Interface to serve them on; 0.0.0.0: all.")
]
HttpPort = Annotated[
    int | None,
    typer.Option(
        metavar="P",
        min=0,
        max=65535,
        help="Answer queries of stores over HTTP (http.port); 0: any free port.",
    ),
]
HttpHost = Annotated[
    str | None,
    typer.Option(metavar="H", help="Interface to answer them on (http.host). [default: 127.0.0.1]"),
]
DrainOnSigterm = Annotated[
    bool,
    typer.Option(
        "--drain-on-sigterm",
        help="Let a first SIGTERM hand all tasks over before it ends, as SIGUSR1 does.",
    ),
]
WaitForBroker = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="How long to wait at the start until a broker answers; then it ends with exit code 4.",
    ),
]


@command("run")
def run(
    common: Common,
    app: Annotated[str, typer.Argument(metavar="APP", help="module:attribute of the App.")],
    name: Name = None,
    processes: Processes = 1,
    state_dir: StateDir = None,
    instance_id: InstanceId = None,
    capacity: Capacity = None,
    tag: Tags = None,
    drain_on_sigterm: DrainOnSigterm = False,
    wait_for_broker: WaitForBroker = _FOREVER,
    engine: Annotated[
        Engine, typer.Option(help="What runs the tasks: this process, or Spark.")
    ] = Engine.NATIVE,
    spark: SparkArguments = _NO_ARGUMENTS,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    http_port: HttpPort = None,
    http_host: HttpHost = None,
) -> None:
    """Run one instance of an application until Ctrl-C: once is graceful, twice is now.

    Start as many instances as you like, here or on other machines; each takes its share of the
    tasks. Workers that fail are started again and find their state on disk. SIGUSR1, and "streamlet
    drain" on this host, have it hand over its tasks and then end by itself.

    With --engine spark the application is one query in Spark instead, which needs the extra spark.
    """
    native = {
        "--processes": processes if processes != 1 else None,
        "--state-dir": state_dir if spark.checkpoint is not None else None,
        "--instance-id": instance_id,
        "--capacity": capacity,
        "--tag": tag,
        "--drain-on-sigterm": drain_on_sigterm,
        "--wait-for-broker": wait_for_broker if wait_for_broker != _FOREVER else None,
        "--http-port": None if http_port is None else str(http_port),  # 0 is one, too
        "--http-host": http_host,
    }
    _check_engine(engine, native, spark.by_option())
    key_values(tag or [], "--tag")
    common = common.with_servers().with_options(
        ("state.dir", state_dir, "--state-dir"),
        ("group.instance.id", instance_id, "--instance-id"),
        ("instance.capacity", capacity, "--capacity"),
        ("instance.tags", ",".join(tag) if tag else None, "--tag"),
        ("http.port", http_port, "--http-port"),
        ("http.host", http_host, "--http-host"),
    )
    if engine is Engine.SPARK:
        given_spark = {**spark.options(), "name": name, "metrics_port": metrics_port}
        _run_on_spark(common, app, {**given_spark, "metrics_host": metrics_host})
        return
    from streamlet.hosting.host import MetricsPlace
    from streamlet.tools.run_native import run_native

    orders = _orders(app, name, processes, common.overrides)
    tell = common.output.event
    served = MetricsPlace(metrics_port, metrics_host, lambda url: tell(f"metrics on {url}/metrics"))
    wait_ms = limit_ms(wait_for_broker, "--wait-for-broker")
    run_native(common, orders, served, drain_on_sigterm, wait_ms)


def _run_on_spark(common: Common, app: str, options: dict[str, Any]) -> None:
    from streamlet.app import load_app
    from streamlet.hosting.signals import let_through
    from streamlet.spark.cluster.session import require_pyspark
    from streamlet.spark.cluster.submit import SparkOptions, add_to_path, submit
    from streamlet.spark.query import trigger_options
    from streamlet.tools.run_spark import run_on_spark

    let_through()
    given = {name: value for name, value in options.items() if value is not None}
    chosen = SparkOptions(**given)
    add_to_path(chosen.py_files)
    application = load_app(app)
    settings = common.load(application)
    require_pyspark()
    trigger_options(chosen.trigger)  # so that a wrong one is refused before Spark starts
    if chosen.deploy_mode == "cluster":
        raise typer.Exit(submit(app, chosen, common.overrides))
    run_on_spark(common.output, app, application, settings, chosen)


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
    """The first order of each worker process: the app, and what was given over its settings."""
    if processes > 0 and app.startswith("__main__"):
        raise ConfigError(["an app defined in __main__ runs with --processes 0 only"])
    return {
        "app": app,
        "name": name or platform.node() or "instance",
        "members": processes,
        "overrides": overrides,
    }
