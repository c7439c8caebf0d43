"""Children that user code forks from this process: closes what they must not keep, ends strays.

A lock of the kernel (flock), an end of a pipe and a socket that listens go with the last process
that has them open. A pool that user code forks (ProcessPoolExecutor, multiprocessing, a DataLoader)
may outlive its worker by far; so children close them as soon as they begin. Programs that are
executed (subprocess) do not get them either.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from weakref import WeakSet

_ACTIONS: dict[object, Callable[[], object]] = {}
_OWN: WeakSet[OwnDescriptor] = WeakSet()
_FORKS = threading.Lock()

#: Exit code of a child that came back out of a user function.
STRAY_CHILD = 70


def in_children(action: Callable[[], object]) -> Callable[[], None]:
    """Have each child do this that is forked from now on; the last that was named comes first.

    Returns:
        A function that ends it; it may be called more than once.
    """
    key = object()
    _ACTIONS[key] = action
    return lambda: _ACTIONS.pop(key, None) and None


@contextmanager
def no_fork() -> Iterator[None]:
    """Let other threads fork only when the block has ended; it must be short and not fork itself.

    For what is to be closed in children and cannot be named to ``in_children`` before it is open.
    """
    with _FORKS:
        yield


class OwnDescriptor:
    """A file descriptor of this process alone: closed in children, whether forked or executed.

    It is closed with the object as well, as a file is.

    Args:
        fd: an open descriptor; it belongs to this object from now on.
    """

    #: The descriptor; -1 once it is closed.
    fd = -1

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self.fd = fd
        _OWN.add(self)

    def close(self) -> None:
        """Close it; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = close


class OwnProcess:
    """A context manager around user code, which a child that it forks does not leave alive.

    User code that forks by ``os.fork`` and lets the child return, or leave by ``sys.exit``, would
    run a second worker on the files and connections of the first.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if os.getpid() != self._pid:
            with suppress(OSError):
                os.write(2, _STRAY)
            os._exit(STRAY_CHILD)


_STRAY = (
    b"streamlet: a process that a user function forked came back out of that function; it is "
    b"ended. End such a process with os._exit(), or use multiprocessing or subprocess.\n"
)


#: The signals that the thread that forks had blocked before.
_BLOCKED: set[int | signal.Signals] = set()


def _before_fork() -> None:
    _FORKS.acquire()
    # A signal to a child that has just begun waits until it has given our handlers up.
    _BLOCKED.update(signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()))


def _after_fork() -> None:
    blocked = set(_BLOCKED)
    _BLOCKED.clear()
    _FORKS.release()
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _begin_child() -> None:
    try:
        for action in [*reversed(_ACTIONS.values()), *(own.close for own in _OWN)]:
            with suppress(OSError):
                action()
    finally:
        _ACTIONS.clear()
        # A Ctrl-C in these microseconds would be printed as an ignored exception: it cannot leave
        # what Python calls after a fork. It went to the parent as well, which ends its children.
        with suppress(KeyboardInterrupt):
            _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_begin_child)
