"""``python -m bench latency``: from a record's sending to the append of what came of it.

One worker of each application under a steady load of records of 1 kB. Both topics bear the broker's
own time; each output has the header of its record, which says when that was sent. The percentiles
are of the ms until the broker has the output, those of ``input`` of the ms until it has the record.
The broker counts whole ms, so a figure may be 1 ms too low. The first seconds are left out: until
then its JVM compiles what it runs, with up to a processor of its own. ``busy`` is the share of the
machine's processors that was used in the time measured, 0 to 1. A record may wait in the load's own
producer (``linger_ms``); that counts.

Two of the applications are measured as bare loops too, each right before its application
(``bench.bare_latency``): what lies above their delays is ours.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import psutil

from bench import bare_latency
from bench.broker import Topics, read_all, serving
from bench.handover_instances import wait_until
from bench.latency_load import SENT, SENT_HEADER
from bench.processes import MeasurementError
from bench.rounds import tell

RATES = (1_000, 10_000)
#: What is measured, and the application of ``bench.ours`` that it is.
APPS = {
    "passthrough": "passthrough",
    "count": "wordcount",
    "window": "window",
    "repartition": "regroup",
    "waiting": "waiting",
}
#: What is measured in turn.
PEERS = ("bare", "streamlet")
KEYS = 10_000
WARM_S = 20.0
#: Of the windows, ms.
_SIZE, _GRACE = 10_000, 1_000

_NEVER = 1 << 60
_PARTS = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def run(
    *,
    seconds: int,
    rates: Sequence[int],
    apps: Sequence[str],
    warm_s: float = WARM_S,
    linger_ms: int = 0,
    peers: Sequence[str] = PEERS,
) -> dict[str, Any]:
    """Measure each application at each rate; the result as it is printed.

    The bare loops' figures are under ``bare``, as those of the applications are beside it.

    Raises:
        MeasurementError: a process failed, or no bare loop does what is to be measured.
    """
    turns = [(app, peer) for app in apps for peer in PEERS if peer in peers and _is_made(app, peer)]
    if not turns:
        raise MeasurementError(f"there are bare loops for {', '.join(bare_latency.WORKLOADS)} only")
    with serving() as bootstrap:
        loads = [Load(rate, seconds, warm_s, linger_ms) for rate in rates]
        return of_turns(bootstrap, loads, turns)


def of_turns(
    bootstrap: str, loads: Sequence[Load], turns: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The result for these loads, of these applications and who runs them."""
    first = loads[0]
    result: dict[str, Any] = {"workload": "latency", "seconds": first.seconds}
    result |= {"warm_s": first.warm_s, "linger_ms": first.linger_ms, "right": True}
    for load in loads:
        for app, peer in turns:
            found = _measured(bootstrap, peer, app, load)
            tell(f"{load.rate:>7,} records/s  {peer:<9}  {app:<12} {found}")
            figures = result.setdefault("bare", {}) if peer == "bare" else result
            figures.setdefault(str(load.rate), {})[app] = found
            result["right"] = result["right"] and found["records"] == found["sent"]
    return result


def _is_made(app: str, peer: str) -> bool:
    """True if there is an application or a bare loop of that."""
    return peer != "bare" or app in bare_latency.WORKLOADS


@attrs.frozen
class Load:
    """The load of one measurement.

    ``rate`` is in records per second; ``warm_s`` seconds of it come before the ``seconds`` that are
    measured.
    """

    rate: int
    seconds: int
    warm_s: float
    linger_ms: int


#: What is sent until the application is there: a start that takes longer than the first seconds of
#: the load would count as latency.
_FIRST = Load(100, 1, 0.0, 0)


def _measured(bootstrap: str, peer: str, app: str, load: Load) -> dict[str, Any]:
    name = f"bench-latency-{uuid.uuid4().hex[:8]}"
    source, topics = f"{name}-in", Topics(bootstrap)
    for topic in (source, name):
        topics.create(topic, {"message.timestamp.type": "LogAppendTime"})
    try:
        with (
            tempfile.TemporaryDirectory() as state,
            _running(_bare(app) if peer == "bare" else _ours(app, state), bootstrap, source, name),
        ):
            first, _ = _send(bootstrap, source, _FIRST)
            wait_until(lambda: topics.count(name) >= first, f"{first} outputs")
            began_us = time.time_ns() // 1_000
            more, busy = _send(bootstrap, source, load)
            sent = first + more
            wait_until(lambda: topics.count(name) >= sent, f"{sent} outputs")
        arrived = _delays(bootstrap, name)
        return {
            **_percentiles(arrived, began_us, load.warm_s),
            "input": _percentiles(_delays(bootstrap, source), began_us, load.warm_s),
            "busy": busy,
            "sent": sent,
            "records": len(arrived),
        }
    finally:
        topics.delete(lambda topic: topic.startswith(name))


def _send(bootstrap: str, topic: str, load: Load) -> tuple[int, float]:
    """Send the load; the records sent, and the share of the processors used meanwhile."""
    command = [sys.executable, "-m", "bench.latency_load", "--bootstrap", bootstrap]
    command += ["--topic", topic, "--keys", str(KEYS), "--rate", str(load.rate)]
    command += ["--seconds", str(math.ceil(load.warm_s) + load.seconds)]
    command += ["--linger", str(load.linger_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            process.wait(load.warm_s)
        except subprocess.TimeoutExpired:
            psutil.cpu_percent()
        said, _ = process.communicate()
    busy = psutil.cpu_percent() / 100
    if process.returncode:
        raise MeasurementError(f"the load ended with status {process.returncode}")
    return int(json.loads(said)["sent"]), round(busy, 2)


def _ours(app: str, state: str) -> list[str]:
    """The application in a worker of its own, but for its topics."""
    command = ["bench.ours", APPS[app], "--exact", "--state", state]
    command += ["--total", str(_NEVER), "--number", "0", "--members", "1"]
    return [*command, "--size", str(_SIZE), "--grace", str(_GRACE)]


def _bare(app: str) -> list[str]:
    """The bare loop, but for its topics."""
    return ["bench.bare_latency", app]


@contextmanager
def _running(module: list[str], bootstrap: str, source: str, output: str) -> Iterator[None]:
    """Run what is measured in a process, until its standard input ends."""
    command = [sys.executable, "-m", *module, "--bootstrap", bootstrap]
    command += ["--source", source, "--output", output]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        yield
        assert process.stdin is not None
        process.stdin.close()
        if process.wait(timeout=60):
            raise MeasurementError(f"the application ended with status {process.returncode}")
    finally:
        process.kill()
        process.wait()


def _delays(bootstrap: str, topic: str) -> list[tuple[int, float]]:
    """When each record of a topic was sent, µs, and how long after that it was appended, ms."""
    found = []
    for batch in read_all(bootstrap, topic):
        for message in batch:
            (sent,) = SENT.unpack(dict(message.headers() or ())[SENT_HEADER])
            found.append((sent, message.timestamp()[1] - sent / 1_000))
    return found


def _percentiles(
    delays: Sequence[tuple[int, float]], began_us: int, warm_s: float
) -> dict[str, float]:
    """Of the records that were sent after the first seconds of the load that began then."""
    began = min(sent for sent, _ in delays if sent >= began_us)
    warm = sorted(delay for sent, delay in delays if sent - began >= warm_s * 1_000_000)
    return {name: round(warm[math.ceil(part * len(warm)) - 1], 1) for name, part in _PARTS.items()}
