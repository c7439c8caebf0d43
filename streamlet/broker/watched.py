"""A server's process, which ends with the process that started it.

A server must not outlive the process that started it, not even when that process is killed and can
run no code. So a shell waits beside it, reading from a pipe that only we can write to: the pipe's
end is the end of us, and then the shell kills the server and sweeps the data folder if it was ours.
(The kernel's death signal would be simpler, but it fires at the end of the *thread* that started
the server.) The shell is in the server's process group, so the server's number cannot be given to
another process as long as the shell may use it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from streamlet.broker.port import HOST
from streamlet.clock import SystemClock
from streamlet.errors import BrokerError, TimedOutError
from streamlet.signals import deferred

_PROBE_PAUSE_S = 0.05

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


class WatchedProcess:
    """A server's process from its start to the end that we noticed; it may be started again.

    Args:
        called: how errors name the server, as in "the broker".
        program: its program with the version, for errors of a start.
    """

    def __init__(self, called: str, program: str) -> None:
        self._called, self._program = called, program
        self._process: subprocess.Popen[bytes] | None = None
        #: Our end of the watching shell's pipe; None when there is no shell to tell.
        self._leash: int | None = None

    @property
    def running(self) -> bool:
        """True if the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its number.

        Raises:
            BrokerError: it is not running.
        """
        if self._process is None or not self.running:
            raise BrokerError(f"the {self._called} is not running")
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """The exit status when it ended by itself, None while it runs and after we ended it."""
        return None if self._process is None else self._process.poll()

    def start(
        self, command: Sequence[str], log: IO[bytes], swept: Path | None, *, detached: bool
    ) -> None:
        """Start a command in a session of its own: Ctrl-C in the terminal is ours to handle.

        Signals that come meanwhile are handled when the process is known, so that it can be ended.

        Args:
            command: its words.
            log: takes all that it prints.
            swept: the folder to delete when it is killed because this process is gone.
            detached: let it live on when this process ends.
        """
        self._forget()
        with deferred():
            if detached:
                self._process = self._popen(command, subprocess.DEVNULL, log)
                return
            read_end, self._leash = os.pipe()
            words = ["/bin/sh", "-c", _WATCHED, "streamlet-broker", str(swept or ""), *command]
            try:
                self._process = self._popen(words, read_end, log)
            finally:
                os.close(read_end)

    def await_ready(
        self,
        ready: Callable[[], bool],
        port: int,
        timeout_ms: int,
        complaint: Callable[[], str],
    ) -> None:
        """Wait until it serves.

        Args:
            ready: asks it.
            port: where, for errors.
            timeout_ms: how long it may take.
            complaint: what its log says, for errors.

        Raises:
            BrokerError: it has ended, or does not run.
            TimedOutError: it does not serve in time.
        """
        process = self._process
        if process is None:
            raise BrokerError(f"the {self._called} is not running")
        clock = SystemClock()
        deadline_ms = clock.now_ms() + timeout_ms
        while not ready():
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(_PROBE_PAUSE_S)
                raise BrokerError(f"{self._program} gave up with status {status}; {complaint()}")
            if clock.now_ms() > deadline_ms:
                raise TimedOutError(
                    f"{self._program} does not serve on {HOST}:{port} after {timeout_ms} ms; "
                    f"{complaint()}"
                )

    def signal(self, how: signal.Signals) -> None:
        """Send it a signal if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)

    def await_end(self, timeout_s: float) -> None:
        """Wait until it has ended; kill it if that takes too long."""
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._forget()

    def _forget(self) -> None:
        """Let the watching shell go, for the process it watched has ended."""
        self._process = None
        if self._leash is not None:
            with suppress(BrokenPipeError):
                os.write(self._leash, b"ended\n")
            os.close(self._leash)
            self._leash = None

    @staticmethod
    def _popen(command: Sequence[str], stdin: int, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, stdin=stdin, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
