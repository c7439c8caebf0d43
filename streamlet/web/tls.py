"""TLS of the server of queries, and of the questions of instances to each other."""

from __future__ import annotations

import ssl

from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.tls_files import load_authorities, load_identity

#: The settings that name a certificate with its key, and authorities.
_SETTINGS = "http.ssl.certificate.location and http.ssl.key.location", "http.ssl.ca.location"


def of_server(settings: Settings) -> ssl.SSLContext | None:
    """The context of the server; None: it speaks without TLS.

    Raises:
        ConfigError: a file cannot be read, or is none of its kind.
    """
    certificate, authorities = _files(settings)
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, certificate, authorities)
    if authorities is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def of_client(settings: Settings) -> ssl.SSLContext:
    """The context by which the servers of other instances are asked.

    With authorities of its own it believes no others, which would vouch for any host's name.

    Raises:
        ConfigError: as ``of_server``.
    """
    return with_files(*_files(settings))


def with_files(
    certificate: tuple[str, str] | None,
    authorities: str | None,
    names: tuple[str, str] = _SETTINGS,
) -> ssl.SSLContext:
    """The context of a client with these files: its certificate and key, and whom it believes.

    ``names`` are those of where the files were named, for messages.

    Raises:
        ConfigError: as ``of_server``.
    """
    if authorities is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load(context, certificate, authorities, names)
    return context


def _files(settings: Settings) -> tuple[tuple[str, str] | None, str | None]:
    certificate, key = settings.http_ssl_certificate_location, settings.http_ssl_key_location
    authorities = settings.http_ssl_ca_location
    pair = None if certificate is None or key is None else (str(certificate), str(key))
    return pair, None if authorities is None else str(authorities)


def _load(
    context: ssl.SSLContext,
    certificate: tuple[str, str] | None,
    authorities: str | None,
    names: tuple[str, str] = _SETTINGS,
) -> None:
    try:
        if certificate is not None:
            load_identity(context, *certificate)
    except (OSError, ValueError) as error:  # a path may be none
        given = " and ".join(map(str, certificate or ()))
        raise ConfigError([f"{names[0]} = {given}: {_reason(error)}"]) from error
    if authorities is None:
        return
    try:
        load_authorities(context, authorities)
    except (OSError, ValueError) as error:
        raise ConfigError([f"{names[1]} = {authorities}: {_reason(error)}"]) from error


def _reason(error: OSError | ValueError) -> str:
    """The reason in words, without the number of the system's error."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
