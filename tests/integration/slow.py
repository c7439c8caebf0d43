"""Ways to a broker that let only so many bytes through."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

from streamlet.testing import FaultProxy

#: What gets through in a second, bytes. A quota lets ten times as much through at first.
RATE = 200_000


@contextlib.contextmanager
def quota(servers: str, client: str) -> Iterator[str]:
    """A broker that lets producers with that ``client.id`` write ``RATE``; gives its address."""
    _set_quota(servers, client, RATE)
    try:
        yield servers
    finally:
        _set_quota(servers, client, None)


def _set_quota(servers: str, client: str, rate: float | None) -> None:
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="client-id", entity_name=client)],
                ops=[
                    entry.OpData(key="producer_byte_rate", value=rate or 0.0, remove=rate is None)
                ],
            )
        ],
        validate_only=False,
    )
    request.API_VERSION = 1
    request.with_header(correlation_id=1, client_id="test")
    host, _, port = servers.partition(":")
    with socket.create_connection((host, int(port))) as broker:
        broker.sendall(request.encode(header=True, framed=True))
        with broker.makefile("rb") as answers:
            frame = answers.read(int.from_bytes(answers.read(4), "big"))
    answer = AlterClientQuotasResponse.decode(frame, version=1, header=True)
    assert [one.error_code for one in answer.entries] == [0]


@contextlib.contextmanager
def narrow(servers: str, client: str) -> Iterator[str]:
    """A link on which all requests together have ``RATE``; gives the address at its end."""
    with FaultProxy(servers, bytes_per_s=RATE) as proxy:
        yield proxy.bootstrap_servers
