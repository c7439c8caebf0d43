"""Loopback ports: finding a free one, and keeping it free for a broker that comes and goes.

While a broker is down its port is open to all, and a client that keeps trying to reach it may be
given that very port as its own end, connect to itself, and hold it. So the port stays bound by us,
without listening: the system then gives it to no client, and a listener may still take it.
"""

from __future__ import annotations

import socket
import sys

from streamlet.errors import BrokerError

HOST = "127.0.0.1"


def localhost_is_ipv6_only() -> bool:
    """True if ``localhost``, where clients look for a broker by default, is ``::1`` alone."""
    try:
        found = socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return {str(address[0]) for *_, address in found} == {"::1"}


class PortReservation:
    """A port of the loopback interface, asked from the system unless given.

    Raises:
        BrokerError: the given port is taken.
    """

    def __init__(self, port: int | None = None) -> None:
        self._socket: socket.socket | None = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((HOST, port or 0))
        except OSError as error:
            self._socket.close()
            raise BrokerError(f"port {port} is taken: {error.strerror}") from error
        self.port: int = self._socket.getsockname()[1]
        if sys.platform != "linux":  # elsewhere a listener cannot share it, so it is only found
            self.release()

    def release(self) -> None:
        """Give the port back to the system."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> PortReservation:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
