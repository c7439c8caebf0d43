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


def test_a_store_that_was_not_asked_to_keeps_none_and_says_so() -> None:
    app = sl.App("app")
    app.stream("in", key=str, value=str).group_by_key().count(store="plain")
    with TopologyTestDriver(app) as driver:
        pipe(driver, "in", [("a", "x", numbered(1))])
        store = driver.store("plain", sl.KeyValueStore[str, int])
        assert driver._parts[0].state.row_headers == {}
        with pytest.raises(InvalidStateStoreError, match=r"Materialized\(headers=True\)"):
            store.headers("a")


@pytest.mark.parametrize(
    "made",
    [
        lambda app, by_key: by_key.windowed_by(sl.session("1m")).count(store=KEPT),
        lambda app, by_key: by_key.windowed_by(sl.sliding("1m")).count(store=KEPT),
        lambda app, by_key: app.global_table("g", key=str, value=str, store=KEPT),
        lambda app, by_key: app.table(
            "t", key=str, value=str, store=sl.Materialized("t", history="1h", headers=True)
        ),
        lambda app, by_key: by_key.count().suppress(sl.until_time_limit("1m"), store=KEPT),
    ],
)
def test_stores_with_several_records_in_a_row_are_refused(made: Callable[..., Any]) -> None:
    app = sl.App("app")
    with pytest.raises(TopologyError, match="headers= is for rows by key"):
        made(app, app.stream("in", key=str, value=str).group_by_key())


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
