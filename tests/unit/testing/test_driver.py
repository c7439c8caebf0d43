"""What the driver promises beyond running operators: topics, clocks, error policies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from streamlet.app import App
from streamlet.errors import ConfigError, NotFoundError, ProcessingError, SerdeError
from streamlet.kafka.murmur2 import partition_of
from streamlet.serdes import json
from streamlet.testing.driver import TopologyTestDriver
from streamlet.testing.driver_inputs import START_MS


def echo(**options: object) -> App:
    app = App("echo", **options)  # type: ignore[arg-type]
    app.stream("in", key=str, value=int).map_values(lambda v: 100 // v, value=int).to("out")
    return app


def test_records_carry_the_time_given_or_the_drivers_own() -> None:
    with TopologyTestDriver(echo()) as driver:
        driver.pipe_input("in", "a", 1, timestamp_ms=5)
        driver.pipe_input("in", "a", 1)
        driver.advance_record_time(timedelta(seconds=2))
        driver.pipe_input("in", "a", 1)
        driver.advance_record_time(1)
        driver.advance_wall_clock(timedelta(minutes=1))
        driver.pipe_input("in", "a", 1)
        times = [record.timestamp for record in driver.read_output("out")]
        driver.set_record_time(7)
        driver.pipe_input("in", "a", 1)
        assert [record.timestamp for record in driver.read_output("out")] == [7]
    assert times == [5, START_MS, START_MS + 2000, START_MS + 2001]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d: d.pipe_input("in", "a", "x"), SerdeError, "pipe to 'in': the value: int: "),
        (
            lambda d: d.pipe_inputs("in", [("a", 1), (2, 2)]),
            SerdeError,
            "pipe to 'in': the key of record 1: str: ",
        ),
        (lambda d: d.pipe_input("in", "a", 1, 1.5), TypeError, "timestamp_ms= expects an int, ms"),
        (
            lambda d: d.pipe_input("in", "a", 1, datetime(2020, 1, 1)),  # noqa: DTZ001
            TypeError,
            "timestamp_ms= expects .* with a time zone",
        ),
        (
            lambda d: d.pipe_input("in", "a", 1, headers={"h": b"v"}),
            TypeError,
            "headers= expects pairs of a name and bytes",
        ),
        (
            lambda d: d.pipe_input("in", "a", 1, headers=[("h", "v")]),
            TypeError,
            "headers= expects pairs of a name and bytes",
        ),
        (lambda d: d.advance_wall_clock("5 parsecs"), ValueError, "such as .30s"),
        (lambda d: d.advance_wall_clock(-1), ValueError, "time never moves back"),
        (lambda d: d.set_record_time("now"), TypeError, "set_record_time.. expects an int"),
        (lambda d: TopologyTestDriver("a"), TypeError, "expects an App, got 'a'"),
        (lambda d: TopologyTestDriver(d, config={}), TypeError, "config.*called as TopologyTest"),
        (lambda d: d.pipe_input(["in"], "a", 1), TypeError, "expects the name of a topic"),
        (
            lambda d: d.pipe_input("in", "a", 1, partition="0"),
            TypeError,
            "expects a whole number",
        ),
        (lambda d: d.pipe_inputs("in", {"a": 1}), TypeError, "expects pairs of a key and a value"),
        (lambda d: d.pipe_inputs("in", [("a",)]), TypeError, "expects pairs of a key and a value"),
        (lambda d: d.pipe_inputs("in", [5]), TypeError, "expects pairs of a key and a value"),
        (lambda d: d.pipe_inputs("in", None), TypeError, "expects pairs of a key and a value"),
        (lambda d: d.pipe_bytes("in", "a", b""), TypeError, "expects bytes, got"),
        (lambda d: d.read_output(["out"]), TypeError, "expects the name of a topic"),
        (lambda d: d.store(5), TypeError, "expects the name of a store"),
        (lambda d: d.store("s", 5), TypeError, "expects a class of stores, got 5"),
        (lambda d: (d.close(), d.advance_stream_time(1)), ValueError, "the driver is closed"),
    ],
)
def test_what_a_test_gives_wrongly_is_named(
    call: Callable[[TopologyTestDriver], object], error: type[Exception], message: str
) -> None:
    app = App("given")
    app.stream("in", key=str, value=int).to("out")
    with TopologyTestDriver(app) as driver, pytest.raises(error, match=message):
        call(driver)


def test_times_may_be_given_as_such_and_lengths_of_time_as_text() -> None:
    app = App("given")
    app.stream("in", key=str, value=int).to("out")
    start = datetime(2024, 5, 1, tzinfo=UTC)
    with TopologyTestDriver(app, start_ms=start) as driver:
        driver.advance_record_time("5s")
        driver.pipe_input("in", "a", 1)
        driver.pipe_input("in", "b", 2, datetime(2024, 5, 2, tzinfo=UTC), headers=[("h", None)])
        times = [record.timestamp for record in driver.read_output("out")]
    assert times == [1_714_521_605_000, 1_714_608_000_000]


def test_stream_time_is_the_highest_record_time_and_moves_on_without_a_record() -> None:
    with TopologyTestDriver(echo()) as driver:
        assert driver.stream_time is None
        with pytest.raises(ValueError, match="no stream time before a first record"):
            driver.advance_stream_time(1)
        driver.pipe_inputs("in", [("a", 1)], timestamp_ms=500)
        driver.pipe_input("in", "a", 1, timestamp_ms=300)
        assert driver.stream_time == 500
        driver.advance_stream_time(timedelta(seconds=1))
        assert driver.stream_time == 1500
        with pytest.raises(ValueError, match="never moves back"):
            driver.advance_stream_time(-1)
        driver.pipe_input("in", "a", 1, timestamp_ms=400)
        assert driver.stream_time == 1500
        assert [record.timestamp for record in driver.read_output("out")] == [500, 300, 400]


def test_outputs_are_read_once_and_a_topic_without_records_is_empty() -> None:
    with TopologyTestDriver(echo(on_error=("dead_letter", "dead"))) as driver:
        driver.pipe_input("in", "a", 1)
        assert len(driver.read_output("out")) == 1
        assert driver.read_output("out") == []
        assert driver.read_output("dead") == []


def test_outputs_that_are_read_as_another_type_are_named_and_can_be_read_again() -> None:
    with TopologyTestDriver(echo()) as driver:
        driver.pipe_input("in", "a", 1)
        for part in ("key", "value"):
            said = rf"^read_output\('out'\): the {part}: json: cannot decode b"
            with pytest.raises(SerdeError, match=said):
                driver.read_output("out", **{part: json()})
        assert len(driver.read_output("out")) == 1


def test_a_topic_that_the_application_does_not_write_is_refused_with_those_it_writes() -> None:
    with TopologyTestDriver(echo(on_error=("dead_letter", "dead"))) as driver:
        driver.pipe_input("in", "a", 1)
        for wrong in ("otu", "in"):
            with pytest.raises(
                NotFoundError, match=f"does not write '{wrong}'; it writes dead, ou"
            ):
                driver.read_output(wrong)
        assert len(driver.read_output("out")) == 1


def test_outputs_show_the_partition_that_kafka_would_give_them() -> None:
    app = App("parts")
    stream = app.stream("in", key=str, value=int)
    stream.to("chosen", partitioner=lambda key, value, partitions: value % partitions)
    stream.to("by-key")
    stream.to("one")
    with TopologyTestDriver(app, partitions={"chosen": 3, "by-key": 4}) as driver:
        driver.pipe_inputs("in", [("a", 7), ("b", 5), (None, 3)])
        partitions = {
            topic: [record.partition for record in driver.read_output(topic)]
            for topic in ("chosen", "by-key", "one")
        }
    by_key = [partition_of(b"a", 4), partition_of(b"b", 4), None]
    assert partitions == {"chosen": [1, 2, 0], "by-key": by_key, "one": [0, 0, 0]}


def test_partitions_of_a_topic_that_is_ours_or_unknown_are_refused() -> None:
    app = echo()
    app.stream("in", key=str, value=int).repartition(name="again").to("copy")
    wrong = {"echo-again-repartition": 2, "elsewhere": 2, "out": 0}
    with pytest.raises(ConfigError) as raised:
        TopologyTestDriver(app, partitions=wrong)
    assert raised.value.problems == (
        "partitions=: 'echo-again-repartition' has as many partitions as the topics before it",
        "partitions=: 'elsewhere' is neither read nor written by echo",
        "partitions=: 'out' cannot have 0 partitions",
    )


def test_a_topic_that_is_written_and_read_goes_round() -> None:
    app = App("round")
    app.stream("in", key=str, value=int).to("middle")
    app.stream("middle", key=str, value=int).map_values(lambda v: v + 1, value=int).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("b", 2)])
        assert [r.value for r in driver.read_output("middle")] == [1, 2]
        assert [r.value for r in driver.read_output("out")] == [2, 3]


def test_a_record_nobody_reads_or_that_cannot_be_encoded_is_refused() -> None:
    with TopologyTestDriver(echo()) as driver:
        with pytest.raises(NotFoundError, match="does not read 'out'; it reads in"):
            driver.pipe_input("out", "a", 1)
        with pytest.raises(SerdeError, match="int: expected int, got str"):
            driver.pipe_input("in", "a", "1")
        with pytest.raises(NotFoundError, match="no store 'n'; there are: none"):
            driver.store("n")


def test_a_record_that_fails_ends_the_call_under_the_policy_fail() -> None:
    with (
        TopologyTestDriver(echo()) as driver,
        pytest.raises(ProcessingError, match=r"ZeroDivisionError.* at in-0 offset 1, operator"),
    ):
        driver.pipe_inputs("in", [("a", 1), ("a", 0)])


def test_a_record_that_fails_is_left_out_under_the_policy_skip() -> None:
    with TopologyTestDriver(echo(on_error="skip")) as driver:
        driver.pipe_inputs("in", [("a", 1), ("a", 0), ("a", 2)])
        driver.pipe_bytes("in", b"a", b"short")
        assert [r.value for r in driver.read_output("out")] == [100, 50]
        assert driver.skipped() == 2


def test_a_record_that_fails_goes_to_the_dead_letters_as_it_was() -> None:
    with TopologyTestDriver(echo(on_error=("dead_letter", "dead"))) as driver:
        driver.pipe_inputs("in", [("a", 1), ("b", 0)])
        driver.pipe_bytes("in", b"c", b"short", timestamp_ms=9)
        zero, short = driver.read_output("dead", key=str)
    assert (zero.key, zero.value) == ("b", bytes(8))
    assert (short.key, short.value, short.timestamp) == ("c", b"short", 9)
    assert zero.headers is not None
    assert dict(zero.headers)["streamlet.error"] == b"ZeroDivisionError"


def test_an_extractor_gives_each_record_its_time() -> None:
    app = App("timed")
    stream = app.stream("in", key=str, value=int, timestamp=lambda key, value, time: value)
    stream.to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 7), ("a", -1), ("a", 9)])
        assert [r.timestamp for r in driver.read_output("out")] == [7, 9]
        assert driver.dropped() == 1


def test_a_store_can_be_filled_before_the_first_record() -> None:
    app = App("count")
    app.stream("in", key=str, value=int).group_by_key().count(store="n").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.store("n").put("a", 41)
        driver.pipe_input("in", "a", 1)
        assert [r.value for r in driver.read_output("out")] == [42]
