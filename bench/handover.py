"""``python -m bench handover``: how long a task that moves stands still, and who else notices.

An application with 200,000 keys in 8 tasks is loaded at a constant rate while instances with empty
disks join and old ones hand over what they have and leave, until there were enough hand-overs. Who
wrote what when is read from the output topic afterwards, by the broker's own time; meanwhile
nothing is measured. The first instance that joins does not count: much of what the broker does then
it does for the first time.

Under ``exactly_once`` a reader of committed records reads the output meanwhile, too. ``reader`` of
the result has the same figures of the times at which that got the records: there a hand-over shows
with the commit before it and the one behind it. What is lost and doubled is so for such a reader.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench import options
from bench.broker import serving
from bench.handover_gaps import Arrivals, Move, live_moves, percentile, summary
from bench.handover_instances import Instance, now_ms
from bench.handover_stage import Stage, loaded
from bench.rounds import tell

PARTITIONS = 8
KEYS = 200_000
RATE = 20_000
MODES = ("release", "surrender", "eager")
#: What is measured if it is not chosen, by guarantee.
MEASURED = {"at_least_once": (*MODES, "partial"), "exactly_once": ("release",)}
#: Modes of hand-over that the application can be run in, with their settings.
_CONFIGS = {
    "release": {"learner.handover": "release"},
    "surrender": {"learner.handover": "surrender"},
    "eager": {"stream.rebalancing.mode": "eager"},
}
#: How long nothing happens before an instance joins, for what is usual, and after it has.
_STEADY_S = 3.5
_AFTER_S = 1.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what the other workloads have not."""
    modes = MEASURED["at_least_once"]
    parser.add_argument(
        "--modes",
        type=lambda text: options.chosen(text, modes),
        help=f"what handover measures, by commas: {', '.join(modes)}; all if not given, under "
        f"exactly_once {', '.join(MEASURED['exactly_once'])}",
    )


def chosen(given: argparse.Namespace) -> dict[str, Any]:
    """The result as the command line asks for it."""
    guarantee = given.guarantee or "at_least_once"
    load = {"rate": given.rate or RATE, "keys": given.keys, "handovers": given.handovers}
    return run(**load, modes=given.modes or MEASURED[guarantee], guarantee=guarantee)


def run(
    *, handovers: int, rate: int, keys: int, modes: Sequence[str], guarantee: str
) -> dict[str, Any]:
    """The result as the benchmark prints it; null for what was not run or cannot be."""
    result: dict[str, Any] = {"guarantee": guarantee, **dict.fromkeys(MODES)}
    common = {"processing.guarantee": guarantee}
    with serving() as bootstrap:
        for mode in modes:
            if mode in _CONFIGS:
                config = common | _CONFIGS[mode]
                result[mode] = _mode(bootstrap, mode, config, handovers, rate, keys)
        result["partial"] = None
        if "partial" in modes:
            result["partial"] = {
                value: _partial(
                    bootstrap, common | {"learner.partial.rebalance": value}, rate, keys
                )
                for value in ("true", "false")
            }
    measured = [result[mode] for mode in MODES if result[mode] is not None]
    result["right"] = not any(one.pop("wrong") or one["lost"] for one in measured)
    if guarantee == "exactly_once":
        result["right"] &= not any(one["duplicates"] for one in measured)
    return result


def behind(
    bootstrap: str, edge: str, *, handovers: int, rate: int, keys: int, most_s: float
) -> dict[str, Any]:
    """The same with a repartition topic of this kind before the counts.

    Begins no further round after ``most_s`` seconds; ``handovers`` of the result are those seen.
    """
    config = _CONFIGS["release"]
    result = _mode(bootstrap, "release", config, handovers, rate, keys, edge, most_s)
    wrong = result.pop("wrong")
    return {**result, "right": not wrong and not result["lost"]}


# -- hand-overs ------------------------------------------------------------------------------------


