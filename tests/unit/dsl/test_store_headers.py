"""``Materialized(headers=True)``: rows with the headers of the records that changed them last."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.kafka.ports import Headers
from streamlet.state.query_errors import InvalidStateStoreError
from streamlet.testing import TopologyTestDriver
from tests.unit.tasks.owners import INPUT, Owner, World

KEPT = sl.Materialized("kept", headers=True)
HEADED: dict[str, Any] = {"key": str, "value": str, "headers": True}


def numbered(number: int) -> Headers:
    return (("id", b"%d" % number), ("traceparent", b"x"), ("streamlet.origin", b"y"))


def pipe(
    driver: TopologyTestDriver, topic: str, records: list[tuple[str, str | None, Any]]
) -> None:
    """Give records with headers of their own in one batch, between two commits."""
    keys, values, heads = zip(*records, strict=True)
    columns = [key.encode() for key in keys], [None if v is None else v.encode() for v in values]
    times = list(range(1, len(keys) + 1))
    driver._process(deque(driver._topics.batches(topic, *columns, times, [*heads], None)))


def counted(app: sl.App) -> None:
    app.stream("in", key=str, value=str).group_by_key().count(store=KEPT)


def regrouped(app: sl.App) -> None:
    app.table("in", key=str, value=str).group_by(lambda key, _: (key, 1), key=str, value=int).count(
        store=KEPT
    )


def joined(app: sl.App) -> None:
    other = app.table("other", key=str, value=str)
    table = app.table("in", key=str, value=str)
    table.left_join(other, lambda one, two: one, value=str, store=KEPT)


class Keeping(sl.Processor[str, str, str, str]):
    """Puts what it gets, and by the clock what nothing came for."""

    def init(self, context: sl.ProcessorContext[str, str]) -> None:
        self.rows = context.store("kept")
        context.schedule("1s", "wall_clock", self.tick)

    def process(self, record: sl.Record[str, str]) -> None:
        self.rows.put(record.key, record.value)

    def tick(self, now: int) -> Iterator[sl.Record[str, str]]:
        self.rows.put("b", "by the clock")
        yield from ()


def processed(app: sl.App) -> None:
    rows = sl.key_value_store("kept", key=str, value=str, headers=True, ttl="1h")
    stream = app.stream("in", key=str, value=str)
    stream.process(Keeping, stores=[rows], key=str, value=str).to("out")


@pytest.mark.parametrize(
    "made",
    [
        counted,
        lambda app: app.table("in", key=str, value=str, store=KEPT),
        lambda app: app.stream("in", key=str, value=str).to_table(store=KEPT),
        lambda app: app.table("in", key=str, value=str).map_values(str.upper, store=KEPT),
        regrouped,
        joined,
        processed,
    ],
)
def test_a_row_has_the_headers_of_the_record_that_changed_it_last(
    made: Callable[[sl.App], Any],
) -> None:
    app = sl.App("app")
    made(app)
    with TopologyTestDriver(app, start_ms=0) as driver:
        records = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("d", 5)]
        pipe(driver, "in", [(key, "x", numbered(number)) for key, number in records])
        pipe(driver, "in", [("c", "y", None)])
        store = driver.store("kept", sl.KeyValueStore[str, Any])
        assert [store.headers(key) for key in "abcdx"] == [
            *((("id", b"%d" % number),) for number in (3, 2)),
            *((), (("id", b"5"),), ()),
        ]
        if made is processed:
            driver.advance_wall_clock("1s")
            assert (store.get("b"), store.headers("b")) == ("by the clock", ())


def test_windows_have_those_of_the_record_that_changed_them_last() -> None:
    app = sl.App("app")
    windows = app.stream("in", key=str, value=str).group_by_key()
    windows.windowed_by(sl.tumbling("1h")).aggregate(
        str, lambda _, value, before: before + value, value=str, store=KEPT
    )
    with TopologyTestDriver(app, start_ms=0) as driver:
        pipe(driver, "in", [("a", "x", numbered(1)), ("b", "y", None), ("a", "z", numbered(2))])
        store = driver.store("kept", sl.WindowStore[str, str])
        assert [(window.key, value, store.headers(window)) for window, value in store.all()] == [
            ("a", "xz", (("id", b"2"),)),
            ("b", "y", ()),
        ]
        assert store.headers(sl.Windowed("a", 3_600_000, 7_200_000)) == ()


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("windows", "expected"),  # starts, ends, counts, and which records changed them last
    [
        (
            sl.session("1h"),
            [
                (2 * HOUR, 2 * HOUR + 5, 2, 2),
                (4 * HOUR, 4 * HOUR, 1, 3),
                (6 * HOUR, 6 * HOUR + 5, 2, 4),
            ],
        ),
        (
            sl.sliding("1h"),
            [
                (HOUR, 2 * HOUR, 1, 1),
                (HOUR + 5, 2 * HOUR + 5, 2, 2),
                (2 * HOUR + 1, 3 * HOUR + 1, 1, 2),
                (3 * HOUR, 4 * HOUR, 1, 3),
                (5 * HOUR, 6 * HOUR, 1, None),
                (5 * HOUR + 5, 6 * HOUR + 5, 2, 4),
                (6 * HOUR + 1, 7 * HOUR + 1, 1, 4),
            ],
        ),
    ],
)
def test_each_window_in_a_row_has_headers_of_its_own(
    windows: Any, expected: list[tuple[int, int, int, int | None]]
) -> None:
    """A row that is written again for one of them keeps those of the others."""
    app = sl.App("app")
    by_key = app.stream("in", key=str, value=str).group_by_key()
    how = sl.Materialized("kept", retention="1d", headers=True)
    by_key.windowed_by(windows).count(store=how)
    records = {2 * HOUR: 1, 2 * HOUR + 5: 2, 4 * HOUR: 3, 6 * HOUR: None, 6 * HOUR + 5: 4}
    with TopologyTestDriver(app, start_ms=0) as driver:
        for at, number in records.items():
            heads = None if number is None else numbered(number)
            driver.pipe_input("in", "a", "x", at, headers=heads or ())
        store: Any = driver.store("kept")
        found = [(one.start, one.end, value, store.headers(one)) for one, value in store.all()]
        assert found == [
            (start, end, value, () if number is None else numbered(number)[:1])
            for start, end, value, number in expected
        ]
        assert store.headers(sl.Windowed("a", 1, HOUR + 1)) == ()


def test_a_version_has_the_headers_of_the_record_that_put_it() -> None:
    """Wherever it lies: among the newest, in a chunk of older ones, or put out of order."""
    app = sl.App("app")
    how = sl.Materialized("kept", history="1h", headers=True)
    app.table("in", key=str, value=str, store=how)
    with TopologyTestDriver(app, start_ms=0) as driver:
        for at in (*range(10, 310, 10), 15, 305):
            driver.pipe_input("in", "a", "x", at, headers=numbered(at) if at % 20 else None)
        store = driver.store("kept", sl.VersionedKeyValueStore[str, str])
        versions = [one.timestamp for one in store.get("a", None, None)]
        assert {15, 305} < {*versions}
        for at in versions:
            shown = numbered(at)[:1] if at % 20 else ()
            assert (store.headers("a", at), store.headers("a", at + 2)) == (shown, shown)
        assert store.headers("a") == numbered(305)[:1]
        assert store.headers("a", 9) == store.headers("b") == ()
        driver.pipe_input("in", "a", None, 400, headers=numbered(400))
        assert (store.headers("a"), store.headers("a", 399)) == ((), numbered(305)[:1])


def test_stores_of_processors_note_what_they_put() -> None:
    app = sl.App("app")
    stores = [
        sl.window_store("windows", size=10, retention=1_000, **HEADED),
        sl.session_store("sessions", retention=1_000, **HEADED),
        sl.versioned_store("versions", history=1_000, **HEADED),
    ]
    app.stream("in", key=str, value=str).process(PuttingAll, stores=stores)
    with TopologyTestDriver(app, start_ms=0) as driver:
        pipe(driver, "in", [("a", "x", numbered(1)), ("b", "y", None), ("a", "z", numbered(2))])
        for name in ("windows", "sessions", "versions"):
            store: Any = driver.store(name)
            of = sl.Windowed("a", 5, 15), sl.Windowed("b", 5, 15)
            found = map(store.headers, "ab" if name == "versions" else of)
            assert [*found] == [(("id", b"2"),), ()]


class PuttingAll(sl.Processor[str, str, str, str]):
    """Puts what it gets into three stores."""

    def process(self, record: sl.Record[str, str]) -> None:
        key, value = record.key, record.value
        self.context.store("windows").put(key, value, 5)
        self.context.store("sessions").put(sl.Windowed(key, 5, 15), value)
        self.context.store("versions").put(key, value, 5)


def test_a_store_that_was_not_asked_to_keeps_none_and_says_so() -> None:
    app = sl.App("app")
    by_key = app.stream("in", key=str, value=str).group_by_key()
    by_key.count(store="plain")
    by_key.windowed_by(sl.session("1h")).count(store="sessions")
    app.table("t", key=str, value=str, store=sl.Materialized("versions", history="1h"))
    with TopologyTestDriver(app) as driver:
        pipe(driver, "in", [("a", "x", numbered(1))])
        assert driver._parts[0].state.row_headers == {}
        for name in ("plain", "sessions", "versions"):
            store = driver.store(name)
            with pytest.raises(InvalidStateStoreError, match=r"Materialized\(headers=True\)"):
                store.headers(sl.Windowed("a", 0, 0) if name == "sessions" else "a")


@pytest.mark.parametrize(
    "made",
    [
        lambda app, stream: app.global_table("g", key=str, value=str, store=KEPT),
        lambda app, stream: stream.deduplicate("1m", store=KEPT),
        lambda app, stream: stream.join(
            stream, lambda one, two: one, within=sl.join_windows("1m"), value=str, store=KEPT
        ),
        lambda app, stream: (
            stream.group_by_key().count().suppress(sl.until_time_limit("1m"), store=KEPT)
        ),
    ],
)
def test_stores_of_an_operators_own_records_are_refused(made: Callable[..., Any]) -> None:
    app = sl.App("app")
    with pytest.raises(TopologyError, match="headers= is of one value"):
        sl.window_store("w", size=1, retention=9, retain_duplicates=True, **HEADED)
    with pytest.raises(TopologyError, match="headers= is for rows by key"):
        made(app, app.stream("in", key=str, value=str))


def test_headers_go_where_their_rows_go(tmp_path: Path) -> None:
    """Kept in files, restored from the changelog, taken up and laid down from start to start."""

    def topology(headers: bool) -> Any:
        app = sl.App("app")
        kept = sl.Materialized("counts", headers=headers)
        app.stream("words", key=str, value=str).group_by_key().count(store=kept)
        return app.topology()

    world = World(tmp_path, random.Random(1))
    for topic in ("words", "app-counts-changelog"):
        world.log.create(topic)
    world.log.append(INPUT, [b"old"], [b"x"], headers=[numbered(9)])

    def run(host: str, *keys: str, headers: bool = True) -> dict[str, Headers | None]:
        """Count more records on a host, which then dies; the headers of rows."""
        world.topology = topology(headers)
        owner = Owner(world, host=tmp_path / host)
        list(owner.steps())  # its claim
        for number, key in enumerate(keys):
            world.log.append(INPUT, [key.encode()], [b"x"], headers=[numbered(number)])
        owner.work(10)
        list(owner.steps())
        commits = owner.active.state.stores["counts"].commits
        found = {
            key: commits.headed.of_row(commits, key) if commits.headed is not None else None
            for key in owner.state()
        }
        owner.die()
        return found

    zero, one, two = (((("id", b"%d" % number),)) for number in range(3))
    assert run("one", headers=False) == {"old": None}
    assert run("one", "a", "b", "a") == {"old": (), "a": two, "b": one}
    assert run("one") == {"old": (), "a": two, "b": one}
    assert run("two") == {"old": (), "a": two, "b": one}
    assert run("one", "b", headers=False) == {"old": None, "a": None, "b": None}
    assert run("two", "old") == {"old": zero, "a": two, "b": ()}
    assert run("three", headers=False) == {"old": None, "a": None, "b": None}
    assert run("four") == {"old": zero, "a": two, "b": ()}
