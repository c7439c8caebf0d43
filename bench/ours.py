"""One worker of the measured application, in this process as under ``streamlet run --processes 0``.

``python -m bench.ours wordcount|on-commit|passthrough|regroup|waiting|window|split|unsplit|serial|
key|partition|record|list|numpy --bootstrap … --source … --output … --state … --total …
--number … --members …`` is a measured process of ``--members``. It stops when it has seen
``--total`` records, with ``--by-output`` when it has written so many, or when its standard input
ends: the others have seen the rest. With ``--exact`` repartition topics bear prefixes.
``--exactly-once`` commits by transactions, and ``--commit`` sets how often tasks commit, ms. The
records before ``--preload`` are not measured. Windows need ``--size`` and ``--grace``, ms.

Joins (``stream_stream`` and so on) read ``--left`` and ``--right``, and need ``--within``, ms;
``--inputs`` is the number of records in both, where those of repartition topics are seen too.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import attrs

import streamlet as sl
from bench import apps
from bench.span import Span, say
from streamlet.app import hosted
from streamlet.hosting.assembly import open_worker
from streamlet.processing.outputs import Output
from streamlet.processing.record_failures import RecordCounters
from streamlet.runtime.worker_group import MemberIdentity
from streamlet.tasks.open_task import RestoreProgress
from streamlet.types import TaskId

_SAY_EVERY_S = 0.02
_APPS: dict[str, Callable[..., sl.App]] = {
    "wordcount": apps.wordcount,
    "passthrough": apps.passthrough,
    "on-commit": apps.on_commit,
    "regroup": apps.regroup,
    "waiting": apps.waiting,
    "window": apps.window,
    "split": apps.split,
    "unsplit": apps.unsplit,
    "serial": apps.serial,
    "key": partial(apps.calls, "key"),
    "partition": partial(apps.calls, "partition"),
    "record": partial(apps.scored, "record"),
    "list": partial(apps.scored, "list"),
    "numpy": partial(apps.scored, "numpy"),
}
#: Joins, of two topics.
_JOINS = ("stream_stream", "stream_table", "table_table", "foreign_key")


@attrs.define
class Watch:
    """Sees from outside when records come in and when the worker has committed and left."""

    total: int
    alone: bool
    span: Span
    preload: int = 0
    by_output: bool = False
    written: int = 0
    counters: RecordCounters | None = None
    _told: tuple[float, int] = (0.0, 0)
    _ended: threading.Event = attrs.field(factory=threading.Event)

    def listen(self) -> None:
        """Wait for the end of the input in the background."""

        def wait() -> None:
            sys.stdin.read()
            self._ended.set()

        threading.Thread(target=wait, daemon=True).start()

    def keep_going(self) -> bool:
        """Called before each round of the worker's loop."""
        assert self.counters is not None
        seen = self.counters.records
        if seen <= self.preload:
            self.span.start(seen)  # the last of these is before the round with the first record
        if not self.alone:
            self._tell(seen)
        done = self.written if self.by_output else seen
        return done < self.total and not self._ended.is_set()

    def _tell(self, seen: int) -> None:
        now = time.monotonic()
        if seen != self._told[1] and now - self._told[0] >= _SAY_EVERY_S:
            self._told = now, seen
            say({"seen": seen})

    # An observer of the worker.

    #: Nothing is told of copies.
    copying = None

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        if state == "NOT_RUNNING":
            self.span.end()

    def produced(self, outputs: list[Output]) -> None:
        self.written += sum(len(output.keys) for output in outputs)

    def settled(self, counts: bool) -> None:
        """Nothing to note: a commit that ends otherwise shows in what was written."""

    def restoring(self, progress: RestoreProgress) -> None:
        """Nothing to note."""


def main() -> None:
    options = _parse()
    config = {
        "bootstrap.servers": options.bootstrap,
        "state.dir": options.state,
        "repartition.exact": options.exact,
        "processing.guarantee": "exactly_once" if options.exactly_once else "at_least_once",
        **({"commit.interval.ms": options.commit} if options.commit else {}),
    }
    app = _app(options, config)
    alone = options.members == 1
    watch = Watch(options.total, alone, Span(), options.preload, options.by_output)
    worker = open_worker(
        hosted(app, app.load_settings(environ=os.environ)),
        MemberIdentity("bench", "bench", options.number, options.members),
        watch,
    )
    watch.counters = worker.counters
    watch.listen()
    worker.run(watch.keep_going)
    watch.span.report(options.inputs or worker.counters.records)


def _app(options: argparse.Namespace, config: dict[str, object]) -> sl.App:
    """The application that is measured."""
    name = options.output
    if options.workload in _JOINS:
        topics = options.left, options.right
        return apps.joined(name, topics, name, config, options.workload, options.within)
    build = _APPS[options.workload]
    times = (options.size, options.grace) if options.workload == "window" else ()
    return build(name, options.source, name, config, *times)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=[*_APPS, *_JOINS])
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--by-output", action="store_true")
    parser.add_argument("--exactly-once", action="store_true")
    for name in ("bootstrap", "output", "state"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("source", "left", "right"):
        parser.add_argument(f"--{name}")
    for name in ("total", "number", "members"):
        parser.add_argument(f"--{name}", required=True, type=int)
    for name in ("preload", "size", "grace", "within", "inputs", "commit"):
        parser.add_argument(f"--{name}", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
