"""Certificates, keys and authorities of files that users name, loaded into a context of TLS.

OpenSSL reads a file until it ends, which a device never does, and asks for the password of a key on
the terminal of a program that may have no user in front of it.
"""

from __future__ import annotations

import ssl
from typing import NoReturn

from streamlet.given_files import check_file


def load_authorities(context: ssl.SSLContext, file: str) -> None:
    """Have a context believe the authorities of a file.

    Raises:
        OSError: it cannot be read, or has none (``ssl.SSLError``).
        ValueError: the name is one that no file has.
    """
    check_file(file)
    context.load_verify_locations(file)


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
