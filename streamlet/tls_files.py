"""Certificates, keys and authorities of files that users name, loaded into a context of TLS.

OpenSSL reads a file until it ends, which a device never does, and asks for the password of a key on
the terminal of a program that may have no user in front of it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any, NoReturn

from streamlet.errors import ConfigError
from streamlet.given_files import check_file


def load_authorities(context: ssl.SSLContext, file: str) -> None:
    """Have a context believe the authorities of a file.

    Raises:
        OSError: it cannot be read, or has none (``ssl.SSLError``).
        ValueError: the name is one that no file has.
    """
    check_file(file)
    context.load_verify_locations(file)


def endpoint_context(config: Mapping[str, Any]) -> ssl.SSLContext:
    """A context that believes the authorities of a token endpoint, else those of the system.

    Args:
        config: settings in librdkafka's words, which takes a file or a folder for
            ``https.ca.location``, and ``probe`` for the system's authorities.

    Raises:
        ConfigError: what is given cannot be read, or has no certificate.
    """
    context = ssl.create_default_context()
    file, text = config.get("https.ca.location"), config.get("https.ca.pem")
    try:
        if file is not None and file != "probe":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if os.path.isdir(file):
                context.load_verify_locations(capath=file)
            else:
                load_authorities(context, file)
        if text is not None:
            context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        at = "https.ca.pem" if file is None else f"https.ca.location = {file}"
        raise ConfigError([f"{at}: it is not PEM with certificates"]) from error
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise ConfigError([f"https.ca.location = {file}: {reason}"]) from error
    return context


def load_identity(
    context: ssl.SSLContext, certificate: str, key: str | None = None, password: str | None = None
) -> None:
    """Have a context show a certificate; its key is in the same file, or in one of its own.

    Args:
        context: of TLS.
        certificate: the file that has it.
        key: the file of its key; None: it is in the same one.
        password: of the key; None: a key that has one is refused.

    Raises:
        OSError: a file cannot be read, or is none of its kind (``ssl.SSLError``).
        ValueError: a name is one that no file has, or the key has a password.
    """
    for file in filter(None, (certificate, key)):
        check_file(file)
    context.load_cert_chain(certificate, key, _no_password if password is None else password)


def _no_password() -> NoReturn:
    raise ValueError(
        "the key has a password; write it without one by openssl pkey -in KEY -out FILE, and let "
        "no other user read that file"
    )
