"""The stores that a ``TopologyTestDriver`` shows, and how long it lets inputs wait."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.errors import NotFoundError, TopologyError
from streamlet.testing import TopologyTestDriver

#: What each kind of store has, which is all that there is to it.
_ENTRIES = {"name", "get", "put", "put_all", "put_if_absent", "delete", "range", "reverse_range"}
_ENTRIES |= {"all", "reverse_all", "prefix_scan", "timestamp", "approximate_num_entries"}
_WINDOWS = {"name", "get", "put", "range", "all", "backward_all", "fetch", "backward_fetch"}
_ALWAYS = {"name", "keeps_headers"}
_ENTRIES |= {*_ALWAYS, "headers"}
_WINDOWS |= {*_ALWAYS, "headers", "timestamp"}
FACES = {
    "KeyValueStore": _ENTRIES,
    "TimestampedStore": _ENTRIES,
    "VersionedKeyValueStore": _ALWAYS
    | {"get", "put", "delete", "headers", "NOT_PUT", "VALID_TO_UNDEFINED"},
    "WindowStore": _WINDOWS | {"fetch_all", "backward_fetch_all"},
    "SessionStore": _WINDOWS
    | {"remove", "fetch_session", "find_sessions", "backward_find_sessions"},
    "OperatorStore": _ALWAYS | {"all", "approximate_num_entries"},
}


def all_kinds() -> sl.App:
    """An application with a store of each kind."""
    app = sl.App("a")
    stream = app.stream("in", key=str, value=int)
    grouped = stream.group_by_key()
    counts = grouped.count(store=sl.Materialized("counts", ttl="1m"))
    counts.suppress(sl.until_time_limit("1h"), store="held")
    grouped.windowed_by(sl.tumbling("1s")).count(store="windows")
    grouped.windowed_by(sl.sliding("1s")).count(store="sliding")
    grouped.windowed_by(sl.session("1s")).count(store="sessions")
    app.table("rows", key=str, value=int, store=sl.Materialized("versions", history="1h"))
    app.global_table("all", key=str, value=int, store="globals")
    own = [
        sl.key_value_store("kept", key=str, value=int, ttl="1m"),
        sl.timestamped_store("timed", key=str, value=int),
        sl.window_store("own", key=str, value=int, size=10, retention="1h"),
    ]

    def put(record: sl.Record[str, int], context: sl.ProcessorContext[str, int]) -> None:
        context.store("kept").put(record.key, record.value)
        context.store("timed").put(record.key, record.value, record.timestamp)
        context.store("own").put(record.key, record.value, record.timestamp)

    stream.process_values(put, stores=own, value=int)
    return app


def test_each_kind_of_store_has_its_public_methods() -> None:
    with TopologyTestDriver(all_kinds()) as driver:
        driver.pipe_input("in", "k", 5, 0)
        driver.pipe_input("rows", "k", 6, 0)
        driver.pipe_input("all", "k", 7, 0)
        kinds = {
            name: type(store).__name__ for name, store in driver.get_all_state_stores().items()
        }
        assert kinds == {
            "counts": "KeyValueStore",
            "counts-ttl": "OperatorStore",
            "globals": "KeyValueStore",
            "held": "OperatorStore",
            "kept": "KeyValueStore",
            "kept-ttl": "OperatorStore",
            "own": "WindowStore",
            "sessions": "SessionStore",
            "sliding": "WindowStore",
            "timed": "TimestampedStore",
            "versions": "VersionedKeyValueStore",
            "windows": "WindowStore",
        }
        for store in driver.get_all_state_stores().values():
            shown = {name for name in dir(store) if not name.startswith("_")}
            assert shown == FACES[type(store).__name__]
        assert driver.store("counts").get("k") == 1
        assert driver.store("counts").timestamp("k") == 0
        assert driver.store("kept").get("k") == 5
        assert driver.store("timed").get("k") == (5, 0)
        assert driver.store("globals").get("k") == 7
        assert driver.store("versions").get("k").value == 6
        assert list(driver.store("windows").fetch("k", None, None)) == [(0, 1)]
        assert list(driver.store("windows").backward_all()) == [(("k", 0, 1_000), 1)]
        assert list(driver.store("sliding").fetch("a", "z", None, None)) == [(("k", 0, 1_000), 1)]
        assert list(driver.store("sessions").fetch("k")) == [(("k", 0, 0), 1)]
        assert driver.store("own").fetch("k", 0) == 5
        assert driver.store("held").approximate_num_entries() == 1
        assert [key for key, _ in driver.store("held").all()] == ["k"]


def test_a_store_is_asked_for_with_its_kind() -> None:
    kept = sl.key_value_store("kept", key=str, value=int, ttl="1m")
    with TopologyTestDriver(all_kinds()) as driver:
        driver.pipe_input("in", "k", 5, 7)
        driver.pipe_input("all", "k", 6, 8)
        assert driver.store("counts", sl.KeyValueStore[str, int]).get("k") == 1
        assert driver.store("counts", sl.TimestampedStore[str, int]).get("k") == (1, 7)
        assert driver.store("globals", sl.TimestampedStore).get("k") == (6, 8)
        assert driver.store("own", sl.WindowStore[str, int]).fetch("k", 7) == 5
        assert driver.store(kept).get("k") == 5
        for name, kind in {
            "counts": sl.WindowStore[str, int],
            "windows": sl.SessionStore[str, int],
            "versions": sl.KeyValueStore[str, int],
            "held": sl.KeyValueStore[str, int],
            "kept": sl.TimestampedStore[str, int],
            "timed": sl.KeyValueStore[str, int],
        }.items():
            kind_of = type(driver.store(name)).__name__
            with pytest.raises(TypeError, match=f"store {name} is a {kind_of}, not a "):
                driver.store(name, kind)


def test_a_processor_asks_for_a_store_with_its_kind() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=int).group_by_key().count(store="counts")
    kept = sl.window_store("kept", key=str, value=int, size=10, retention="1h")

    def look(record: sl.Record[str, int], context: sl.ProcessorContext[str, str]) -> str:
        context.store(kept).put(record.key, record.value, record.timestamp)
        with pytest.raises(TypeError, match="store kept is a WindowStore, not a LruStore"):
            context.store("kept", sl.LruStore[str, int])
        plain = context.store("counts", sl.KeyValueStore[str, int])
        with pytest.raises(TopologyError, match="an operator keeps it"):
            plain.put("k", 1)
        timed = context.store("counts", sl.TimestampedStore[str, int])
        return f"{plain.get('k')} {timed.get('k')} {context.store(kept).fetch('k', 3)}"

    asked = app.stream("ask", key=str, value=int)
    asked.process_values(look, stores=["counts", kept], value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", 1, 5)
        driver.pipe_input("ask", "k", 9, 3)
        (record,) = driver.read_output("out")
    assert record.value == "1 ValueAndTimestamp(value=1, timestamp=5) 9"


def test_entries_that_have_expired_are_not_shown() -> None:
    with TopologyTestDriver(all_kinds()) as driver:
        driver.pipe_input("in", "k", 5, 0)
        driver.pipe_input("in", "other", 5, 60_000)
        for name in ("counts", "kept"):
            assert [key for key, _ in driver.store(name).all()] == ["other"]
            assert driver.store(name).get("k") is None


def test_all_stores_of_several_partitions_are_asked_for_one_by_one() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=int).group_by_key().count(store="n")
    with TopologyTestDriver(app, partitions={"in": 2}) as driver:
        driver.pipe_input("in", "a", 1, partition=1)
        with pytest.raises(NotFoundError, match="partition= says which"):
            driver.get_all_state_stores()
        found = [driver.get_all_state_stores(partition=n)["n"].get("a") for n in range(2)]
        assert found == [None, 1]
        with pytest.raises(NotFoundError, match="no task has partition 5"):
            driver.get_all_state_stores(partition=5)


def test_records_wait_for_another_input_as_long_as_the_application_says() -> None:
    app = sl.App("a", config={"max.task.idle.ms": 1_000})
    rows = app.table("rows", key=str, value=str)
    lines = app.stream("lines", key=str, value=str)
    lines.join(rows, lambda line, row: f"{line} {row}").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("lines", "k", "a", 10)
        assert driver.read_output("out") == []
        driver.pipe_input("rows", "k", "old", 5)
        assert [record.value for record in driver.read_output("out")] == []
        driver.advance_wall_clock(999)
        assert driver.read_output("out") == []
        driver.advance_wall_clock(1)
        assert [record.value for record in driver.read_output("out")] == ["a old"]


def test_a_processor_reads_the_windows_of_an_aggregation() -> None:
    app = sl.App("a")
    stream = app.stream("in", key=str, value=int)
    stream.group_by_key().windowed_by(sl.tumbling("1s")).count(store="counts")
    stream.group_by_key().windowed_by(sl.session("1s")).count(store="visits")

    def look(record: sl.Record[str, int], context: sl.ProcessorContext[str, str]) -> str:
        counts = list(context.store("counts").fetch("k", None, None))
        with pytest.raises(TopologyError, match="an operator keeps it"):
            context.store("counts").put("k", 1, 0)
        visits = [(window.end, count) for window, count in context.store("visits").fetch("k")]
        return f"{counts} {visits}"

    looked = app.stream("ask", key=str, value=int)
    looked.process_values(look, stores=["counts", "visits"], value=str).to("out")
    with TopologyTestDriver(app) as driver:
        for time in (0, 5, 1_001):
            driver.pipe_input("in", "k", 1, time)
        driver.pipe_input("ask", "k", 1, 0)
        (record,) = driver.read_output("out")
    assert record.value == "[(1000, 1)] [(1001, 3)]"
