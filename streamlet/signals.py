"""Handlers of signals for the time of a block."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

from streamlet.forks import in_children

Handler: TypeAlias = Callable[[int, FrameType | None], object]


@contextmanager
def handled(handlers: Mapping[int, Handler]) -> Iterator[None]:
    """Handle these signals while the block runs, then restore the handlers. Main thread only.

    Children that are forked meanwhile have the handlers from before: a pool ends its processes by
    SIGTERM, and waits for them.
    """
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    forget = in_children(restore)
    try:
        yield
    finally:
        forget()
        restore()


@contextmanager
def deferred() -> Iterator[None]:
    """Ctrl-C and SIGTERM that come in the block are handled behind it, also if it fails.

    For what may not be left half done, as starting a process and remembering it. Signals reach the
    main thread alone; in other threads this does nothing.
    """
    came: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if main else ()
    try:
        with handled(dict.fromkeys(numbers, lambda number, _: came.append(number))):
            yield
    finally:
        for number in came:
            signal.raise_signal(number)
