"""``python -m bench scale-down``: half of eight instances leave while the load is on.

Eight instances with one worker each share 32 stateful tasks; ``streamlet scale-down --percent 50``
has four of them leave. How long each task that moves stands still is read from the output topic
afterwards, as in ``bench handover``, and compared with the tasks that stay. Each run is an
application of its own. Four more than asked for are made first and do not count: a broker that
has just been started compiles itself on the processors that everybody shares.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from math import ceil, floor
from typing import Any

import attrs

from bench.broker import serving
from bench.handover_gaps import Silence, percentile, summary
from bench.handover_instances import ROOT, Instance, now_ms
from bench.handover_stage import Stage, loaded
from bench.processes import MeasurementError
from bench.rounds import tell

INSTANCES = 8
TASKS = 32
PERCENT = 50
KEYS = 200_000
RATE = 3_000
#: Each beat costs nine producers and eight consumers a request or more: what takes the broker's
#: time is not records but requests.
BEAT_MS = 20
#: How long nothing happens before the command, for what is usual, and after it.
_STEADY_S = 4.0
_AFTER_S = 1.5
_COMMAND_S = 150
#: Runs that do not count: until then a third of a processor goes to the broker's compiler.
WARM_RUNS = 4
#: All are there before tasks are given, so that the beginning moves none.
_CONFIG = {"initial.assignment.delay.ms": "9000"}
#: What a member says that takes a task over without a copy of its state.
_COLD = "is restored without its copy"


@attrs.frozen
class Run:
    """One scale-down: silences of tasks that moved and of others, and what went wrong.

    ``stalls`` has the machine's longest in the window of each move, ms.
    """

    moved: list[Silence]
    others: list[Silence]
    stalls: list[int]
    seconds: float
    shares: list[int]
    lost: int
    duplicates: int
    wrong: list[str]


def run(*, runs: int, rate: int, keys: int) -> dict[str, Any]:
    """The result as the benchmark prints it."""
    found = []
    with serving() as bootstrap:
        for number in range(WARM_RUNS + runs):
            one = _scaled(bootstrap, rate, keys)
            found.append(one)
            moved, others = (
                summary([silence.gap for silence in silences])
                for silences in (one.moved, one.others)
            )
            counted = number - WARM_RUNS + 1
            tell(
                f"{counted} of {runs}: {one.seconds:.1f} s, {moved}, others {others}, "
                f"machine {max(one.stalls, default=0)}"
            )
    return result_of(found, rate)


def result_of(all_of_them: Sequence[Run], rate: int) -> dict[str, Any]:
    """All runs as one, the first ones left out of the figures."""
    runs = all_of_them[WARM_RUNS:]
    moved = [one for run in runs for one in run.moved]
    others = [one for run in runs for one in run.others]
    wrong = [text for run in all_of_them for text in run.wrong]
    for text in wrong:
        tell(text)
    lost = sum(run.lost for run in all_of_them)
    return {
        "workload": "scale-down",
        "instances": INSTANCES,
        "tasks": TASKS,
        "percent": PERCENT,
        "rate": rate,
        "runs": len(runs),
        "moved": len(moved),
        "gap_ms": summary([one.gap for one in moved]),
        "others_gap_ms": summary([one.gap for one in others]),
        "silence_ms": summary([one.longest for one in moved]),
        "others_silence_ms": summary([one.longest for one in others]),
        "machine_stall_ms": summary([stall for run in runs for stall in run.stalls]),
        "seconds": {
            "p50": round(percentile([run.seconds for run in runs], 50), 1),
            "max": round(max(run.seconds for run in runs), 1),
        },
        "shares": [run.shares for run in runs],
        "lost": lost,
        "duplicates": sum(run.duplicates for run in runs),
        "right": not wrong and not lost,
    }


def _scaled(bootstrap: str, rate: int, keys: int) -> Run:
    with loaded(
        *(bootstrap, _CONFIG, rate, keys),
        partitions=TASKS,
        instances=INSTANCES,
        beat_ms=BEAT_MS,
    ) as stage:
        stage.instances.await_balance(_STEADY_S)
        began_ms = now_ms()
        answer = _scale_down(bootstrap, stage.application)
        seconds = (now_ms() - began_ms) / 1000
        leavers = [one for one in stage.instances.all if one.name in answer["leaving"]]
        codes = [one.wait() for one in leavers]
        stage.instances.await_balance(_AFTER_S, spread=TASKS)
        stayers = stage.instances.live
        wrong = wrong_members(leavers, codes, stayers)
        return _judged(stage, began_ms, leavers, seconds, wrong)


def _scale_down(bootstrap: str, application: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "streamlet", "scale-down", application]
    command += ["--percent", str(PERCENT), "--yes", "--wait", "--json"]
    done = subprocess.run(
        [*command, "--bootstrap-servers", bootstrap],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
    )
    if done.returncode:
        raise MeasurementError(f"scale-down ended with {done.returncode}:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def wrong_members(
    leavers: Sequence[Instance], codes: Sequence[int], stayers: Sequence[Instance]
) -> list[str]:
    """What is wrong with who left, how, and with what those have that stayed."""
    wrong = []
    if len(leavers) != INSTANCES * (100 - PERCENT) // 100:
        wrong.append(f"{len(leavers)} left")
    if any(codes):
        wrong.append(f"leavers ended with {codes}")
    mean = TASKS / len(stayers)
    least, most = min(ceil(mean * 0.8), floor(mean)), max(floor(mean * 1.2), ceil(mean))
    if not all(least <= len(one.tasks) <= most for one in stayers):
        wrong.append(f"not in band: {[len(one.tasks) for one in stayers]}")
    cold = sum(_COLD in line for one in stayers for line in one.said)
    if cold:
        wrong.append(f"{cold} tasks were taken over without a copy")
    return wrong


def _judged(
    stage: Stage, began_ms: int, leavers: Sequence[Instance], seconds: float, wrong: list[str]
) -> Run:
    arrivals, tally, miscounted = stage.written(stage.finish())
    moves = [move for move in arrivals.moves if move.first_ms >= began_ms]
    gone = {one.pid for one in leavers}
    times = Counter(move.partition for move in moves)
    if set(times.values()) != {1} or {move.old for move in moves} != gone:
        wrong = [*wrong, f"moved not once, or not from those that left: {moves}"]
    moved, others = arrivals.gaps(moves, dict.fromkeys({move.new for move in moves}, began_ms))
    return Run(
        moved,
        others,
        [stage.stalls.longest(move.window) for move in moves],
        seconds,
        [len(one.tasks) for one in stage.instances.live],
        tally.lost,
        tally.duplicates,
        [*wrong, *filter(None, [miscounted])],
    )
