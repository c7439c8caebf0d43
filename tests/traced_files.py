"""Counts the files that run in a hand-over and in a commit: ``python -m tests.traced_files``.

Files of ``streamlet/`` count in which a function is called; those that only define things do not,
nor do the simulator's. The hand-over is that of a scenario, from the report that a learner is ready
to the first record at its new home. The commit is one of a count on a real broker, on the worker's
thread from its beginning to the local stores, and on the two threads that ask the coordinator.
Files that also run while nothing is handed over or committed are told apart: workers that read
copies, beat and look whether something is due run them in each round. So are those that only make
the task that processes: each task that begins runs them, wherever its stores come from.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import attrs
from confluent_kafka import Producer

import streamlet as sl
from streamlet.clock import Clock, SystemClock
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.task import Task
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.commit_loop import CommitLoop
from streamlet.testing import KafkaBroker
from streamlet.testing.simulation import read_scenario
from streamlet.testing.simulation.events import Join, Step
from streamlet.testing.simulation.run import Simulation

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "streamlet"
SCENARIO = ROOT / "tests" / "spec" / "scenarios" / "001-1-scale-up-release.json"

#: Records of the commit.
RECORDS = 20
COMMIT_MS = 500
#: Time without a commit whose rounds are looked at: commits are due, and there is none to make.
ROUNDS_MS = 4 * COMMIT_MS
#: Time without a hand-over whose rounds are looked at, while copies are read.
REST_MS = 10_000

#: What makes a task that processes.
_MAKES = {Task.__init__.__code__, EdgePlan.of_task.__code__}
_PROCESS, _STEP = Task.process.__code__, CommitLoop.step.__code__
_BEGIN = AtLeastOnceCommit._start.__code__


@attrs.define(eq=False)
class Traced:
    """The code that ran on each thread while it was ``on``."""

    on: bool = False
    codes: dict[str, set[CodeType]] = attrs.field(factory=dict)

    def note(self, frame: FrameType) -> None:
        """Note the function of a frame."""
        if self.on:
            self.codes.setdefault(threading.current_thread().name, set()).add(frame.f_code)

    def files(self, *threads: str) -> set[str]:
        """The files of the package that ran on these threads, or on any."""
        chosen = threads or tuple(self.codes)
        codes = set().union(*(self.codes.get(name, set()) for name in chosen))
        paths = {Path(code.co_filename) for code in codes}
        inside = {path.relative_to(PACKAGE) for path in paths if path.is_relative_to(PACKAGE)}
        return {str(path) for path in inside if path.parts[0] != "testing"}


def handover() -> tuple[set[str], set[str], set[str]]:
    """The files of a hand-over, those of each round among them, and those of a task's making.

    Rounds are those of its workers before that, which read copies that are far behind.
    """
    simulation = Simulation(read_scenario(SCENARIO, {}))
    join, join_too, ready, *_ = simulation.scenario.steps
    assert simulation.play(join)
    assert simulation.play(join_too)
    world, rounds_so_far = simulation.world, len(simulation.recorder.rounds)

    def rest(traced: Traced) -> None:
        _read_on(simulation, join, join_too)
        world.run(world.now_ms + REST_MS)

    rounds, _ = _traced(rest)
    assert len(simulation.recorder.rounds) == rounds_so_far, "the group was not at rest"

    def hand_over(traced: Traced) -> None:
        assert simulation.play(ready)
        assert not traced.on, "no task was handed over"

    found, made = _traced(hand_over)
    assert not world.checks.broken
    return found - rounds, found & rounds, made - found - rounds


def _read_on(simulation: Simulation, *joins: Step) -> None:
    """Have the copies of instances that joined read a record of all that they lack."""
    cluster = simulation.world.cluster
    for event in (event for step in joins for event in step.events if isinstance(event, Join)):
        for name in event.instances:
            for task, _ in simulation.behind(name):
                simulation.lag(name, cluster.label(task), cluster.logs[task].end - 1)


def _traced(what: Callable[[Traced], object]) -> tuple[set[str], set[str]]:
    """The files that run while this is done, to the first record of a task that has begun.

    And those that run while a task is made that processes.
    """
    traced, made, depth = Traced(on=True), Traced(on=True), 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal depth
        if frame.f_code in _MAKES:
            depth += {"call": 1, "return": -1}.get(event, 0)
        if event == "call":
            (made if depth else traced).note(frame)
            if frame.f_code is _PROCESS:  # by a task that has only begun, it is the first record
                traced.on &= bool(frame.f_locals["self"].counters.records)

    sys.setprofile(profile)
    try:
        what(traced)
    finally:
        sys.setprofile(None)
    return traced.files(), made.files()


@attrs.define(eq=False)
class _CommitTrace:
    """Traces the first commit of a run, and rounds without one behind it."""

    app: sl.App
    commit: Traced = attrs.field(factory=Traced)
    #: Of rounds in which there is nothing to commit.
    round: Traced = attrs.field(factory=Traced)
    written: bool = False
    #: When the rounds behind it have been looked at for long enough.
    _until_ms: int | None = None
    _clock: Clock = attrs.field(factory=SystemClock)
    _now: Traced = attrs.field(factory=Traced)

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        """Note a call, and begin and end with those that it stands for."""
        code = frame.f_code
        if event == "call":
            self.commit.note(frame)
            self._now.note(frame)
            if code is _BEGIN:
                # The first commit of a task claims it, and has no records.
                changed = any(one.claimed and one.changed for one in frame.f_locals["tasks"])
                self.commit.on |= changed and not self.written
                self._now.on &= not changed
        elif event == "return" and code is _STEP:
            under_way = frame.f_locals["self"]._commit.under_way
            if self._now.on and not under_way:
                self._round()
            self.written |= self.commit.on and not under_way
            self.commit.on &= not self.written
            self._now = Traced(on=self.written and not under_way)

    def _round(self) -> None:
        """Take the round that has ended, and stop behind the last."""
        for thread, codes in self._now.codes.items():
            self.round.codes.setdefault(thread, set()).update(codes)
        now = self._clock.now_ms()
        self._until_ms = self._until_ms or now + ROUNDS_MS
        if now >= self._until_ms:
            self.app.close()


def commit() -> tuple[set[str], set[str], set[str]]:
    """The files of a commit: the worker's thread, those of its group, and those of each round."""
    with tempfile.TemporaryDirectory() as folder, KafkaBroker() as broker:
        config = {"bootstrap.servers": broker.bootstrap_servers, "state.dir": folder}
        app = sl.App("traced", config={**config, "commit.interval.ms": COMMIT_MS})
        words = app.stream("words", key=str, value=str).group_by_key()
        words.count(store="counts").to_stream().to("counts")
        admin = KafkaAdmin(broker.bootstrap_servers)
        admin.create_topics([NewTopic(topic, 1) for topic in ("words", "counts")])
        admin.close()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce("words", b"text", b"word%d" % (number % 5))
        assert not producer.flush(30)
        trace = _CommitTrace(app)
        threading.setprofile(trace.profile)
        sys.setprofile(trace.profile)
        try:
            app.run()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    assert trace.written
    main = threading.main_thread().name
    rounds = trace.round.files(main)
    group = [
        name for name in trace.commit.codes if name.startswith(("streamlet-group", "kafka-io"))
    ]
    others = trace.commit.files(*group)
    return trace.commit.files(main) - rounds, others - rounds, rounds


def main() -> None:
    """Print both."""
    found, at_rest, made = handover()
    own, others, rounds = commit()
    print(f"hand-over: {len(found)} files, beside {len(at_rest)} of each round,")
    print(f"  and {len(made)} that make the task that processes")
    print(f"commit: {len(own | others)} files, {len(own)} of them on the worker's thread,")
    print(f"  beside {len(rounds)} of each round")
    if "--list" in sys.argv:
        lists = {"hand-over": found, "of each round": at_rest, "of a task's making": made}
        for name, files in (lists | {"commit": own, "group": others}).items():
            print(name, *sorted(files), sep="\n  ")


if __name__ == "__main__":
    main()
