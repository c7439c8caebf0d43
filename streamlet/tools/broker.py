"""``streamlet broker``: real Kafka on this machine, started, found again and ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamlet.broker.record import BrokerRecord, running, some_running
from streamlet.closing import Closing
from streamlet.errors import BrokerError, ConfigError
from streamlet.hosting.signals import GracefulStop
from streamlet.own_files import user_folder
from streamlet.signals import handled
from streamlet.tools.command import Common, command
from streamlet.tools.output import table

if TYPE_CHECKING:
    from streamlet.broker.server import KafkaBroker

_POLL_S = 0.5
#: Exit statuses of a broker that was ended, by us or by ``broker stop`` elsewhere.
_STOPPED = (0, 143)

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port for clients; 0: any free one.")]
OnePort = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Only the broker on this port.")
]


@command("broker start")
def start(
    common: Common,
    port: Port = 9092,
    brokers: Annotated[
        int, typer.Option(min=1, max=9, help="How many; the others on the ports behind the first.")
    ] = 1,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keeps topics and log; default: a folder per port in your user data."),
    ] = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Keep nothing: the data goes with the broker.")
    ] = False,
    foreground: Annotated[
        bool, typer.Option("--foreground/--background", help="Stay until Ctrl-C, or return.")
    ] = False,
) -> None:
    """Start Kafka and wait until it serves; --set and --config take the broker's own settings.

    Of three brokers one may be away: topics have three replicas, and a write waits for two.
    """
    from streamlet.broker.server import KafkaBroker

    if common.names_servers:
        raise ConfigError(["--bootstrap-servers names a broker that runs; give --port"])
    if ephemeral and data_dir is not None:
        raise ConfigError(["--ephemeral keeps no data; leave out --data-dir"])
    if there := running(BrokerRecord, port):
        common.output.note(f"a broker runs on port {port} already")
        _answer(common, there)
        return
    if data_dir is None and not ephemeral:
        data_dir = user_folder("data") / "broker" / str(port)
    kafka = KafkaBroker(port or None, data_dir, common.settings, brokers=brokers)
    records = started(kafka, ephemeral, detached=not foreground)
    if foreground:
        _stay(common, kafka, records)
    else:
        _answer(common, records)


def started(kafka: KafkaBroker, ephemeral: bool, *, detached: bool) -> list[BrokerRecord]:
    """Start the brokers and remember them; none is left if that fails."""
    with starting(kafka, "the broker", "; --data-dir says where its data is"):
        kafka.start(detached=detached)
        alone = len(kafka.brokers) == 1
        records = [
            BrokerRecord(one.port, one.pid, str(one.data_dir), ephemeral, alone)
            for one in kafka.brokers
        ]
        for record in records:
            record.save()
    return records


@contextmanager
def starting(server: Closing, called: str, hint: str = "") -> Iterator[None]:
    """Start a server in the block; it is closed if that fails, or is broken off by SIGTERM.

    Raises:
        ConfigError: a file or a folder cannot be used; ``hint`` follows the reason.
    """
    try:
        with handled({signal.SIGTERM: signal.default_int_handler}):  # else Java would live on
            yield
    except BaseException as error:
        server.close()
        if isinstance(error, OSError):
            raise ConfigError([f"{called} cannot start: {error}{hint}"]) from error
        raise


def _stay(common: Common, kafka: KafkaBroker, records: Sequence[BrokerRecord]) -> None:
    """Wait until the brokers end or are to be stopped, then remove their record.

    Raises:
        BrokerError: one ended by itself.
    """
    try:
        with GracefulStop() as stop:
            _answer(common, records)
            while any(one.running for one in kafka.brokers) and not stop.asked.wait(_POLL_S):
                pass
            for one in kafka.brokers:
                if one.exit_status not in (None, *_STOPPED):
                    raise BrokerError(f"the broker ended by itself; {one.complaint()}")
            kafka.stop()
    finally:
        kafka.close()
        for record in records:
            record.forget()


@command("broker stop")
def stop(common: Common, port: OnePort = None) -> None:
    """Stop the brokers that were started here; exit 3 when there is none."""
    stopped = some_running(BrokerRecord, port)
    for record in stopped:
        record.stop()
    common.output.answer(
        {"stopped": [_described(record) for record in stopped]},
        "\n".join(f"stopped {record.bootstrap_servers}" for record in stopped),
    )


@command("broker status")
def status(common: Common, port: OnePort = None) -> None:
    """Show the brokers that were started here; exit 3 when there is none."""
    brokers = [
        {**_described(record), "ready": record.ready} for record in some_running(BrokerRecord, port)
    ]
    common.output.answer(
        {"brokers": brokers},
        table(
            *("BROKER", "PROCESS", "READY", "DATA"),
            rows=[
                (b["bootstrap_servers"], b["pid"], "yes" if b["ready"] else "no", b["data_dir"])
                for b in brokers
            ],
        ),
    )


def _answer(common: Common, records: Sequence[BrokerRecord]) -> None:
    """Show brokers that serve: one as itself, several as a list."""
    answers = [{**_described(record), "ready": record.ready} for record in records]
    texts = [f"{record.bootstrap_servers} (process {record.pid})" for record in records]
    servers = ",".join(record.bootstrap_servers for record in records)
    together = {"bootstrap_servers": servers, "brokers": answers}
    common.output.answer(
        answers[0] if len(answers) == 1 else together, f"Kafka serves on {', '.join(texts)}"
    )


def _described(record: BrokerRecord) -> dict[str, Any]:
    return {
        "bootstrap_servers": record.bootstrap_servers,
        "port": record.port,
        "pid": record.pid,
        "data_dir": record.data_dir,
        "ephemeral": record.ephemeral,
        "log": str(Path(record.data_dir) / "broker.log"),
    }
