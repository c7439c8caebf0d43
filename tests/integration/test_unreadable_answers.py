"""Answers of a coordinator that nothing can be read from."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable

import pytest

from streamlet.coordinator.events import Connection, FailureKind
from streamlet.coordinator.messages import (
    Heartbeat,
    HeartbeatAnswer,
    OffsetFetch,
    Request,
    SyncGroup,
)
from streamlet.coordinator.ports import TransportError
from streamlet.coordinator.transport import Transport
from streamlet.testing import FaultProxy, ProxiedRequest
from streamlet.types import TopicPartition

pytestmark = pytest.mark.integration

#: What comes behind the number of the request: tags without an end, and fields that are cut off.
BODIES = {"tags": b"\xff" * 60, "counts": b"\0" * 4 + b"\xff" * 30, "nothing": b""}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    "request_of",
    [
        lambda group: OffsetFetch(group, (TopicPartition("t", 0),)),
        lambda group: SyncGroup(group, 1, "m", None, "streamlet", "tasks", ()),
    ],
    ids=["OffsetFetch", "SyncGroup"],
)
def test_an_answer_that_cannot_be_read_ends_its_connection_and_not_the_next(
    bootstrap_servers: str, request_of: Callable[[str], Request], body: str
) -> None:
    """Waiting for the time of the request, five minutes here, would be a hang."""
    group = f"unreadable-{uuid.uuid4().hex[:8]}"
    asked = request_of(group)

    def garbage(seen: ProxiedRequest) -> bytes:
        frame = struct.pack(">i", seen.correlation) + BODIES[body]
        return struct.pack(">i", len(frame)) + frame

    with FaultProxy(bootstrap_servers) as proxy:
        transport = Transport(proxy.bootstrap_servers)
        try:
            transport.find_coordinator(group, 300_000).result(300)
            odd = proxy.answer(type(asked).__name__, garbage, times=1)
            with pytest.raises(TransportError) as failed:
                transport.send(asked, Connection.MAIN, 300_000).result(310)
            assert (failed.value.kind, odd.happened) == (FailureKind.DISCONNECTED, 1)
            transport.find_coordinator(group, 300_000).result(300)
            beat = Heartbeat(group, 1, "nobody", None)
            answer = transport.send(beat, Connection.MAIN, 300_000).result(310)
            assert isinstance(answer, HeartbeatAnswer)
        finally:
            transport.close()
