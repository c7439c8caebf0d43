"""Serves ``/metrics``, ``/health`` and ``/ready`` of an instance, on threads of its own."""

from __future__ import annotations

import errno
import io
import json
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.exposition import choose_encoder

from streamlet.bounded import PORT_MAX
from streamlet.clock import Clock, SystemClock
from streamlet.closing import Closing
from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.forks import in_children
from streamlet.logs import get_logger
from streamlet.runtime.metrics.exposition import Exposition
from streamlet.runtime.metrics.health import HealthLimits
from streamlet.user_code import shown

#: Every interface, which Prometheus and the kubelet of another machine need.
ANY_HOST = "0.0.0.0"
#: The interface unless another one is set: for programs of this machine only.
LOCAL_HOST = "127.0.0.1"


log = get_logger(__name__)

#: Gives the document of a probe.
Page: TypeAlias = Callable[[], dict[str, Any]]
#: How long ``close`` waits for the thread to look up, at most.
_LOOK_UP_S = 0.1
#: Connections at a time. One more has the oldest closed.
MOST_CONNECTIONS = 32
#: The time for a request and its answer, ms.
MOST_MS = 10_000
#: How long a new connection waits for the end of the oldest, s.
_ROOM_S = 1.0


class _Server(ThreadingHTTPServer):
    """A server whose connections are bounded in number and in time.

    One that sends nothing, or half a request, or does not read its answer would otherwise keep a
    file descriptor and a thread of the supervisor for ever.
    """

    daemon_threads = True
    #: Two instances on one port would each get half of the scrapes.
    allow_reuse_port = False
    #: More that come at once would be asked by their system to try again a second later.
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, address: tuple[Any, ...], handler: type, clock: Clock) -> None:
        self._clock = clock
        self._ended = threading.Condition()
        #: Open connections and since when, oldest first.
        self._open: dict[socket.socket, int] = {}
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; without a free file descriptor, wait a moment before the next."""
        try:
            return super().get_request()
        except OSError:
            with self._ended:
                self._ended.wait(_LOOK_UP_S)  # the listening socket stays readable
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Count a connection in; False if there is no room for it."""
        with self._ended:
            if len(self._open) >= MOST_CONNECTIONS:
                _hang_up(next(iter(self._open)))
                self._ended.wait_for(lambda: len(self._open) < MOST_CONNECTIONS, _ROOM_S)
            if len(self._open) >= MOST_CONNECTIONS:
                return False
            self._open[request] = self._clock.now_ms()
            return True

    def service_actions(self) -> None:
        """Close connections whose time is over; called between two connections."""
        with self._ended:
            before = self._clock.now_ms() - MOST_MS
            for late in [one for one, since in self._open.items() if since <= before]:
                _hang_up(late)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and count it out."""
        super().shutdown_request(request)
        with self._ended:
            self._open.pop(request, None)
            self._ended.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a request that failed; a connection that broke is nothing to report."""
        level = logging.DEBUG if isinstance(sys.exception(), OSError) else logging.WARNING
        log.log(level, "metrics: a request of %s failed", client_address, exc_info=True)


def _hang_up(connection: socket.socket) -> None:
    """Have a connection's thread see its end; the thread closes it."""
    with suppress(OSError):  # it was closed by the other side
        connection.shutdown(socket.SHUT_RDWR)


class MetricsServer(Closing):
    """Serves from the moment it is made until ``close``.

    Args:
        registry: what ``/metrics`` serves.
        alive: gives the liveness probe's document, with ``ok``.
        ready: gives that of the readiness probe.
        port: 0 for one that the system chooses; ``port`` tells which.
        host: interface to listen on.
        clock: the time, for that of a request.

    Raises:
        ConfigError: it cannot listen there.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        alive: Page,
        ready: Page,
        port: int,
        host: str = LOCAL_HOST,
        clock: Clock | None = None,
    ) -> None:
        handler = _routed(MetricsHandler.factory(registry), {"/health": alive, "/ready": ready})
        self._server = _listen(host, port, handler, clock or SystemClock())
        self._forget = in_children(self._server.socket.close)
        self.host = host
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_LOOK_UP_S,),
            name="streamlet-metrics",
            daemon=True,
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """The address at which the server is found from this machine."""
        host = "localhost" if self.host in (ANY_HOST, "", "::") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which other machines find it, as far as this one knows its own name."""
        return socket.gethostname() if self.host in (ANY_HOST, "", "::") else self.host, self.port

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._forget()
        self._server.server_close()
        self._thread.join()


def _listen(host: str, port: int, handler: type, clock: Clock) -> _Server:
    if not 0 <= port <= PORT_MAX:
        raise ConfigError([f"metrics: expected a port from 0 to {PORT_MAX}, not {port}"])
    try:
        family, *_, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        kind = type("_Server", (_Server,), {"address_family": family})
        made: _Server = kind(address[:2], handler, clock)
    except socket.gaierror as error:
        raise ConfigError(
            [f"metrics: there is no address {shown(host)} ({error.strerror})"]
        ) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = "is taken; choose another, or 0 for any that is free"
        else:
            why = f"cannot be listened on: {error}"
        raise ConfigError([f"metrics: port {port} on {host} {why}"]) from error
    return made


def _routed(metrics: Any, pages: dict[str, Page]) -> type:
    """A request handler that serves metrics under /metrics and the pages as JSON."""

    class Handler(metrics):  # type: ignore[misc]
        wfile: Any

        def do_GET(self) -> None:
            path = self.path.partition("?")[0].rstrip("/") or "/"
            if path == "/metrics":
                self._metrics()
            elif path in pages:
                document = pages[path]()
                self._answer(200 if document["ok"] else 503, document)
            else:
                self._answer(404, {"paths": ["/metrics", *pages]})

        def _metrics(self) -> None:
            """Answer with the metrics, in the format that the request asks for."""
            try:
                choose_encoder(self.headers.get("Accept"))
            except (TypeError, ValueError):
                self._answer(400, {"error": "the Accept header cannot be read"})
            else:
                super().do_GET()

        def do_HEAD(self) -> None:
            """Answer like GET, without the body."""
            wire = self.wfile
            answered = io.BytesIO()
            self.wfile = answered
            try:
                self.do_GET()
            finally:
                self.wfile = wire
            head, blank, _ = answered.getvalue().partition(b"\r\n\r\n")
            wire.write(head + blank)

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


@contextmanager
def serving(
    application: str,
    name: str,
    members: int,
    settings: Settings,
    port: int | None,
    *,
    host: str = LOCAL_HOST,
    on_served: Callable[[str], None],
) -> Iterator[Exposition | None]:
    """An exposition that is served for as long as the block lasts; None without a port.

    ``on_served`` is given the server's address.

    Raises:
        ConfigError: it cannot listen there.
    """
    if port is None:
        yield None
        return
    limits = HealthLimits.from_settings(settings)
    exposition = Exposition(application, name, members, limits=limits, clock=SystemClock())
    registry = CollectorRegistry()
    registry.register(exposition)
    with MetricsServer(registry, exposition.alive, exposition.ready, port, host) as server:
        exposition.address = server.address
        on_served(server.url)
        yield exposition
