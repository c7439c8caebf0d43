"""A server of HTTP on a thread of its own: its connections are bounded in number and in time."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from streamlet.clock import Clock
from streamlet.closing import Closing
from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.forks import in_children
from streamlet.logs import get_logger
from streamlet.user_code import shown
from streamlet.web import tls
from streamlet.web.entry import EVERY
from streamlet.web.requests import Requests

log = get_logger(__name__)


class _OwnFaults(logging.Filter):
    """Leaves to debugging that a client sent what is no request: any client can, on and on."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for such an error, unless debugging is on."""
        if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
            record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return _protocol_log.isEnabledFor(record.levelno)


_protocol_log = get_logger(f"{__name__}.protocol")
_protocol_log.addFilter(_OwnFaults())

#: Connections at a time. One more has that closed which has been idle for longest.
MOST_CONNECTIONS = 256
#: The time of a connection without a whole request and its answer, ms.
MOST_MS = 10_000
#: How long a connection to another member is kept, s: less than it would keep it.
KEPT_S = MOST_MS / 2_000
#: Bytes of a line, and of a header, at most: keys are in the one, positions of many partitions in
#: the other.
MOST_LINE, MOST_HEADER = 16 << 10, 32 << 10
#: Threads that make reads of pages.
READ_THREADS = 4
_LOOK_S = 1.0
_CLOSE_S = 3.0


class _Connections:
    """Connections that are bounded in number and in time.

    One that sends nothing, or half a request, or does not read its answer would keep its place for
    ever. So would one that does not agree on TLS, which is why connections are accepted here.
    """

    def __init__(self, requests: Requests, tls: ssl.SSLContext | None, clock: Clock) -> None:
        self.server = web.Server(
            self._answer,
            handler_cancellation=True,
            access_log=None,
            logger=_protocol_log,
            auto_decompress=False,
            max_line_size=MOST_LINE,
            max_field_size=MOST_HEADER,
        )
        self._requests, self._tls, self._clock = requests, tls, clock
        #: Protocols, and since when they are without a whole request, or at one; oldest first.
        self._since: dict[Any, int] = {}
        #: Protocols of connections that are not made yet.
        self._making: dict[Any, asyncio.Task[Any]] = {}

    async def accept(self, listening: socket.socket) -> None:
        """Take connections, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except ConnectionError:
                continue
            except OSError as error:  # such as too many open files
                log.warning("a connection for queries cannot be accepted: %s", error)
                await asyncio.sleep(_LOOK_S)
                continue
            self._begin(connection)
            await asyncio.sleep(0)  # others go on, however many there are to accept

    def _begin(self, connection: socket.socket) -> None:
        self._forget_closed()
        if len(self._since) >= MOST_CONNECTIONS:
            self._abort(next(iter(self._since)))
        protocol = self.server()
        self._since[protocol] = self._clock.now_ms()
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        most_s = None if self._tls is None else MOST_MS / 1_000
        made = loop.connect_accepted_socket(
            lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=most_s
        )
        self._making[protocol] = task = loop.create_task(made)
        task.add_done_callback(partial(self._made, protocol))

    def _made(self, protocol: Any, task: asyncio.Task[Any]) -> None:
        del self._making[protocol]
        if task.cancelled() or task.exception() is not None:
            self._since.pop(protocol, None)

    async def hang_up_late(self) -> None:
        """Close connections whose time is over, for ever."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self._forget_closed()
            before = self._clock.now_ms() - MOST_MS
            for late in [one for one, since in self._since.items() if since <= before]:
                self._abort(late)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._touch(request.protocol)
        try:
            return await self._requests.answer(request)
        finally:
            self._touch(request.protocol)

    def _touch(self, protocol: Any) -> None:
        if self._since.pop(protocol, None) is not None:
            self._since[protocol] = self._clock.now_ms()

    def _forget_closed(self) -> None:
        """Forget connections that were made, and are over."""
        for protocol in [*self._since]:
            if protocol.transport is None and protocol not in self._making:
                del self._since[protocol]

    def _abort(self, protocol: Any) -> None:
        self._since.pop(protocol, None)
        if protocol in self._making:
            self._making[protocol].cancel()
        elif protocol.transport is not None:
            protocol.transport.abort()

    async def close(self) -> None:
        """End connections, those with a request once it is answered or some seconds are over."""
        making = [*self._making.values()]
        for task in making:
            task.cancel()
        transports = [one.transport for one in self._since if one.transport is not None]
        self.server.pre_shutdown()
        await self.server.shutdown(_CLOSE_S)
        await asyncio.gather(*making, return_exceptions=True)
        for transport in transports:
            transport.abort()  # the loop ends, which would leave them open
        await asyncio.sleep(0)


