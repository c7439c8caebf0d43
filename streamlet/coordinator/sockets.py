"""Sockets that tell the end of a connection only after the data before it.

kafka-python reads until a socket has nothing more, and when that is the end of the connection it
throws away what it has just read. A broker that refuses a password answers and hangs up, so the
answer was lost more often than not, and the refusal looked like a passing fault. Nor does it close
a socket whose TLS handshake failed, or was under way when the client was closed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self
from weakref import WeakSet


class _DataFirst:
    """Reads so that an end right behind data is "nothing just now", and the end the next time."""

    #: The errors that say that there is nothing just now.
    _NOTHING: tuple[type[OSError], ...] = (BlockingIOError,)
    _data_before = False

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Read."""
        try:
            data: bytes = super().recv(buflen, flags)  # type: ignore[misc]
        except self._NOTHING:
            self._data_before = False
            raise
        if not data and self._data_before:
            self._data_before = False
            raise self._NOTHING[0]
        self._data_before = bool(data)
        return data


class DataFirstSocket(_DataFirst, socket.socket):
    """A plain socket; not blocking."""


class DataFirstSslSocket(_DataFirst, ssl.SSLSocket):
    """A TLS socket; made by a context whose ``sslsocket_class`` this is."""

    _NOTHING = (ssl.SSLWantReadError, ssl.SSLWantWriteError)

    def do_handshake(self, block: bool = False) -> None:
        """Go on with the handshake; close if it failed."""
        try:
            super().do_handshake(block)
        except self._NOTHING:
            raise
        except OSError:
            self.close()
            raise


class OpenSockets:
    """The sockets of one client that may be open."""

    def __init__(self) -> None:
        self._made: WeakSet[socket.socket] = WeakSet()

    def add(self, sock: socket.socket) -> None:
        """Note a socket that was made."""
        self._made.add(sock)

    def note_tls(self, context: object) -> None:
        """Have all sockets that this context makes, if it is one of TLS, be ours and noted."""
        made = self._made

        class Noted(DataFirstSslSocket):
            def __new__(cls, *args: Any, **kwargs: Any) -> Self:
                sock = super().__new__(cls, *args, **kwargs)
                made.add(sock)
                return sock

        if isinstance(context, ssl.SSLContext):
            context.sslsocket_class = Noted

    @contextmanager
    def closed_behind(self) -> Iterator[None]:
        """Close them all behind the block, which may drop the last reference to some."""
        made = list(self._made)
        try:
            yield
        finally:
            for sock in made:
                sock.close()