def _mode(
    bootstrap: str,
    mode: str,
    config: Mapping[str, str],
    handovers: int,
    rate: int,
    keys: int,
    edge: str = "",
    most_s: float = math.inf,
) -> dict[str, Any]:
    until = time.monotonic() + most_s
    with loaded(bootstrap, config, rate, keys, partitions=PARTITIONS, edge=edge) as stage:
        stage.instances.await_balance(_STEADY_S)
        stage.instances.start()
        stage.instances.await_balance(_AFTER_S)
        since_ms, seen = now_ms(), 0
        while seen < handovers:
            leaver = stage.instances.live[0]
            seen += _counting(leaver, edge)
            leaver.drain()
            stage.instances.await_balance(_STEADY_S)
            if seen >= handovers or time.monotonic() > until:
                break
            joined = stage.instances.start()
            stage.instances.await_balance(_AFTER_S)
            seen += _counting(joined, edge)
            tell(f"{edge or mode}: {seen} of {handovers} hand-overs, {joined.name} has its share")
        sent = stage.finish()
        return _judge(stage, sent, since_ms)


def _counting(instance: Instance, edge: str) -> int:
    """Tasks of an instance that write the output: behind an edge those of the second part."""
    return sum(not edge or task.startswith("1_") for task in instance.tasks)


def _judge(stage: Stage, sent: int, since_ms: int) -> dict[str, Any]:
    read = Arrivals(stage.partitions) if stage.reader else None
    arrivals, tally, wrong = stage.written(sent, read)
    by_pid = {one.pid: one for one in stage.instances.all}
    stops = {pid: one.stopped_ms for pid, one in by_pid.items() if one.stopped_ms is not None}
    moves = [one for one in live_moves(arrivals.moves, stops) if one.last_ms >= since_ms]
    starts = {pid: one.started_ms for pid, one in by_pid.items()}
    waits = [
        waited
        for move in moves
        if (waited := _waited_s(by_pid[move.new], move.first_ms)) is not None
    ]
    return {
        "handovers": len(moves),
        **_silences(arrivals, moves, starts),
        **({"reader": _silences(read, read.same_moves(arrivals, moves), starts)} if read else {}),
        "machine_stall_ms": summary([stage.stalls.longest(move.window) for move in moves]),
        "ready_to_active_s": round(percentile(waits, 99), 3) if waits else None,
        "lost": tally.lost,
        "duplicates": tally.duplicates,
        "wrong": wrong,
    }


def _silences(
    arrivals: Arrivals, moves: Sequence[Move], starts_ms: Mapping[int, int]
) -> dict[str, Any]:
    """The silences of partitions that move, and of others in the same windows."""
    moved, others = arrivals.gaps(moves, starts_ms)
    return {
        "gap_ms": summary([one.gap for one in moved]),
        "others_gap_ms": summary([one.gap for one in others]),
        "silence_ms": summary([one.longest for one in moved]),
        "others_silence_ms": summary([one.longest for one in others]),
    }


def _waited_s(instance: Instance, first_ms: int) -> float | None:
    """From when it said that it is ready to its first output; None if it never said so."""
    said = [at for at in instance.ready_ms if at <= first_ms]
    return (first_ms - max(said)) / 1000 if said else None


# -- one rebalance per learner, or one for all -----------------------------------------------------


def _partial(bootstrap: str, config: Mapping[str, str], rate: int, keys: int) -> dict[str, Any]:
    """Two instances join one at the same time."""
    with loaded(bootstrap, config, rate, keys, partitions=PARTITIONS) as stage:
        stage.instances.await_balance(_STEADY_S)
        before = stage.instances.generation
        joined = [stage.instances.start(), stage.instances.start()]
        balanced_ms = stage.instances.await_balance(_STEADY_S)
        stage.finish()
        return {
            "rebalances": stage.instances.generation - before,
            "balanced_s": round((balanced_ms - joined[0].started_ms) / 1000, 3),
        }
