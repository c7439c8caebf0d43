"""Certificates that sign themselves, by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

#: The kinds of their keys.
EC = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
RSA = ("rsa:2048",)
#: Names by which clients may find the machine.
LOOPBACK = ("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")


def openssl(folder: Path, *words: str) -> str:
    """What openssl prints, run in a folder; the test is skipped where there is none."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs openssl to make a certificate")
    done = subprocess.run([program, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def self_signed(folder: Path, kind: tuple[str, ...], *more: str) -> Path:
    """The folder, with a certificate ``ca.pem`` of this machine and its key ``key.pem``."""
    protected = () if "-passout" in more else ("-nodes",)
    openssl(
        folder,
        *("req", "-x509", "-newkey", *kind, *protected, "-days", "2", "-subj", "/CN=localhost"),
        *(*more, "-keyout", "key.pem", "-out", "ca.pem"),
    )
    return folder
