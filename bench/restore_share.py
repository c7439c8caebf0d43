"""``python -m bench restore-share``: how much a new instance that learns slows the one that works.

One instance works through a backlog as fast as it can. Then a second one starts with an empty disk
and learns half of the tasks, on the same machine. Compared is what the first one writes per second
before that, while the second one starts, and while it learns: from its order to learn to its word
that it is ready, or to the end of the backlog where the first one writes as fast as it can read.
Nothing is handed over before that.
"""

from __future__ import annotations

import statistics
import struct
import tempfile
import time
import uuid
from array import array
from bisect import bisect_left
from pathlib import Path
from typing import Any

import attrs

from bench.broker import Topics, read_all, serving
from bench.handover import PARTITIONS
from bench.handover_app import UPDATE, names
from bench.handover_instances import Instance, Instances, wait_until
from bench.handover_load import keys_in_turn
from bench.load import send_all
from bench.processes import MeasurementError
from bench.rounds import tell

#: How long the first one works alone: until its speed is even, and while that is measured.
_WARM_S = 5.0
_ALONE_S = 5.0
#: A learning shorter than this says nothing.
_LEARNED_S = 2.0
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
    in_turn = keys_in_turn(keys, PARTITIONS)
    send_all(bootstrap, ((source, _TIME.pack(0), in_turn[n % keys], 0) for n in range(records)))
    with tempfile.TemporaryDirectory() as folder:
        instances = Instances(bootstrap, application, Path(folder), PARTITIONS, {})
        try:
            worker = instances.start()
            wait_until(lambda: topics.count(output) > keys, "the first count of every key")
            time.sleep(_WARM_S + _ALONE_S)
            learner = instances.start()
            wait_until(
                lambda: bool(learner.ready_ms) or topics.count(output) >= records,
                "a learner is ready, or the backlog is done",
            )
        finally:
            instances.end()
        if learner.learns_ms is None:
            raise MeasurementError("the backlog was done before anything was learned: --records")
        measured = _measured(bootstrap, output, worker, learner)
        if measured.learned_s < _LEARNED_S:
            raise MeasurementError(f"learned for {measured.learned_s} s only: --records")
        topics.delete(lambda name: name.startswith(application))
        return measured


def _measured(bootstrap: str, output: str, worker: Instance, learner: Instance) -> _Round:
    assert learner.learns_ms is not None
    started, learns = learner.started_ms, learner.learns_ms
    written = [array("q") for _ in range(PARTITIONS)]  # when, each in order
    for batch in read_all(bootstrap, output, PARTITIONS):
        for message in batch:
            if UPDATE.unpack(message.value() or b"")[0] == worker.pid:
                written[message.partition() or 0].append(message.timestamp()[1])
    ends = min([max(times[-1] for times in written), *learner.ready_ms])
    spans = {
        "alone": (started - int(_ALONE_S * 1000), started),
        "starting": (started, learns),
        "learning": (learns, ends),
    }
    rates = {
        name: sum(bisect_left(t, high) - bisect_left(t, low) for t in written) / (high - low) * 1000
        for name, (low, high) in spans.items()
        if high > low
    }
    return _Round(**{"learning": 0.0, **rates}, learned_s=(ends - learns) / 1000)
