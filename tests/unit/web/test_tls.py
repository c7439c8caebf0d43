"""The server of queries by TLS: instances with certificates, and connections that send nothing."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import attrs
import pytest

import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.state.query_errors import StateStoreMigratedError
from streamlet.web import tls
from tests.certificates import EC, LOOPBACK, self_signed
from tests.unit.queries.served import Serving
from tests.unit.web.served import counted, group_of, server_of
from tests.unit.web.test_server import TASKS

pytest.importorskip("aiohttp")


@pytest.fixture(scope="module")
def made() -> Iterator[Serving]:
    found = counted()
    yield found
    found.driver.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings with a certificate for this machine that is its own authority."""
    folder = self_signed(tmp_path_factory.mktemp("tls"), EC, *LOOPBACK)
    key, certificate = folder / "key.pem", folder / "ca.pem"
    return {
        "http_ssl_certificate_location": str(certificate),
        "http_ssl_key_location": str(key),
        "http_ssl_ca_location": str(certificate),
    }


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time enough for members to answer on any machine."""
    for name in ("members.CONNECT_S", "members.MOST_S", "client._MARGIN_S"):
        monkeypatch.setattr(f"streamlet.web.{name}", 300.0)


def _context(files: dict[str, str]) -> ssl.SSLContext:
    return tls.of_client(
        Settings.load({name.replace("_", "."): value for name, value in files.items()})
    )


def _own(files: dict[str, str]) -> dict[str, str]:
    """The files as a client is given them."""
    names = {"ca": "ca", "certificate": "certificate", "key": "key"}
    return {name: files[f"http_ssl_{part}_location"] for name, part in names.items()}


def test_instances_know_each_other_by_their_certificates(
    made: Serving, files: dict[str, str]
) -> None:
    counts = dict(made.store("counts", timeout_ms=60_000).all())
    with group_of(made, 2, **files) as group:
        group.serve(1, *TASKS)
        group.report(1, *TASKS)
        for server in group.servers:
            client = sl.connect(server.url, **_own(files))
            assert client.store("counts", sl.KeyValueStore[str, int]).get("k1") == counts["k1"]
        stranger = sl.connect(group.servers[0].url, ca=files["http_ssl_ca_location"])
        with pytest.raises(StateStoreMigratedError, match="does not answer"):
            stranger.store("counts").get("k1")
        with pytest.raises(ConfigError, match=r"connect\(ca=\) = .*test_tls.py: "):
            sl.connect(group.servers[0].url, ca=__file__)
        # One that is to be asked without TLS is not asked.
        entry = group.servers[1].entry
        group.entries[entry.key] = attrs.evolve(entry, scheme="http")
        asking = sl.connect(group.servers[0].url, **_own(files))
        with pytest.raises(StateStoreMigratedError, match="without TLS"):
            asking.store("counts", timeout=0).get("k1")


def test_its_own_authorities_are_the_only_ones(files: dict[str, str]) -> None:
    (authority,) = _context(files).get_ca_certs()
    assert ("commonName", "localhost") in [pair for part in authority["subject"] for pair in part]


def test_connections_that_agree_on_no_tls_make_room(
    made: Serving, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamlet.web.http_server.MOST_CONNECTIONS", 4)
    with server_of(made.served, **files) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
        client = sl.connect(server.url, **_own(files))
        assert client.store("counts", sl.KeyValueStore[str, int]).get("k1")
        idle[0].settimeout(300)
        assert idle[0].recv(1) == b""  # it was closed to make room
        for one in idle:
            one.close()
