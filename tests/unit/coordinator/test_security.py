"""Security settings in kafka-python's words, and the TLS contexts that are made of them."""

from __future__ import annotations

import importlib.util
import shutil
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamlet.config import Settings
from streamlet.coordinator.security import client_settings
from streamlet.errors import ConfigError
from streamlet.kafka.aws_tokens import region_of
from tests.certificates import EC, openssl, self_signed

PASSWORD = "open-sesame"


def settings_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """What kafka-python gets."""
    return client_settings(Settings.load(values).client_config("group"))


def context_of(**tls: object) -> ssl.SSLContext:
    """The context by these settings, without their ``ssl.``."""
    values = {f"ssl.{key.replace('_', '.')}": value for key, value in tls.items()}
    found = settings_of({"security.protocol": "ssl", **values})["ssl_context"]
    assert isinstance(found, ssl.SSLContext)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate ``ca.pem``, its key with a password, and both as PKCS#12."""
    password = f"pass:{PASSWORD}"
    folder = self_signed(tmp_path_factory.mktemp("tls"), EC, "-passout", password)
    openssl(
        folder,
        *("pkcs12", "-export", "-in", "ca.pem", "-inkey", "key.pem", "-out", "both.p12"),
        *("-passin", password, "-passout", password),
    )
    hashed = openssl(folder, "x509", "-hash", "-noout", "-in", "ca.pem")
    (folder / "folder").mkdir()
    shutil.copy(folder / "ca.pem", folder / "folder" / f"{hashed}.0")
    return folder


def test_settings_are_put_in_kafka_pythons_words() -> None:
    assert settings_of(
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "client.dns.lookup": "resolve_canonical_bootstrap_servers_only",
            "consumer.fetch.min.bytes": 1,
        }
    ) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
        "client_dns_lookup": "resolve_canonical_bootstrap_servers_only",
    }


@pytest.mark.parametrize("value", ["false", "False", "f", "0"])
def test_verification_is_off_where_librdkafka_has_it_off(value: str) -> None:
    off = {"security.protocol": "SSL", "enable.ssl.certificate.verification": value}
    assert settings_of(off)["ssl_context"].verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize("value", ["", "none", "NONE"])
def test_names_of_hosts_are_not_compared_where_java_compares_none(value: str) -> None:
    context = context_of(endpoint_identification_algorithm=value)
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_cas_come_from_a_file_a_folder_or_the_setting_itself(files: Path) -> None:
    text = (files / "ca.pem").read_text()
    for context in (context_of(ca_location=files / "ca.pem"), context_of(ca_pem=text)):
        assert [one["subject"] for one in context.get_ca_certs()] == [
            ((("commonName", "localhost"),),)
        ]
    # Those of a folder are read as one is met, so a handshake says whether it is found.
    trusting = context_of(ca_location=files / "folder")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(files / "ca.pem", files / "key.pem", PASSWORD)
    assert shake_hands(trusting, serving) == "localhost"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context_of(), serving)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> str:
    """Have both ends meet in memory; the name of the server's certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for end in (here, there, here, there, here):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    subject = (here.getpeercert() or {})["subject"]
    return str(subject[0][0][1])


def test_the_clients_certificate_comes_in_each_form(files: Path) -> None:
    certificate, key = (files / "ca.pem").read_text(), (files / "key.pem").read_text()
    context_of(
        certificate_location=files / "ca.pem",
        key_location=files / "key.pem",
        key_password=PASSWORD,
    )
    context_of(certificate_pem=certificate, key_pem=key, key_password=PASSWORD)
    context_of(certificate_pem=certificate + key, key_password=PASSWORD)
    context_of(certificate_location=files / "ca.pem", key_pem=key, key_password=PASSWORD)


@pytest.mark.skipif(
    importlib.util.find_spec("cryptography") is None, reason="needs the extra pkcs12"
)
def test_a_key_store_of_pkcs12_is_unpacked(files: Path) -> None:
    context_of(keystore_location=files / "both.p12", keystore_password=PASSWORD)
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.password does not open it") as refused:
        context_of(keystore_location=files / "both.p12", keystore_password="wrong-one")
    assert "wrong-one" not in str(refused.value)


@pytest.mark.parametrize(
    ("tls", "reason"),
    [
        ({"ca.location": "missing.pem"}, "missing.pem: cannot be read (No such file"),
        ({"ca.location": "key.pem"}, "it is not PEM with what it should have"),
        ({"ca.pem": "-----BEGIN CERTIFICATE-----QUJD-----END CERTIFICATE-----"}, "no certificate"),
        ({"crl.location": "missing.pem"}, "ssl.crl.location"),
        ({"cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA"}, "joined by colons"),
        ({"certificate.location": "ca.pem"}, "do not go together"),
        (
            {"certificate.location": "ca.pem", "key.location": "key.pem", "key.password": "wrong"},
            "ssl.key.password does not open the key",
        ),
        ({"certificate.location": "ca.pem", "key.location": "key.pem"}, "does not open the key"),
        ({"certificate.location": "missing.pem"}, "No such file"),
        ({"keystore.location": "missing.p12"}, "No such file"),
        ({"keystore.location": "java.store"}, "keytool -importkeystore"),
    ],
)
def test_files_that_are_not_what_they_should_be_are_refused_by_the_setting(
    files: Path, tls: dict[str, str], reason: str
) -> None:
    (files / "java.store").write_bytes(b"\xfe\xed\xfe\xed\0\0")
    values = {
        f"ssl.{key}": str(files / value) if key.endswith("location") else value
        for key, value in tls.items()
    }
    with pytest.raises(ConfigError) as refused:
        settings_of({"security.protocol": "ssl", **values})
    assert reason in str(refused.value)
    assert next(iter(values)) in str(refused.value)


def test_a_key_in_a_setting_leaves_no_file(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL reads it from one, which is there for a moment and the user's alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    certificate, key = (files / "ca.pem").read_text(), (files / "key.pem").read_text()
    context_of(certificate_pem=certificate, key_pem=key, key_password=PASSWORD)
    with pytest.raises(ConfigError):
        context_of(certificate_pem=certificate, key_pem=key, key_password="wrong")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("servers", "environ", "region"),
    [
        ("b-1.c.abc.c2.kafka.eu-west-1.amazonaws.com:9098", {"AWS_REGION": "a"}, "eu-west-1"),
        ("boot-1.c1.kafka-serverless.us-gov-east-1.amazonaws.com:9098", {}, "us-gov-east-1"),
        ("kafka.internal:9098", {"AWS_DEFAULT_REGION": "eu-north-1"}, "eu-north-1"),
    ],
)
def test_the_region_is_that_of_the_brokers(
    servers: str, environ: dict[str, str], region: str
) -> None:
    assert region_of(servers, environ) == region


def test_a_region_that_is_not_known_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="set the variable AWS_REGION"):
        region_of("kafka.internal:9098", {})
