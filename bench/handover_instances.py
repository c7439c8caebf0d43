"""The instances of a hand-over benchmark: ``streamlet run`` processes, and what they say."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.handover_app import EDGE, NAME
from bench.processes import MeasurementError

ROOT = Path(__file__).resolve().parent.parent
_NOTE = re.compile(r"^\S+-0 ([A-Z_]+) tasks: (.*)$")
_PID = re.compile(r"worker 0 started \(pid (\d+)\)")
_GENERATION = re.compile(r"generation (\d+): ")
_READY = "rejoining: a learner is ready"
_STOP_S = 180.0  # a changelog that was never compacted is long


def now_ms() -> int:
    """The wall clock, as the broker's."""
    return time.time_ns() // 1_000_000


class Instance:
    """One ``streamlet run`` with one worker; a thread reads what it says."""

    def __init__(self, name: str, command: list[str], environ: Mapping[str, str]) -> None:
        self.name = name
        self.state = ""
        self.tasks: frozenset[str] = frozenset()
        self.pid = 0  # the worker's
        self.generation = 0
        self.ready_ms: list[int] = []
        self.learns_ms: int | None = None  # when it was first told to learn
        self.stopped_ms: int | None = None  # when it had ended
        self.started_ms = now_ms()
        self.said: list[str] = []
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def drain(self) -> None:
        """Have it hand over all tasks and end; wait for that."""
        self._process.send_signal(signal.SIGUSR1)
        if self.wait() != 0:
            raise MeasurementError(f"{self.name} did not end well:\n{''.join(self.said[-15:])}")

    def wait(self) -> int:
        """Wait until it ends by itself; its exit code."""
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            raise MeasurementError(f"{self.name} does not end") from None
        self._reader.join()
        self.stopped_ms = now_ms()
        return code

    def end(self) -> None:
        """See that it does not live; its worker ends with it."""
        if self.alive:
            self._process.kill()
            if self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.said.append(line)
                if line.startswith("{"):
                    said = json.loads(line)
                    self._take(said["message"], said["at_ms"])

    def _take(self, message: str, at_ms: int) -> None:
        if note := _NOTE.match(message):
            self.state = note[1]
            self.tasks = frozenset(note[2].split()) - {"none"}
        elif found := _PID.match(message):
            self.pid = int(found[1])
        elif found := _GENERATION.match(message):
            self.generation = int(found[1])
            if self.learns_ms is None and "learner " in message:
                self.learns_ms = at_ms
        elif message == _READY:
            self.ready_ms.append(at_ms)


class Instances:
    """All instances of one application, those that are gone too."""

    def __init__(
        self,
        bootstrap: str,
        application: str,
        folder: Path,
        tasks: int,
        config: Mapping[str, str],
        *,
        static: bool = False,
        edge: str = "",
    ) -> None:
        self._command = [sys.executable, "-m", "streamlet", "run", "bench.handover_app:app"]
        self._command += ["--bootstrap-servers", bootstrap, "--log-level", "info", "--log-json"]
        for name, value in config.items():
            self._command += ["--set", f"{name}={value}"]
        self._environ = {**os.environ, NAME: application, EDGE: edge}
        self._folder = folder
        self._tasks = tasks
        self._static = static
        self.all: list[Instance] = []

    @property
    def live(self) -> list[Instance]:
        """Those that run, oldest first."""
        return [instance for instance in self.all if instance.stopped_ms is None]

    @property
    def generation(self) -> int:
        """The newest generation anybody was told of."""
        return max(instance.generation for instance in self.all)

    def start(self) -> Instance:
        """One more, with an empty disk."""
        name = f"i{len(self.all)}"
        more = ["--name", name, "--state-dir", str(self._folder / name)]
        if self._static:
            more += ["--set", f"group.instance.id={name}"]
        self.all.append(Instance(name, [*self._command, *more], self._environ))
        return self.all[-1]

    def balanced(self, spread: int = 1) -> bool:
        """Whether the living run all tasks, in shares that differ by so much at most."""
        shares = [len(one.tasks) if one.state == "RUNNING" else 0 for one in self.live]
        return sum(shares) == self._tasks and max(shares) - min(shares) <= spread

    def await_balance(self, steady_s: float, timeout_s: float = 120.0, spread: int = 1) -> int:
        """Wait until they are balanced for so long; since when, ms.

        Raises:
            MeasurementError: one ended, or they are not in time.
        """
        deadline, since = time.monotonic() + timeout_s, None
        while since is None or now_ms() - since < steady_s * 1000:
            self.check("the instances are not balanced", time.monotonic() > deadline)
            since = (since or now_ms()) if self.balanced(spread) else None
            time.sleep(0.02)
        return since

    def check(self, what: str, late: bool = False) -> None:
        """See that the living live, and that it is not too late.

        Raises:
            MeasurementError: one ended, or it is; ``what``, and what they said last.
        """
        if late or not all(one.alive for one in self.live):
            said = "\n".join(f"{one.name}: {''.join(one.said[-15:])}" for one in self.live)
            raise MeasurementError(f"{what}:\n{said}")

    def end(self) -> None:
        """Leave nothing running."""
        for instance in self.all:
            instance.end()


def wait_until(done: Callable[[], bool], what: str, timeout_s: float = 120.0) -> None:
    """Wait; ``what`` is said when it takes too long.

    Raises:
        MeasurementError: it does.
    """
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise MeasurementError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(0.05)
