"""Runs a schema registry on this machine: Apicurio, which has Confluent's API too.

Schemas are in its memory and go with it: they are registered again by the next application.
"""

from __future__ import annotations

import atexit
import shutil
import signal
import tempfile
import urllib.request
from functools import partial
from http.client import HTTPException
from pathlib import Path

from streamlet.broker.jars import Archive, unpacked
from streamlet.broker.java import java_executable
from streamlet.broker.port import HOST, PortReservation
from streamlet.broker.watched import WatchedProcess
from streamlet.closing import Closing

VERSION = "3.3.3"
JARS = f"apicurio-{VERSION}"
_ARCHIVE = Archive("io.apicurio", "apicurio-registry-app", VERSION, "all")
#: Where it has Confluent's API.
PATH = "/apis/ccompat/v7"
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData")
_START_TIMEOUT_MS = 180_000
_STOP_TIMEOUT_S = 30
_LOG_BYTES = 2_000


class RegistryServer(Closing):
    """A schema registry, reachable from this machine only; a context manager.

    Needs the extra ``broker``. The first use on a machine fetches Apicurio, 159 MB. It ends with
    this process, however that ends, unless it is started with ``detached``.

    Args:
        port: the system chooses when None.
        folder: of its log file; a temporary one, swept at ``close``, when None.

    Raises:
        BrokerError: the port is taken.
    """

    def __init__(self, port: int | None = None, folder: Path | None = None) -> None:
        self._reserved = PortReservation(port)
        self._owns_folder = folder is None
        self.folder = Path(folder or tempfile.mkdtemp(prefix="streamlet-registry-")).absolute()
        self._process = WatchedProcess("schema registry", f"Apicurio {VERSION}")
        atexit.register(self.close)

    @property
    def port(self) -> int:
        """Its port; it stays the same over restarts."""
        return self._reserved.port

    @property
    def url(self) -> str:
        """The address for clients, ``SCHEMA_REGISTRY_URL``."""
        return url_at(self.port)

    @property
    def log_file(self) -> Path:
        """The file of its own log."""
        return self.folder / "registry.log"

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

    def start(self, *, detached: bool = False) -> RegistryServer:
        """Start it and wait until it serves; one that is running already is left alone.

        Args:
            detached: let it live on when this process ends.

        Raises:
            BrokerError: it gave up; the message has the end of its log.
            TimedOutError: it does not serve in time; it is ended.
        """
        if self.running:
            return self
        command = self._command()
        swept = self.folder if self._owns_folder else None
        try:
            with self.log_file.open("ab") as log:
                self._process.start(command, log, swept, detached=detached)
            ready = partial(answers, self.url)
            about = self.port, _START_TIMEOUT_MS, self._log
            self._process.await_ready(ready, *about)
        except BaseException:
            self.stop()
            raise
        if detached:
            self._reserved.release()
            atexit.unregister(self.close)
        return self

    def stop(self) -> None:
        """End it; its schemas are gone, its port is kept for another ``start``."""
        self._process.signal(signal.SIGTERM)
        self._process.await_end(_STOP_TIMEOUT_S)

    def close(self) -> None:
        """Stop it, free its port, and delete its folder if it was made here."""
        self.stop()
        self._reserved.release()
        atexit.unregister(self.close)
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> RegistryServer:
        return self.start()

    def _command(self) -> list[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self.port),
            "quarkus.management.enabled": "false",  # else it listens on all addresses
        }
        given = [f"-D{name}={value}" for name, value in settings.items()]
        given.append(mark_of_folder(self.folder))
        jar = fetched() / "quarkus-run.jar"
        return [str(java_executable(21)), *_OPTIONS, *given, "-jar", str(jar)]

    def _log(self) -> str:
        text = self.log_file.read_bytes()[-_LOG_BYTES:].decode(errors="replace")
        return f"its log says:\n{text.rstrip()}"


def fetched() -> Path:
    """The folder of Apicurio's files, fetched when they are not there yet.

    Raises:
        BrokerError: they cannot be fetched, or one does not have its SHA-256.
    """
    return unpacked(JARS, _ARCHIVE)


def url_at(port: int) -> str:
    """The address of a registry on this machine."""
    return f"http://{HOST}:{port}{PATH}"


def mark_of_folder(folder: str | Path) -> str:
    """A word of the command of the registry with this folder."""
    return f"-Djava.io.tmpdir={folder}"


def answers(url: str, timeout_s: float = 10) -> bool:
    """True if a registry at this address of this machine lists its subjects."""
    # What is on this machine is not asked for by way of a proxy that the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/subjects", timeout=timeout_s) as answer:
            return bool(answer.status == 200)
    except (OSError, HTTPException, ValueError):
        return False
