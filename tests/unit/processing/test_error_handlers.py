"""Handlers of records that fail: asked at each stage, with what they need to know to answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.app import hosted
from streamlet.errors import ConfigError, HandlerError, ProcessingError
from streamlet.processing.policy import ErrorPolicy, Retry
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId

Asked = list[tuple[sl.ErrorContext, sl.FailedRecord | None, BaseException]]


def refuse(value: int) -> int:
    if value < 0:
        raise ValueError("below zero")
    return value


def encode(value: int) -> bytes:
    if value > 99:
        raise ValueError("too many digits")
    return str(value).encode()


def noting(asked: Asked, answer: Any = "skip") -> Callable[..., Any]:
    def handler(context: sl.ErrorContext, record: Any, error: BaseException) -> Any:
        asked.append((context, record, error))
        return answer

    return handler


def shop(**handlers: Any) -> sl.App:
    app = sl.App("shop", **handlers)
    numbers = app.stream("in", key=str, value=int).map_values(refuse, value=int)
    numbers.to("out", value=(encode, int))
    return app


def out(driver: TopologyTestDriver, topic: str = "out") -> list[Any]:
    return [record.value for record in driver.read_output(topic)]


def test_each_stage_asks_its_own_handler_with_the_place_and_the_record() -> None:
    asked: dict[str, Asked] = {}
    stages = ("deserialization", "processing", "production")
    handlers = {f"{stage}_handler": noting(asked.setdefault(stage, [])) for stage in stages}
    with TopologyTestDriver(shop(**handlers)) as driver:
        driver.pipe_inputs("in", [("a", 1), ("b", -1)], 5_000, headers=[("h", b"1")])
        driver.pipe_bytes("in", b"c", b"?", 6_000)
        driver.pipe_inputs("in", [("d", 100), ("e", 2)])
        assert out(driver) == [1, 2]
        assert driver.skipped() == 3
    ((read, read_record, _),) = asked["deserialization"]
    ((done, done_record, error),) = asked["processing"]
    ((sent, sent_record, _),) = asked["production"]
    assert (read.stage, read.offset, read.timestamp) == ("deserialization", 2, 6_000)
    assert read_record == sl.FailedRecord(b"c", b"?")
    assert done == sl.ErrorContext(
        *("processing", "shop", TaskId(0, 0), "KSTREAM-MAPVALUES-0000000001"),
        *("in", 0, 1, 5_000, (("h", b"1"),), 1),
    )
    assert (done_record, str(error)) == (sl.FailedRecord("b", -1), "below zero")
    assert (sent.stage, sent.offset) == ("production", 3)
    assert sent_record == sl.FailedRecord("d", 100, "out")


def test_a_stage_without_a_handler_has_the_answer_for_all() -> None:
    app = shop(on_error=("dead_letter", "dead"), processing_handler="skip")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", -1), ("b", 100)])
        driver.pipe_bytes("in", b"c", b"?")
        assert [record.key for record in driver.read_output("dead")] == [b"b", b"c"]
        assert driver.skipped() == 3


def test_a_handler_names_the_topic_of_each_dead_letter() -> None:
    app = shop(processing_handler=lambda context, record, error: ("dead_letter", record.key))
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", -1), ("b", -2), ("c", 3)])
        (letter,) = driver.read_output("b", value=int)
        assert (letter.value, len(driver.read_output("a"))) == (-2, 1)
        assert dict(letter.headers or ())["streamlet.message"] == b"below zero"
        assert out(driver) == [3]


def test_the_answer_fail_ends_the_task_with_the_error_of_the_record() -> None:
    asked: Asked = []
    with (
        TopologyTestDriver(
            shop(on_error="skip", processing_handler=noting(asked, "fail"))
        ) as driver,
        pytest.raises(ProcessingError, match=r"below zero.*in-0 offset 0") as raised,
    ):
        driver.pipe_input("in", "a", -1)
    assert not isinstance(raised.value, HandlerError)


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (lambda: 1 // 0, "ZeroDivisionError: integer division"),
        (lambda: sys.exit(3), "SystemExit: 3"),
        (lambda: None, r"TypeError: expected \"fail\", \"skip\".*got None"),
        (lambda: ("dead_letter", ""), "got .'dead_letter', ''."),
    ],
)
def test_a_handler_that_fails_ends_the_task_with_both_errors(
    fails: Callable[[], Any], said: str
) -> None:
    app = shop(processing_handler=lambda context, record, error: fails())
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(HandlerError, match=rf"{said}.*asked about: .*below zero.*in-0 offset 0"),
    ):
        driver.pipe_input("in", "a", -1)


def test_ctrl_c_in_a_handler_is_no_answer() -> None:
    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    with (
        TopologyTestDriver(shop(processing_handler=interrupted)) as driver,
        pytest.raises(KeyboardInterrupt),
    ):
        driver.pipe_input("in", "a", -1)


def test_a_punctuator_that_fails_has_no_record_and_is_not_tried_again() -> None:
    class Ticks(sl.Processor[str, int, str, int]):
        def init(self, context: sl.ProcessorContext[str, int]) -> None:
            context.schedule("1s", "wall_clock", lambda now: 1 // 0)

        def process(self, record: sl.Record[str, int]) -> None:
            raise AssertionError(record)

    asked: Asked = []
    app = sl.App("a", processing_handler=noting(asked, sl.Retry(then="skip")))
    app.stream("in", key=str, value=int).process(Ticks)
    with TopologyTestDriver(app) as driver:
        driver.advance_wall_clock(1_000)
        assert driver.skipped() == 1
    ((context, record, _),) = asked
    assert (record, context.attempt) == (None, 1)


def test_records_of_tables_that_cannot_be_read_are_dead_letters() -> None:
    app = sl.App("a", deserialization_handler=("dead_letter", "dead"))
    left = app.table("left", key=str, value=int)
    every = app.global_table("every", key=str, value=int, store="every")
    stream = app.stream("in", key=str, value=str)
    stream.join(left, lambda text, row: f"{text}{row}").to("out")
    stream.join(every, lambda text, row: f"{text}{row}", on=lambda key, _: key).to("all")
    with TopologyTestDriver(app) as driver:
        for topic in ("left", "every"):
            driver.pipe_input(topic, "a", 1)
            driver.pipe_bytes(topic, b"a", b"?", 7, headers=[("h", b"1")])
        driver.pipe_input("in", "a", "row ")
        assert out(driver) + out(driver, "all") == ["row 1", "row 1"]
        letters = driver.read_output("dead")
        assert driver.skipped() == 2
    assert [(one.key, one.value, one.timestamp) for one in letters] == [(b"a", b"?", 7)] * 2
    heads = [dict(one.headers or ()) for one in letters]
    assert [head["streamlet.topic"] for head in heads] == [b"left", b"every"]
    assert [head["h"] for head in heads] == [b"1", b"1"]


def test_words_that_are_no_answers_are_all_refused_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        ErrorPolicy.of(len, processing="ignore", production=("dead_letter", 1))
    assert [problem.split(":")[0] for problem in raised.value.problems] == [
        "on_error",
        "processing_handler",
        "production_handler",
    ]
    assert "functions are for deserialization_handler" in raised.value.problems[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"attempts": 1}, "expected 2 to 1000"),
        ({"attempts": True}, "expected 2 to 1000"),
        ({"backoff": "soon"}, r"Retry\(backoff='soon'\)"),
        ({"longest": -1}, r"Retry\(longest=-1\)"),
        ({"then": Retry()}, "another answer than to retry"),
        ({"then": "again"}, "another answer than to retry"),
    ],
)
def test_a_retry_that_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        sl.Retry(**given)


async def _awaited(*arguments: Any) -> str:
    return "skip"


def _yielding(*arguments: Any) -> Any:
    yield "skip"


@pytest.mark.parametrize("handler", [_awaited, _yielding])
@pytest.mark.parametrize("stage", ["deserialization", "processing", "production", "uncaught"])
def test_a_handler_that_never_runs_is_refused(stage: str, handler: Any) -> None:
    with pytest.raises(ConfigError, match=f"{stage}_handler: its calls do nothing by themselves"):
        sl.App("a", **{f"{stage}_handler": handler})


def test_a_handler_whose_answer_is_a_coroutine_fails_with_a_word_on_it() -> None:
    app = shop(processing_handler=lambda context, record, error: _awaited())
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(HandlerError, match="a coroutine of _awaited: nothing awaits it"),
    ):
        driver.pipe_input("in", "lamp", -1)


def test_a_dead_letter_that_fails_where_it_was_written_is_not_written_again() -> None:
    """The topic would grow for ever."""
    app = shop(on_error=("dead_letter", "in"))
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "bad", -1)
        assert driver.skipped() == 2


def test_a_handler_may_write_a_record_to_its_topic_as_often_as_it_likes() -> None:
    tries: list[int] = []

    def again(context: Any, record: Any, error: Any) -> Any:
        tries.append(context.offset)
        return ("dead_letter", "in") if len(tries) < 4 else "skip"

    with TopologyTestDriver(shop(processing_handler=again)) as driver:
        driver.pipe_input("in", "bad", -1)
    assert len(tries) == 4


@pytest.mark.parametrize("topic", ["a/b", "..", "\ud800", "x" * 250, "größe"])
def test_a_topic_that_kafka_would_not_take_is_no_answer(topic: str) -> None:
    with pytest.raises(ConfigError, match="on_error: expected"):
        ErrorPolicy.of(("dead_letter", topic))
    app = shop(processing_handler=lambda context, record, error: ("dead_letter", topic))
    with TopologyTestDriver(app) as driver, pytest.raises(HandlerError, match="in-0 offset 0"):
        driver.pipe_input("in", "bad", -1)


def test_the_setting_of_a_topic_takes_the_place_of_the_end_and_of_no_other_answer() -> None:
    """As in Kafka Streams, where handlers of the program do not heed it."""
    config = {"errors.dead.letter.queue.topic.name": "dead"}

    def failing(app: sl.App) -> sl.App:
        app.stream("in", key=str, value=int).map_values(lambda one: 1 // one, value=int).to("out")
        return app

    with TopologyTestDriver(failing(sl.App("a", config=config))) as driver:
        driver.pipe_inputs("in", [("a", 0), ("b", 1)])
        driver.pipe_bytes("in", b"c", b"?")
        assert [one.key for one in driver.read_output("dead", key=str, value=bytes)] == ["a", "c"]
        assert [one.key for one in driver.read_output("out")] == ["b"]

    own = failing(sl.App("b", config=config, processing_handler="skip"))
    assert (own.policy.processing.action, own.policy.topics) == ("skip", {"dead"})  # type: ignore[union-attr]
    with TopologyTestDriver(own) as driver:
        driver.pipe_inputs("in", [("a", 0)])
        assert "dead" not in driver.produced_topic_names()

    outside = hosted(
        own, own.load_settings(overrides=["errors.dead.letter.queue.topic.name=other"])
    )
    assert outside.policy.topics == {"other"}
    for wrong in ("", "a b", "..", "x" * 250):
        with pytest.raises(ConfigError, match=r"errors\.dead\.letter\.queue\.topic\.name"):
            sl.App("c", config={"errors.dead.letter.queue.topic.name": wrong})
