"""``python -m examples.flights.demo``: a year of flights through a group that changes.

A broker starts, two instances of the application begin to work on flights as they come in. A third
one joins: it learns the tasks it is to take over, and each goes to it when its copy is warm. One is
killed with ``kill -9`` and starts again. Then two thirds are to stay: one hands its tasks over, and
ends by itself. The result of an hour at an airport is written when the hour is over. In the end the
results tell how long no instance worked on a task that moved, and they must be those that pandas
finds in the same data: each flight counts once.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import pandas as pd

from examples.flights import data, expected
from examples.flights.app import app
from examples.flights.drain import Drain
from examples.flights.handovers import Handovers
from examples.flights.instances import InstanceFailed, Instances, Status
from examples.flights.records import (
    RESULTS,
    Events,
    Playback,
    ResultReader,
    Undelivered,
    create_topics,
)
from examples.flights.screen import Screen, View, closed
from streamlet.errors import StreamletError
from streamlet.testing import KafkaBroker

_TICK_S = 0.1
_STALLED_S = 60.0
_RATE_OVER_S = 3.0
#: Of three instances two stay.
_STAYING_PERCENT = 60


class Demo:
    """One showing.

    Args:
        bootstrap: the broker, with the topics made and the airlines in them.
        flights: what to produce.
        seconds: how long producing it takes.
        instances: of the application, two of them started.
        drain: has one of them leave.
        status: who runs what.
        screen: where it is shown.
    """

    def __init__(
        self,
        bootstrap: str,
        flights: pd.DataFrame,
        seconds: float,
        *,
        instances: Instances,
        drain: Drain,
        status: Status,
        screen: Screen,
    ) -> None:
        self._playback = Playback(Events(bootstrap), flights, seconds)
        #: How many hours are closed by later flights.
        self._closing = len(expected.by_hour(flights)[0])
        self._instances = instances
        self._drain = drain
        self._status = status
        self._screen = screen
        self._started = time.monotonic()
        #: When the first flight was due; None before the first two instances have their tasks.
        self._flights_since: float | None = None
        #: (when, processed until then) of the last seconds, for the rate.
        self._history: deque[tuple[float, int]] = deque()
        #: (share of the flights produced, who must have tasks by then, what then happens).
        self._acts: deque[tuple[float, set[str], Callable[[], None]]] = deque(
            [
                (0, {"host-1", "host-2"}, self._flights_begin),
                (1 / 4, set(), self._third_joins),
                (1 / 2, {"host-3"}, self._one_is_killed),
                (3 / 4, {"host-2", "host-3"}, self._one_leaves),
            ]
        )
        #: Member ids of what was killed, which the group knows for a few seconds more.
        self._killed: set[str] = set()
        self.reader = ResultReader(bootstrap)
        parts = app.topology().subtopologies
        self._handovers = Handovers(
            {part.id: node.topic for part in parts for node in part.sinks if node.topic in RESULTS}
        )

    def run(self) -> bool:
        """Until all is played and in the results, or nothing moves any more.

        Whether it came to its end.

        Raises:
            InstanceFailed: an instance failed.
            Undelivered: the broker did not take a flight.
        """
        moved_at, before = time.monotonic(), (-1, -1, -1)
        while self._acts or self._drain.under_way or not self._complete:
            tick = time.monotonic()
            if self._flights_since is not None:
                self._playback.play(tick - self._flights_since)
            self._play()
            self._follow_drain()
            self._instances.check()
            self._tell_moves()
            self.reader.read()
            self._show(tick)
            progress = self.reader.processed, len(self.reader.hours), len(self._acts)
            if progress != before:
                moved_at, before = tick, progress
            elif tick - moved_at > _STALLED_S:
                self._screen.announce(f"nothing has moved for {_STALLED_S:.0f} s, giving up")
                return False
            time.sleep(max(0.0, tick + _TICK_S - time.monotonic()))
        self._follow_drain()  # what the command said last
        self._screen.announce("all flights are processed")
        return True

    @property
    def _complete(self) -> bool:
        """Whether every flight is in the results, and every hour that a later flight closes."""
        reader = self.reader
        return reader.processed == self._playback.total and len(reader.hours) >= self._closing

    def measured(self) -> list[str]:
        """How long tasks that were handed over stood still; once all results were read."""
        return self._handovers.report(self.reader.arrivals)

    def _tell_moves(self) -> None:
        for line in self._handovers.read(self._instances.logs):
            self._screen.announce(line)

    def _play(self) -> None:
        if not self._acts:
            return
        share, needed, act = self._acts[0]
        tasks_by_name = self._status.tasks(without=self._killed)
        working = {name for name, tasks in tasks_by_name.items() if tasks}
        if self._playback.produced >= share * self._playback.total and needed <= working:
            self._acts.popleft()
            act()

    def _flights_begin(self) -> None:
        self._screen.announce("both have tasks, the flights begin")
        self._flights_since = time.monotonic()

    def _third_joins(self) -> None:
        self._screen.announce("host-3 joins")
        self._instances.start("host-3")

    def _one_is_killed(self) -> None:
        self._screen.announce("host-2 is killed (kill -9) and starts again")
        self._killed = self._status.members("host-2")
        self._instances.kill("host-2")
        self._instances.start("host-2")

    def _one_leaves(self) -> None:
        self._screen.announce(f"streamlet scale-down flights --percent {_STAYING_PERCENT}")
        self._drain.start(_STAYING_PERCENT)

    def _follow_drain(self) -> None:
        for line in self._drain.check():
            self._screen.announce(line)
        for name in self._drain.told.leaving:
            self._instances.expect_to_leave(name)

    def _show(self, now: float) -> None:
        processed = self.reader.processed
        self._history.append((now, processed))
        while now - self._history[0][0] > _RATE_OVER_S:
            self._history.popleft()
        since, then = self._history[0]
        self._screen.show(
            View(
                seconds=now - self._started,
                total=self._playback.total,
                produced=self._playback.produced,
                processed=processed,
                rate=(processed - then) / (now - since) if now > since else 0.0,
                tasks=self._status.tasks(),
                leaving=self._instances.leaving,
                learning=self._status.learning(),
                draining=self._drain.told.progress,
                airlines=self.reader.results["delays-by-airline"],
                hours=self.reader.hours,
            )
        )


def main() -> int:
    """0 if the results match pandas, 1 if not, 130 after Ctrl-C; else what the error says."""
    options = _parse()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _terminate)
    try:
        return _perform(options.flights, options.seconds)
    except (InstanceFailed, Undelivered) as error:
        print(error, file=sys.stderr)
        return 1
    except StreamletError as error:  # no jars to be had, no broker, no Java
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _perform(first: int | None, seconds: float) -> int:
    flights, airlines = data.load_flights(first), data.load_airlines()
    with ExitStack() as stack:
        screen = stack.enter_context(Screen())
        screen.announce("starting a Kafka broker")
        bootstrap = stack.enter_context(KafkaBroker()).bootstrap_servers
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="flights-demo-", ignore_cleanup_errors=True)
            )
        )
        create_topics(bootstrap)
        events = Events(bootstrap)
        events.send("airlines", data.airline_events(airlines))
        events.flush()
        instances = stack.enter_context(_running(bootstrap, folder))
        screen.announce("host-1 and host-2 start")
        instances.start("host-1")
        instances.start("host-2")
        status = Status(bootstrap, folder)
        stack.callback(status.close)
        drain = Drain(bootstrap, folder)
        stack.callback(drain.end)
        demo = Demo(
            *(bootstrap, flights, seconds),
            instances=instances,
            drain=drain,
            status=status,
            screen=screen,
        )
        stack.callback(demo.reader.close)
        finished = demo.run()
        instances.stop_all()
        demo.reader.read_to_end()
        for line in demo.measured():
            screen.announce(line)
        named, written = demo.reader.count("named-flights")
        screen.announce(
            f"host-2 was killed, {written - named:,} records of named-flights were written again "
            "and are dropped by their origins"
        )
        screen.announce(closed(demo.reader.hours))
        wrong = expected.all_differences(demo.reader.results, flights, airlines)
        if named != len(flights):
            wrong.append(f"named-flights has {named:,} flights, expected {len(flights):,}")
    print("\n".join(wrong) if wrong else "each flight counts once: matches pandas")
    return 0 if finished and not wrong else 1


@contextmanager
def _running(bootstrap: str, folder: Path) -> Iterator[Instances]:
    instances = Instances(bootstrap, folder)
    try:
        yield instances
    finally:
        instances.kill_all()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.flights.demo", description=__doc__)
    parser.add_argument("--flights", type=int, help="only the first so many; all by default")
    parser.add_argument(
        "--seconds", type=float, default=45.0, help="how long the flights take to come in"
    )
    return parser.parse_args()


def _terminate(number: int, frame: FrameType | None) -> None:
    """End as on Ctrl-C, so that everything started is ended."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
