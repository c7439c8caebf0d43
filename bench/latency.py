"""``python -m bench latency``: from a record's sending to the append of what came of it.

One worker of each application under a steady load of records of 1 kB. Both topics bear the broker's
own time; each output has the header of its record, which says when that was sent. The percentiles
are of the ms until the broker has the output, those of ``input`` of the ms until it has the record.
The broker counts whole ms, so a figure may be 1 ms too low. The first seconds are left out: until
then its JVM compiles what it runs, with up to a processor of its own. ``busy`` is the share of the
machine's processors that was used in the time measured, 0 to 1. A record may wait in the load's own
producer (``linger_ms``); that counts.

Under ``exactly_once`` an output counts when a reader of committed records has it, which is a few ms
after the commit; ``append`` is the part until the broker has it.

Two of the applications are measured as bare loops too, each right before its application
(``bench.bare_latency``): what lies above their delays is ours.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import attrs
import psutil  # type: ignore[import-untyped]
from confluent_kafka import Message

from bench import bare_latency, options
from bench.broker import PARTITIONS, Topics, read_all, serving
from bench.committed_reader import CommittedReader
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
#: Who does it: bare loops, and the application under each guarantee.
_BARE, _ONCE = "bare", "exactly_once"
KEYS = 10_000
WARM_S = 20.0
#: Of the windows, ms.
_SIZE, _GRACE = 10_000, 1_000

_NEVER = 1 << 60
_PARTS = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a load; some are those of regroup and spark too."""
    parser.add_argument(
        "--seconds",
        type=int,
        default=10,
        help="how long latency is measured, and those of regroup and spark; 0: not these two",
    )
    parser.add_argument(
        "--rates",
        type=options.counts,
        default=list(RATES),
        help="records per second of latency and regroup, by commas; "
        f"{', '.join(f'{rate:,}' for rate in RATES)} if not given",
    )
    parser.add_argument(
        "--apps",
        type=lambda text: options.chosen(text, tuple(APPS)),
        default=list(APPS),
        help=f"what latency measures, by commas: {', '.join(APPS)}",
    )
    parser.add_argument(
        "--warm",
        type=float,
        default=WARM_S,
        help=f"seconds of load before latency is measured, {WARM_S:.0f} if not given",
    )
    parser.add_argument(
        "--linger",
        type=int,
        default=0,
        help="linger.ms of the producer that is the load of latency, 0 if not given; "
        "clients have 5 by default",
    )


def chosen(given: argparse.Namespace) -> dict[str, Any]:
    """The result as the command line asks for it."""
    length = {"seconds": given.seconds, "warm_s": given.warm, "linger_ms": given.linger}
    what = {"rates": given.rates, "apps": given.apps, "peers": given.peers}
    guarantees = (given.guarantee,) if given.guarantee else options.GUARANTEES
    return run(**what, **length, guarantees=guarantees)


def run(
    *,
    seconds: int,
    rates: Sequence[int],
    apps: Sequence[str],
    warm_s: float = WARM_S,
    linger_ms: int = 0,
    peers: Sequence[str] = PEERS,
    guarantees: Sequence[str] = options.GUARANTEES,
) -> dict[str, Any]:
    """Measure each application at each rate; the result as it is printed.

    The figures of the applications under at_least_once are those without a name, the bare loops'
    are under ``bare``, and those of the applications under exactly_once under that.

    Raises:
        MeasurementError: a process failed, or no bare loop does what is to be measured.
    """
    ways = [*([_BARE] if _BARE in peers else []), *(guarantees if "streamlet" in peers else [])]
    turns = [(app, way) for app in apps for way in ways if _is_made(app, way)]
    if not turns:
        raise MeasurementError(f"there are bare loops for {', '.join(bare_latency.WORKLOADS)} only")
    with serving() as bootstrap:
        loads = [Load(rate, seconds, warm_s, linger_ms) for rate in rates]
        return of_turns(bootstrap, loads, turns)