class HttpServer(Closing):
    """Answers requests from the moment it is made until ``close``; a subclass says how.

    Args:
        settings: those of the server are among them.
        number: that of a worker process, whose port comes so many behind the first one's.
        clock: the time.

    Raises:
        ConfigError: it cannot listen, or a file of TLS cannot be read.
    """

    def __init__(self, settings: Settings, number: int, clock: Clock) -> None:
        assert settings.http_port is not None
        self.settings, self.clock = settings, clock
        self._tls, self._client_tls = tls.of_server(settings), tls.of_client(settings)
        port = settings.http_port + number if settings.http_port else 0
        self._socket = _listen(settings.http_host, port)
        self.port: int = self._socket.getsockname()[1]
        self._forget = in_children(self._socket.close)
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        began: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(began,), name="streamlet-queries", daemon=True
        )
        self._thread.start()
        try:
            began.result()
        except BaseException:
            self.close()
            raise

    def requests(self, session: aiohttp.ClientSession, threads: ThreadPoolExecutor) -> Requests:
        """The answers of this server; called once, on its thread."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """The address at which this machine finds the server."""
        host = "localhost" if self.settings.http_host in EVERY else self.settings.http_host
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def scheme(self) -> str:
        """``http``, or ``https`` with TLS."""
        return "http" if self._tls is None else "https"

    def close(self) -> None:
        """End, once the answers that are under way have been given, or three seconds are over."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it has ended just now
                self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join(2 * _CLOSE_S)
        self._forget()
        self._socket.close()

    # The thread's.

    def _run(self, began: Future[None]) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve(began))
        except Exception as error:
            if not began.done():
                began.set_exception(error)
            else:
                log.exception("the server of queries has ended")
        finally:
            self._loop.close()

    async def _serve(self, began: Future[None]) -> None:
        threads = ThreadPoolExecutor(READ_THREADS, "streamlet-query")
        connector = aiohttp.TCPConnector(
            limit=64, limit_per_host=32, keepalive_timeout=KEPT_S, ssl=self._client_tls
        )
        try:
            async with aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            ) as session:
                requests = self.requests(session, threads)
                connections = _Connections(requests, self._tls, self.clock)
                tasks: list[asyncio.Task[Any]] = [
                    asyncio.create_task(connections.accept(self._socket)),
                    asyncio.create_task(connections.hang_up_late()),
                    asyncio.create_task(self._ending.wait()),
                ]
                began.set_result(None)
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await connections.close()
                for ended in await asyncio.gather(*tasks, return_exceptions=True):
                    if isinstance(ended, Exception):
                        raise ended
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.create_server(address[:2], family=family, backlog=MOST_CONNECTIONS)
        found.setblocking(False)
        return found
    except socket.gaierror as error:
        raise ConfigError([f"http.host: there is no address {shown(host)}"]) from error
    except (OSError, OverflowError) as error:
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "is taken; choose another, or 0 for any that is free" if taken else str(error)
        raise ConfigError([f"http.port: port {port} on {host} {why}"]) from error
