"""``python -m bench handover``: how long a task that moves stands still, and who else notices.

An application with 200,000 keys in 8 tasks is loaded at a constant rate while instances with empty
disks join and old ones leave, until there were enough hand-overs. Who wrote what when is read from
the output topic afterwards, by the broker's own time; meanwhile nothing is measured. The first
instance that joins does not count: much of what the broker does then it does for the first time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from bench.broker import Topics, read_all, serving
from bench.handover_app import UPDATE, names
from bench.handover_gaps import Arrivals, Tally, live_moves, percentile, summary
from bench.handover_instances import Instance, Instances, wait_until
from bench.handover_load import key
from bench.processes import MeasurementError
from bench.rounds import tell

PARTITIONS = 8
KEYS = 200_000
MODES = ("release", "surrender", "eager")
#: Modes of hand-over that the application can be run in, with their settings.
_CONFIGS = {
    "release": {"learner.handover": "release"},
    "surrender": {"learner.handover": "surrender"},
    "eager": {"stream.rebalancing.mode": "eager"},
}
#: How long nothing happens before an instance joins, for what is usual, and after it has.
_STEADY_S = 3.5
_AFTER_S = 1.0
_SETTLE_S = 2.0


def run(*, handovers: int, rate: int, keys: int, modes: Sequence[str]) -> dict[str, Any]:
    """The result as the benchmark prints it; null for what was not run or cannot be."""
    result: dict[str, Any] = dict.fromkeys(MODES)
    with serving() as bootstrap:
        for mode in modes:
            if mode in _CONFIGS:
                result[mode] = _mode(bootstrap, mode, handovers, rate, keys)
        result["partial"] = None
        if "partial" in modes:
            both = {"true": True, "false": False}
            result["partial"] = {
                name: _partial(bootstrap, value, rate, keys) for name, value in both.items()
            }
    measured = [result[mode] for mode in MODES if result[mode] is not None]
    result["right"] = not any(one.pop("wrong") or one["lost"] for one in measured)
    return result


@attrs.define
class _Stage:
    """A loaded application with its first instance."""

    bootstrap: str
    application: str
    instances: Instances
    load: subprocess.Popen[str]
    topics: Topics
    keys: int

    @property
    def first(self) -> Instance:
        """The first one that joined."""
        return self.instances.all[1]

    def finish(self) -> int:
        """End the load and wait until all of it was processed; records sent."""
        assert self.load.stdin is not None
        self.load.stdin.close()
        sent = int(_line(self.load)["sent"])
        output = names(self.application)[1]
        wait_until(lambda: self.topics.count(output) >= sent, f"{sent} outputs")
        return sent


@contextmanager
def _loaded(bootstrap: str, config: Mapping[str, str], rate: int, keys: int) -> Iterator[_Stage]:
    application = f"bench-handover-{uuid.uuid4().hex[:8]}"
    source, output = names(application)
    topics = Topics(bootstrap, PARTITIONS)
    topics.create(source)
    topics.create(output, {"message.timestamp.type": "LogAppendTime"})
    with tempfile.TemporaryDirectory() as folder:
        instances = Instances(bootstrap, application, Path(folder), PARTITIONS, config)
        command = [sys.executable, "-m", "bench.handover_load", "--bootstrap", bootstrap]
        command += ["--topic", source, "--keys", str(keys), "--rate", str(rate)]
        load = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            instances.start()
            _line(load)
            wait_until(lambda: topics.count(output) >= keys, "the first count of every key")
            instances.await_balance(_SETTLE_S)
            assert load.stdin is not None
            load.stdin.write("go\n")
            load.stdin.flush()
            yield _Stage(bootstrap, application, instances, load, topics, keys)
        finally:
            instances.end()
            load.kill()
            load.wait()
            topics.delete(lambda name: name.startswith(application))


def _line(load: subprocess.Popen[str]) -> dict[str, Any]:
    assert load.stdout is not None
    line = load.stdout.readline()
    if not line:
        raise MeasurementError("the load ended by itself")
    return dict(json.loads(line))


# -- hand-overs ------------------------------------------------------------------------------------


def _mode(bootstrap: str, mode: str, handovers: int, rate: int, keys: int) -> dict[str, Any]:
    with _loaded(bootstrap, _CONFIGS[mode], rate, keys) as stage:
        stage.instances.await_balance(_STEADY_S)
        seen = 0
        while seen < handovers:
            joined = stage.instances.start()
            stage.instances.await_balance(_AFTER_S)
            seen += len(joined.tasks) if joined is not stage.first else 0
            tell(f"{mode}: {seen} of {handovers} hand-overs, {joined.name} has its share")
            if seen < handovers:
                stage.instances.live[0].stop()
                stage.instances.await_balance(_STEADY_S)
        sent = stage.finish()
        return _judge(stage, sent)


def _judge(stage: _Stage, sent: int) -> dict[str, Any]:
    arrivals, tally = Arrivals(PARTITIONS), Tally()
    for batch in read_all(stage.bootstrap, names(stage.application)[1], PARTITIONS):
        for message in batch:
            writer, count, _ = UPDATE.unpack(message.value() or b"")
            arrivals.tell(message.partition() or 0, writer, message.timestamp()[1])
            tally.tell(message.key() or b"", count)
    turns, rest = divmod(sent, stage.keys)
    wrong = tally.finish({key(n, stage.keys): turns + (n < rest) for n in range(stage.keys)})
    if wrong:
        tell(wrong)
    by_pid = {one.pid: one for one in stage.instances.all}
    stops = {pid: one.stopped_ms for pid, one in by_pid.items() if one.stopped_ms is not None}
    moves = [one for one in live_moves(arrivals.moves, stops) if one.new != stage.first.pid]
    starts = {pid: one.started_ms for pid, one in by_pid.items()}
    moved, others = arrivals.gaps(moves, starts)
    waits = [
        waited
        for move in moves
        if (waited := _waited_s(by_pid[move.new], move.first_ms)) is not None
    ]
    return {
        "handovers": len(moves),
        "gap_ms": summary([one.gap for one in moved]),
        "others_gap_ms": summary([one.gap for one in others]),
        "silence_ms": summary([one.longest for one in moved]),
        "others_silence_ms": summary([one.longest for one in others]),
        "ready_to_active_s": round(percentile(waits, 99), 3) if waits else None,
        "lost": tally.lost,
        "duplicates": tally.duplicates,
        "wrong": wrong,
    }


def _waited_s(instance: Instance, first_ms: int) -> float | None:
    """From when it said that it is ready to its first output; None if it never said so."""
    said = [at for at in instance.ready_ms if at <= first_ms]
    return (first_ms - max(said)) / 1000 if said else None


# -- one rebalance per learner, or one for all -----------------------------------------------------


def _partial(bootstrap: str, partial: bool, rate: int, keys: int) -> dict[str, Any]:
    """Two instances join one at the same time."""
    config = {"learner.partial.rebalance": str(partial).lower()}
    with _loaded(bootstrap, config, rate, keys) as stage:
        stage.instances.await_balance(_STEADY_S)
        before = stage.instances.generation
        joined = [stage.instances.start(), stage.instances.start()]
        balanced_ms = stage.instances.await_balance(_STEADY_S)
        stage.finish()
        return {
            "rebalances": stage.instances.generation - before,
            "balanced_s": round((balanced_ms - joined[0].started_ms) / 1000, 3),
        }
