"""``streamlet dev``: broker, application and live page together, begun again on each save."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from streamlet.broker.record import BrokerRecord, running
from streamlet.counted import counted
from streamlet.errors import AppNotFoundError, ConfigError, StreamletError
from streamlet.hosting.signals import GracefulStop
from streamlet.named_objects import named_parts
from streamlet.own_files import user_folder
from streamlet.tools.application import StateDir
from streamlet.tools.broker import started
from streamlet.tools.command import Common, command

#: How often files are looked at, s.
_LOOK_S = 0.5
#: How long an instance may take to end before it is killed, s.
_END_S = 15
#: Folders whose files are not the program's.
_OTHERS = frozenset({"__pycache__", "node_modules", "site-packages"})
#: Partitions of the topics that are made.
_PARTITIONS = 4
_PAGE_PORT = 8080


@command("dev")
def dev(
    common: Common,
    app: Annotated[str, typer.Argument(metavar="APP", help="module:attribute of the App.")],
    port: Annotated[
        int, typer.Option(metavar="P", min=1, max=65_535, help="Port of the live page.")
    ] = _PAGE_PORT,
    broker_port: Annotated[
        int, typer.Option(min=1, max=65_535, help="Port of the broker that is started.")
    ] = 9092,
    state_dir: StateDir = None,
    watch: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder whose Python files are watched.")
    ] = Path(),
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = False,
) -> None:
    """Run an application while it is written: with a broker, its live page, and reloads on save.

    A broker is started on --broker-port unless one runs there or --bootstrap-servers names another;
    topics that the application names and that are not there are created. When a Python file in the
    folder is saved the instance commits, ends, and begins again with the new program; an error in
    it is shown, and the next change tries again. Ctrl-C, or the end of the terminal, ends all of
    it; the data of the broker stays.
    """
    _check_given(app, watch)
    page = find_spec("aiohttp") is not None
    if page:
        _check_free(port)
    else:
        common.output.note("the live page needs the extra http: pip install 'streamlet[http]'")
    with GracefulStop(hangs_up=True) as stop:
        servers, records = common.given_servers, []
        if servers is None:
            records = _broker(broker_port)
            servers = f"127.0.0.1:{broker_port}"
        words = ["--bootstrap-servers", servers, *_settings(common)]
        more = ["--http-port", str(port)] if page else []
        more += [] if state_dir is None else ["--state-dir", str(state_dir)]
        url = f"http://127.0.0.1:{port}/" if page else None

        def loaded() -> None:
            text = f"{app} runs over {servers}" + (f" and is shown on {url}" if url else "")
            common.output.answer({"app": app, "bootstrap_servers": servers, "url": url}, text)
            if browser and url is not None and not webbrowser.open(url):
                common.output.note("no browser can be opened here; open that address in one")

        instance = _Instance(app, words, more, loaded)
        try:
            _reload(common, instance, watch, stop)
        finally:
            instance.end()
            for record in records:
                record.stop()


def _check_given(app: str, watch: Path) -> None:
    """Raise an error for names that no file that is saved will mend."""
    try:
        named_parts(app, "flights:app")
    except LookupError as error:
        raise AppNotFoundError(str(error)) from error
    if not watch.is_dir():
        raise ConfigError([f"--watch {watch}: there is no such folder"])


def _check_free(port: int) -> None:
    """Raise ``ConfigError`` if the page would find its port taken, before anything is started."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        raise ConfigError([f"--port {port} {why}; give another one"]) from error


def _broker(port: int) -> list[BrokerRecord]:
    """The broker that was started here; none where one runs on that port already."""
    from streamlet.broker.server import KafkaBroker

    if running(BrokerRecord, port):
        return []
    folder = user_folder("data") / "broker" / str(port)
    return started(KafkaBroker(port, folder), ephemeral=False, detached=False)


def _settings(common: Common) -> list[str]:
    """The settings of the command line, for other commands."""
    return [word for text in common.overrides for word in ("--set", text)]


