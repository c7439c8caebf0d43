"""Signal handling: the first Ctrl-C stops gracefully, the second at once."""

from __future__ import annotations

import signal
import threading
from _thread import start_new_thread
from contextlib import ExitStack
from types import FrameType

from streamlet.hosting.requests import HostRequests
from streamlet.signals import handled


def let_through() -> None:
    """Unblock the signals that ``streamlet.__main__`` blocked while the command was loaded."""
    stops = signal.SIGINT, signal.SIGTERM, signal.SIGUSR1
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)


class GracefulStop:
    """While the block runs, a first Ctrl-C or SIGTERM sets ``asked``, a second ends the command.

    Main thread only. The second raises ``KeyboardInterrupt``, which a command turns into exit 130.

    Args:
        drains: whether SIGUSR1 sets ``drain``; the waiting thread clears it.
        drain_on_sigterm: whether the first SIGTERM does, too.
        hangs_up: whether SIGHUP, at the end of the terminal, is as SIGTERM, unless it is ignored.
        breakable: False for a block that is inside of calls that a ``KeyboardInterrupt`` breaks:
            the second sets ``now``, for the block to look at between them, and the third raises.
        requests: whose ``asked`` and ``drain`` are set; its own, if None.
    """

    def __init__(
        self,
        *,
        drains: bool = False,
        drain_on_sigterm: bool = False,
        hangs_up: bool = False,
        breakable: bool = True,
        requests: HostRequests | None = None,
    ) -> None:
        self.requests = HostRequests() if requests is None else requests
        self.asked, self.drain = self.requests.asked, self.requests.drain
        self.now = threading.Event()
        self._left = [self.asked] if breakable else [self.asked, self.now]
        self._drains = drains or drain_on_sigterm
        self._drain_on_sigterm = drain_on_sigterm
        self._hangs_up = hangs_up and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        self._handled = ExitStack()

    def __enter__(self) -> GracefulStop:
        more = [signal.SIGUSR1] * self._drains + [signal.SIGHUP] * self._hangs_up
        numbers = (signal.SIGINT, signal.SIGTERM, *more)
        self._handled.enter_context(handled(dict.fromkeys(numbers, self._on_signal)))
        return self

    def __exit__(self, *_: object) -> None:
        self._handled.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1 or (number == signal.SIGTERM and self._drain_on_sigterm):
            self._drain_on_sigterm = False  # a second one means it
            _set(self.drain)
            return
        if not self._left:
            raise KeyboardInterrupt
        _set(self._left.pop(0))


def _set(event: threading.Event) -> None:
    """Set it in another thread: the interrupted code may hold the event's own lock.

    A wait on it does for a moment when it begins; setting it here would wait for ever for that.
    """
    start_new_thread(event.set, ())
