"""The TLS context of connections to a coordinator, by settings in librdkafka's words."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streamlet.config.java_security import JKS_KEYS
from streamlet.given_files import bytes_of, check_file
from streamlet.tls_files import load_identity

#: The first bytes of a key store of Java's own kind.
_JKS = b"\xfe\xed\xfe\xed"


class TlsProblem(Exception):
    """A setting that no context can be made of; the text begins with its key."""


def tls_context(config: Mapping[str, str]) -> ssl.SSLContext:
    """A context as librdkafka would make one.

    Raises:
        TlsProblem: a file cannot be read, or is not what it should be.
    """
    context = _trusting(config)
    if "ssl.crl.location" in config:
        _tried(config, "ssl.crl.location", context.load_verify_locations)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if "ssl.cipher.suites" in config:
        try:
            context.set_ciphers(config["ssl.cipher.suites"])
        except ssl.SSLError as error:
            raise TlsProblem(
                "ssl.cipher.suites: OpenSSL knows none of these; its names are like "
                "ECDHE-RSA-AES256-GCM-SHA384, joined by colons"
            ) from error
    with ExitStack() as files:
        _identify(context, config, files)
    return context


def _trusting(config: Mapping[str, str]) -> ssl.SSLContext:
    """A context that trusts the CAs given, else those of the system."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if "ssl.ca.location" in config:
        key = "ssl.ca.location"
        if os.path.isdir(config[key]):
            _tried(config, key, lambda folder: context.load_verify_locations(capath=folder))
        else:
            _tried(config, key, context.load_verify_locations)
    if "ssl.ca.pem" in config:
        try:
            context.load_verify_locations(cadata=config["ssl.ca.pem"])
        except (ssl.SSLError, ValueError) as error:
            raise TlsProblem("ssl.ca.pem: it has no certificate") from error
    if not config.keys() & {"ssl.ca.location", "ssl.ca.pem"}:
        context.load_default_certs()
    verify = config.get("enable.ssl.certificate.verification", "true") != "false"
    algorithm = config.get("ssl.endpoint.identification.algorithm", "https")
    context.check_hostname = verify and algorithm != "none"
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    return context


def _tried(config: Mapping[str, str], key: str, load: Callable[[str], None]) -> None:
    """Load the file of a setting, or the folder of one that may have it."""
    try:
        if not (key == "ssl.ca.location" and os.path.isdir(config[key])):
            check_file(config[key])
        load(config[key])
    except ssl.SSLError as error:
        raise TlsProblem(
            f"{key} = {config[key]}: it is not PEM with what it should have"
        ) from error
    except OSError as error:
        raise TlsProblem(f"{key} = {config[key]}: cannot be read ({error.strerror})") from error


def _identify(context: ssl.SSLContext, config: Mapping[str, str], files: ExitStack) -> None:
    """Load the client's certificate and key, if there are any."""
    if "ssl.keystore.location" in config:
        chain = files.enter_context(_held(_unpacked(config)))
        context.load_cert_chain(chain)
        return
    certificate, named = _path(config, "ssl.certificate", files)
    if certificate is None:
        return
    key, key_named = _path(config, "ssl.key", files)
    try:
        load_identity(context, certificate, key, config.get("ssl.key.password", ""))
    except ssl.SSLError as error:
        raise TlsProblem(
            f"{named}: certificate and key ({key_named or named}) do not go together, or "
            "ssl.key.password does not open the key"
        ) from error
    except OSError as error:
        raise TlsProblem(f"{named}, {key_named}: cannot be read ({error.strerror})") from error


def _path(config: Mapping[str, str], kind: str, files: ExitStack) -> tuple[str | None, str]:
    """The file of a certificate or key, and the setting that has it; both empty without one."""
    if f"{kind}.location" in config:
        return config[f"{kind}.location"], f"{kind}.location"
    if f"{kind}.pem" in config:
        return files.enter_context(_held(config[f"{kind}.pem"].encode())), f"{kind}.pem"
    return None, ""


@contextmanager
def _held(pem: bytes) -> Iterator[str]:
    """A file that only the user can read, as long as the block lasts: OpenSSL takes no other."""
    with tempfile.NamedTemporaryFile(prefix="streamlet-tls-") as file:
        file.write(pem)
        file.flush()
        yield file.name


def _unpacked(config: Mapping[str, str]) -> bytes:
    """Key and certificates of a PKCS#12 file, as PEM."""
    key = "ssl.keystore.location"
    try:
        packed = bytes_of(Path(config[key]))
    except OSError as error:
        raise TlsProblem(f"{key} = {config[key]}: cannot be read ({error.strerror})") from error
    if packed.startswith(_JKS):
        raise TlsProblem(f"{key}: {JKS_KEYS}")
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError as error:
        raise TlsProblem(
            f"{key}: PKCS#12 needs a package; run: pip install 'streamlet[pkcs12]'"
        ) from error
    password = config.get("ssl.keystore.password")
    try:
        found = pkcs12.load_pkcs12(packed, None if password is None else password.encode())
    except ValueError as error:
        raise TlsProblem(
            f"{key} = {config[key]}: it is not PKCS#12, or ssl.keystore.password does not open it"
        ) from error
    if found.key is None or found.cert is None:
        raise TlsProblem(f"{key} = {config[key]}: it needs a certificate and its key")
    certificates = [found.cert, *found.additional_certs]
    return found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + b"".join(
        one.certificate.public_bytes(Encoding.PEM) for one in certificates
    )
