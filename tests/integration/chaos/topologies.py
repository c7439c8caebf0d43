"""The applications that the chaos tests run, as a user would write them.

Worker processes import this file as ``tests.integration.chaos.topologies:app``; the environment
says which one they get and what it is called. Tests build the same one to look at its tasks. It may
also say that the program is an older one, whose members know no later version of our bytes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from streamlet import (
    App,
    KStream,
    KTable,
    Materialized,
    Record,
    State,
    Timer,
    join_windows,
    non_deterministic,
    session,
    tumbling,
    until_window_closes,
)
from streamlet.hosting import preparing
from streamlet.rebalance.protocol import TasksProtocol
from tests.integration.chaos.crash_points import CRASHES, crash
from tests.integration.chaos.own_stores import own_stores
from tests.integration.chaos.slow_disk import SLOW, slow_down
from tests.integration.chaos.waiting import PARTS, waiting

#: Keys of the input look like ``k17``; a group is the last digit.
SHAPE = "CHAOS_SHAPE"
NAME = "CHAOS_NAME"
LATEST = "CHAOS_LATEST_VERSION"
#: How ``exiting`` ends its process, as ``os._exit 0``, and the file that says that it has.
EXIT = "CHAOS_EXIT"
EXITED = "CHAOS_EXITED"
#: The file without which ``poisoned`` fails on a number below zero.
HEALED = "CHAOS_HEALED"
#: The file that ``blocking`` waits for the end of, as long as there is one.
BLOCKED = "CHAOS_BLOCKED"
#: How much state others restore rather than wait for a crashed worker's restart, bytes.
SMALL_STATE = "CHAOS_SMALL_STATE"
SESSION_GAP_MS = 100
MET_MS = 50
#: Between records of a key where sessions and joins are tested: neither always apart nor together.
BEAT_S = 0.05
FINALS_GRACE_MS = 500
ONCE_MS = 300
RECENT_MS = 300
SILENT_MS = 400

_Function = TypeVar("_Function", bound=Callable[..., Any])


def by_last_digit(events: KStream[str, int]) -> KTable[str, int]:
    """Counts per group behind a repartition, whose topic keeps the numbers for tests to see."""
    return events.group_by(lambda key, number: key[-1], key=str, value=int).aggregate(
        lambda: 0, lambda key, number, count: count + 1, value=int, store="groups"
    )


def counting(name: str) -> App:
    """Counts per key straight from the input, and counts per group behind a repartition."""
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int)
    counts = events.group_by_key().count(store="counts")
    counts.to_stream().to(f"{name}-counts")
    groups = by_last_digit(events)
    groups.to_stream().to(f"{name}-groups")
    return app


def chained(name: str, like: Callable[[_Function], _Function] = lambda one: one) -> App:
    """Three subtopologies in a row, a merge and a join, each behind a repartition.

    ``sums`` adds up every count that was ever put out: of a key that came n times, n (n + 1) / 2.
    ``like`` declares the functions before the first repartitions.
    """
    app = App(name)
    rows = app.table(f"{name}-names", key=str, value=int, store="names")
    events = app.stream(f"{name}-in", key=str, value=int)
    counts = events.group_by_key().count(store="counts").to_stream()
    counts.to(f"{name}-counts")
    last_digit = counts.group_by(like(lambda key, count: key[-1]), key=str, value=int)
    sums = last_digit.reduce(lambda one, other: one + other, store="sums").to_stream()
    sums.group_by(lambda digit, total: "all", key=str, value=int).count(store="updates")
    even = events.filter(lambda key, number: number % 2 == 0)
    merged = even.merge(events.filter(lambda key, number: number % 2 == 1))
    merged.group_by(like(lambda key, n: key[-2:]), key=str, value=int).count(store="merged")
    by_digit = events.select_key(like(lambda key, n: f"k{key[-1]}"), key=str)
    met = by_digit.repartition(name="digits").join(rows, lambda n, row: n, value=int)
    met.group_by_key().count(store="met")
    return app


def varying(name: str) -> App:
    """The same, with functions that are said to vary: records wait in all repartition topics."""
    return chained(name, non_deterministic)


def joined(name: str) -> App:
    """Counts per key of events that met a row of a table: a task with two inputs."""
    app = App(name)
    names = app.table(f"{name}-names", key=str, value=int, store="names")
    events = app.stream(f"{name}-in", key=str, value=int)
    met = events.join(names, lambda number, row: number, value=int)
    met.group_by_key().count(store="counts").to_stream().to(f"{name}-counts")
    return app


def assorted(name: str) -> App:
    """Joins of streams and by foreign keys, a deduplication, rows that expire, timers of each key.

    Even numbers are joined with odd ones. Behind repartition topics two streams of all numbers
    meet, with a grace that no record misses. The join by foreign keys has each key's last number
    with the row that the number's last digit names.
    """
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int)
    even, odd = (events.filter(lambda k, n, rest=rest: n % 2 == rest) for rest in (0, 1))
    near = join_windows("200ms", after="300ms", grace="500ms")
    pairs = even.join(odd, lambda one, two: f"{one} {two}", within=near, value=str, store="in")
    pairs.to(f"{name}-pairs")
    either = even.outer_join(odd, lambda a, b: f"{a} {b}", within=near, value=str, store="out")
    either.to(f"{name}-either")
    counts = either.group_by_key().count(store="counts").to_stream()
    counts.map_values(str, value=str).to(f"{name}-counts")
    left, right = (
        events.select_key(lambda key, n: key, key=str).repartition(name=side)
        for side in ("left", "right")
    )
    within = join_windows(MET_MS, grace="1h")
    met = left.join(right, lambda one, two: f"{one} {two}", within=within, value=str, store="met")
    met.to(f"{name}-met")
    events.deduplicate(ONCE_MS, store="seen").map_values(str, value=str).to(f"{name}-once")
    kept = Materialized("recent", ttl=RECENT_MS)
    recent = events.group_by_key().aggregate(str, _last_numbers, store=kept, value=str)
    recent.to_stream().to(f"{name}-recent")
    silent = events.process(_remember, on_timer=_forget, key=str, value=str, name="remember")
    silent.to(f"{name}-silent")
    names = app.table(f"{name}-names", key=str, value=int, store="names")
    found = events.to_table(store="events").left_join(
        names,
        lambda key, digit, number, row: f"{digit} {number} {row}",
        foreign_key=lambda number: f"k{number % 10}",
        value=str,
        store="found",
        name="names-of-events",
    )
    found.to_stream().to(f"{name}-found")
    return app


def optimized(name: str) -> App:
    """Two uses of changed keys share a topic; a stream joined with itself has one store."""
    app = App(name, config={"topology.optimization": "all"})
    events = app.stream(f"{name}-in", key=str, value=int)
    digits = events.select_key(lambda key, number: key[-1], key=str)
    digits.group_by_key().count(store="counts")
    digits.group_by_key().reduce(lambda one, other: one + other, store="sums")
    near = join_windows(MET_MS, grace="1h")
    pairs = events.join(events, lambda a, b: f"{a} {b}", within=near, value=str, store="pairs")
    pairs.to(f"{name}-pairs")
    return app


def _last_numbers(key: str, number: int, before: str) -> str:
    return f"{before} {number}"[-40:]


def _remember(record: Record[str, int], state: State[str]) -> None:
    state["numbers"] = [*state.get("numbers", ())[-2:], record.value]
    state.timer(after=SILENT_MS)


def _forget(timer: Timer[str], state: State[str]) -> tuple[str, str]:
    numbers = state.pop("numbers")
    return timer.key, f"{sum(numbers)} until {timer.time}"


def exiting(name: str) -> App:
    """Counts per key behind a function that ends its process once, at a negative number."""
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int).map_values(_exit_once, value=int)
    events.group_by_key().count(store="counts").to_stream().to(f"{name}-counts")
    return app


def _exit_once(number: int) -> int:
    if number < 0:
        with contextlib.suppress(FileExistsError):
            Path(os.environ[EXITED]).touch(exist_ok=False)
            function, code = os.environ[EXIT].split()
            {"sys.exit": sys.exit, "os._exit": os._exit}[function](int(code))
    return number


def blocking(name: str) -> App:
    """Counts per key behind a function that takes its time at a negative number."""
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int).map_values(_block, value=int)
    events.group_by_key().count(store="counts").to_stream().to(f"{name}-counts")
    return app


def _block(number: int) -> int:
    while number < 0 and Path(os.environ[BLOCKED]).exists():
        time.sleep(0.05)
    return number


def retyped(name: str) -> App:
    """As ``counting``, but its store holds something else under the same name."""
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int)
    last = events.group_by_key().aggregate(str, lambda k, n, text: str(n), store="counts")
    last.to_stream().map_values(int).to(f"{name}-counts")
    groups = by_last_digit(events)
    groups.to_stream().to(f"{name}-groups")
    return app


def regrouped(name: str) -> App:
    """As ``counting``, but what is behind the repartition is put together otherwise."""
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int)
    counts = events.group_by_key().count(store="counts")
    counts.to_stream().to(f"{name}-counts")
    groups = by_last_digit(events)
    groups.to_stream().filter(lambda key, number: number > 0).to(f"{name}-groups")
    return app


def renamed(name: str) -> App:
    """As ``counting``, but its first store has another name."""
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int)
    counts = events.group_by_key().count(store="counts2")
    counts.to_stream().to(f"{name}-counts")
    groups = by_last_digit(events)
    groups.to_stream().to(f"{name}-groups")
    return app


def dropping(name: str) -> App:
    """The last value per key; a negative one deletes the key."""
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int)
    last = events.group_by_key().reduce(lambda old, new: None if new < 0 else new, store="last")
    last.to_stream().to(f"{name}-last")
    return app


def plain(name: str) -> App:
    """Counts per key straight from the input, with no repartition."""
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int)
    events.group_by_key().count(store="counts").to_stream().to(f"{name}-counts")
    return app


def windowed(name: str) -> App:
    """Counts per key and second, and per session of a key, of windows that do not close meanwhile.

    Counts of sessions are put out with commits. ``finals`` are the counts per second again, each
    put out once, when its window closes; so are those in the topic ``held``, by a buffer. Records
    that are late for these windows go to the topic ``late``, once for each of both folds.
    """
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int).group_by_key()
    seconds = events.windowed_by(tumbling("1s", grace="1h")).count(store="seconds")
    seconds.to_stream().to(f"{name}-seconds")
    gaps = session(SESSION_GAP_MS, grace="1h")
    sessions = events.windowed_by(gaps, emit="on_commit").count(store="sessions")
    sessions.to_stream().to(f"{name}-sessions")
    late, closing_seconds = f"{name}-late", tumbling("1s", grace=FINALS_GRACE_MS)
    closing = events.windowed_by(closing_seconds, emit="final", late=late)
    finals = closing.count(store=Materialized("finals", retention="1h"))
    finals.to_stream().to(f"{name}-finals")
    counted = events.windowed_by(closing_seconds, late=late)
    held = counted.count(store=Materialized("counted", retention="1h"))
    held.suppress(until_window_closes(), store="held").to_stream().to(f"{name}-held")
    return app


def originated(name: str) -> App:
    """``plain``, and its output says where each record stems from."""
    app = App(name)
    events = app.stream(f"{name}-in", key=str, value=int)
    counts = events.group_by_key().count(store="counts").to_stream()
    counts.to(f"{name}-counts", origin=True)
    return app


def fronted(name: str) -> App:
    """``plain`` behind a new subtopology, so that the counting tasks have other numbers."""
    app = App(name)
    app.stream(f"{name}-front", key=str, value=int).to(f"{name}-front-out")
    events = app.stream(f"{name}-in", key=str, value=int)
    events.group_by_key().count(store="counts").to_stream().to(f"{name}-counts")
    return app


def stranger(name: str) -> App:
    """Another application that was given the same id by mistake."""
    app = App(name)
    others = app.stream(f"{name}-others", key=str, value=int)
    others.group_by_key().count(store="others").to_stream().to(f"{name}-others-out")
    return app


def in_front(name: str) -> App:
    """As ``counting``, behind a source of its own, which shifts the numbers of the others."""
    app = App(name)
    front = app.stream(f"{name}-front", key=str, value=int)
    front.group_by_key().count(store="front").to_stream().to(f"{name}-front-counts")
    events = app.stream(f"{name}-in", key=str, value=int)
    counts = events.group_by_key().count(store="counts")
    counts.to_stream().to(f"{name}-counts")
    groups = by_last_digit(events)
    groups.to_stream().to(f"{name}-groups")
    return app


def poisoned(name: str) -> App:
    """``counting``, where a number below zero shuts the application down everywhere."""

    def check(key: str, number: int) -> int:
        if number < 0 and not Path(os.environ[HEALED]).exists():
            raise ValueError("poisoned")
        return number

    app = App(name, uncaught_handler="shutdown_application")
    events = app.stream(f"{name}-in", key=str, value=int).map_values(check, value=int)
    events.group_by_key().count(store="counts").to_stream().to(f"{name}-counts")
    by_last_digit(events).to_stream().to(f"{name}-groups")
    return app


SHAPES: dict[str, Callable[[str], App]] = {
    "assorted": assorted,
    "blocking": blocking,
    "counting": counting,
    "chained": chained,
    "exiting": exiting,
    "joined": joined,
    "retyped": retyped,
    "dropping": dropping,
    "regrouped": regrouped,
    "renamed": renamed,
    "in_front": in_front,
    "optimized": optimized,
    "originated": originated,
    "own_stores": own_stores,
    "plain": plain,
    "poisoned": poisoned,
    "varying": varying,
    "waiting": waiting,
    "windowed": windowed,
    "stranger": stranger,
    "fronted": fronted,
    **{part: partial(waiting, parts=(part,)) for part in PARTS},
}

if SMALL_STATE in os.environ:
    preparing.SMALL_STATE = int(os.environ[SMALL_STATE])

if SLOW in os.environ:
    slow_down(Path(os.environ[SLOW]))

if CRASHES in os.environ:
    crash(Path(os.environ[CRASHES]))

if LATEST in os.environ:
    TasksProtocol.__init__.__kwdefaults__["latest"] = int(os.environ[LATEST])

app = SHAPES[os.environ.get(SHAPE, "counting")](os.environ.get(NAME, "chaos"))
