"""Error handlers on Spark: asked there as elsewhere, or refused by name."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.errors import ConfigError, HandlerError
from streamlet.processing.policy import ErrorPolicy
from streamlet.spark.plan.plan import plan
from streamlet.spark.plan.refusals import check_policy
from streamlet.spark.state.run import Runner
from streamlet.types import TaskId
from tests.unit.spark.test_stages import SMALL, KeptInMemory, raw_rows, text

#: The stages and offsets that handlers were asked about.
ASKED: list[tuple[str, int, sl.FailedRecord | None]] = []


def decide(
    context: sl.ErrorContext, record: sl.FailedRecord | None, error: BaseException
) -> sl.Answer:
    ASKED.append((context.stage, context.offset, record))
    if "broken" in str(error):
        raise LookupError("the handler fails")
    return ("dead_letter", "dead") if context.offset % 2 else "skip"


def number(raw: bytes) -> int:
    return int(raw.decode())


def digits(value: int) -> bytes:
    if value > 99:
        raise ValueError("too many digits")
    return str(value).encode()


def refuse(value: int) -> int:
    if value == 66:
        raise ValueError("broken")
    if value < 0:
        raise ValueError("below zero")
    return value


shop = sl.App(
    "shop",
    deserialization_handler=decide,
    processing_handler=decide,
    production_handler=decide,
)
_numbers = shop.stream("in", key=str, value=(digits, number)).map_values(refuse, value=int)
_numbers.group_by_key().reduce(max, store="most").to_stream().to("out", value=(digits, number))

HERE = f"{__name__}:shop"


def run(*values: str) -> list[tuple[str, bytes | None]]:
    ASKED.clear()
    laid_out = plan(HERE, shop.topology(), {"in": 1})
    rows = raw_rows(laid_out, text("in", 0, *[("k", value, 10) for value in values]))
    parts = Runner(laid_out, SMALL).run(TaskId(0, 0), rows, KeptInMemory(), 0)
    return [(out.topic, value) for some in parts for out in some for value in out.values]


def test_handlers_of_each_stage_are_asked_in_sparks_tasks() -> None:
    found = run("1", "?", "2", "-3", "100", "500", "4")
    assert [value for topic, value in found if topic == "out"] == [b"1", b"2"]
    assert [value for topic, value in found if topic == "dead"] == [b"?", b"-3", b"500"]
    assert [(stage, offset) for stage, offset, _ in ASKED] == [
        ("deserialization", 1),
        ("processing", 3),
        ("production", 4),
        ("production", 5),
        ("production", 6),
    ]
    assert ASKED[1][2] == sl.FailedRecord("k", -3)


def test_a_handler_that_fails_ends_the_query_with_both_errors() -> None:
    with pytest.raises(
        HandlerError, match=r"LookupError: the handler fails.*asked about: .*broken"
    ):
        run("1", "66")


def test_a_handler_of_errors_that_end_a_worker_is_refused() -> None:
    check_policy(ErrorPolicy.of("skip"))
    with pytest.raises(
        ConfigError, match=r"\(uncaught_handler\) do not run on Spark, which tries a task"
    ):
        check_policy(ErrorPolicy.of("skip", "replace_thread"))
