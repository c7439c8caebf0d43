"""The transport's edges without a broker: sockets, security settings, and a broker too old."""

from __future__ import annotations

import importlib
import logging
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamlet.coordinator.events import Connection, FailureKind
from streamlet.coordinator.messages import Heartbeat, OffsetFetch, OffsetFetchAnswer
from streamlet.coordinator.ports import TransportError
from streamlet.coordinator.security import refused_by_tls
from streamlet.coordinator.sockets import DataFirstSocket
from streamlet.coordinator.transport import Transport
from streamlet.coordinator.transport_codec import WireRequest
from streamlet.errors import FINAL_CODES, BrokerTooOldError
from streamlet.kafka.client import KafkaAdmin
from tests.certificates import RSA, self_signed
from tests.unit.coordinator.servers import answering

UNSUPPORTED_VERSION = 35
API_VERSIONS = 18


def as_an_old_broker(connection: socket.socket) -> None:
    """Answer every request as ApiVersions: this broker knows version 0 of three requests."""
    known = [(10, 0, 0), (12, 0, 0), (API_VERSIONS, 0, 0)]
    body = struct.pack(">i", len(known)) + b"".join(struct.pack(">hhh", *api) for api in known)
    while len(head := connection.recv(4096)) >= 12:
        _, _, version, correlation = struct.unpack_from(">ihhi", head)
        error = UNSUPPORTED_VERSION if version > 0 else 0
        answer = struct.pack(">ih", correlation, error) + body
        connection.sendall(struct.pack(">i", len(answer)) + answer)


@pytest.fixture
def old_address() -> Iterator[str]:
    with answering(as_an_old_broker) as address:
        yield address


def test_a_broker_too_old_is_said_to_be_too_old(
    old_address: str, request: pytest.FixtureRequest
) -> None:
    transport = Transport(old_address)
    request.addfinalizer(transport.close)

    with pytest.raises(TransportError, match=r"too old, Kafka 2\.5 is needed") as failed:
        transport.send(Heartbeat("g", 1, "m", None), "main", 60_000).result(300)

    assert failed.value.kind is FailureKind.UNSUPPORTED
    assert failed.value.exit_code in FINAL_CODES, "nor is it tried again"
    assert not failed.value.sent


def test_the_version_alone_can_be_asked_for(
    old_address: str, request: pytest.FixtureRequest
) -> None:
    transport = Transport(old_address)
    request.addfinalizer(transport.close)
    with pytest.raises(TransportError, match=r"too old, Kafka 2\.5 is needed") as failed:
        transport.check_version(60_000).result(300)
    assert failed.value.exit_code in FINAL_CODES


def test_members_are_not_removed_one_by_one_where_a_broker_is_too_old(
    old_address: str, request: pytest.FixtureRequest
) -> None:
    transport = Transport(old_address)
    request.addfinalizer(transport.close)
    with pytest.raises(TransportError, match="UNSUPPORTED_VERSION"):
        transport.remove_members("g", ["a-0"], 60_000).result(300)


def test_a_broker_too_old_is_not_taken_for_one_that_is_away(old_address: str) -> None:
    """What run asks first goes through the other client."""
    with pytest.raises(BrokerTooOldError, match=rf"{old_address} is too old, Kafka 2\.5 is needed"):
        KafkaAdmin(old_address).topics()


def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = Transport(f"127.0.0.1:{silent.getsockname()[1]}")

        with pytest.raises(TransportError, match="cannot reach") as failed:
            transport.find_coordinator("g", 200).result(300)

        assert failed.value.kind is FailureKind.TIMEOUT
        transport.close()


