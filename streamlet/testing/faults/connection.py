"""One client's connection through the proxy, and the one to the broker that belongs to it.

A broker answers the requests of a connection in their order, and so does the proxy: what it answers
itself waits until everything before it was answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import attrs

from streamlet.testing.faults.fault import (
    AnswerWith,
    BlackHole,
    Delay,
    Disconnect,
    Fault,
    Hold,
    Refuse,
    Rewrite,
)
from streamlet.testing.faults.refusals import refusal, with_error
from streamlet.testing.faults.wire import (
    API_VERSIONS,
    ProxiedRequest,
    correlation_of,
    length_of,
    unsupported_versions,
)

#: How long a late request may take to be answered once its client has hung up, s.
_LATE_S = 60.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@attrs.frozen
class Ports:
    """The proxy, as a connection sees it.

    Attributes:
        request: reads a frame from the client.
        decide: the fault that happens to a request, if one does.
        translated: the broker's answer with the addresses of the proxy.
        paced: waits until so many bytes may go to the broker.
    """

    request: Callable[[bytes], ProxiedRequest]
    decide: Callable[[ProxiedRequest], Fault | None]
    translated: Callable[[ProxiedRequest, bytes], Awaitable[bytes]]
    paced: Callable[[int], Awaitable[None]]


@attrs.frozen(eq=False)
class _Expected:
    """The answer that comes next.

    Attributes:
        request: what it answers.
        fault: what happens to it.
        made: its frame if the broker does not make it.
    """

    request: ProxiedRequest
    fault: Fault | None = None
    made: bytes | None = None


class ProxiedConnection:
    """Passes frames between a client and a broker until either hangs up."""

    def __init__(self, ports: Ports, client: Streams, broker: Streams) -> None:
        self._ports = ports
        self._client, self._to_client = client
        self._broker, self._to_broker = broker
        #: The answers that come next; done with once they were passed on.
        self._expected: asyncio.Queue[_Expected] = asyncio.Queue()
        #: Faults of requests that are not done with, each as often as it has such requests.
        self._under_way: list[Fault] = []
        #: A request arrives, or arrived, later than its client may wait for it.
        self._late = False
        #: Nothing goes through any more.
        self.silent = False

    async def run(self) -> None:
        """Pass frames on; ends when client or broker has hung up."""
        tasks = [asyncio.create_task(one()) for one in (self._requests, self._answers)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0] in done and self._late and tasks[1] not in done:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._expected.join(), _LATE_S)
            for one in done:
                one.result()
        finally:
            for one in tasks:
                one.cancel()
            for writer in (self._to_client, self._to_broker):
                writer.transport.abort()  # both, before this may be cancelled once more
            await asyncio.gather(*tasks, return_exceptions=True)
            for fault in [*self._under_way]:
                self._end(fault)  # its client has hung up, or the broker has: no answer comes
            for writer in (self._to_client, self._to_broker):
                await broken(writer)

    def _end(self, fault: Fault) -> None:
        """Record the end of a request that a fault was applied to, once."""
        if fault in self._under_way:
            self._under_way.remove(fault)
            fault.end()

    async def _requests(self) -> None:
        while (frame := await _frame(self._client)) is not None:
            if self.silent:
                continue
            request = self._ports.request(frame)
            if request.key == API_VERSIONS and not request.known:
                self._expect(_Expected(request, made=unsupported_versions(request)))
                continue
            fault = self._ports.decide(request)
            if fault is None:
                await self._pass_on(request)
            elif not await self._strike(fault, request):
                return

    async def _strike(self, fault: Fault, request: ProxiedRequest) -> bool:
        """Let a fault happen to a request; False: the connection is to end."""
        effect = fault.effect
        self._under_way.append(fault)
        if isinstance(effect, Rewrite):
            await self._rewrite(fault, effect, request)
        elif isinstance(effect, AnswerWith):
            self._expect(_Expected(request, fault, effect.made_by(request)))
        elif fault.after:
            await self._pass_on(request, fault)
        elif isinstance(effect, Refuse):
            await self._refuse(fault, effect, request)
        elif isinstance(effect, (Delay, Hold)):
            await self._arrive_late(fault, effect, request)
        else:
            self._end(fault)
            self.silent = isinstance(effect, BlackHole)
            return self.silent
        return True

    async def _refuse(self, fault: Fault, effect: Refuse, request: ProxiedRequest) -> None:
        if not request.answered:
            self._end(fault)
            return
        made = refusal(request, effect.code)
        if made is None:
            await self._pass_on(request, fault)
        else:
            self._expect(_Expected(request, fault, made))

    async def _arrive_late(
        self, fault: Fault, effect: Delay | Hold, request: ProxiedRequest
    ) -> None:
        self._late = True
        await _wait_for(fault, effect)
        await self._pass_on(request, fault)

    async def _rewrite(self, fault: Fault, effect: Rewrite, request: ProxiedRequest) -> None:
        data = effect.made_by(request)
        while data:
            end = 4 + length_of(data[:4])
            await self._pass_on(self._ports.request(data[:end]), fault)
            data = data[end:]

    async def _pass_on(self, request: ProxiedRequest, fault: Fault | None = None) -> None:
        """Send a request to the broker."""
        if request.answered:
            self._expect(_Expected(request, fault))
        elif fault is not None:
            self._end(fault)
        await self._ports.paced(len(request.frame))
        self._to_broker.write(request.frame)
        await self._to_broker.drain()

    def _expect(self, answer: _Expected) -> None:
        self._expected.put_nowait(answer)

    async def _answers(self) -> None:
        """Pass answers on in the order of their requests; ends with the broker's connection."""
        expected = asyncio.ensure_future(self._expected.get())
        frame = asyncio.ensure_future(_frame(self._broker))
        try:
            while True:
                await asyncio.wait({expected, frame}, return_when=asyncio.FIRST_COMPLETED)
                if not expected.done():
                    if frame.result() is None:
                        return
                    await asyncio.wait({expected})
                one, data = expected.result(), expected.result().made
                if data is None:
                    data = await frame
                    frame = asyncio.ensure_future(_frame(self._broker))
                    if data is None:
                        return
                    data = await self._answer(one, data)
                expected = asyncio.ensure_future(self._expected.get())
                if not await self._give(one, data):
                    return
        finally:
            expected.cancel()
            frame.cancel()

    async def _answer(self, expected: _Expected, frame: bytes) -> bytes:
        """The broker's answer as the client is to get it."""
        request, fault = expected.request, expected.fault
        assert correlation_of(frame) == request.correlation, "brokers answer in order"
        frame = await self._ports.translated(request, frame)
        if fault is not None and isinstance(fault.effect, Refuse):
            return with_error(request, frame, fault.effect.code)
        return frame

    async def _give(self, expected: _Expected, frame: bytes) -> bool:
        """Send an answer to the client unless a fault says otherwise; False: to be broken."""
        fault, effect = expected.fault, expected.fault and expected.fault.effect
        if fault is not None and fault.after and isinstance(effect, (Delay, Hold)):
            await _wait_for(fault, effect)
        self.silent = self.silent or isinstance(effect, BlackHole)
        goes_on = not isinstance(effect, Disconnect)
        if goes_on and not self.silent:
            with contextlib.suppress(ConnectionError):  # it has hung up long ago
                self._to_client.write(frame)
                await self._to_client.drain()
                if isinstance(effect, AnswerWith) and effect.hangs_up:
                    self._to_client.close()
                    await self._to_client.wait_closed()
                    goes_on = False
        if fault is not None:
            self._end(fault)
        self._expected.task_done()
        return goes_on


async def broken(writer: asyncio.StreamWriter) -> None:
    """Break a connection."""
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def _wait_for(fault: Fault, effect: Delay | Hold) -> None:
    if isinstance(effect, Delay):
        await asyncio.sleep(effect.delay_ms / 1000)
        return
    released, loop = asyncio.Event(), asyncio.get_running_loop()
    fault.on_release(lambda: loop.call_soon_threadsafe(released.set))
    await released.wait()


async def _frame(reader: asyncio.StreamReader) -> bytes | None:
    """One message with its length in front; None at the end."""
    try:
        head = await reader.readexactly(4)
        return head + await reader.readexactly(length_of(head))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
