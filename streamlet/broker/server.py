r"""Runs Apache Kafka on this machine: one broker or several, for as long as they are wanted.

::

    KafkaBroker() --start--> serving --stop / kill--> down (port and data kept) --start--> ...
                                \--------- close, or the end of this process ---------> gone

``node`` is what holds for one broker's process.
"""

from __future__ import annotations

import atexit
import shutil
import signal
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import NoneType

from streamlet.absent import explains_misuse
from streamlet.arguments import check_is, never_copied
from streamlet.broker.node import BrokerNode
from streamlet.broker.port import HOST, PortReservation
from streamlet.broker.record import stop_timeout_ms
from streamlet.broker.storage import Cluster, cluster_files
from streamlet.closing import Closing
from streamlet.errors import ConfigError

#: What the heap begins with and may take of a broker that is alone, and of one among several, MiB.
_HEAP_ALONE_MB, _HEAP_AMONG_MB = (256, 1024), (128, 512)
_MOST_PORT = (1 << 16) - 1


@never_copied("others reach it by its bootstrap_servers")
@explains_misuse
class KafkaBroker(Closing):
    """Real brokers in KRaft mode, reachable from this machine only; a context manager.

    Needs the extra ``broker``. The first use on a machine fetches Kafka's jars. The brokers end
    with this process, however that ends, unless they are started with ``detached``. Java gets the
    options in ``KAFKA_OPTS`` too, as from Kafka's own scripts.

    There is one broker unless ``brokers`` says otherwise. Of three, topics have three replicas, and
    a write waits for two (``min.insync.replicas``): one may be away. Each is an object: ::

        with KafkaBroker(brokers=3) as kafka:
            kafka.brokers[0].kill()
            ...
            kafka.brokers[0].start()

    Args:
        port: of the first broker's client listener, the others follow it; the system chooses when
            None.
        data_dir: keeps topics and the log file, of several brokers in folders ``1``, ``2`` and so
            on; a temporary folder, swept at ``close``, when None.
        properties: Kafka's own broker settings; they win over ours.
        brokers: how many, each of them a controller too.
        heap_mb: what Java may take for the heap of each at most, in MiB; 1,024 for one, 512 for
            each of several.
        start_timeout_ms: how long a start may take before it counts as failed.

    Raises:
        BrokerError: a port is taken; the folder is one of another number of brokers.
        ConfigError: less than one broker, or no such port.
    """

    def __init__(
        self,
        port: int | None = None,
        data_dir: Path | str | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        brokers: int = 1,
        heap_mb: int | None = None,
        start_timeout_ms: int = 60_000,
    ) -> None:
        check_is("KafkaBroker(brokers=)", brokers, (int,), "a whole number")
        check_is("KafkaBroker(port=)", port, (int, NoneType), "a port, or None for any free one")
        if brokers < 1:
            raise ConfigError([f"brokers={brokers}: at least one"])
        if not 0 <= (port or 0) <= _MOST_PORT - brokers + 1:
            raise ConfigError([f"port={port}: expected 0 to {_MOST_PORT - brokers + 1}"])
        with ExitStack() as ports:
            reserved = [
                ports.enter_context(PortReservation(port and port + number))
                for number in range(brokers)
            ]
            controllers = [ports.enter_context(PortReservation()) for _ in range(brokers)]
            self._owns_data = data_dir is None
            folder = Path(data_dir or tempfile.mkdtemp(prefix="streamlet-broker-")).absolute()
            self._data_dir = folder
            cluster = Cluster(tuple(one.port for one in controllers), dict(properties or {}))
            files = cluster_files(folder, cluster, [one.port for one in reserved])
            self._ports = ports.pop_all()
        alone = brokers == 1
        begins_mb, most_mb = _HEAP_ALONE_MB if alone else _HEAP_AMONG_MB
        #: The brokers, by their numbers from 1.
        self.brokers: tuple[BrokerNode, ...] = tuple(
            BrokerNode(
                node_id,
                own,
                reservation,
                swept=folder if self._owns_data else None,
                java_options=(f"-Xmx{heap_mb or most_mb}m", f"-Xms{begins_mb}m"),
                start_timeout_ms=start_timeout_ms,
                stop_timeout_s=stop_timeout_ms(alone=alone) / 1000,
            )
            for node_id, (own, reservation) in enumerate(zip(files, reserved, strict=True), 1)
        )
        atexit.register(self.close)

    @property
    def port(self) -> int:
        """The first broker's port for clients; it stays the same over restarts."""
        return self.brokers[0].port

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients, of several brokers with commas."""
        return ",".join(f"{HOST}:{one.port}" for one in self.brokers)

    @property
    def data_dir(self) -> Path:
        """The folder of topics, settings and the log file."""
        return self._data_dir

    @property
    def log_file(self) -> Path:
        """The file of the first broker's own log."""
        return self.brokers[0].log_file

    @property
    def running(self) -> bool:
        """True if all processes live."""
        return all(one.running for one in self.brokers)

    @property
    def pid(self) -> int:
        """The first broker's Java process.

        Raises:
            BrokerError: it is not running.
        """
        return self.brokers[0].pid

    def start(self, *, detached: bool = False) -> KafkaBroker:
        """Start the brokers that do not run, and wait until all serve.

        Args:
            detached: let them live on when this process ends.

        Raises:
            BrokerError: a broker gave up; the message has the end of its log.
            TimedOutError: one does not serve in time; all are ended.
        """
        if self.running:
            return self
        try:
            for one in self.brokers:
                one.launch(detached=detached)
            for one in self.brokers:
                one.await_ready([each.node_id for each in self.brokers])
        except BaseException:
            self.kill()
            raise
        if detached:
            self._ports.close()
            atexit.unregister(self.close)
        return self

    def stop(self) -> None:
        """Stop all brokers in order; data and ports are kept for another ``start``."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End all at once, as a crash would (SIGKILL); data and ports are kept."""
        self._end(signal.SIGKILL)

    def restart(self) -> KafkaBroker:
        """Stop those that run, and start all again on the same ports and data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop all brokers, free their ports, and delete the data folder if it was made here."""
        if self._owns_data:
            self.kill()  # what it would write in order goes anyway
        else:
            self.stop()
        self._ports.close()
        atexit.unregister(self.close)
        if self._owns_data:
            shutil.rmtree(self._data_dir, ignore_errors=True)

    def __enter__(self) -> KafkaBroker:
        return self.start()

    def _end(self, how: signal.Signals) -> None:
        for one in self.brokers:
            one.signal(how)
        for one in self.brokers:
            one.await_end()
