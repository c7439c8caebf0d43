"""``python -m bench crash``: how long tasks stand still whose worker is killed.

Two instances with one worker each share 8 tasks under load. Their workers are killed (SIGKILL) by
turns, each when all tasks have run for a while. From the output topic, by the broker's own time, is
read when each task of a dead worker was written again, by whichever process. The ways take turns,
so that all meet the same machine:

``dynamic``   little state: others have the tasks until the worker is back
``large``     state that takes longer to restore than the worker to come back
``static``    with ``group.instance.id``: the tasks stay where they are
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

import attrs

from bench.broker import serving
from bench.handover_gaps import Move, summary
from bench.handover_instances import now_ms, wait_until
from bench.handover_stage import Stage, loaded
from bench.rounds import tell
from streamlet.hosting.restarts import RestartPolicy

PARTITIONS = 8
RATE = 2_000
#: Nothing else ends a member: a crash is noticed by the supervisor, or never.
_CONFIG = {"session.timeout.ms": "60000", "initial.assignment.delay.ms": "3000"}
#: How long all tasks run before a worker is killed: the other instance's workers are killed in
#: between, so it starts at once (``RestartPolicy.calm_ms``).
_STEADY_S = 8.0
#: An instance gives up when one of its workers failed six times within 300 s; there are two.
MOST_KILLS = 2 * (RestartPolicy().most - 1)


@attrs.frozen
class Way:
    """How an application is run: how many keys, and whether its members have static ids."""

    keys: int
    static: bool = False


WAYS = {"dynamic": Way(20_000), "large": Way(400_000), "static": Way(20_000, static=True)}


@attrs.frozen
class Kill:
    """The end of a worker; ``tasks`` is how many it had."""

    pid: int
    at_ms: int
    tasks: int


@attrs.frozen
class Crashes:
    """How long each task stood still, ms, by kill, and what went wrong."""

    waits: list[list[int]]
    stalls: list[int]
    lost: int
    duplicates: int
    wrong: list[str]


def run(*, runs: int, kills: int, rate: int, ways: Sequence[str]) -> dict[str, Any]:
    """The result as the benchmark prints it."""
    found: dict[str, list[Crashes]] = {name: [] for name in ways}
    with serving() as bootstrap:
        for number in range(runs):
            for name in ways:
                one = _crashed(bootstrap, WAYS[name], kills, rate)
                found[name].append(one)
                longest = [max(waits, default=0) for waits in one.waits]
                tell(f"round {number + 1}/{runs}  {name:<8} {longest} ms, machine {one.stalls}")
    results = {name: result_of(crashes) for name, crashes in found.items()}
    right = all(result["right"] for result in results.values())
    return {"workload": "crash", **results, "right": right}


def result_of(runs: Sequence[Crashes]) -> dict[str, Any]:
    """All runs of one way as one.

    ``again_ms`` is of each task, ``all_again_ms`` of each kill: until its last task was back.
    """
    wrong = [text for one in runs for text in one.wrong]
    for text in wrong:
        tell(text)
    waits = [waits for one in runs for waits in one.waits]
    lost = sum(one.lost for one in runs)
    return {
        "kills": len(waits),
        "again_ms": summary([wait for each in waits for wait in each]),
        "all_again_ms": summary([max(each) for each in waits if each]),
        "machine_stall_ms": summary([stall for one in runs for stall in one.stalls]),
        "lost": lost,
        "duplicates": sum(one.duplicates for one in runs),
        "right": not wrong and not lost,
    }


def waits_of(kill: Kill, moves: Sequence[Move]) -> list[int]:
    """How long each task of a killed worker stood still, ms: until another process wrote it."""
    after = [one for one in moves if one.old == kill.pid and one.first_ms >= kill.at_ms]
    return [one.first_ms - kill.at_ms for one in after]


def _crashed(bootstrap: str, way: Way, kills: int, rate: int) -> Crashes:
    with loaded(
        *(bootstrap, _CONFIG, rate, way.keys),
        partitions=PARTITIONS,
        instances=2,
        static=way.static,
    ) as stage:
        done = []
        for number in range(kills):
            stage.instances.await_balance(_STEADY_S)
            done.append(_kill(stage, number % 2))
        stage.instances.await_balance(_STEADY_S)
        return _judged(stage, done)


def _kill(stage: Stage, number: int) -> Kill:
    """Kill an instance's worker, and wait for its successor."""
    instance = stage.instances.live[number]
    kill = Kill(instance.pid, now_ms(), len(instance.tasks))
    os.kill(kill.pid, signal.SIGKILL)
    wait_until(lambda: instance.pid != kill.pid, f"{instance.name} has another worker")
    return kill


def _judged(stage: Stage, kills: Sequence[Kill]) -> Crashes:
    arrivals, tally, miscounted = stage.written(stage.finish())
    waits = [waits_of(kill, arrivals.moves) for kill in kills]
    wrong = [
        f"{len(found)} of {kill.tasks} tasks of process {kill.pid} were written by others"
        for kill, found in zip(kills, waits, strict=True)
        if len(found) != kill.tasks
    ]
    return Crashes(
        waits,
        [
            stage.stalls.longest((kill.at_ms, kill.at_ms + max(found, default=0)))
            for kill, found in zip(kills, waits, strict=True)
        ],
        tally.lost,
        tally.duplicates,
        [*wrong, *filter(None, [miscounted])],
    )
