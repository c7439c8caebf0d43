"""A proxy between clients and their Kafka brokers, which lets faults happen to single requests."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Self, Unpack
from uuid import UUID

from streamlet.absent import explains_misuse
from streamlet.arguments import check_is, never_copied
from streamlet.errors import ConfigError
from streamlet.testing.faults.connection import Ports, ProxiedConnection, Streams, broken
from streamlet.testing.faults.fault import (
    AnswerWith,
    BlackHole,
    Delay,
    Disconnect,
    Effect,
    Fault,
    Hold,
    Refuse,
    Rewrite,
    Which,
)
from streamlet.testing.faults.wire import (
    API_VERSIONS,
    ERRORS,
    Message,
    ProxiedRequest,
    versions_answer,
)
from streamlet.user_code import shown

_HOST = "127.0.0.1"
#: A part of a frame that goes over a slow link in one piece, bytes.
_PACKET = 16_384
#: The version from which an answer may name other brokers, by the number of its kind.
_ENDPOINTS = {0: 10, 1: 16}

Address = tuple[str, int]
Apis = str | Collection[str] | None


@never_copied("others reach the broker by its bootstrap_servers")
@explains_misuse
class FaultProxy:
    """A proxy on loopback in front of a whole cluster; a context manager.

    It listens on a port of its own for each broker and puts those into the brokers' answers, so
    all of a client's connections lead through it. Each of the methods ``refuse``, ``delay``,
    ``hold``, ``disconnect``, ``black_hole``, ``answer`` and ``rewrite`` injects one kind of fault
    and returns it; the keyword arguments that say which requests it happens to are those of
    ``Which``. One fault happens to a request: the one that was injected first. ::

        with FaultProxy(kafka_broker.bootstrap_servers, seed=7) as proxy:
            lost = proxy.disconnect("OffsetCommit", after=True)  # committed; the answer is lost
            proxy.refuse("Produce", "NOT_ENOUGH_REPLICAS", times=None, probability=0.01)
            run_my_application(proxy.bootstrap_servers)
            lost.wait()

    Clients speak no newer versions through it than it can read. TLS is not read: give it a
    listener without.

    Args:
        bootstrap_servers: ``host:port`` of the brokers, several with commas.
        seed: of what happens with ``probability``.
        bytes_per_s: what all requests together may send in a second, bytes; None: no bound.

    Raises:
        ConfigError: an address or a number that cannot be.
    """

    def __init__(
        self, bootstrap_servers: str, *, seed: int = 0, bytes_per_s: int | None = None
    ) -> None:
        if bytes_per_s is not None and not bytes_per_s > 0:
            raise ConfigError([f"bytes_per_s={shown(bytes_per_s)}: expected more than 0, or None"])
        servers = "host:port, several joined by commas"
        check_is("FaultProxy(bootstrap_servers=)", bootstrap_servers, (str,), servers)
        self._behind = [_address(one) for one in bootstrap_servers.split(",")]
        self._dice = random.Random(seed)
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        #: Where we listen for each broker.
        self._doors: dict[Address, Address] = {}
        self._servers: list[asyncio.Server] = []
        self._opening = asyncio.Lock()
        self._nodes: dict[Address, int] = {}
        self._topics: dict[UUID, str] = {}
        self._connections: set[ProxiedConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Replaced as a whole when it changes: the loop's thread reads it without a lock.
        self._faults: tuple[Fault, ...] = ()
        self._failures: list[BaseException] = []

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` to give to clients, several with commas."""
        return ",".join("{}:{}".format(*self._doors[one]) for one in self._behind)

    def refuse(self, api: Apis, error: str | int, **which: Unpack[Which]) -> Fault:
        """Answer with an error.

        The broker does not get the request, but for Metadata, whose answer takes the broker's;
        with ``after`` it gets and does it.

        Args:
            api: kinds of requests, as ``"OffsetCommit"``; None: all.
            error: Kafka's name of it, as ``"NOT_COORDINATOR"``, or its number.
            which: the requests meant.

        Raises:
            ConfigError: an error or kind of request that is not known, a number out of range.
        """
        return self._inject(Refuse(_code(error)), api, which)

    def delay(self, api: Apis, delay_ms: int, **which: Unpack[Which]) -> Fault:
        """Deliver a request late, also after its client has hung up; with ``after`` its answer.

        What is sent later on the same connection waits behind it.

        Args:
            api: kinds of requests; None: all.
            delay_ms: by how much, ms.
            which: the requests meant.
        """
        return self._inject(Delay(delay_ms), api, which)

    def hold(self, api: Apis, **which: Unpack[Which]) -> Fault:
        """Deliver a request, or with ``after`` its answer, when ``Fault.release`` is called."""
        return self._inject(Hold(), api, which)

    def disconnect(self, api: Apis, **which: Unpack[Which]) -> Fault:
        """Break the connection in place of a request, or with ``after`` of its answer."""
        return self._inject(Disconnect(), api, which)

    def black_hole(self, api: Apis, **which: Unpack[Which]) -> Fault:
        """Let nothing more through on the connection, from the request or its answer on."""
        return self._inject(BlackHole(), api, which)

    def answer(
        self,
        api: Apis,
        made_by: Callable[[ProxiedRequest], bytes],
        *,
        hang_up: bool = False,
        **which: Unpack[Which],
    ) -> Fault:
        """Answer with a frame that a function makes; the broker does not get the request.

        Args:
            api: kinds of requests; None: all.
            made_by: gets the request, returns the frame (``ProxiedRequest.written``).
            hang_up: end the connection behind it.
            which: the requests meant.
        """
        return self._inject(AnswerWith(made_by, hang_up), api, which)

    def rewrite(
        self, api: Apis, made_by: Callable[[ProxiedRequest], bytes], **which: Unpack[Which]
    ) -> Fault:
        """Send the broker what a function makes of a request: any number of frames."""
        return self._inject(Rewrite(made_by), api, which)

    def freeze(self) -> None:
        """Let nothing more through on all connections that there are, as if a host were gone."""
        self._call(self._freeze())

    def lift(self) -> None:
        """Let no fault happen any more."""
        for fault in self._faults:
            fault.lift()

    def _inject(self, effect: Effect, api: Apis, which: Which) -> Fault:
        apis = [api] if isinstance(api, str) else list(api or ())
        fault = Fault(effect, apis, self._dice, which)
        self._faults = (*self._faults, fault)
        return fault

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._call(self._open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._end()
        if error is None and self._failures:
            raise self._failures[0]

    def _end(self) -> None:
        self._call(self._close())
        for fault in self._faults:
            fault.release()  # while there is a loop to call
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _open(self) -> None:
        for address in self._behind:
            await self._door(*address)

    async def _close(self) -> None:
        ours = asyncio.current_task()
        while True:  # what is cancelled may just have opened a door
            for server in self._servers:
                server.close()
            for _ in ("accepted", "its transport is made", "it is served, and so is closed below"):
                await asyncio.sleep(0)
            tasks = [task for task in asyncio.all_tasks() if task is not ours]
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _freeze(self) -> None:
        for one in self._connections:
            one.silent = True

    async def _door(self, host: str, port: int) -> Address:
        """The address that stands for a broker; listened on from the first call."""
        async with self._opening:
            if (host, port) not in self._doors:

                def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                    task = self._loop.create_task(self._serve((host, port), reader, writer))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                    task.add_done_callback(lambda _: writer.transport.abort())  # never begun

                server = await asyncio.start_server(accept, _HOST, 0, start_serving=False)
                self._servers.append(server)  # before it listens: else none closes it if cancelled
                await server.start_serving()
                self._doors[host, port] = server.sockets[0].getsockname()[:2]
        return self._doors[host, port]

    async def _serve(
        self, behind: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            with contextlib.suppress(OSError):  # the broker is away, or goes away: so do we
                broker = await _connected(*behind)
                await self._run(ProxiedConnection(self._ports(behind), (reader, writer), broker))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # of a function of the test's, as by pytest.fail(): for it
            self._failures.append(error)
        finally:
            await broken(writer)

    async def _run(self, connection: ProxiedConnection) -> None:
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def _ports(self, behind: Address) -> Ports:
        return Ports(
            lambda frame: ProxiedRequest(frame, self._nodes.get(behind), self._topics),
            self._decide,
            self._translated,
            self._paced,
        )

    def _decide(self, request: ProxiedRequest) -> Fault | None:
        return next((fault for fault in self._faults if fault.meets(request)), None)

    async def _paced(self, size: int) -> None:
        if self._bytes_per_s is None:
            return
        for at in range(0, size, _PACKET):
            now = self._loop.time()
            self._free_at = max(self._free_at, now) + min(size - at, _PACKET) / self._bytes_per_s
            await asyncio.sleep(self._free_at - now)

    async def _translated(self, request: ProxiedRequest, frame: bytes) -> bytes:
        """The broker's answer with our addresses in place of the brokers'."""
        if request.key == API_VERSIONS:
            return versions_answer(request, frame)
        if not request.known or not self._may_name(request, frame):
            return frame
        answer = request.answer(frame)
        if request.api == "Metadata":
            self._note(answer)
        named = [answer] if request.api == "FindCoordinator" else []
        for field in ("brokers", "coordinators", "node_endpoints"):
            named += getattr(answer, field, None) or []
        for one in named:
            if one.host:
                one.host, one.port = await self._door(one.host, one.port)
        return request.written(answer)

    def _may_name(self, request: ProxiedRequest, frame: bytes) -> bool:
        """True if the answer may have a broker's address."""
        if request.api in ("Metadata", "FindCoordinator", "DescribeCluster"):
            return True
        if request.version < _ENDPOINTS.get(request.key, 1 << 15):
            return False
        return any(host.encode() in frame for host, _ in self._doors)

    def _note(self, answer: Message) -> None:
        for broker in answer.brokers or ():
            self._nodes[broker.host, broker.port] = broker.node_id
        for topic in answer.topics or ():
            if topic.name:
                self._topics[topic.topic_id] = topic.name


async def _connected(host: str, port: int) -> Streams:
    """A connection to a broker; none is left open where this is cancelled."""
    opening = asyncio.ensure_future(asyncio.open_connection(host, port))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await broken((await opening)[1])
        raise


def _address(server: str) -> Address:
    host, _, port = server.strip().rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError([f"{shown(server)} is no host:port"])
    return host, int(port)


def _code(error: str | int) -> int:
    """The number of an error."""
    if isinstance(error, int):
        return error
    if error not in ERRORS:
        raise ConfigError([f"no error of Kafka's that is known: {error}"])
    return ERRORS[error]
