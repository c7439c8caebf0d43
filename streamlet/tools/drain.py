"""``streamlet drain``: have an instance on this host leave."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from streamlet.clock import SystemClock
from streamlet.counted import counted
from streamlet.errors import RefusedError, StreamletError, TimedOutError
from streamlet.hosting.signals import GracefulStop
from streamlet.tools.application import ONLY_INSTANCE, LocalInstance
from streamlet.tools.command import Common, command
from streamlet.tools.durations import timeout_ms
from streamlet.tools.scaling_view import not_finished

if TYPE_CHECKING:
    from streamlet.state.instances import InstanceFolder

POLL_S = 0.2


@command("drain")
def drain(
    common: Common,
    instance: LocalInstance = ONLY_INSTANCE,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long to wait, as 90s, 10m or infinite; then exit 4."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the instance has ended.")
    ] = True,
) -> None:
    """Have an instance on this host hand its tasks over and end; the same as SIGUSR1.

    Say APP, --name or --state-dir where several instances run here. For instances elsewhere there
    is scale-down. Ctrl-C only ends the waiting, with exit code 4.
    """
    limit_ms = timeout_ms(timeout)
    found = instance.living(common)
    with GracefulStop() as stop:
        DrainView(common, found, limit_ms, stop.asked).run(wait)


class DrainView:
    """One instance on its way out, as its folder shows it.

    Args:
        common: where to tell of it.
        found: the instance.
        timeout_ms: how long to wait; None: as long as it takes.
        stopped: ends the waiting.
    """

    def __init__(
        self,
        common: Common,
        found: InstanceFolder,
        timeout_ms: float | None,
        stopped: threading.Event | None = None,
    ) -> None:
        self._output = common.output
        self._found = found
        self._pid = found.pid or 0
        self._clock = SystemClock()
        self._timeout_ms = timeout_ms
        self._until_ms = None if timeout_ms is None else self._clock.now_ms() + timeout_ms
        self._stopped = stopped or threading.Event()

    def run(self, wait: bool) -> None:
        """Signal it, and wait for its end.

        Raises:
            RefusedError: it cannot be signalled.
            TimedOutError: it takes longer.
            StreamletError: it ended otherwise.
            KeyboardInterrupt: stopped before it was signalled.
        """
        # Before that a signal would find Python's own answer, which is to die.
        while not self._found.drains and self._lives():
            self._rest("takes no orders yet")
            if self._stopped.is_set():
                raise KeyboardInterrupt(f"{self._found.name} was not asked to leave")
        if self._lives():
            self._signal()
        shown = -1
        while wait and self._lives():
            if self._stopped.is_set():
                self._answer(False)
                not_finished(True)
            if self._found.leaving_since_ms and self._found.tasks != shown:
                shown = self._found.tasks
                self._output.note(f"{self._found.name} still runs {counted(shown, 'task')}")
            self._rest("is still leaving")
        if wait and self._found.ended != "drained":
            how = self._found.ended or "killed"
            raise StreamletError(f"{self._found.name} was not drained: it was {how}")
        self._answer(wait)

    def _answer(self, waited: bool) -> None:
        found = self._found
        document = {
            "application": found.application,
            "name": found.name,
            "pid": self._pid,
            "drained": waited,
        }
        self._output.answer(document, f"{found.name} {'drained' if waited else 'is leaving'}")

    def _signal(self) -> None:
        from streamlet.state.lock_holders import holds

        file = self._found.file
        if not self._pid or not holds(self._pid, file):
            if not self._lives():
                return  # it has just ended; its folder tells how
            who = f"process {self._pid}" if self._pid else "a process that is not named"
            raise RefusedError(
                f"{file} says that {who} holds it, and that cannot be seen: nothing was signalled; "
                "run this as the instance's user"
            )
        try:
            os.kill(self._pid, signal.SIGUSR1)
        except ProcessLookupError:
            return  # it has just ended; its folder tells how
        except PermissionError as error:
            raise RefusedError(
                f"process {self._pid} belongs to another user; run this as that one"
            ) from error

    def _lives(self) -> bool:
        self._found = type(self._found).read(self._found.file)
        return self._found.pid == self._pid

    def _rest(self, what: str) -> None:
        if self._until_ms is not None and self._clock.now_ms() >= self._until_ms:
            raise TimedOutError(f"{self._found.name} {what} after {self._timeout_ms} ms")
        self._stopped.wait(POLL_S)
