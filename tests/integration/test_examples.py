"""Each example runs as a user would run it, on a real broker, with the right results."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from examples.wordcount import words
from streamlet.broker.jars import cache_folder
from streamlet.broker.node import OPTIONS_VARIABLE
from streamlet.kafka.client import KafkaAdmin

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 4
LINES = [
    "the quick brown fox jumps over the lazy dog",
    "The dog sleeps; the fox does not.",
    "",
    "fox, fox, fox!",
] * 25


def streamlet(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "streamlet", *arguments]


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(300)


def produce_lines(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number, line in enumerate(LINES):
        producer.produce("lines", line, b"%d" % number)
    assert producer.flush(300) == 0


def read_counts(
    bootstrap: str, wanted: Counter[str], process: subprocess.Popen[bytes]
) -> Counter[str]:
    """The last count per word, once they are as wanted, or as they are after five minutes."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("word-counts", p, 0) for p in range(PARTITIONS)])
    counts: Counter[str] = Counter()
    deadline = time.monotonic() + 300
    try:
        while counts != wanted and time.monotonic() < deadline and process.poll() is None:
            for message in consumer.consume(1_000, 0.1):
                assert message.error() is None
                counts[message.key().decode()] = int.from_bytes(message.value(), "big")
    finally:
        consumer.close()
    return counts


def test_word_count_counts_words_until_it_is_interrupted(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    where = ["--bootstrap-servers", bootstrap_servers]
    with closing(KafkaAdmin(bootstrap_servers)) as admin:
        # A producer of another test may have had this broker make them again.
        admin.delete_topics(["lines", "word-counts"])
    topics = streamlet("topics", "create", "lines", "word-counts", "--partitions", str(PARTITIONS))
    subprocess.run([*topics, *where], check=True, cwd=ROOT, timeout=400)
    produce_lines(bootstrap_servers)
    wanted = Counter(word for line in LINES for word in words(line))
    run = streamlet("run", "examples.wordcount:app", "--state-dir", str(tmp_path / "state"))
    log = tmp_path / "run.log"
    with running([*run, *where], log) as process:
        counts = read_counts(bootstrap_servers, wanted, process)
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0, log.read_text()
    assert counts == wanted


def test_flights_match_pandas_while_instances_join_and_leave(tmp_path: Path) -> None:
    """The demo on its own broker, with the flights of the first weeks.

    On a poor machine: folders with spaces in their names, a home that cannot be written, no
    locale, and no git or other program on PATH.
    """
    folder, temporary, home = tmp_path / "a folder", tmp_path / "temporary files", tmp_path / "home"
    for name in ("streamlet", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    temporary.mkdir()
    home.write_text("no folder, into which no user can write, not even root")
    environment = {
        "PATH": str(Path(sys.executable).parent),
        "PYTHONPATH": str(folder),
        "HOME": str(home),
        "XDG_CACHE_HOME": str(cache_folder().parent),  # or it would fetch Kafka again
        "TMPDIR": str(temporary),
        OPTIONS_VARIABLE: os.environ[OPTIONS_VARIABLE],  # of brokers that live for a minute
        "LANG": "C",
    }
    demo = [sys.executable, "-m", "examples.flights.demo", "--flights", "20000", "--seconds", "12"]
    done = subprocess.run(
        demo, cwd=folder, env=environment, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "each flight counts once: matches pandas"
    assert " hours are closed and compared" in done.stdout
    assert "host-3 joins" in done.stdout
    assert "host-3 learns" in done.stdout
    assert "host-2 is killed (kill -9)" in done.stdout
    assert "and are dropped by their origins" in done.stdout
    assert "is warm and goes from host-" in done.stdout
    assert "tasks were handed over; the longest time without a result" in done.stdout
    assert "streamlet scale-down flights --percent" in done.stdout
    assert "has left" in done.stdout
