"""The time that a whole answer over HTTP may take, however the server hands its bytes out.

A socket's timeout is one for each read: a server that sends a byte now and then keeps its reader
for hours. What is open is cut when the time is over, amid the handshake of TLS, headers or body.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from functools import lru_cache, partial
from types import TracebackType
from typing import Self

#: What reading from a connection ends with that was cut.
_ENDS = (OSError, http.client.HTTPException, ValueError)


#: The block that the calls of this thread are in.
_ENTERED: ContextVar[AnswerTime] = ContextVar("_ENTERED")


class AnswerTime:
    """A block in which connections are made, and cut when its time is over.

    Leaving it raises TimeoutError in place of what reading from a cut connection ended with.

    Args:
        limit_s: seconds for the whole answer; each read may take no longer either.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._over = threading.Event()
        self._before: Token[AnswerTime]
        #: Duplicates: a connection lets go of its own when it wraps or closes it.
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(limit_s, self._cut)
        self._timer.daemon = True

    def plain(self, host: str, port: int | None = None, **_: object) -> http.client.HTTPConnection:
        """A connection; its timeout is the limit, whatever is asked for."""
        made = _Plain(host, port, timeout=self.limit_s)
        made.noted = self.note
        return made

    def secured(
        self, host: str, port: int | None = None, *, context: ssl.SSLContext, **_: object
    ) -> http.client.HTTPSConnection:
        """A connection with TLS."""
        made = _Secured(host, port, timeout=self.limit_s, context=context)
        made.noted = self.note
        return made

    def note(self, opened: socket.socket) -> None:
        """Cut this one too."""
        with self._lock:
            self._sockets.append(opened.dup())
        if self._over.is_set():
            self._cut()

    def _cut(self) -> None:
        self._over.set()
        with self._lock:
            for one in self._sockets:
                with suppress(OSError):  # the server has closed it
                    one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._before = _ENTERED.set(self)
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        _ENTERED.reset(self._before)
        with self._lock:
            for one in self._sockets:
                one.close()
            self._sockets = []
        if self._over.is_set() and (error is None or isinstance(error, _ENDS)):
            raise TimeoutError(f"no whole answer in {self.limit_s:g} s") from error


class _Plain(http.client.HTTPConnection):
    """A connection that tells of its socket before anything is sent or read."""

    noted: Callable[[socket.socket], None]

    def connect(self) -> None:
        """Connect."""
        super().connect()
        self.noted(self.sock)


class _Secured(http.client.HTTPSConnection, _Plain):
    """The same with TLS, whose handshake comes behind ``_Plain.connect``."""


class _PlainHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a URL."""
        return self.do_open(_ENTERED.get().plain, req)


class _SecuredHandler(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._own = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open a URL."""
        return self.do_open(partial(_ENTERED.get().secured, context=self._own), req)


def opener(
    context: ssl.SSLContext, *handlers: urllib.request.BaseHandler
) -> urllib.request.OpenerDirector:
    """An opener of URLs, each by a connection of the ``AnswerTime`` around the call."""
    return urllib.request.build_opener(_PlainHandler(), _SecuredHandler(context), *handlers)


@lru_cache(maxsize=16)
def kept_opener(context: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
    """An opener as by ``opener``, made once for each context: that takes as long as an answer.

    Args:
        context: of TLS; None: one with the machine's authorities.
    """
    return opener(context or ssl.create_default_context())
