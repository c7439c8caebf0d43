"""Remembers which servers were started on this machine, so that another command can end them.

One small file per port in the user's state folder. A file may outlive its broker (the machine went
down, the broker was killed); a record counts only while its process runs with its settings file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

import attrs
import msgspec

from streamlet.bounded import INT32_MAX, parsed
from streamlet.broker.folders import writable
from streamlet.broker.port import HOST
from streamlet.broker.probe import serves
from streamlet.broker.registry import answers, mark_of_folder, url_at
from streamlet.clock import Clock, SystemClock
from streamlet.errors import NotFoundError, TimedOutError
from streamlet.own_files import user_folder

_STOP_TIMEOUT_MS = 30_000
_STOP_TIMEOUT_AMONG_MS = 10_000
_PAUSE_S = 0.05
#: How long a server that runs is waited for before it counts as one that is not ready, s.
ANSWER_S = 10


def stop_timeout_ms(*, alone: bool) -> int:
    """The time that the end of a broker may take, ms.

    One among several asks a controller for leave, and waits for ever when most of the controllers
    have ended before it; then it is killed.
    """
    return _STOP_TIMEOUT_MS if alone else _STOP_TIMEOUT_AMONG_MS


@attrs.frozen
class BrokerRecord:
    """A broker that was started here.

    Attributes:
        port: for clients.
        pid: the Java process.
        data_dir: its folder.
        ephemeral: its data goes when it is stopped.
        alone: it is the only one of its cluster.
    """

    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)]
    pid: Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)]
    data_dir: str
    ephemeral: bool
    alone: bool = True

    #: The folder of such records, and how messages name the server.
    kept_in: ClassVar[str] = "brokers"
    called: ClassVar[str] = "broker"

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def alive(self) -> bool:
        """True if the process still runs and is this broker, not a later one of that number."""
        settings = self.mark
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
            return settings.encode() in words
        except FileNotFoundError:
            if Path("/proc/self").exists():
                return False
        listing = subprocess.run(  # a machine without /proc
            ["ps", "-o", "command=", "-p", str(self.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return settings in listing.stdout

    @property
    def mark(self) -> str:
        """A word of its command that no other process has."""
        return str(Path(self.data_dir) / "server.properties")

    @property
    def ready(self) -> bool:
        """True if it answers clients."""
        return serves(HOST, self.port, ANSWER_S * 1_000)

    def save(self) -> None:
        """Remember it; whole or not at all, since another command may be reading."""
        folder = _folder(self.kept_in)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            json.dump(attrs.asdict(self), file)
        Path(file.name).rename(folder / f"{self.port}.json")

    def forget(self) -> None:
        """Forget it, and sweep the data of an ephemeral one."""
        (_folder(self.kept_in) / f"{self.port}.json").unlink(missing_ok=True)
        if self.ephemeral:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def stop(self, clock: Clock | None = None) -> None:
        """End it in order, wait for the end, and forget it; one among several is killed at last.

        Raises:
            TimedOutError: it does not end.
        """
        clock = clock or SystemClock()
        deadline_ms = clock.now_ms() + stop_timeout_ms(alone=self.alone)
        pause = threading.Event()
        if self.alive:
            os.kill(self.pid, signal.SIGTERM)
        while self.alive:
            if clock.now_ms() > deadline_ms and not self.alone:
                os.kill(self.pid, signal.SIGKILL)
            elif clock.now_ms() > deadline_ms:
                raise TimedOutError(
                    f"the {self.called} on port {self.port} (process {self.pid}) does not end"
                )
            pause.wait(_PAUSE_S)
        self.forget()


@attrs.frozen
class RegistryRecord(BrokerRecord):
    """A schema registry that was started here; ``data_dir`` is the folder of its log."""

    kept_in: ClassVar[str] = "registries"
    called: ClassVar[str] = "schema registry"

    @property
    def url(self) -> str:
        """The address for clients."""
        return url_at(self.port)

    @property
    def mark(self) -> str:
        """A word of its command that no other process has."""
        return mark_of_folder(self.data_dir)

    @property
    def ready(self) -> bool:
        """True if it answers clients."""
        return answers(self.url, ANSWER_S)


#: A kind of records.
Kind = TypeVar("Kind", bound=BrokerRecord)


def running(sort: type[Kind], port: int | None = None) -> list[Kind]:
    """The servers of a kind that run, by port; records of those that do not are dropped.

    ``port``: only the one there.
    """
    found = []
    for file in _folder(sort.kept_in).glob("*.json"):
        record = _read(file, sort)
        if record is None:
            file.unlink(missing_ok=True)
        elif record.alive:
            found.append(record)
        else:
            record.forget()
    wanted = (record for record in found if port in (None, record.port))
    return sorted(wanted, key=lambda record: record.port)


def some_running(sort: type[Kind], port: int | None) -> list[Kind]:
    """The servers that ``running`` finds, at least one.

    Raises:
        NotFoundError: there is none.
    """
    found = running(sort, port)
    if not found:
        where = "" if port is None else f" on port {port}"
        raise NotFoundError(f"no {sort.called} that was started here runs{where}")
    return found


def _read(file: Path, sort: type[Kind]) -> Kind | None:
    """The record in a file; None if it has none, as after a crash of the machine."""
    try:
        return record_of(file.read_bytes(), sort)
    except OSError:
        return None


def record_of(raw: bytes, sort: type[Kind]) -> Kind | None:
    """The record that these bytes are; None if they are none."""
    try:
        return msgspec.convert(parsed(raw), sort)
    except ValueError:
        return None


def _folder(kept_in: str) -> Path:
    return writable(user_folder("state") / kept_in)
