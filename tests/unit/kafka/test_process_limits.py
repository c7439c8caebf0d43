"""A client of Kafka in a process that is limited."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamlet.kafka.process_limits import ROOM_BYTES
from tests.kafka_clients import EACH_CLIENT

PROGRAM = """
import resource
from pathlib import Path
from streamlet.errors import ConfigError
from streamlet.kafka.client import sink_type

used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {left}, resource.RLIM_INFINITY))
try:
    sink_type("{client}", {{}})("127.0.0.1:1")
    print("made")
except ConfigError as refused:
    print(refused)
"""


@EACH_CLIENT
@pytest.mark.skipif(sys.platform != "linux", reason="limits of address spaces are Linux's")
@pytest.mark.parametrize(
    ("left", "said"),
    [(ROOM_BYTES // 4, "ulimit -v: of "), (16 * ROOM_BYTES, "made")],
    ids=["little", "enough"],
)
def test_a_client_is_made_only_where_its_threads_have_room(
    client: str, left: int, said: str
) -> None:
    """librdkafka waited for ever for threads of its own that could not start."""
    words = [sys.executable, "-c", PROGRAM.format(client=client, left=left)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert said in done.stdout, done


@EACH_CLIENT
@pytest.mark.skipif(sys.platform != "linux", reason="its limits are Linux's")
@pytest.mark.parametrize(("files", "said"), [(64, "ulimit -n: 64 files"), (256, "made")])
def test_a_client_is_made_only_where_a_worker_can_connect(
    client: str, files: int, said: str
) -> None:
    """A worker said for ever that no broker answers, or nothing at all."""
    limits = f"resource.RLIMIT_NOFILE, ({files}, {files})"
    program = PROGRAM.replace("resource.RLIMIT_AS, (used + {left}, resource.RLIM_INFINITY)", limits)
    words = [sys.executable, "-c", program.format(client=client)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert said in done.stdout, done
