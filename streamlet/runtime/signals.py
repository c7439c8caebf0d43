"""Ctrl-C for commands that run until told to stop: once is graceful, twice is now."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class GracefulStop:
    """While the block runs, a first Ctrl-C or SIGTERM sets ``asked``, a second ends the command.

    Main thread only. The second raises ``KeyboardInterrupt``, which a command turns into exit 130.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> GracefulStop:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            raise KeyboardInterrupt
        self.asked.set()
