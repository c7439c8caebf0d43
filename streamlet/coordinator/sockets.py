"""Sockets that tell the end of a connection only after the data before it.

kafka-python reads until a socket has nothing more, and when that is the end of the connection it
throws away what it has just read. A broker that refuses a password answers and hangs up, so the
answer was lost more often than not, and the refusal looked like a passing fault. Nor does it close
a socket whose TLS handshake failed.
"""

from __future__ import annotations

import socket
import ssl


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
    """The same for TLS; made by a context whose ``sslsocket_class`` this is."""

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
