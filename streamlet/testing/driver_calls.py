"""Refuses calls of a ``TopologyTestDriver`` once it is closed, and from inside of its own calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any
from weakref import WeakSet

from streamlet.dsl.processors.store_view import StoreView, close_store
from streamlet.errors import WrongValueError

_CLOSED = "the driver is closed; use it inside of its with block"


class DriverCalls:
    """The state of a driver between its calls, with the stores that it has given out."""

    def __init__(self) -> None:
        self._closed = False
        #: The thread that is in a call; None: there is none.
        self._busy: int | None = None
        self._views: WeakSet[StoreView] = WeakSet()

    def given(self, store: Any) -> Any:
        """The store, which answers no more once the driver is closed."""
        if isinstance(store, StoreView):
            self._views.add(store)
        return store

    def check_open(self) -> None:
        """Make sure that the driver is open.

        Raises:
            WrongValueError: it is closed.
        """
        if self._closed:
            raise WrongValueError(_CLOSED)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Process records or let time pass in this block.

        Raises:
            WrongValueError: the driver is closed, or this is inside of such a block, in a function
                of the application.
        """
        self._check_outside()
        self.check_open()
        self._busy = get_ident()
        try:
            yield
        finally:
            self._busy = None

    def close(self) -> None:
        """Have the driver and the stores that it gave answer no more.

        Raises:
            WrongValueError: a function of the application closes it.
        """
        self._check_outside()
        self._closed = True
        for view in self._views:
            close_store(view, _CLOSED)

    def _check_outside(self) -> None:
        if self._busy not in (None, get_ident()):
            raise WrongValueError(
                "another thread is in a call of the driver: call it from one thread, or from one "
                "at a time, under a lock"
            )
        if self._busy is not None:
            raise WrongValueError(
                "a function of the application calls the driver that runs it; return or forward "
                "what is to follow, or pipe it in when the call that is under way has returned"
            )
