r"""Runs one Apache Kafka broker on this machine: one Java process, for as long as it is wanted.

::

    KafkaBroker() --start--> serving --stop / kill--> down (port and data kept) --start--> ...
                                \--------- close, or the end of this process ---------> gone

A broker must not outlive the process that started it, not even when that process is killed and can
run no code. So a shell waits beside it, reading from a pipe that only we can write to: the pipe's
end is the end of us, and then the shell kills the broker and sweeps the data folder if it was ours.
(The kernel's death signal would be simpler, but it fires at the end of the *thread* that started
the broker.) The shell is in the broker's process group, so the broker's number cannot be given to
another process as long as the shell may use it.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from streamlet.broker.aot_cache import cache_options
from streamlet.broker.java import java_executable
from streamlet.broker.port import HOST, PortReservation
from streamlet.broker.probe import serves
from streamlet.broker.storage import (
    JARS,
    KAFKA_VERSION,
    format_storage,
    kafka_jars,
    write_settings,
)
from streamlet.clock import Clock, SystemClock
from streamlet.errors import BrokerError, TimedOutError

_STOP_TIMEOUT_S = 30
_PROBE_PAUSE_S = 0.05
_LOG_BYTES = 2000
_ERROR_LINE = re.compile(r"^.* ERROR .*$", re.MULTILINE)

#: Arguments: the data folder to sweep or nothing, then the command. A line on standard input means
#: that we ended the broker ourselves; its end without one, that we are dead.
_WATCHED = """
swept=$1; shift
exec 3<&0 </dev/null
(
  read word <&3
  kill -KILL $$ 2>/dev/null
  if [ -z "$word" ] && [ -n "$swept" ]; then
    n=0
    while kill -0 $$ 2>/dev/null && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
    rm -rf "$swept"
  fi
) &
exec "$@" 3<&-
"""

#: More options of Java, as Kafka's own scripts take them.
OPTIONS_VARIABLE = "KAFKA_OPTS"
_JAVA_OPTIONS = (
    "-Xms256m",
    "-XX:+UseSerialGC",  # one core is often all there is
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dlog4j2.disableJmx=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)


class KafkaBroker:
    """A real broker in KRaft mode, reachable from this machine only; a context manager.

    Needs the extra ``broker``. The first use on a machine fetches Kafka's jars. The broker ends
    with this process, however that ends, unless it is started with ``detached``. Java gets the
    options in ``KAFKA_OPTS`` too, as from Kafka's own scripts.

    Args:
        port: of the client listener; the system chooses one when None.
        data_dir: keeps topics and the log file; a temporary folder, swept at ``close``, when None.
        properties: Kafka's own broker settings; they win over ours.
        heap_mb: what Java may take for its heap at most, in MiB.
        start_timeout_ms: how long a start may take before it counts as failed.
        clock: for tests.

    Raises:
        BrokerError: the port is taken.
    """

    def __init__(
        self,
        port: int | None = None,
        data_dir: Path | str | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        heap_mb: int = 1024,
        start_timeout_ms: int = 60_000,
        clock: Clock | None = None,
    ) -> None:
        self._reserved = PortReservation(port)
        self._owns_data = data_dir is None
        self._data_dir = Path(data_dir or tempfile.mkdtemp(prefix="streamlet-broker-")).absolute()
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._start_timeout_ms = start_timeout_ms
        self._clock = clock or SystemClock()
        #: The Java process from start to the end that we noticed.
        self._process: subprocess.Popen[bytes] | None = None
        #: Our end of the watching shell's pipe; None when there is no shell to tell.
        self._leash: int | None = None
        #: Where in the log file this run's lines begin, in bytes.
        self._log_begins = 0
        atexit.register(self.close)

    @property
    def port(self) -> int:
        """The client listener's port; it stays the same over restarts."""
        return self._reserved.port

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def data_dir(self) -> Path:
        """The folder of topics, settings and the log file."""
        return self._data_dir

    @property
    def log_file(self) -> Path:
        """The file of the broker's own log."""
        return self._data_dir / "broker.log"

    @property
    def running(self) -> bool:
        """True if the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The Java process.

        Raises:
            BrokerError: it is not running.
        """
        if self._process is None or not self.running:
            raise BrokerError("the broker is not running")
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """The exit status when it ended by itself, None while it runs and after we ended it."""
        return None if self._process is None else self._process.poll()

    def start(self, *, detached: bool = False) -> KafkaBroker:
        """Start it and wait until it serves; one that is running already is left alone.

        Args:
            detached: let it live on when this process ends.

        Raises:
            BrokerError: the broker gave up; the message has the end of its log.
            TimedOutError: it does not serve in time; it is ended.
        """
        if self.running:
            return self
        self._forget()
        format_storage(self._data_dir / "logs")
        with PortReservation() as controller:
            self._write_settings(controller.port)
            self._process = self._launch(detached)
            try:
                self._await_ready(self._process)
            except BaseException:
                self.kill()
                raise
        if detached:
            self._reserved.release()
            atexit.unregister(self.close)
        return self

    def stop(self) -> None:
        """End it in order; data and port are kept for another ``start``."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL); data and port are kept."""
        self._end(signal.SIGKILL)

    def restart(self) -> KafkaBroker:
        """Stop it if it runs, and start it again on the same port and data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End it for good: give the port back and sweep the data folder if it was made here."""
        self.stop()
        self._reserved.release()
        atexit.unregister(self.close)
        if self._owns_data:
            shutil.rmtree(self._data_dir, ignore_errors=True)

    def __enter__(self) -> KafkaBroker:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write_settings(self, controller_port: int) -> None:
        write_settings(
            self._data_dir / "server.properties",
            self._data_dir / "logs",
            self.port,
            controller_port,
            self._properties,
        )

    def _command(self) -> Sequence[str]:
        java, class_path = java_executable(), ":".join(map(str, kafka_jars()))
        options = (f"-Xmx{self._heap_mb}m", *_JAVA_OPTIONS, *cache_options(java, JARS))
        further = shlex.split(os.environ.get(OPTIONS_VARIABLE, ""))
        settings = str(self._data_dir / "server.properties")
        return str(java), *options, *further, "-cp", class_path, "kafka.Kafka", settings

    def _launch(self, detached: bool) -> subprocess.Popen[bytes]:
        """Start Java in a session of its own, so that Ctrl-C in the terminal is ours to handle."""
        command = self._command()
        with self.log_file.open("ab") as log:
            self._log_begins = log.tell()
            if detached:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            read_end, self._leash = os.pipe()
            swept = str(self._data_dir) if self._owns_data else ""
            try:
                return subprocess.Popen(
                    ["/bin/sh", "-c", _WATCHED, "streamlet-broker", swept, *command],
                    stdin=read_end,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            finally:
                os.close(read_end)

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline_ms = self._clock.now_ms() + self._start_timeout_ms
        while not serves(HOST, self.port):
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(_PROBE_PAUSE_S)
                raise BrokerError(
                    f"Kafka {KAFKA_VERSION} gave up with status {status}; {self.complaint()}"
                )
            if self._clock.now_ms() > deadline_ms:
                raise TimedOutError(
                    f"Kafka {KAFKA_VERSION} does not serve on {self.bootstrap_servers} "
                    f"after {self._start_timeout_ms} ms; {self.complaint()}"
                )

    def complaint(self) -> str:
        """The broker's log of this run from the first error on; its end if there is none."""
        text = self.log_file.read_bytes()[self._log_begins :].decode(errors="replace")
        error = _ERROR_LINE.search(text)
        said = text[error.start() :][:_LOG_BYTES] if error else text[-_LOG_BYTES:]
        return f"its log says:\n{said.rstrip()}"

    def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._forget()

    def _forget(self) -> None:
        """Let the watching shell go, for the process it watched has ended."""
        self._process = None
        if self._leash is not None:
            with suppress(BrokenPipeError):
                os.write(self._leash, b"ended\n")
            os.close(self._leash)
            self._leash = None
