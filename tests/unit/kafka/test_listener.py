"""What answers at an address, and the sentence about settings that do not fit it."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from streamlet.kafka.connection_advice import advice_for
from streamlet.kafka.listener import Listener, look, mismatch, sentence
from tests.certificates import EC, self_signed

Answer = Callable[[socket.socket], None]


def request(connection: socket.socket) -> int:
    """Read a request; the key of its API."""
    with connection.makefile("rb") as received:
        (size,) = struct.unpack(">i", received.read(4))
        if size > 1000:
            raise ConnectionError("too large, as a broker has it")
        return int(struct.unpack(">h", received.read(size)[:2])[0])


def kafka(*answered: int) -> Answer:
    """A listener of Kafka's that answers requests of these APIs, and hangs up at others."""

    def answer(connection: socket.socket) -> None:
        while request(connection) in answered:
            connection.sendall(struct.pack(">iih", 6, 7, 0))

    return answer


def web(connection: socket.socket) -> None:
    """A web server that waits for a line."""
    received = b""
    while b"\n" not in received:
        if not (part := connection.recv(100)):
            return
        received += part
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def silent(connection: socket.socket) -> None:
    """A listener that takes everything and says nothing."""
    while connection.recv(100):
        pass


@contextmanager
def serving(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """A listener as long as the block lasts; its address."""

    def take(plain: socket.socket) -> None:
        with suppress(OSError, struct.error), plain:
            if context is None:
                answer(plain)
                return
            with context.wrap_socket(plain, server_side=True) as encrypted:
                answer(encrypted)

    def accept(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=take, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=accept, args=(listening,))
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """The context of a listener with a certificate."""
    return listening_context(self_signed(tmp_path_factory.mktemp("tls"), EC))


def listening_context(folder: Path) -> ssl.SSLContext:
    """A context with the folder's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (kafka(18, 3), Listener.OPEN),
        (kafka(18), Listener.LOGIN),
        (web, Listener.WEB),
        (lambda connection: None, Listener.UNKNOWN),
    ],
)
def test_a_listener_without_tls_is_known_by_its_answers(answer: Answer, found: Listener) -> None:
    with serving(answer) as address:
        assert look(address) is found
        assert look(f"SASL_SSL://{address}") is found


def test_a_listener_that_is_silent_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlet.kafka.listener._WAIT_S", 0.1)
    with serving(silent) as address:
        assert look(address) is Listener.UNKNOWN


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (kafka(18, 3), Listener.TLS_OPEN),
        (kafka(18), Listener.TLS_LOGIN),
        (lambda connection: None, Listener.TLS),
    ],
)
def test_a_listener_with_tls_is_known_by_its_answers(
    tls: ssl.SSLContext, answer: Answer, found: Listener
) -> None:
    with serving(answer, tls) as address:
        assert look(address) is found


def test_an_address_without_a_listener_says_nothing() -> None:
    for address in ("127.0.0.1:1", "no-such-host.invalid:9092", "[::1]:1", "a:b:c"):
        assert look(address) is Listener.UNKNOWN
    for address in ("127.0.0.1:99999", f"{'a' * 70}:1", ".a:1", ":9092", "[]:9092", ""):
        assert look(address) is Listener.UNKNOWN, "it is no address"
    assert mismatch("127.0.0.1:1,127.0.0.1:2", "sasl_ssl") == ""


def test_the_first_listener_that_answers_decides() -> None:
    with serving(kafka(18, 3)) as address:
        both = f"127.0.0.1:1,, {address},"
        assert mismatch(both, "plaintext") == ""
        assert mismatch(both, "SSL") == (
            f"{address} does not speak TLS, and security.protocol = ssl: "
            "set security.protocol = plaintext"
        )


@pytest.mark.parametrize(
    ("found", "fits", "wants"),
    [
        (Listener.OPEN, ["plaintext"], "plaintext"),
        (Listener.LOGIN, ["sasl_plaintext"], "sasl_plaintext"),
        (Listener.TLS_OPEN, ["ssl"], "ssl"),
        (Listener.TLS_LOGIN, ["sasl_ssl"], "sasl_ssl"),
        (Listener.TLS, ["ssl", "sasl_ssl"], "ssl"),
        (Listener.UNKNOWN, ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"], ""),
        (Listener.WEB, [], "bootstrap.servers"),
    ],
)
def test_settings_that_do_not_fit_are_named_with_what_to_set(
    found: Listener, fits: list[str], wants: str
) -> None:
    for protocol in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        said = sentence("broker:9092", found, protocol)
        assert (said == "") == (protocol in fits)
        if said and found is not Listener.WEB:
            assert f"security.protocol = {protocol}: set security.protocol = " in said
        if said and found is not Listener.TLS:
            assert wants in said


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("SASL authentication error: Authentication failed during", "sasl.username"),
        ("SaslAuthenticationFailedError: Authentication failed", "sasl.password"),
        ("SSL routines::tlsv13 alert certificate required", "set ssl.certificate.location"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert", "set ssl.certificate.location"),
        ("SSL routines::tlsv1 alert unknown ca", "of a CA that the broker trusts"),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca", "of a CA that the broker trusts"),
        ("broker certificate could not be verified: certificate verify failed", "ssl.ca.location"),
        ("CERTIFICATE_VERIFY_FAILED] self-signed certificate in chain", "ssl.ca.location"),
        ("certificate verify failed: IP address mismatch", "ssl.endpoint.identification"),
        ("certificate verify failed: certificate has expired", "expired"),
        ("Broker: Request not valid in current SASL state", "asks for no login"),
        ("IllegalSaslStateError", "asks for no login"),
        ("UnsupportedSaslMechanismError", "this sasl.mechanism"),
        ("no token to log in with: the endpoint", "sasl.oauthbearer."),
        ("something else", "security.protocol"),
    ],
)
def test_a_refusal_comes_with_the_settings_to_look_at(text: str, advice: str) -> None:
    assert advice in advice_for(text)
