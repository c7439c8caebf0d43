"""The committed state of a task for readers on other threads, while its owner goes on writing.

A view is the stores as of one commit with what that commit contains. Taking one costs a snapshot of
RocksDB, less than a microsecond a store; it does not wait for a commit that is being written, since
readers share a view from before it meanwhile. The owner closes the views of its task before it
closes the stores: RocksDB's lock goes when the last snapshot is gone. Reads through a closed view
fail by a named error, so they are never short.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Self, TypeVar
from weakref import WeakSet

import attrs

from streamlet.state.backing import Backing
from streamlet.state.query_errors import StateStoreMigratedError
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    from streamlet.state.task_state import TaskState

R = TypeVar("R")

#: Rows that a scan reads at a time; a task that closes waits for no more than these.
PAGE_ROWS = 1_000


@attrs.frozen(eq=False)
class Contents:
    """The contents of a task's stores: fields as in ``TaskState``.

    ``latest`` is per store a time, ms, that no row is younger than.
    """

    inputs: Mapping[TopicPartition, int] | None
    latest: Mapping[str, int]

    @classmethod
    def of(cls, state: TaskState) -> Self:
        """The contents of a task's stores, as the task's thread knows them."""
        latest = {name: store.commits.latest for name, store in state.stores.items()}
        return cls(state.inputs, latest)


class StateView:
    """The stores of a task as of one commit, readable from any thread until closed.

    Args:
        contents: of the stores.
        backings: the bytes of each store, which do not change.
    """

    def __init__(self, contents: Contents, backings: dict[str, Backing]) -> None:
        self.contents = contents
        self._backings = backings
        self._lock = threading.Lock()

    def backing(self, store: str) -> Backing:
        """The bytes of one store; reads raise once the view is closed."""
        return _ViewedStore(self, store)

    def read(self, store: str, call: Callable[[Backing], R]) -> R:
        """The answer of a call on the bytes of one store.

        Raises:
            StateStoreMigratedError: the view is closed.
        """
        with self._lock:
            if not self._backings:
                raise StateStoreMigratedError(
                    f"store {store} was closed while it was read: its task moves, or begins again. "
                    "Ask again; the task's new owner answers"
                )
            return call(self._backings[store])

    @property
    def closed(self) -> bool:
        """True if nothing can be read any more."""
        return not self._backings

    def close(self) -> None:
        """Let go of the bytes, once a read that is under way has ended."""
        with self._lock:
            self._backings.clear()


class _ViewedStore:
    """The bytes of one store of a view, a ``Backing``."""

    def __init__(self, view: StateView, store: str) -> None:
        self._view, self._store = view, store

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        return self._view.read(self._store, lambda bytes_: bytes_.get(key))

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The values, in order."""
        return self._view.read(self._store, lambda bytes_: bytes_.get_many(keys))

    def scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries by key, some at a time, so that nothing is held open between two of them."""
        while True:
            page = self._view.read(self._store, partial(_page, low, high, backward))
            yield from page
            if len(page) < PAGE_ROWS:
                return
            if backward:
                high = page[-1][0]
            else:
                low = page[-1][0] + b"\x00"


def _page(
    low: bytes | None, high: bytes | None, backward: bool, stored: Backing
) -> list[tuple[bytes, bytes]]:
    return list(islice(stored.scan(low, high, backward=backward), PAGE_ROWS))


class ReadViews:
    """Makes the views of one task; ``take`` is for any thread, the other methods for its owner.

    Args:
        state: the task's stores.
    """

    def __init__(self, state: TaskState) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._contents: Contents | None = None  # None: none are given
        self._before: StateView | None = None  # from before the write under way
        self._blocks = 0  # of ``writing``
        self._written: Callable[[], None] | None = None
        self._taken: WeakSet[StateView] = WeakSet()

    def take(self) -> StateView | None:
        """The stores as of the last commit that was written; None: there is none."""
        with self._lock:
            return self._before or self._new()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let readers see the state before the block until it ends; blocks may be nested.

        After a block that an error ended they see it until another one has ended well: what is
        written in pieces may be there in part.
        """
        with self._lock:
            self._blocks += 1
            if self._before is None:
                self._before = self._new()
        written = False
        try:
            yield
            written = True
        finally:
            self._blocks -= 1
            if written and not self._blocks:
                with self._lock:
                    self._before = None
                    if self._contents is not None:
                        self._contents = Contents.of(self._state)
                if self._written is not None:
                    self._written()

    def of_copy(self, contents: Contents) -> StateView:
        """A view of stores that only the calling thread writes, which is between two writes."""
        with self._lock:
            return self._viewed(contents)

    def open(self, written: Callable[[], None]) -> None:
        """Begin to give views: the stores are those of a commit; ``written`` is called at each."""
        with self._lock:
            self._contents, self._written = Contents.of(self._state), written

    def close(self) -> None:
        """Close all views, and give no more: the stores are about to be closed."""
        with self._lock:
            taken, self._contents, self._before = list(self._taken), None, None
            self._written = None
        for view in taken:
            view.close()

    def _new(self) -> StateView | None:
        if self._contents is None:
            return None
        return self._viewed(self._contents)

    def _viewed(self, contents: Contents) -> StateView:
        state = self._state
        view = StateView(contents, {n: state.engine(n).snapshot(n) for n in state.stores})
        self._taken.add(view)
        return view
