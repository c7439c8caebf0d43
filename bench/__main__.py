"""``python -m bench WORKLOAD``: measure, check the outputs, print one JSON object."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from types import FrameType
from typing import Any

from bench import (
    assignor,
    bare_latency,
    batches,
    calls,
    closing,
    crash,
    eos,
    growth,
    handover,
    joins,
    latency,
    queries,
    regroup,
    restore,
    restore_share,
    scale_down,
    streams,
    tracing,
    windows,
)
from bench.options import GUARANTEES, SWITCH, chosen, count, counts
from bench.peers import command as peers
from bench.processes import MeasurementError
from streamlet.errors import StreamletError

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PEERS = ("bare", "streamlet")
_WORKLOADS = (
    "wordcount",
    "on-commit",
    "passthrough",
    "eos",
    "peers",
    "growth",
    "regroup",
    "window",
    "join",
    "batches",
    "async",
    "closing",
    "restore",
    "restore-share",
    "assignor",
    "tracing",
    "handover",
    "scale-down",
    "crash",
    "chaos",
    "latency",
    "queries",
    "queries-moves",
    "spark",
    "spark-state",
)
_SHAPES = ("waiting", "shop", "charts", "joins", "foreign-key", "calls", "random-keys")
_WAYS = ("passthrough", "native_count", "tws_per_key", "tasks")
#: Measured if they are asked for.
_MORE_WAYS = ("latest_by_tasks", "latest_by_sql")


def main() -> int:
    """The exit code: 0, or 1 when an output was wrong or a measured process failed."""
    options = _parse()
    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and & have it
            signal.signal(number, _end)
    try:
        result = _run(options)
    except (MeasurementError, StreamletError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:<12} {value}")
    return 0 if result.get("right", True) else 1


def _end(number: int, frame: FrameType | None) -> None:
    """End as any failure does, so that every process that was started is ended.

    A second signal would leave some of them: it is not heeded.
    """
    for one in _ENDS:
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    match options.workload:
        case "assignor":
            return assignor.run()
        case "tracing":
            return tracing.run(records=options.records, runs=options.runs)
        case "handover":
            return handover.chosen(options)
        case "scale-down":
            return scale_down.run(
                runs=options.runs, rate=options.rate or scale_down.RATE, keys=options.keys
            )
        case "crash":
            return crash.run(
                runs=options.runs,
                kills=options.kills,
                rate=options.rate or crash.RATE,
                ways=options.crashes,
            )
        case "latency":
            return latency.chosen(options)
        case "queries" | "queries-moves":
            return queries.chosen(options)
        case "chaos":
            return _chaos(options)
        case "spark" | "spark-state":
            return _spark(options)
        case "window":
            return _windows(options)
        case "join":
            load = {name: getattr(options, name) for name in ("records", "keys", "runs")}
            return joins.run(joins=options.joins, **load)
        case "batches":
            return batches.run(records=options.records, runs=options.runs)
        case "async":
            return calls.run(records=options.records, runs=options.runs)
        case "regroup":
            return regroup.chosen(options)
        case "growth":
            return growth.chosen(options)
        case "eos":
            return eos.run(records=options.records, keys=options.keys, runs=options.runs)
        case "peers":
            return peers.run(options)
        case "closing":
            return closing.run(windows=options.windows, runs=options.runs)
        case "restore-share":
            return restore_share.run(records=options.records, keys=options.keys, runs=options.runs)
        case "restore":
            return restore.run(keys=options.records, runs=options.runs, peers=options.peers)
        case workload:
            return streams.run(
                workload,
                records=options.records,
                keys=options.keys,
                runs=options.runs,
                workers=options.workers,
                peers=options.peers,
            )


def _spark(options: argparse.Namespace) -> dict[str, Any]:
    """The workloads that need the extra ``spark``."""
    from bench import spark, spark_state

    if options.workload == "spark-state":
        sizes = {"sizes": options.sizes, "changes": options.changes}
        counted = options.counted or spark_state.COUNTED
        return spark_state.run(runs=options.runs, cores=options.cores, counted=counted, **sizes)
    return spark.run(
        records=options.records,
        keys=options.keys,
        runs=options.runs,
        ways=options.ways,
        seconds=options.seconds,
        batches=options.batches,
        small_batches=options.counted or spark.SMALL_BATCHES,
    )


def _chaos(options: argparse.Namespace) -> dict[str, Any]:
    """The faults, made by what the tests have, which need pytest."""
    from bench import chaos

    length = {"seed": options.seed, "minutes": options.minutes}
    guarantee = options.guarantee or "exactly_once"
    return chaos.run(**length, guarantee=guarantee, shape=options.shape)


def _windows(options: argparse.Namespace) -> dict[str, Any]:
    """The workload of windows with those of ``emit="on_commit"`` and of windows that close."""
    load = {name: getattr(options, name) for name in ("records", "keys", "runs", "peers")}
    result = windows.run(**load)
    on_commit = streams.run(
        "on-commit", workers=1, **{**load, "records": options.on_commit_records}
    )
    closed = closing.run(windows=options.windows, runs=options.runs)
    longest = max(closed[shape]["call_ms"] for shape in closing.SHAPES)
    result["on_commit"] = on_commit
    result["closing"] = {**closed, "longest_silence_ms": longest}
    result["right"] = result["right"] and on_commit["right"] and closed["right"]
    return result


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Benchmarks on a real broker: an embedded one, or that of BENCH_BOOTSTRAP.",
    )
    parser.add_argument("workload", choices=_WORKLOADS)
    parser.add_argument(
        "--records",
        type=count,
        help="records, keys of restore; 1,000,000, of spark 2,000,000, of on-commit "
        f"{streams.ON_COMMIT_RECORDS:,}, of async {calls.RECORDS:,} if not given",
    )
    parser.add_argument(
        "--keys",
        type=count,
        help="different keys; 10,000, where tasks are handed over 200,000 if not given",
    )
    parser.add_argument("--runs", type=count, default=3, help="rounds")
    _add_streams(parser)
    parser.add_argument("--handovers", type=count, default=100, help="of each mode, at least")
    parser.add_argument(
        "--rate",
        type=count,
        help=f"records per second; of handover {handover.RATE:,}, of scale-down "
        f"{scale_down.RATE:,}, of crash {crash.RATE:,}, of queries {queries.RATE:,} if not given",
    )
    parser.add_argument(
        "--kills",
        type=count,
        default=4,
        help=f"of workers, in queries-moves and in each round of crash, there at most "
        f"{crash.MOST_KILLS}",
    )
    parser.add_argument(
        "--crashes",
        type=lambda text: chosen(text, tuple(crash.WAYS)),
        default=list(crash.WAYS),
        help=f"what crash measures, by commas: {', '.join(crash.WAYS)}",
    )
    latency.add_options(parser)
    handover.add_options(parser)
    _add_chaos(parser)
    _add_choices(parser)
    _add_spark(parser)
    peers.add_options(parser)
    regroup.add_options(parser)
    growth.add_options(parser)
    parser.add_argument("--json", action="store_true", help="the result as one JSON object")
    options = parser.parse_args()
    if options.guarantee == SWITCH and options.workload != "chaos":
        parser.error("--guarantee switch is for chaos")
    if options.workload == "crash" and options.kills > crash.MOST_KILLS:
        parser.error(f"--kills of crash is at most {crash.MOST_KILLS}: an instance gives up")
    _fill_records(options)
    if options.keys is None:
        large = options.workload in ("handover", "restore-share", "scale-down")
        options.keys = handover.KEYS if large else 10_000
    if options.workload not in ("handover", "scale-down") and options.keys > options.records:
        parser.error("--keys is more than --records: every key is there once")
    return options


def _add_streams(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--windows", type=count, default=200_000, help="windows that close at once")
    parser.add_argument("--workers", type=count, default=1, help="workers of streamlet")
    parser.add_argument(
        "--peers",
        type=lambda text: chosen(text, _PEERS),
        default=list(_PEERS),
        help=f"what runs, by commas: {', '.join(_PEERS)}, which is both if not given; latency has "
        f"bare loops for {' and '.join(bare_latency.WORKLOADS)}",
    )


def _add_chaos(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1, help="of the faults of chaos")
    parser.add_argument(
        "--minutes", type=float, default=10, help="how long chaos makes faults, 10 if not given"
    )
    parser.add_argument(
        "--guarantee",
        choices=(*GUARANTEES, SWITCH),
        help="of the application; of chaos exactly_once, of handover at_least_once, of latency "
        "both if not given; of chaos also switch: instances go from one to the other",
    )
    parser.add_argument("--shape", choices=_SHAPES, default="waiting", help="of it; waiting is all")


def _add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ways",
        type=lambda text: chosen(text, (*_WAYS, *_MORE_WAYS)),
        default=list(_WAYS),
        help=f"what spark measures, by commas: {', '.join(_WAYS)}, which is all if not given; "
        f"besides {', '.join(_MORE_WAYS)}",
    )
    parser.add_argument(
        "--joins",
        type=lambda text: chosen(text, joins.MEASURED),
        default=list(joins.MEASURED),
        help=f"what join measures, by commas: {', '.join(joins.MEASURED)}",
    )


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cores",
        type=counts,
        default=[1, 2, 4],
        help="cores of the executor of spark-state, by commas; 1,2,4 if not given",
    )
    parser.add_argument(
        "--batches",
        type=counts,
        default=[4_000, 250_000, 1_000_000],
        help="sizes of batches of spark, three by commas; 4000,250000,1000000 if not given",
    )
    parser.add_argument(
        "--sizes",
        type=counts,
        default=[10_000, 500_000],
        help="keys of up to three tables of spark-state, by commas; 10000,500000 if not given",
    )
    parser.add_argument(
        "--changes",
        type=counts,
        default=[10, 2_000, 20_000],
        help="changes in a batch of spark-state, by commas; 10,2000,20000 if not given",
    )
    parser.add_argument(
        "--counted",
        type=count,
        help="batches that count of each table and number of changes of spark-state, and of the "
        "smallest size of spark; 10 and 12 if not given",
    )


def _fill_records(options: argparse.Namespace) -> None:
    """Set the number of records where none is given, by workload."""
    options.on_commit_records = options.records or streams.ON_COMMIT_RECORDS
    if options.records is None:
        own = {"async": calls.RECORDS, "on-commit": streams.ON_COMMIT_RECORDS}
        own["spark"] = 2 * max(options.batches)
        options.records = own.get(options.workload, 1_000_000)


if __name__ == "__main__":
    sys.exit(main())
