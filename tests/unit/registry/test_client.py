"""Whatever a registry answers, and whatever it does not, is one of three documented errors."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

import streamlet as sl
from streamlet import registry as sr
from streamlet.clock import SystemClock
from streamlet.errors import ConfigError, RegistryError, SerdeError, UnreachableRegistryError
from streamlet.registry.connection import MOST_BYTES
from streamlet.registry.kept import MOST_CHARACTERS, MOST_KEPT, Kept
from tests.integration.doors import make_certificates
from tests.registry_server import RegistryServer, mutual_tls

LONG = sr.RegistrySchema("AVRO", '"long"')


class SetClock(SystemClock):
    """A clock that goes as the test says."""

    at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms


def client(server: RegistryServer, **further: object) -> sr.Registry:
    """A client that does not wait between its tries."""
    found = sr.Registry(server.url, **further)  # type: ignore[arg-type]
    found._connection.block = lambda ms: None
    return found


def test_a_schema_is_asked_for_once(server: RegistryServer) -> None:
    registry, known = client(server), server.add('"long"')
    assert [registry.by_id(known).text for _ in range(3)] == ['"long"'] * 3
    assert server.asked == [f"GET /schemas/ids/{known}"]


def test_an_id_that_is_not_there_is_asked_for_again_after_ten_seconds(
    server: RegistryServer,
) -> None:
    clock = SetClock()
    registry = client(server, clock=clock)
    for _ in range(2):
        with pytest.raises(SerdeError, match="has no schema id 1: is it the one"):
            registry.by_id(1)
    assert len(server.asked) == 1
    server.add('"long"')
    clock.at_ms = 10_001
    assert registry.by_id(1) == LONG


def test_those_who_wait_for_a_schema_ask_in_turn(server: RegistryServer) -> None:
    clock = SetClock()
    registry, known = client(server, clock=clock), server.add('"long"')
    server.bad = 503, b""
    asked = []
    for clock.at_ms in range(0, 40_000, 100):
        with pytest.raises(UnreachableRegistryError, match="status 503"):
            registry.by_id(known)
        asked.append(len(server.asked))
    assert asked[:10] == [3] * 9 + [4]
    assert asked[-1] == 3 + 6, "0.9, 2.7, 6.3, 13.5, 23.5 and 33.5 s"
    server.bad = None
    with pytest.raises(UnreachableRegistryError):
        registry.by_id(known)
    clock.at_ms = 50_000
    assert registry.by_id(known) == LONG


def test_an_id_under_a_subject_is_asked_for_again_when_it_is_old(server: RegistryServer) -> None:
    clock = SetClock()
    registry = client(server, clock=clock)
    for clock.at_ms in (0, 299_999, 300_001):
        assert registry.id_of("a/b-value", LONG, register=True) == 1
    assert server.asked == ["POST /subjects/a%2Fb-value/versions"] * 2
    server.bad = 503, b""
    clock.at_ms = 700_000
    assert registry.id_of("a/b-value", LONG, register=True) == 1  # the old one is as good
    with pytest.raises(UnreachableRegistryError):
        registry.id_of("another", LONG, register=True)


def test_without_register_a_schema_that_is_not_there_is_an_error(server: RegistryServer) -> None:
    with pytest.raises(RegistryError, match="no such schema under the subject orders-value"):
        client(server).id_of("orders-value", LONG, register=False)
    server.add('"long"', "orders-value")
    assert client(server).id_of("orders-value", LONG, register=False) == 1


def test_references_come_with_their_schema_each_behind_those_it_needs(
    server: RegistryServer,
) -> None:
    server.add('"c"', "c")
    server.add('"b"', "b", references=[{"name": "C", "subject": "c", "version": 1}])
    both = [
        {"name": "B", "subject": "b", "version": 1},
        {"name": "C", "subject": "c", "version": 1},
    ]
    found = client(server).by_id(server.add('"a"', "a", references=both))
    assert found.names == (("C", '"c"'), ("B", '"b"'))


def test_references_in_a_circle_and_without_end_are_bounded(server: RegistryServer) -> None:
    circle = [{"name": "A", "subject": "a", "version": 1}]
    server.add('"a"', "a", references=circle)
    assert client(server).by_id(1).names == (("A", '"a"'),)
    many = [{"name": f"N{n}", "subject": "a", "version": 1} for n in range(300)]
    known = server.add('"many"', "many", references=many)
    with pytest.raises(SerdeError, match="more than 200 others"):
        client(server).by_id(known)
    long = f'"{"a" * (1 << 20)}"'
    for n in range(8):
        server.add(long, f"long-{n}")
    parts = [{"name": f"L{n}", "subject": f"long-{n}", "version": 1} for n in range(8)]
    known = server.add('"long"', "long", references=parts)
    with pytest.raises(SerdeError, match="more than 8,388,608 characters with those"):
        client(server).by_id(known)


def test_what_is_kept_of_schemas_is_bounded_in_number_and_length() -> None:
    kept = Kept[int, str]()
    for key in range(MOST_KEPT + 3):
        kept.keep(key, "short", 10)
    assert [key for key in range(MOST_KEPT + 3) if kept.get(key) is None] == [0, 1, 2]
    kept.keep(2_000, "long", MOST_CHARACTERS - 100)
    assert [key for key in range(MOST_KEPT + 3) if kept.get(key)] == list(range(993, 1_003))
    kept.keep(2_000, "short by now", 10)
    kept.keep(2_001, "longer than all may be", 2 * MOST_CHARACTERS)
    assert kept.get(2_001) is not None
    assert kept.get(2_000) is kept.get(1_000) is None


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, b"<html>", "is no JSON"),
        (200, b"[]", "what is no schema"),
        (200, b'{"schema": 7}', "what is no schema"),
        (200, b'{"schema": "a", "schemaType": "XML"}', "what is no schema"),
        (200, b'{"schema": "a", "references": [{"name": "b"}]}', "what is no schema"),
        (200, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "nests"),
        (200, b'{"a":' * 200 + b"1" + b"}" * 200, "nests deeper than 100"),
        (200, b" " * (MOST_BYTES + 1), "longer than"),
        (404, b"<html>not here</html>", "is the path right"),
        (500, b'{"error_code": 50001, "message": "store\x1b[2J"}', "does not answer: status 500"),
        (429, b"", "does not answer: status 429; the task"),
        (503, b"x" * (MOST_BYTES + 1), "does not answer: status 503; the task"),
    ],
)
def test_an_answer_with_no_sense_is_as_good_as_none(
    server: RegistryServer, status: int, body: bytes, says: str
) -> None:
    server.bad = status, body
    for ask in (
        lambda registry: registry.by_id(1),
        lambda registry: registry.id_of("orders-value", LONG, register=True),
    ):
        if b"schema" in body and "id_of" in ask.__code__.co_names:
            continue
        with pytest.raises(UnreachableRegistryError) as failed:
            ask(client(server))
        assert failed.value.passing
        assert says in str(failed.value) or "what is no schema" in str(failed.value)
        assert "\x1b" not in str(failed.value)


def test_troubles_that_pass_are_tried_over(server: RegistryServer) -> None:
    server.add('"long"')
    server.bad, server.bad_count = (503, b""), 2
    assert client(server).by_id(1) == LONG
    assert len(server.asked) == 3


def test_a_registry_that_is_away_is_said_to_be(server: RegistryServer) -> None:
    with socket.socket() as taken:  # bound and not listening: refused
        taken.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{taken.getsockname()[1]}"
        registry = sr.Registry(away)
        registry._connection.block = lambda ms: None
        with pytest.raises(UnreachableRegistryError, match=f"at {away} does not answer"):
            registry.by_id(1)
        several = sr.Registry(f"{away}, {server.url}")
        several._connection.block = lambda ms: None
        server.add('"long"')
        assert several.by_id(1) == LONG


def test_an_answer_without_end_takes_no_longer_than_the_time_out(server: RegistryServer) -> None:
    server.bad, server.stalled = (200, b'{"schema": "a"}'), threading.Event()
    with pytest.raises(UnreachableRegistryError, match=r"no whole answer in 0.2 s|timed out"):
        client(server, timeout_ms=200).by_id(1)


def test_a_redirect_is_not_followed_so_no_password_goes_elsewhere(server: RegistryServer) -> None:
    with RegistryServer() as other:
        server.bad, server.headers = (302, b""), {"Location": other.url}
        with pytest.raises(RegistryError, match="redirects to another address"):
            client(server, username="me", password="secret").by_id(1)
        assert other.asked == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_login_that_is_refused_is_no_records_fault(server: RegistryServer, status: int) -> None:
    server.bad = status, b'{"error_code": 401, "message": "no"}'
    with pytest.raises(RegistryError, match="check username and password") as failed:
        client(server, username="me", password="secret").by_id(1)
    assert not failed.value.passing
    assert "secret" not in str(failed.value)


def test_a_schema_that_is_not_compatible_is_no_records_fault(server: RegistryServer) -> None:
    server.bad = 409, b'{"error_code": 409, "message": "y has no default"}'
    with pytest.raises(
        RegistryError, match="not compatible with those before it: y has no default"
    ):
        client(server).id_of("orders-value", LONG, register=True)


def test_logins_go_into_the_header(server: RegistryServer) -> None:
    server.add('"long"')
    address = server.url.replace("http://", "http://me:se%40cret@")
    tokens = iter(["one", "two"])
    for registry in (
        client(server, username="me", password="se@cret"),
        sr.Registry(address),
        client(server, token="bearer"),
        client(server, token=lambda: next(tokens)),
    ):
        registry.by_id(1)
        assert "cret" not in repr(registry)
    assert server.authorizations == [
        *["Basic bWU6c2VAY3JldA=="] * 2,
        "Bearer bearer",
        "Bearer one",
    ]


def test_a_token_that_cannot_be_sent_is_shown_nowhere(server: RegistryServer) -> None:
    server.add('"long"')
    client(server, token="s3cret\n").by_id(1)
    assert server.authorizations == ["Bearer s3cret"]
    for wrong in ("s3\ncret", "s3 cret", "s3cr\u00e9t", ""):
        with pytest.raises(ConfigError, match="visible ASCII characters") as refused:
            client(server, token=wrong)
        assert "s3" not in str(refused.value)
        with pytest.raises(UnreachableRegistryError, match="visible ASCII characters") as failed:
            client(server, token=lambda wrong=wrong: wrong).by_id(1)
        assert "s3" not in str(failed.value)


def test_a_function_of_tokens_that_fails_is_no_records_fault(server: RegistryServer) -> None:
    server.add('"long"')

    def function() -> str:
        raise KeyError("no answer of the login")

    serde = sl.registry.avro('"long"', registry=client(server, token=function))
    with pytest.raises(UnreachableRegistryError, match=r"KeyError: 'no answer of the login'"):
        serde.decode_column([b"\0\0\0\0\1\2"])
    assert server.asked == []


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


def test_a_registry_with_tls_believes_and_is_believed_by_certificates(certificates: Path) -> None:
    ours = {"certificate": certificates / "client.pem", "key": certificates / "client.key"}
    with RegistryServer(tls=mutual_tls(certificates)) as server:
        server.add('"long"')
        assert client(server, ca=certificates / "ca.pem", **ours).by_id(1) == LONG


@pytest.mark.parametrize(
    ("given", "scheme", "says"),
    [
        ({}, "https", r"not believed \(.*\): ca= and SCHEMA_REGISTRY_CA name a file"),
        ({"ca": "ca.pem"}, "https", "refuses the certificate of this client, or the want of one"),
        ({}, "http", "does it speak TLS\\? Then its address begins with https://"),
    ],
)
def test_what_tls_lacks_is_named(
    certificates: Path, given: dict[str, str], scheme: str, says: str
) -> None:
    files = {name: certificates / file for name, file in given.items()}
    with RegistryServer(tls=mutual_tls(certificates)) as server:
        registry = sr.Registry(server.url.replace("https", scheme), **files)  # type: ignore[arg-type]
        registry._connection.block = lambda ms: None
        with pytest.raises(RegistryError, match=says) as failed:
            registry.by_id(1)
        assert failed.value.passing == (scheme == "http")
        assert server.asked == []


def test_a_registry_without_tls_is_named(server: RegistryServer) -> None:
    with pytest.raises(RegistryError, match="speaks no TLS: its address begins with http://"):
        sr.Registry(server.url.replace("http", "https")).by_id(1)


@pytest.mark.parametrize(
    "url", ["", "localhost:8081", "ftp://x", "http://", "http://a:b:c", "http://a/?q", "http://a b"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="schema registry"):
        sr.Registry(url)


def test_the_environment_names_a_registry(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEMA_REGISTRY_URL", raising=False)
    with pytest.raises(ConfigError, match="set SCHEMA_REGISTRY_URL"):
        sr.Registry.from_environment()
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", server.url)
    monkeypatch.setenv("SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", "me:secret")
    server.add('"long"')
    assert sr.Registry.from_environment().by_id(1) == LONG
    assert server.authorizations == ["Basic bWU6c2VjcmV0"]
