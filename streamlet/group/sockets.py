"""Sockets that tell the end of a connection only after the data before it.

kafka-python reads until a socket has nothing more, and when that is the end of the connection it
throws away what it has just read. A broker that refuses a password answers and hangs up, so the
answer was lost more often than not, and the refusal looked like a passing fault. Nor does it close
a socket whose TLS handshake failed.
"""

from __future__ import annotations

import socket
import ssl


class DataFirstSocket(socket.socket):
    """A plain socket; not blocking."""

    _data_before = False

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Read; an end right behind data is "nothing just now", and the end the next time."""
        try:
            data = super().recv(bufsize, flags)
        except BlockingIOError:
            self._data_before = False
            raise
        if data:
            self._data_before = True
        elif self._data_before:
            self._data_before = False
            raise BlockingIOError
        return data


class DataFirstSslSocket(ssl.SSLSocket):
    """The same for TLS; made by a context whose ``sslsocket_class`` this is."""

    _data_before = False

    def do_handshake(self, block: bool = False) -> None:
        """Go on with the handshake; close if it failed."""
        try:
            super().do_handshake(block)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except OSError:
            self.close()
            raise

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Read; an end right behind data is "nothing just now", and the end the next time."""
        try:
            data = super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._data_before = False
            raise
        if data:
            self._data_before = True
        elif self._data_before:
            self._data_before = False
            raise ssl.SSLWantReadError
        return data
