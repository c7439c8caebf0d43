"""Errors that end a worker, and the answers of the handler that is asked about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest

import streamlet as sl
from streamlet.clock import ManualClock
from streamlet.control.values import Shutdown
from streamlet.errors import (
    ApplicationShutdownError,
    ConfigError,
    FencedError,
    ProcessingError,
    UncaughtHandlerError,
    UnreachableError,
)
from streamlet.hosting.restarts import RestartPolicy, run_replaced
from streamlet.processing.policy import UncaughtAnswer
from streamlet.runtime.control_link import ControlLink
from streamlet.runtime.stream_thread import StreamThread
from streamlet.runtime.uncaught import UncaughtErrors
from tests.unit.hosting.test_supervisor import Events, instance

POISON = ProcessingError("a record failed", "in", 0, 7, "MAP")


@attrs.define
class Link:
    """A member's end of the control topic, which notes what is announced."""

    works: bool = True
    shutdown: Shutdown | None = None
    announced: list[Shutdown] = attrs.field(factory=list)
    instance: str = "p1"
    name: str = "h1"

    def announce(self, entry: Shutdown, timeout_ms: int) -> bool:
        """Note it, if the topic can be written."""
        if self.works:
            self.announced.append(entry)
        return self.works


def errors(rule: Any, link: Link | None = None) -> UncaughtErrors:
    return UncaughtErrors(rule, cast(ControlLink, link or Link()), ManualClock(70))


@pytest.mark.parametrize("answer", ["replace_thread", "shutdown_client"])
def test_an_answer_about_this_instance_is_kept_for_its_supervisor(answer: UncaughtAnswer) -> None:
    asked, link = list[BaseException](), Link()

    def handler(error: BaseException) -> UncaughtAnswer:
        asked.append(error)
        return answer

    ended = errors(handler, link)
    ended.take(POISON)
    assert (asked, ended.answer, link.announced) == ([POISON], answer, [])


def test_a_shutdown_of_the_application_is_announced_with_its_reason() -> None:
    link = Link()
    ended = errors("shutdown_application", link)
    with pytest.raises(ApplicationShutdownError, match=r"of h1 answered to: .*offset 7") as raised:
        ended.take(POISON)
    (entry,) = link.announced
    assert (entry.instance, entry.name, "in-0 offset 7" in entry.reason) == ("p1", "h1", True)
    assert (raised.value.exit_code, raised.value.__cause__) == (7, POISON)


def test_a_shutdown_that_another_instance_announced_first_is_not_announced_again() -> None:
    link = Link(shutdown=Shutdown("p2", "h2", 7, "boom"))
    with pytest.raises(ApplicationShutdownError, match="of h2 answered to: boom"):
        errors("shutdown_application", link).take(POISON)
    assert link.announced == []


def test_an_instance_that_cannot_announce_it_shuts_down_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ApplicationShutdownError):
        errors("shutdown_application", Link(works=False)).take(POISON)
    assert "only this instance shuts down" in caplog.text


def test_a_worker_ends_in_order_when_another_instance_shuts_the_application_down() -> None:
    link = Link()
    ended = errors(None, link)
    ended.check()
    assert not ended.stops
    link.shutdown = Shutdown("p2", "h2", 7, "boom")
    assert ended.stops
    with pytest.raises(ApplicationShutdownError, match="of h2 answered to: boom"):
        ended.check()


@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("away"),
        FencedError("newer"),
        ConfigError(["wrong"]),
        ApplicationShutdownError("by another"),
        KeyboardInterrupt(),
    ],
)
def test_errors_that_pass_or_are_final_are_no_question(error: BaseException) -> None:
    ended = errors("shutdown_application")
    ended.take(error)
    assert ended.answer is None


def test_a_fault_of_ours_is_a_question_too() -> None:
    ended = errors("replace_thread")
    ended.take(AssertionError("a bug"))
    assert ended.answer == "replace_thread"


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (lambda error: 1 // 0, "ZeroDivisionError: integer division"),
        (lambda error: "skip", "TypeError: expected .*got 'skip'"),
        (lambda error: None, "TypeError: expected .*got None"),
    ],
)
def test_a_handler_that_fails_ends_the_instance_with_both_errors(
    handler: Callable[[BaseException], Any], said: str
) -> None:
    ended = errors(handler)
    with pytest.raises(UncaughtHandlerError, match=rf"{said}.*asked about: .*offset 7"):
        ended.take(POISON)
    assert ended.answer == "shutdown_client"


def test_ctrl_c_in_a_handler_is_no_answer() -> None:
    def interrupted(error: BaseException) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        errors(interrupted).take(POISON)


@pytest.mark.parametrize("given", ["skip", 7, ("replace_thread",)])
def test_words_that_are_no_answers_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"uncaught_handler: expected \"replace_thread\""):
        sl.App("a", uncaught_handler=given)


@attrs.define
class Worker:
    """A worker that runs in this process and ends as it is told."""

    error: Exception | None
    uncaught: UncaughtErrors


def replaced(rule: Any, fails: int, stopped: Callable[[], bool] = lambda: False) -> tuple[int, Any]:
    """How many workers ran one after the other, of which the first ones fail; and the error."""
    workers: list[Worker] = []

    def opened() -> StreamThread:
        workers.append(Worker(POISON if len(workers) < fails else None, errors(rule)))
        return cast(StreamThread, workers[-1])

    def run(worker: StreamThread) -> None:
        error = cast(Worker, worker).error
        if error is not None:
            worker.uncaught.take(error)
            raise error

    restart = RestartPolicy(first_ms=0, longest_ms=0)
    try:
        run_replaced(opened, run, clock=ManualClock(), stopped=stopped, restart=restart)
    except Exception as error:
        return len(workers), error
    return len(workers), None


def test_a_worker_in_this_process_is_replaced_until_one_ends_well() -> None:
    assert replaced("replace_thread", 9) == (10, None)


def test_a_stop_ends_the_replacing() -> None:
    assert replaced("replace_thread", 9, lambda: True) == (1, None)


@pytest.mark.parametrize("rule", [None, "shutdown_client"])
def test_a_worker_that_is_not_to_be_replaced_raises(rule: Any) -> None:
    assert replaced(rule, 9) == (1, POISON)


def test_a_worker_is_replaced_as_often_as_its_handler_has_it_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = Events()
    running = instance(events, exit=1, answer="replace_thread")
    events.react = lambda member, event: len(events.ups()) == 6 and running.stop()
    running.run()
    assert len(events.ups()) == 6
    assert "failure" not in caplog.text


def test_an_instance_whose_handler_shuts_it_down_ends_with_the_code_of_the_error() -> None:
    events = Events()
    assert instance(events, count=2, exit=1, answer="shutdown_client", who=1).run() == 1
    assert len(events.ups()) == 2
    assert {"told": "graceful"} in [event for _, event in events.seen]