def of_turns(
    bootstrap: str, loads: Sequence[Load], turns: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The result for these loads, of these applications as bare loops or under a guarantee."""
    first = loads[0]
    result: dict[str, Any] = {"workload": "latency", "seconds": first.seconds}
    result |= {"warm_s": first.warm_s, "linger_ms": first.linger_ms, "right": True}
    for load in loads:
        for app, way in turns:
            found = _measured(bootstrap, way, app, load)
            tell(f"{load.rate:>7,} records/s  {way:<13}  {app:<12} {found}")
            figures = result.setdefault(way, {}) if way in (_BARE, _ONCE) else result
            figures.setdefault(str(load.rate), {})[app] = found
            result["right"] = result["right"] and found["records"] == found["sent"]
    return result


def _is_made(app: str, way: str) -> bool:
    """True if there is an application or a bare loop of that."""
    return way != _BARE or app in bare_latency.WORKLOADS


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


def _measured(bootstrap: str, way: str, app: str, load: Load) -> dict[str, Any]:
    name = f"bench-latency-{uuid.uuid4().hex[:8]}"
    source, topics = f"{name}-in", Topics(bootstrap)
    for topic in (source, name):
        topics.create(topic, {"message.timestamp.type": "LogAppendTime"})
    reading: AbstractContextManager[CommittedReader | None] = nullcontext()
    if way == _ONCE:
        reading = CommittedReader(bootstrap, name, PARTITIONS)
    try:
        with (
            reading as reader,
            tempfile.TemporaryDirectory() as state,
            _running(
                _bare(app) if way == _BARE else _ours(app, way, state), bootstrap, source, name
            ),
        ):
            first, _ = _send(bootstrap, source, _FIRST)
            wait_until(lambda: _written(topics, name, reader) >= first, f"{first} outputs")
            began_us = time.time_ns() // 1_000
            more, busy = _send(bootstrap, source, load)
            sent = first + more
            wait_until(lambda: _written(topics, name, reader) >= sent, f"{sent} outputs")
        arrived = _delays(bootstrap, name, _append_ms)
        found: dict[str, Any] = _percentiles(arrived, began_us, load.warm_s)
        if reader is not None:
            read = _delays(bootstrap, name, partial(_read_ms, reader))
            found = {**_percentiles(read, began_us, load.warm_s), "append": found}
        return {
            **found,
            "input": _percentiles(_delays(bootstrap, source, _append_ms), began_us, load.warm_s),
            "busy": busy,
            "sent": sent,
            "records": len(arrived),
        }
    finally:
        topics.delete(lambda topic: topic.startswith(name))


def _written(topics: Topics, output: str, reader: CommittedReader | None) -> int:
    """Records of the output; those of transactions count when the reader has them."""
    return topics.count(output) if reader is None else reader.records


def _send(bootstrap: str, topic: str, load: Load) -> tuple[int, float]:
    """Send the load; the records sent, and the share of the processors used meanwhile."""
    command = [sys.executable, "-m", "bench.latency_load", "--bootstrap", bootstrap]
    command += ["--topic", topic, "--keys", str(KEYS), "--rate", str(load.rate)]
    command += ["--seconds", str(math.ceil(load.warm_s) + load.seconds)]
    command += ["--linger", str(load.linger_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        try:
            try:
                process.wait(load.warm_s)
            except subprocess.TimeoutExpired:
                psutil.cpu_percent()
            said, _ = process.communicate()
        finally:
            process.kill()
    busy = psutil.cpu_percent() / 100
    if process.returncode:
        raise MeasurementError(f"the load ended with status {process.returncode}")
    return int(json.loads(said)["sent"]), round(busy, 2)


def _ours(app: str, guarantee: str, state: str) -> list[str]:
    """The application in a worker of its own, but for its topics."""
    command = ["bench.ours", APPS[app], "--exact", "--state", state]
    command += ["--exactly-once"] if guarantee == _ONCE else []
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
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, process_group=0
    )
    try:
        yield
        assert process.stdin is not None
        process.stdin.close()
        if process.wait(timeout=60):
            raise MeasurementError(f"the application ended with status {process.returncode}")
    finally:
        process.kill()
        process.wait()


def _delays(
    bootstrap: str, topic: str, arrived_ms: Callable[[Message], float]
) -> list[tuple[int, float]]:
    """When each record of a topic was sent, µs, and how long after that it was there, ms."""
    found = []
    for batch in read_all(bootstrap, topic):
        for message in batch:
            header: Any = dict(message.headers() or ())[SENT_HEADER]
            (sent,) = SENT.unpack(header)
            found.append((sent, arrived_ms(message) - sent / 1_000))
    return found


def _append_ms(message: Message) -> float:
    """When the broker had it."""
    return message.timestamp()[1]


def _read_ms(reader: CommittedReader, message: Message) -> float:
    """When the reader had it; infinite if it had not when it ended."""
    at_us = reader.at_us(message.partition() or 0, message.offset() or 0)
    return math.inf if at_us is None else at_us / 1_000


def _percentiles(
    delays: Sequence[tuple[int, float]], began_us: int, warm_s: float
) -> dict[str, float]:
    """Of the records that were sent after the first seconds of the load that began then."""
    began = min(sent for sent, _ in delays if sent >= began_us)
    warm = sorted(delay for sent, delay in delays if sent - began >= warm_s * 1_000_000)
    return {name: round(warm[math.ceil(part * len(warm)) - 1], 1) for name, part in _PARTS.items()}
