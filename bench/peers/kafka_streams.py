"""Kafka Streams itself, beside which streamlet is measured and compared.

Its jars are fetched once and checked, as the broker's are. The programs are the Java files beside
this one. The Java that the broker's package brings has no compiler, so Eclipse's compiles them,
which is a jar, too.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from bench.processes import MeasurementError
from streamlet.broker.jars import jars
from streamlet.broker.java import java_executable

VERSION = "4.1.1"
_FOLDER = Path(__file__).parent
_JARS = {
    f"kafka-streams-{VERSION}": (
        f"org.apache.kafka:kafka-streams:{VERSION}",
        "com.fasterxml.jackson.core:jackson-databind:2.19.0",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "ecj-3.38.0": ("org.eclipse.jdt:ecj:3.38.0",),
}
_JAVA = (
    "-Xmx1g",
    "--enable-native-access=ALL-UNNAMED",  # for RocksDB, or a newer Java warns
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)


@attrs.frozen
class Programs:
    """Programs on Kafka Streams that are compiled."""

    java: Path
    class_path: str

    def command(self, program: str) -> list[str]:
        """The words that start one, before its own arguments."""
        return [str(self.java), *_JAVA, "-cp", self.class_path, program]


def fetched() -> tuple[list[Path], list[Path]]:
    """The jars of Kafka Streams, and that of the compiler.

    Raises:
        BrokerError: they cannot be fetched.
    """
    streams, compiler = (
        jars(name, wanted, transitive=len(wanted) > 1, sums=_FOLDER / f"{name}.sha256")
        for name, wanted in _JARS.items()
    )
    return streams, compiler


@contextmanager
def compiled() -> Iterator[Programs]:
    """The programs, in a folder that is removed with the end of the block.

    Raises:
        BrokerError: the jars cannot be fetched, or there is no Java.
        MeasurementError: the programs cannot be compiled.
    """
    streams, compiler = fetched()
    java, needed = java_executable(), ":".join(map(str, streams))
    with tempfile.TemporaryDirectory(prefix="streamlet-bench-java-") as classes:
        sources = sorted(map(str, _FOLDER.glob("*.java")))
        done = subprocess.run(
            [java, "-jar", compiler[0], "-17", "-nowarn", "-cp", needed, "-d", classes, *sources],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise MeasurementError(f"programs in Java were not compiled: {done.stderr}")
        yield Programs(java, f"{classes}:{needed}")