def test_a_tls_handshake_that_is_under_way_ends_with_the_transport() -> None:
    """Its socket stayed open until garbage was collected."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        transport = Transport(address, {"security.protocol": "SSL"})
        asked = transport.find_coordinator("g", 60_000)
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(1), "the handshake has begun"
            transport.close()
            assert isinstance(asked.exception(0), TransportError)
            while connection.recv(4096):
                pass


def test_a_server_that_tells_of_no_brokers_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    transport = Transport("127.0.0.1:1")
    request.addfinalizer(transport.close)

    async def found(*_: object) -> SimpleNamespace:
        return SimpleNamespace(error_code=0, node_id=1, host="127.0.0.1", port=1)

    async def refreshed(_: object) -> None:
        await transport._net.sleep(30)

    monkeypatch.setattr(transport, "_deliver", found)
    monkeypatch.setattr(transport._manager.cluster, "refresh_metadata", refreshed)
    with pytest.raises(TransportError, match="cannot reach") as failed:
        transport.find_coordinator("g", 200).result(300)
    assert failed.value.kind is FailureKind.TIMEOUT


def test_what_is_asked_of_a_closed_transport_fails_at_once() -> None:
    transport = Transport("127.0.0.1:1")
    waiting = transport.find_coordinator("g", 60_000)
    transport.close()
    transport.close()

    for future in (waiting, transport.find_coordinator("g", 60_000)):
        with pytest.raises(TransportError) as failed:
            future.result(300)
        assert failed.value.kind is FailureKind.CLOSED


def test_a_connection_with_unsent_data_is_closed_with_its_transport() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(300)
        transport = Transport(f"127.0.0.1:{silent.getsockname()[1]}")
        transport.find_coordinator("g", 300_000)
        there, _ = silent.accept()
        with there:
            there.settimeout(300)
            assert there.recv(4) != b""
            (connection,) = transport._manager._conns.values()
            sock = connection.transport._sock

            def close_before_all_is_sent() -> None:
                connection.transport.write(b"x" * 20_000_000)
                connection.transport.close()

            transport._net.run(close_before_all_is_sent)
            transport.close()
            assert sock.fileno() == -1


def test_the_end_of_a_connection_is_told_behind_its_last_data() -> None:
    here, there = socket.socketpair()
    with DataFirstSocket(fileno=here.detach()) as reader:
        reader.setblocking(False)
        there.sendall(b"refused")
        there.close()

        assert reader.recv(4096) == b"refused"
        with pytest.raises(BlockingIOError):
            reader.recv(4096)
        assert reader.recv(4096) == b""
        assert reader.recv(4096) == b""


def test_positions_are_asked_for_again_while_the_coordinator_moves_or_loads(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """As with a broker that has just started: it is found before it knows the group."""
    codes = [16, 14, 0]  # NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS
    looked_up: list[str] = []

    async def coordinator(group: str, deadline: int) -> dict[Connection, str]:
        looked_up.append(group)
        return dict.fromkeys(Connection, "1")

    async def deliver(sent: WireRequest, node: str, deadline: int) -> int:
        return codes.pop(0)

    transport = Transport("127.0.0.1:1")
    request.addfinalizer(transport.close)
    monkeypatch.setattr(transport, "_coordinator", coordinator)
    monkeypatch.setattr(transport, "_deliver", deliver)
    monkeypatch.setattr(
        "streamlet.coordinator.transport.decode", lambda _, n: OffsetFetchAnswer(n, {})
    )
    answer = transport.ask(OffsetFetch("words", (), require_stable=False), 300_000).result(300)
    assert answer == OffsetFetchAnswer(0, {})
    assert looked_up == ["words"] * 3


def test_a_coordinator_that_does_not_answer_is_looked_up_again_next_time(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """It may have moved to another broker for good; a command that watches asks again."""

    async def find(group: str, deadline: int) -> str:
        transport._nodes[group] = dict.fromkeys(Connection, str(len(looked_up)))
        looked_up.append(group)
        return ""

    async def deliver(sent: WireRequest, node: str, deadline: int) -> int:
        if node == "0":
            raise TransportError(FailureKind.TIMEOUT, "0 is not reachable", sent=False)
        return 0

    looked_up: list[str] = []
    transport = Transport("127.0.0.1:1")
    request.addfinalizer(transport.close)
    monkeypatch.setattr(transport, "_find", find)
    monkeypatch.setattr(transport, "_deliver", deliver)
    monkeypatch.setattr(
        "streamlet.coordinator.transport.decode", lambda _, n: OffsetFetchAnswer(n, {})
    )
    wanted = OffsetFetch("words", (), require_stable=False)
    with pytest.raises(TransportError, match="0 is not reachable"):
        transport.ask(wanted, 300_000).result(300)
    assert transport.ask(wanted, 300_000).result(300) == OffsetFetchAnswer(0, {})
    assert looked_up == ["words"] * 2


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a self-signed certificate for loopback."""
    names = ("-addext", "subjectAltName=IP:127.0.0.1")
    return self_signed(tmp_path_factory.mktemp("tls"), RSA, *names)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_the_certificate_that_is_wanted_is_refused_not_let_wait(
    certificate: Path, version: ssl.TLSVersion
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate / "ca.pem")
    context.load_cert_chain(certificate / "ca.pem", certificate / "key.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version

    def refuse(listening: socket.socket) -> None:
        while True:
            try:
                taken, _ = listening.accept()
            except OSError:
                return  # the test is over
            with taken, suppress(OSError), context.wrap_socket(taken, server_side=True) as secured:
                secured.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=refuse, args=(listening,))
        thread.start()
        config = {"security.protocol": "SSL", "ssl.ca.location": str(certificate / "ca.pem")}
        transport = Transport(f"127.0.0.1:{listening.getsockname()[1]}", config)
        try:
            with pytest.raises(TransportError, match=r"\[SSL: .*ALERT") as refused:
                transport.check_version(60_000).result(300)
        finally:
            transport.close()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert refused.value.kind is FailureKind.AUTHENTICATION
    assert not refused.value.passing


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("Handshake failed: [SSL: SSLV3_ALERT_HANDSHAKE_FAILURE] sslv3 alert", True),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca (_ssl.c:2580)", True),
        ("[SSL: TLSV1_ALERT_INTERNAL_ERROR] tlsv1 alert internal error", False),
        ("Handshake failed: [SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred", False),
        ("socket disconnected", False),
    ],
)
def test_alerts_of_tls_are_refusals_and_lost_connections_are_not(text: str, refused: bool) -> None:
    assert refused_by_tls(text) is refused


def test_passwords_are_written_to_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever level a program sets, before or after the client is made."""
    # Here, since they are to be loaded by the transport, which knows their warnings.
    parser = importlib.import_module("kafka.protocol.parser")
    sasl = importlib.import_module("kafka.protocol.sasl")
    names = ("kafka.protocol.parser", "kafka.net.connection")
    caplog.set_level(logging.DEBUG)
    Transport("127.0.0.1:1").close()
    request = sasl.SaslAuthenticateRequest(version=1, auth_bytes=b"\0alice\0open-sesame")
    for name in names:
        caplog.set_level(logging.DEBUG, logger=name)
        logging.getLogger(name).info("goes through")
    parser.KafkaProtocol(client_id="x", api_version=(2, 5)).send_request(request)
    logging.getLogger(names[1]).debug("Request %d: %s", 1, request)
    assert "open-sesame" not in caplog.text
    assert caplog.text.count("goes through") == 2