def _reload(common: Common, instance: _Instance, folder: Path, stop: GracefulStop) -> None:
    """Run the program, and run it again when its files have changed, until it is to stop."""
    seen = files_of(folder)

    def over() -> bool:
        return stop.asked.is_set() or files_of(folder) != seen

    instance.begin(common, over)
    while not stop.asked.wait(_LOOK_S):
        code = instance.just_ended()
        if code is not None:
            common.output.note(
                f"the instance ended with exit code {code}; save a file to try again"
            )
        now = files_of(folder)
        if now != seen:
            changed = sorted(name for name, _ in now.items() ^ seen.items())
            common.output.note(f"{changed[0]} has changed: begin again")
            seen = now
            instance.end()
            instance.begin(common, over)


def files_of(folder: Path) -> Mapping[str, tuple[int, int]]:
    """The Python files of a folder: name -> when it was written, ns, and its bytes."""
    found: dict[str, tuple[int, int]] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one not in _OTHERS and one[0] != "."]
        for name in names:
            if name.endswith(".py"):
                path = Path(place, name)
                with suppress(OSError):  # it was renamed or deleted meanwhile
                    about = path.stat()
                    found[str(path.relative_to(folder))] = about.st_mtime_ns, about.st_size
    return found


@attrs.define
class _Instance:
    """The process of the application; one at a time."""

    app: str
    common: list[str]
    own: list[str]
    _loaded: Callable[[], None] | None = None  # called once, when the program has no error
    _process: subprocess.Popen[bytes] | None = None

    def begin(self, common: Common, over: Callable[[], bool]) -> None:
        """Make the topics that are missing, and start the application, unless it is ``over``."""
        described = described_by(self.app, over)
        if over():
            return
        if described is not None and self._loaded is not None:
            self._loaded()
            self._loaded = None
        if described:
            try:
                create_missing(common, self.common[1], topics_of(described))
            except StreamletError as error:
                common.output.note(f"topics that are missing cannot be made: {error}")
        words = ["run", self.app, "--name", "dev", "--processes", "0", *self.common, *self.own]
        # In a session of its own: Ctrl-C is for this command, which ends the instance in order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streamlet", *words], start_new_session=True
        )

    def just_ended(self) -> int | None:
        """Its exit code, once, if it has ended by itself."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        self._process = None
        return code

    def end(self) -> None:
        """End it in order; it is killed where it takes too long."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        finally:  # a second Ctrl-C waits no longer, and leaves nothing behind
            process.kill()
            process.wait()


def described_by(app: str, over: Callable[[], bool]) -> Mapping[str, Any] | None:
    """The description of a program; None if it has an error, or is being loaded when ``over``.

    A program that never ends to load, as one that runs itself, is left at the next change.
    """
    words = [sys.executable, "-m", "streamlet", "describe", app, "--json"]
    to_nowhere = subprocess.DEVNULL  # what is wrong is said by the instance itself
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=to_nowhere, start_new_session=True
    ) as process:
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    text, _ = process.communicate(timeout=_LOOK_S)
                    return _document(text) if process.returncode == 0 else None
                if over():
                    return None
        finally:
            process.kill()


def _document(text: bytes) -> Mapping[str, Any]:
    """The description as JSON; empty if the program, or a library of it, printed to it, too."""
    try:
        found: Mapping[str, Any] = json.loads(text)
    except ValueError:
        return {}
    return found


def topics_of(described: Mapping[str, Any]) -> set[str]:
    """The topics that a program reads and writes by name, without those that streamlet makes."""
    parts = described["subtopologies"]
    read = {topic for part in parts for source in part["sources"] for topic in source["topics"]}
    written = {sink["topic"] for part in parts for sink in part["sinks"]}
    inputs = {*described["source_topics"]}
    inputs |= {table["topic"] for table in described["global_tables"]}
    return inputs | {topic for topic in written - (read - inputs) if topic}


def create_missing(common: Common, servers: str, names: Iterable[str]) -> None:
    """Create those of the topics that are not there."""
    from streamlet.kafka.ports import NewTopic

    with closing(attrs.evolve(common, given_servers=servers).admin()) as admin:
        missing = sorted({*names} - admin.topics().keys())
        admin.create_topics([NewTopic(name, _PARTITIONS, -1) for name in missing])
    for name in missing:
        common.output.note(f"made topic {name} with {counted(_PARTITIONS, 'partition')}")
