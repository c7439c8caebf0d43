"""After a kill -9, at any moment, state is that of a commit, or says that it is amid the next."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from streamlet.state import pieces
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TopicPartition
from tests.unit.state.support import Spec, changelog

STORES = ("a", "b")
KEYS = 40
INPUT = TopicPartition("in", 0)


def open_state(folder: Path) -> TaskState:
    specs = [Spec("a"), Spec("b", int, dict)]
    return TaskState(folder, specs, 1 << 16, {name: changelog(name) for name in STORES})


def write_for_ever(folder: Path) -> None:
    """Commit n sets every key of both stores to n; now and then a bulk load comes between.

    Rows go to the disk in pieces of a few.
    """
    pieces.PIECE_ROWS = 7
    state = open_state(folder)
    before = number = state.state.number
    while True:
        number += 1
        for i in range(KEYS):
            state.stores["a"].put(str(i), number)
            state.stores["b"].put(i, {"n": number, "text": "x" * (number % 700)})
        drained = state.drain()
        state.write(
            drained,
            StateNumber(1, number),
            dict.fromkeys(state.changelogs.values(), number),
            inputs={INPUT: number},
        )
        if number == before + 1:
            print("written", flush=True)
        if number % 200 == 0:
            loader = state.loader("a")
            loader.add([b"x%05d" % i for i in range(20_000)], [b"\0" * 16] * 20_000)
            loader.flush(number, 1)


def test_stores_and_positions_agree_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    """Several kills of the same folder: each process goes on from what the last one left."""
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    before = kills = 0
    while kills < 5 or before <= 20:
        kills += 1
        with subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from {__name__} import *; write_for_ever(Path({str(tmp_path)!r}))",
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "written\n"
            try:
                child.wait(moments.uniform(0, 0.6))
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL, seed
        state = open_state(tmp_path)
        number = state.state.number
        assert number > before, seed
        assert state.positions == dict.fromkeys(state.changelogs.values(), number), seed
        values = [value for key, value in state.stores["a"].range() if not key.startswith("x")]
        values += [value["n"] for _, value in state.stores["b"].range()]
        assert len(values) == 2 * KEYS, seed
        if state.inputs is not None:
            assert state.inputs == {INPUT: number}, seed
            assert set(values) == {number}, seed
        else:  # amid the next commit, or behind a bulk load
            assert state.reach <= StateNumber(1, number + 1), seed
            assert set(values) <= {number, number + 1}, seed
        before = number
        state.close()
