"""One broker process: Java, started, watched, ended and started again."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs

from streamlet.broker.aot_cache import cache_options
from streamlet.broker.java import java_executable
from streamlet.broker.port import HOST, PortReservation
from streamlet.broker.probe import serves
from streamlet.broker.storage import JARS, KAFKA_VERSION, BrokerFiles, kafka_jars
from streamlet.broker.watched import WatchedProcess

_LOG_BYTES = 2000
_ERROR_LINE = re.compile(r"^.* ERROR .*$", re.MULTILINE)

#: More options of Java, as Kafka's own scripts take them.
OPTIONS_VARIABLE = "KAFKA_OPTS"
_JAVA_OPTIONS = (
    "-XX:+UseSerialGC",  # one core is often all there is
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dlog4j2.disableJmx=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)


@attrs.define(eq=False)
class BrokerNode:
    """One broker of a ``KafkaBroker``: a Java process with a port and a folder that outlive it.

    Attributes:
        node_id: its number among the brokers, from 1.
    """

    node_id: int
    _files: BrokerFiles
    _reserved: PortReservation
    _swept: Path | None
    _java_options: Sequence[str]
    _start_timeout_ms: int
    _stop_timeout_s: float
    _process: WatchedProcess = attrs.field(init=False)
    #: Where in the log file this run's lines begin, in bytes.
    _log_begins: int = attrs.field(default=0, init=False)

    @_process.default
    def _unstarted(self) -> WatchedProcess:
        return WatchedProcess("broker", f"Kafka {KAFKA_VERSION}")

    @property
    def port(self) -> int:
        """The client listener's port; it stays the same over restarts."""
        return self._reserved.port

    @property
    def data_dir(self) -> Path:
        """The folder of topics, settings and the log file."""
        return self._files.folder

    @property
    def log_file(self) -> Path:
        """The file of the broker's own log."""
        return self.data_dir / "broker.log"

    @property
    def running(self) -> bool:
        """True if the process lives."""
        return self._process.running

    @property
    def pid(self) -> int:
        """The Java process.

        Raises:
            BrokerError: it is not running.
        """
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """The exit status when it ended by itself, None while it runs and after we ended it."""
        return self._process.exit_status

    def start(self) -> BrokerNode:
        """Start it and wait until it serves; one that is running already is left alone.

        With several brokers more than half of them must run: ``KafkaBroker.start`` starts all.

        Raises:
            BrokerError: the broker gave up; the message has the end of its log.
            TimedOutError: it does not serve in time; it is ended.
        """
        self.launch()
        self.await_ready([self.node_id])
        return self

    def launch(self, *, detached: bool = False) -> None:
        """Start the process, if it does not run, and do not wait.

        Args:
            detached: let it live on when this process ends.
        """
        if self.running:
            return
        self._files.write()
        command = self._command()
        with self.log_file.open("ab") as log:
            self._log_begins = log.tell()
            self._process.start(command, log, self._swept, detached=detached)

    def await_ready(self, nodes: Sequence[int]) -> None:
        """Wait until it serves and knows that these brokers live.

        Raises:
            BrokerError: it has ended.
            TimedOutError: it does not serve in time; it is ended.
        """
        ready = partial(serves, HOST, self.port, nodes=nodes)
        about = self.port, self._start_timeout_ms, self.complaint
        try:
            self._process.await_ready(ready, *about)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End it in order; data and port are kept for another ``start``."""
        self.signal(signal.SIGTERM)
        self.await_end()

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL); data and port are kept."""
        self.signal(signal.SIGKILL)
        self.await_end()

    def restart(self) -> BrokerNode:
        """Restart the broker on the same port and data, also if it does not run."""
        self.stop()
        return self.start()

    def _command(self) -> Sequence[str]:
        java, class_path = java_executable(), ":".join(map(str, kafka_jars()))
        options = (*self._java_options, *_JAVA_OPTIONS, *cache_options(java, JARS))
        further = shlex.split(os.environ.get(OPTIONS_VARIABLE, ""))
        settings = str(self._files.settings_file)
        return str(java), *options, *further, "-cp", class_path, "kafka.Kafka", settings

    def complaint(self) -> str:
        """The broker's log of this run from the first error on; its end if there is none."""
        text = self.log_file.read_bytes()[self._log_begins :].decode(errors="replace")
        error = _ERROR_LINE.search(text)
        shown = text[error.start() :][:_LOG_BYTES] if error else text[-_LOG_BYTES:]
        return f"its log says:\n{shown.rstrip()}"

    def signal(self, how: signal.Signals) -> None:
        """Send a running broker a signal; SIGSTOP freezes it, SIGCONT lets it go on."""
        self._process.signal(how)

    def await_end(self) -> None:
        """Wait until its process has ended; kill it if that takes too long."""
        self._process.await_end(self._stop_timeout_s)
