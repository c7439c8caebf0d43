"""A proxy between a client and its broker: it can keep one request back, or put others in place,
and it can answer itself.

The broker tells clients where it listens, so its answers are rewritten to lead back here; host and
port are as long as before. A request that is kept back stays on its connection: the client gives
that up at some time and opens another, while here it waits for its late arrival.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import attrs

PRODUCE, LIST_OFFSETS, METADATA, OFFSET_COMMIT = 0, 2, 3, 8
_HOST = "127.0.0.1"


@attrs.frozen
class Interference:
    """The fate of a request that does not go its way.

    Attributes:
        arrives: whether the broker gets it; its answer is dropped.
        answer: what the client gets instead, with its length in front; None: no answer, ever.
    """

    arrives: bool
    answer: bytes | None = None


@attrs.define
class _Connection:
    """A client's connection, and the one to the broker that belongs to it."""

    client: socket.socket
    broker: socket.socket
    #: What is held, and whose answer comes next.
    late: list[Held] = attrs.field(factory=list)
    #: Answers to be dropped or replaced, by the number of the request.
    fates: dict[bytes, Interference] = attrs.field(factory=dict)
    _sending: threading.Lock = attrs.field(factory=threading.Lock)

    def give(self, frame: bytes) -> None:
        """Send an answer to the client; from both threads."""
        with self._sending:
            self.client.sendall(frame)


class Held:
    """One request that does not arrive before ``release``."""

    def __init__(self, wanted: Callable[[bytes], bool]) -> None:
        self.wanted = wanted
        self.caught = threading.Event()
        self.answered = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        """Let it arrive."""
        self._released.set()

    def wait(self) -> None:
        """Wait for that, on the thread that has it."""
        self._released.wait()


class Proxy:
    """Listens on a free port for as long as the block lasts."""

    def __init__(self, servers: str) -> None:
        host, _, port = servers.partition(":")
        assert host == _HOST, "an address of another length cannot be put in its place"
        self._broker = (host, int(port))
        self._listener = socket.create_server((_HOST, 0))
        self._theirs = host.encode() + struct.pack(">i", int(port))
        self._ours = host.encode() + struct.pack(">i", self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._held: Held | None = None
        self._frozen: set[socket.socket] = set()
        #: What goes to the broker for each request, with its length in front; maybe nothing. An
        #: ``OSError`` breaks the connection.
        self.alter: Callable[[bytes], bytes] = lambda frame: frame
        #: What a request is answered with in the broker's place, and then hung up upon; None: the
        #: broker answers.
        self.answer: Callable[[bytes], bytes | None] = lambda frame: None
        #: The fate of a request; None: it goes its way.
        self.interfere: Callable[[bytes], Interference | None] = lambda frame: None

    @property
    def servers(self) -> str:
        """What to give an instance as its broker."""
        return f"{_HOST}:{self._listener.getsockname()[1]}"

    def hold(self, wanted: Callable[[bytes], bool]) -> Held:
        """Keep back the first OffsetCommit like that."""
        self._held = Held(wanted)
        return self._held

    def freeze(self) -> None:
        """Let nothing more through where there is a connection, as if a host there were gone."""
        self._frozen.update(self._sockets)

    def __enter__(self) -> Self:
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._held is not None:
            self._held.release()
        _close(self._listener)
        self._accepting.join()  # a connection that is being made is among the sockets then
        for one in self._sockets:
            _close(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                broker = socket.create_connection(self._broker)
                self._sockets.append(broker)
                both = _Connection(client, broker)
                for pump in (self._requests, self._answers):
                    threading.Thread(target=pump, args=(both,), daemon=True).start()

    def _requests(self, both: _Connection) -> None:
        client, broker = both.client, both.broker
        with contextlib.suppress(OSError):
            while (frame := _frame(client)) is not None:
                if client in self._frozen:
                    continue
                held = self._held
                if held is not None and api(frame) == OFFSET_COMMIT and held.wanted(frame):
                    self._held = None
                    held.caught.set()
                    held.wait()
                    both.late.append(held)
                if (answer := self.answer(frame)) is not None:
                    client.sendall(answer)
                    client.shutdown(socket.SHUT_RDWR)
                    break
                if not self._interferes(both, frame):
                    broker.sendall(self.alter(frame))
        if not both.late:
            with contextlib.suppress(OSError):
                broker.shutdown(socket.SHUT_RDWR)

    def _interferes(self, both: _Connection, frame: bytes) -> bool:
        """Decide on the fate of a request; True if the broker does not get it."""
        fate = self.interfere(frame)
        if fate is None:
            return False
        if fate.arrives:
            both.fates[_number(frame, 8)] = fate
        elif fate.answer is not None:
            both.give(fate.answer)
        return not fate.arrives

    def _answers(self, both: _Connection) -> None:
        client, broker = both.client, both.broker
        with contextlib.suppress(OSError):
            while (frame := _frame(broker)) is not None:
                if client in self._frozen:
                    continue
                for held in both.late:
                    held.answered.set()
                answer: bytes | None = frame.replace(self._theirs, self._ours)
                if (fate := both.fates.pop(_number(frame, 4), None)) is not None:
                    answer = fate.answer
                if answer is not None:
                    with contextlib.suppress(OSError):  # the client has gone long ago
                        both.give(answer)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def api(frame: bytes) -> int:
    """The kind of a request: a number behind its length."""
    return int(struct.unpack_from(">h", frame, 4)[0])


def _number(frame: bytes, at: int) -> bytes:
    """The number that a request and its answer share."""
    return frame[at : at + 4]


def _frame(source: socket.socket) -> bytes | None:
    """One message with its length in front; None at the end."""
    head = _exactly(source, 4)
    body = None if head is None else _exactly(source, struct.unpack(">i", head)[0])
    return None if head is None or body is None else head + body


def _exactly(source: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        more = source.recv(min(count - len(data), 1 << 20))
        if not more:
            return None
        data += more
    return data
