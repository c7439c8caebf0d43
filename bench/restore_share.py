"""``python -m bench restore-share``: how much a new instance that learns slows the one that works.

One instance works through a backlog as fast as it can. Then a second one starts with an empty disk
and learns half of the tasks, on the same machine. Compared is what the first one writes per second
before that, while the second one starts, and while it learns: from its order to learn to its word
that it is ready. Nothing is handed over before that.
"""

from __future__ import annotations

import statistics
import struct
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import attrs

from bench.broker import Topics, read_all, serving
from bench.handover import PARTITIONS
from bench.handover_app import UPDATE, names
from bench.handover_instances import Instance, Instances, wait_until
from bench.handover_load import key
from bench.load import fast_producer, flushed
from bench.processes import MeasurementError
from bench.rounds import tell

#: How long the first one works alone: until its speed is even, and while that is measured.
_WARM_S = 5.0
_ALONE_S = 5.0
_TIME = struct.Struct(">q")


@attrs.frozen
class _Round:
    """Records per second of the one that works, and how long the other one learned."""

    alone: float
    starting: float
    learning: float
    learned_s: float


def run(*, records: int, keys: int, runs: int) -> dict[str, Any]:
    """The result as the benchmark prints it: medians over the rounds.

    Raises:
        MeasurementError: an instance ended, or the backlog was too small.
    """
    rounds = []
    with serving() as bootstrap:
        for number in range(runs):
            rounds.append(_round(bootstrap, records, keys))
            tell(f"round {number + 1} of {runs}: {rounds[-1]}")
    median = {
        field.name: statistics.median(getattr(one, field.name) for one in rounds)
        for field in attrs.fields(_Round)
    }
    slowed = [1 - one.learning / one.alone for one in rounds]
    return {
        "workload": "restore-share",
        **{name: round(value, 1) for name, value in median.items()},
        "slowed": round(statistics.median(slowed), 3),
    }


def _round(bootstrap: str, records: int, keys: int) -> _Round:
    application = f"bench-restore-share-{uuid.uuid4().hex[:8]}"
    source, output = names(application)
    topics = Topics(bootstrap, PARTITIONS)
    topics.create(source)
    topics.create(output, {"message.timestamp.type": "LogAppendTime"})
    _fill(bootstrap, source, records, keys)
    with tempfile.TemporaryDirectory() as folder:
        instances = Instances(bootstrap, application, Path(folder), PARTITIONS, {})
        try:
            worker = instances.start()
            wait_until(lambda: topics.count(output) > keys, "the first count of every key")
            time.sleep(_WARM_S + _ALONE_S)
            learner = instances.start()
            wait_until(lambda: bool(learner.ready_ms) or not learner.alive, "a learner is ready")
            backlog = topics.count(output) < records
        finally:
            instances.end()
        if not learner.ready_ms or not backlog:
            raise MeasurementError("the backlog was too small, or the learner ended: --records")
        measured = _measured(bootstrap, output, worker, learner)
        topics.delete(lambda name: name.startswith(application))
        return measured


def _fill(bootstrap: str, topic: str, records: int, keys: int) -> None:
    producer = fast_producer(bootstrap)
    value = _TIME.pack(0)
    for number in range(records):
        producer.produce(topic, value, key(number, keys))
        if number % 10_000 == 0:
            producer.poll(0)
    flushed(producer)


def _measured(bootstrap: str, output: str, worker: Instance, learner: Instance) -> _Round:
    assert learner.learns_ms is not None
    started, learns, ready = learner.started_ms, learner.learns_ms, learner.ready_ms[0]
    spans = {
        "alone": (started - int(_ALONE_S * 1000), started),
        "starting": (started, learns),
        "learning": (learns, ready),
    }
    counts = dict.fromkeys(spans, 0)
    for batch in read_all(bootstrap, output, PARTITIONS):
        for message in batch:
            at_ms = message.timestamp()[1]
            for name, (low, high) in spans.items():
                if low <= at_ms < high and UPDATE.unpack(message.value() or b"")[0] == worker.pid:
                    counts[name] += 1
    rates = {name: counts[name] / (high - low) * 1000 for name, (low, high) in spans.items()}
    return _Round(**rates, learned_s=(ready - learns) / 1000)
