"""Counts the files that run in a hand-over and in a commit: ``python -m tests.traced_files``.

Files of ``streamlet/`` count in which a function is called; those that only define things do not,
nor do the simulator's. The hand-over is that of a scenario, from the report that a learner is ready
to the first record at its new home. The commit is one of a count on a real broker, on the worker's
thread from its beginning to the local stores, and on the two threads that ask the coordinator;
files that run in a round without a commit are the round's.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import attrs
from confluent_kafka import Producer

import streamlet as sl
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.commit_loop import CommitLoop
from streamlet.testing import KafkaBroker
from streamlet.testing.simulation import read_scenario
from streamlet.testing.simulation.input import CountingTask
from streamlet.testing.simulation.run import Simulation

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "streamlet"
SCENARIO = ROOT / "tests" / "spec" / "scenarios" / "001-1-scale-up-release.json"

#: Records of the commit.
RECORDS = 20
#: Rounds without a commit that are looked at.
ROUNDS = 20

_PROCESS, _STEP = CountingTask.process.__code__, CommitLoop.step.__code__
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


def handover() -> set[str]:
    """The files of a hand-over."""
    traced = Traced()

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            traced.note(frame)
            if frame.f_code is _PROCESS:  # by a task that has only begun, it is the first record
                traced.on &= bool(frame.f_locals["self"].counters.records)

    simulation = Simulation(read_scenario(SCENARIO, {}))
    join, join_too, ready, *_ = simulation.scenario.steps
    assert simulation.play(join)
    assert simulation.play(join_too)
    traced.on = True
    sys.setprofile(profile)
    try:
        assert simulation.play(ready)
    finally:
        sys.setprofile(None)
    assert not traced.on, "no task was handed over"
    assert not simulation.world.checks.broken
    return traced.files()


@attrs.define(eq=False)
class _CommitTrace:
    """Traces the first commit of a run, and rounds without one behind it."""

    app: sl.App
    commit: Traced = attrs.field(factory=Traced)
    #: Of rounds in which there is nothing to commit.
    round: Traced = attrs.field(factory=Traced)
    rounds: int = 0
    written: bool = False
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
        self.rounds += 1
        for thread, codes in self._now.codes.items():
            self.round.codes.setdefault(thread, set()).update(codes)
        if self.rounds == ROUNDS:
            self.app.close()


def commit() -> tuple[set[str], set[str], set[str]]:
    """The files of a commit: the worker's thread, those of its group, and those of each round."""
    with tempfile.TemporaryDirectory() as folder, KafkaBroker() as broker:
        config = {"bootstrap.servers": broker.bootstrap_servers, "state.dir": folder}
        app = sl.App("traced", config={**config, "commit.interval.ms": 500})
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
    assert trace.rounds >= ROUNDS
    main = threading.main_thread().name
    rounds = trace.round.files(main)
    group = [
        name for name in trace.commit.codes if name.startswith(("streamlet-group", "kafka-io"))
    ]
    others = trace.commit.files(*group)
    return trace.commit.files(main) - rounds, others - rounds, rounds


def main() -> None:
    """Print both."""
    of_handover = handover()
    own, others, rounds = commit()
    print(f"hand-over: {len(of_handover)} files")
    print(f"commit: {len(own | others)} files, {len(own)} of them on the worker's thread;")
    print(f"  beside {len(rounds)} that run in each round")
    if "--list" in sys.argv:
        for name, found in (("hand-over", of_handover), ("commit", own), ("group", others)):
            print(name, *sorted(found), sep="\n  ")


if __name__ == "__main__":
    main()
