"""Slips that every newcomer makes once: each is refused, or warned of, in words that help."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, StreamletError, TopologyError, WrongTypeError
from streamlet.testing import TopologyTestDriver


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: sl.tumbling(60), "tumbling(size=) 60 is 60 milliseconds; write '60s' for seconds"),
        (lambda: sl.hopping("60", 1), "hopping(size=) '60' is 60 milliseconds; write '60s'"),
        (lambda: sl.session(5), "session(gap=) 5 is 5 milliseconds; write '5s'"),
        (lambda: sl.join_windows(), "join_windows() of 0 ms without grace keeps no record"),
        (lambda: sl.sliding(5), "sliding(difference=) 5 is 5 milliseconds; write '5s'"),
        (lambda: sl.join_windows(5), "join_windows(difference=) 5 is 5 milliseconds; write '5s'"),
        (lambda: sl.until_time_limit(30), "until_time_limit(wait=) 30 is 30 milliseconds"),
        (lambda: sl.sliding(0), ""),
        (lambda: sl.join_windows(grace="1s"), ""),
        (lambda: sl.tumbling("60ms"), ""),
        (lambda: sl.tumbling(60_000), ""),
    ],
)
def test_a_window_of_a_bare_small_number_or_of_nothing_is_warned_of(
    make: Callable[[], object], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        make()
    assert line in caplog.text
    assert bool(line) == bool(caplog.records)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (lambda key, value, time: value, "timestamp= of KSTREAM-SOURCE-0000000000 gives"),
        (None, "records of in have times such as"),
    ],
)
def test_times_in_seconds_are_warned_of_once(
    own: Callable[..., int] | None, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = sl.App("seconds")
    lines = app.stream("in", key=str, value=int, timestamp=own)
    lines.repartition().to("out")
    with caplog.at_level(logging.WARNING), TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", 1_700_000_000_000)
        assert not caplog.records
        for _ in range(2):
            driver.pipe_input("in", "a", 1_700_000_000, timestamp_ms=1_700_000_000)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        f"{words} 1700000000, which is in January 1970"
    ]


def test_a_topic_that_a_stream_comes_from_is_written_only_where_that_is_meant() -> None:
    app = sl.App("loop")
    tries = app.stream("jobs", key=str, value=int)
    with pytest.raises(TopologyError, match=r"writes the topic that .*to\('jobs', feedback=True\)"):
        tries.to("jobs")
    counts = tries.group_by(lambda key, value: str(value), key=str).count()
    with pytest.raises(TopologyError, match="again for ever"):
        counts.to_stream().to("jobs")
    tries.filter(lambda key, n: n > 0).map_values(lambda n: n - 1, value=int).to(
        "jobs", feedback=True
    )
    tries.to("done")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("jobs", "a", 2)
        assert [record.value for record in driver.read_output("done")] == [2, 1, 0]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"reset": "latest"}, "reset= None and 'latest'; read it once"),
        ({"timestamp": lambda k, v, t: t}, "timestamp= of two functions; read it once"),
        ({"value": bytes}, "value= str and bytes; read it once"),
    ],
)
def test_a_topic_that_is_read_in_two_ways_says_in_which(how: Any, words: str) -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match=f"read twice with different settings: {words}"):
        app.stream("in", **{"key": str, "value": str, **how})


def test_a_pattern_of_bytes_is_refused_where_it_is_given() -> None:
    with pytest.raises(WrongTypeError, match=r"stream\(\) expects a pattern of text, .*got b'a"):
        sl.App("bytes").stream(re.compile(b"a.*"), key=str, value=str)  # type: ignore[arg-type]


@pytest.mark.parametrize("topic", [None, ["out"]])
def test_what_is_no_topic_is_named_as_such(topic: object) -> None:
    lines = sl.App("topics").stream("in", key=str, value=str)
    with pytest.raises(WrongTypeError, match=r"to\(\) expects a topic's name or a function"):
        lines.to(topic)  # type: ignore[arg-type]


def test_an_operator_that_comes_too_late_is_told_what_to_do() -> None:
    app = sl.App("late")
    lines = app.stream("in", key=str, value=str)
    lines.to("out")
    app.topology()
    with pytest.raises(TopologyError, match=r"add it before run\(\), topology\(\)"):
        lines.filter(lambda key, value: True)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"n": sl.count}, "'n' is <function count"),
        ({"n": sl.count(), 5: "x"}, "5 is 'x'"),
        ({}, "it is empty"),
    ],
)
def test_a_dict_of_no_aggregations_says_which_is_none(wanted: Any, words: str) -> None:
    grouped = sl.App("dict").stream("in", key=str, value=str).group_by_key()
    said = rf"^aggregate\({{…}}\) expects aggregations by their names, such as {{'n': sl.*{words}"
    with pytest.raises(WrongTypeError, match=said):
        grouped.aggregate(wanted)


def test_streams_and_tables_show_their_types() -> None:
    app = sl.App("shown")
    lines = app.stream("in", key=str, value=int)
    assert repr(lines) == "KStream[str, int] of KSTREAM-SOURCE-0000000000"
    assert repr(lines.map_values(lambda v: v)).startswith("KStream[str, ")
    assert repr(lines.group_by_key().count()).startswith("KTable[str, int] of ")
    grouped = lines.group_by_key()
    assert repr(grouped) == "KGroupedStream[str, int] of KSTREAM-SOURCE-0000000000"
    assert repr(grouped.windowed_by(sl.tumbling("1m"))) == f"WindowedKStream of {grouped!r}"


def test_a_closed_driver_says_that_it_is_closed() -> None:
    app = sl.App("closed")
    app.table("in", key=str, value=str, store="rows")
    with TopologyTestDriver(app) as driver:
        rows = driver.store("rows")
        driver.pipe_input("in", "a", "b")
        assert rows.get("a") == "b"
    for use in (
        lambda: driver.pipe_input("in", "a", "b"),
        lambda: driver.store("rows"),
        lambda: driver.advance_wall_clock("5s"),
        lambda: rows.get("a"),
        lambda: rows.all(),
    ):
        with pytest.raises(ValueError, match="the driver is closed") as refused:
            use()
        assert isinstance(refused.value, StreamletError), "notebooks show its message alone"


@pytest.mark.parametrize(
    "use",
    [
        lambda driver: driver.pipe_input("in", "a", "c"),
        lambda driver: driver.advance_wall_clock("5s"),
        lambda driver: driver.advance_stream_time("5s"),
        lambda driver: driver.close(),
    ],
)
def test_a_function_that_calls_its_own_driver_is_told_so(
    use: Callable[[TopologyTestDriver], None],
) -> None:
    app = sl.App("inside")
    app.stream("in", key=str, value=str).peek(lambda k, v: v == "b" and use(driver)).to("out")
    with TopologyTestDriver(app) as driver:
        with pytest.raises(ProcessingError, match="calls the driver that runs it"):
            driver.pipe_input("in", "a", "b")
        driver.pipe_input("in", "a", "d")
        assert [record.value for record in driver.read_output("out")] == ["d"]


def test_a_driver_that_another_thread_is_in_says_so() -> None:
    begun, done = threading.Event(), threading.Event()

    def wait(key: str, value: str) -> None:
        begun.set()
        assert done.wait(30)

    app = sl.App("threads")
    app.stream("in", key=str, value=str).peek(wait).to("out")
    with TopologyTestDriver(app) as driver:
        other = threading.Thread(target=driver.pipe_input, args=("in", "a", "b"))
        other.start()
        assert begun.wait(30)
        with pytest.raises(ValueError, match="another thread is in a call of the driver: call it"):
            driver.pipe_input("in", "a", "c")
        done.set()
        other.join()
        assert [record.value for record in driver.read_output("out")] == ["b"]


#: Results of functions that their operators cannot take, and what the message says of each.
RESULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "flat_map, None": (
        lambda lines: lines.flat_map(lambda k, v: None, key=str, value=str),
        r"test_mistakes.py:\d+ in .*: expected pairs \(key, value\), .* got None",
    ),
    "flat_map_values, None": (
        lambda lines: lines.flat_map_values(lambda v: None, value=str),
        r"test_mistakes.py:\d+ in .*: expected values, in a list or yielded, \[\] for none",
    ),
    "group_by of a table, a text of two characters": (
        lambda lines: lines.to_table().group_by(lambda k, v: "ab", key=str, value=str).count(),
        r"expected a pair \(key, value\), or None for no group, got 'ab'",
    ),
    "map, a list of two": (
        lambda lines: lines.map(lambda k, v: [k, v], key=str, value=str),
        r"expected a pair \(key, value\), got \['a', 'b'\]",
    ),
    "flat_map, a list of two": (
        lambda lines: lines.flat_map(lambda k, v: [[k, v]], key=str, value=str),
        r"expected a pair \(key, value\), got \['a', 'b'\]",
    ),
    "put_all, no pair": (
        lambda lines: lines.process(
            lambda r, context: context.store("kept").put_all(["ab"]),
            stores=[sl.key_value_store("kept", key=str, value=str)],
        ),
        r"put_all\(\) expects pairs \(key, value\), got 'ab'",
    ),
    "flat_map_values, Python's own error inside": (
        lambda lines: lines.flat_map_values(lambda v: map(iter, [5]), value=str),
        r"`: TypeError: 'int' object is not iterable; a record failed",
    ),
    "to, a list": (
        lambda lines: lines.to(lambda k, v: ["out"]),
        r"expected the name of a topic, got \['out'\]",
    ),
    "partitioner, a number of numpy": (
        lambda lines: lines.to("out", partitioner=lambda k, v, n: numpy.int64(0)),
        r"expected a partition.*call its \.item\(\)",
    ),
    "partitioner, an array": (
        lambda lines: lines.to("out", partitioner=lambda k, v, n: numpy.array([0])),
        r"expected a partition.*call its \.tolist\(\)",
    ),
    "a record's time of numpy": (
        lambda lines: lines.process(lambda r: sl.Record(r.key, r.value, numpy.int64(5))),  # type: ignore[arg-type]
        r"expected a timestamp.*call its \.item\(\)",
    ),
    "a record's headers, None": (
        lambda lines: lines.process(lambda r, context: context.forward(r.with_headers(None))),
        r"expected headers as pairs of a name and bytes, such as \[.*\], got None",
    ),
    "a dict with a number of numpy": (
        lambda lines: lines.map_values(lambda v: {"n": numpy.int64(5)}, value=dict).to("out"),
        r"objects of type numpy\.int64 is unsupported; call its \.item\(\)",
    ),
    "an aggregate of numpy": (
        lambda lines: lines.group_by_key().aggregate(
            lambda: 0, lambda k, v, n: numpy.int64(n + 1), value=int
        ),
        r"int: expected int, got int64 .*call its \.item\(\)",
    ),
}


@pytest.mark.parametrize("of", RESULTS)
def test_a_result_that_an_operator_cannot_take_is_told_with_what_it_takes(of: str) -> None:
    app = sl.App("results")
    make, message = RESULTS[of]
    make(app.stream("in", key=str, value=str))
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError, match=message):
        driver.pipe_input("in", "a", "b")


def test_lists_of_two_are_pairs_where_a_table_is_grouped_and_where_pairs_are_put() -> None:
    app = sl.App("lists")
    lines = app.table("in", key=str, value=str)
    groups: Any = lines.group_by(lambda key, line: [line, key], key=str, value=str)  # type: ignore[arg-type, return-value]
    groups.count(store="grouped")
    kept = sl.key_value_store("kept", key=str, value=str)
    lines.to_stream().process(
        lambda record, context: context.store(kept).put_all([[record.key, record.value]]),
        stores=[kept],
    )
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "b")
        driver.pipe_inputs("in", [["c", "b"]])  # type: ignore[list-item]
        assert driver.store("grouped").get("b") == 2
        assert dict(driver.store(kept).all()) == {"a": "b", "c": "b"}


def test_each_result_of_flat_map_values_is_looked_at_in_its_place() -> None:
    async def late(line: str) -> str:
        return line

    app = sl.App("looked", on_error="skip")
    lines = app.stream("in", key=str, value=str)
    results: dict[str, Any] = {
        "a": ["1"],
        "b": late,
        "c": "23",
        "d": ["4"],
        "e": 5,
        "f": iter("67"),
    }
    answer: Any = lambda line: late(line) if line == "b" else results[line]  # noqa: E731
    lines.flat_map_values(answer, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [(None, line) for line in results])
        assert [one.value for one in driver.read_output("out")] == ["1", "4", "6", "7"]
        assert driver.skipped() == 3


def test_headers_that_can_be_gone_through_once_are_refused() -> None:
    app = sl.App("headers")
    headers: Any = (pair for pair in [("id", b"7")])
    lines = app.stream("in", key=str, value=str)
    lines.process(lambda r: sl.Record(r.key, r.value, 5, headers), key=str, value=str).to("out")
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(ProcessingError, match="expected headers as pairs of a name and bytes"),
    ):
        driver.pipe_input("in", "a", "b")


def test_a_time_of_numpy_is_told_what_makes_an_int_of_it() -> None:
    app = sl.App("times")
    at: Any = numpy.int64(5)
    app.stream("in", key=str, value=str, timestamp=lambda k, v, t: at).to("out")
    with TopologyTestDriver(app) as driver:
        with pytest.raises(ProcessingError, match=r"expected ms since .*call its \.item\(\)"):
            driver.pipe_input("in", "a", "b")
        for use in (
            lambda: driver.pipe_input("in", "a", "b", at),
            lambda: driver.advance_wall_clock(at),
            lambda: TopologyTestDriver(app, partitions={"in": at}),
        ):
            with pytest.raises(WrongTypeError, match=r"call its \.item\(\)"):
                use()


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"ab": "c"}, r"got a dict; give its \.items\(\)"),
        (["ab"], "got 'ab'"),
        (None, "got None"),
    ],
)
@pytest.mark.parametrize("builder", [sl.key_value_store, sl.timestamped_store])
def test_entries_that_are_no_pairs_are_not_put(builder: Any, entries: Any, message: str) -> None:
    app = sl.App("entries")
    store = builder("s", key=str, value=str)
    app.stream("in", key=str, value=str).process(lambda r, context: None, stores=[store])
    with TopologyTestDriver(app) as driver:
        with pytest.raises(TypeError, match=rf"put_all\(\) expects pairs .*{message}"):
            driver.store("s").put_all(entries)
        assert [*driver.store("s").all()] == []
